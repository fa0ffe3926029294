//! The text report of `inspect`.
//!
//! Without extra lines the text is, byte for byte, that of the Python router. Everything in it comes from
//! a foreign library, so control characters are shown as escapes and no text can add a line.

use super::Status;
use crate::loader::manifest::ConfigParam;
use crate::python_text::{repr, visible};

/// What the report shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderInput<'a> {
    /// Whether no check failed.
    pub(super) ok: bool,
    /// The instance's id, if there is an instance.
    pub(super) adapter_id: Option<&'a str>,
    /// The instance's kind, if there is an instance.
    pub(super) adapter_kind: Option<&'a str>,
    /// The instance's capabilities.
    pub(super) capabilities: &'a [String],
    /// The checks in their order: id, status, message.
    pub(super) checks: &'a [(&'a str, Status, &'a str)],
    /// Whether there is a manifest with at least one field.
    pub(super) manifest_present_and_non_empty: bool,
    /// The manifest's version specifier.
    pub(super) supported_router_versions: Option<&'a str>,
    /// The manifest's error codes.
    pub(super) error_codes: &'a [String],
    /// The manifest's configuration keys.
    pub(super) config_params: &'a [ConfigParam],
    /// What else is known of the library: label and value.
    pub(super) extra: &'a [(String, String)],
    /// What a passive adapter declares: label and value.
    pub(super) declared: &'a [(String, String)],
}

/// Returns the report.
#[must_use]
pub(super) fn render(input: &RenderInput<'_>) -> String {
    let verdict =
        if input.ok { "✓ Adapter validation PASSED" } else { "✗ Adapter validation FAILED" };
    let mut blocks = vec![vec![verdict.to_owned()], info(input), validation(input)];
    blocks.extend(messages(input, "## Errors", Status::Fail));
    blocks.extend(messages(input, "## Warnings", Status::Warn));
    if input.manifest_present_and_non_empty {
        blocks.push(manifest(input));
    }
    if !input.config_params.is_empty() {
        let heading = "## Configuration Parameters".to_owned();
        let params = input.config_params.iter().flat_map(param);
        blocks.push(std::iter::once(heading).chain(params).collect());
    }
    if !input.extra.is_empty() {
        blocks.push(labelled("## Library", input.extra));
    }
    if !input.declared.is_empty() {
        blocks.push(labelled("## Declared", input.declared));
    }
    let blocks: Vec<_> = blocks.iter().map(|lines| lines.join("\n") + "\n").collect();
    blocks.join("\n")
}

fn info(input: &RenderInput<'_>) -> Vec<String> {
    let known = |text: Option<&str>| match text {
        None | Some("") => "(unknown)".to_owned(),
        Some(text) => visible(text),
    };
    let capabilities = match input.capabilities {
        [] => "(none)".to_owned(),
        capabilities => visible(&capabilities.join(", ")),
    };
    vec![
        "## Adapter Info".to_owned(),
        format!("  ID:           {}", known(input.adapter_id)),
        format!("  Kind:         {}", known(input.adapter_kind)),
        format!("  Capabilities: {capabilities}"),
    ]
}

fn validation(input: &RenderInput<'_>) -> Vec<String> {
    let line =
        |&(id, status, _): &(&str, Status, &str)| format!("  {} {}", status.sign(), visible(id));
    std::iter::once("## Validation".to_owned()).chain(input.checks.iter().map(line)).collect()
}

/// Returns the block of the checks that ended with a status, if there are any.
fn messages(input: &RenderInput<'_>, heading: &str, wanted: Status) -> Option<Vec<String>> {
    let mut lines = vec![heading.to_owned()];
    for &(id, status, message) in input.checks.iter().filter(|(_, status, _)| *status == wanted) {
        lines.push(format!("  {} {}: {}", status.sign(), visible(id), visible(message)));
    }
    (lines.len() > 1).then_some(lines)
}

fn manifest(input: &RenderInput<'_>) -> Vec<String> {
    let mut lines = vec!["## Manifest".to_owned()];
    if let Some(versions) = input.supported_router_versions.filter(|text| !text.is_empty()) {
        lines.push(format!("  Router versions: {}", visible(versions)));
    }
    if !input.error_codes.is_empty() {
        lines.push(format!("  Error codes:     {}", visible(&input.error_codes.join(", "))));
    }
    lines
}

fn param(param: &ConfigParam) -> impl Iterator<Item = String> {
    let need = if param.required { "required" } else { "optional" };
    let default = param.shown_default().map(|value| format!(", default={}", repr(&value)));
    let default = default.unwrap_or_default();
    let line = format!("  {} ({}, {need}{default})", visible(&param.name), param.value_type.name());
    let description = param.description.as_deref().filter(|text| !text.is_empty());
    std::iter::once(line).chain(description.map(|text| format!("    {}", visible(text))))
}

fn labelled(heading: &str, extra: &[(String, String)]) -> Vec<String> {
    let labels: Vec<_> = extra.iter().map(|(label, _)| format!("{}:", visible(label))).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let lines = labels
        .iter()
        .zip(extra)
        .map(|(label, (_, value))| format!("  {label:<width$} {}", visible(value)));
    std::iter::once(heading.to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(status: &str) -> Status {
        let all = [Status::Pass, Status::Fail, Status::Warn, Status::Skip];
        all.into_iter().find(|known| known.name() == status).unwrap()
    }

    use crate::loader::manifest::ManifestView;
    use crate::python_text;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const GOLDEN: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/nexus/adapters.json");

    const EMPTY: RenderInput<'static> = RenderInput {
        ok: true,
        adapter_id: None,
        adapter_kind: None,
        capabilities: &[],
        checks: &[],
        manifest_present_and_non_empty: false,
        supported_router_versions: None,
        error_codes: &[],
        config_params: &[],
        extra: &[],
        declared: &[],
    };

    fn texts(value: &Value) -> Vec<String> {
        value.as_array().into_iter().flatten().map(python_text::str).collect()
    }

    /// Renders a recorded result of `inspect` as the Python router does: values of a wrong type, which a
    /// [`ManifestView`] leaves out, are shown as well.
    fn render_recorded(inspect: &Value) -> String {
        let checks: Vec<_> = inspect["validation"]["checks"].as_array().unwrap().to_vec();
        let text =
            |check: &'static str| move |value: &Value| value[check].as_str().unwrap().to_owned();
        let [ids, statuses, messages] = ["id", "status", "message"]
            .map(|member| checks.iter().map(text(member)).collect::<Vec<_>>());
        let checks: Vec<_> = (0..checks.len())
            .map(|i| (ids[i].as_str(), named(&statuses[i]), messages[i].as_str()))
            .collect();
        let manifest = &inspect["manifest"];
        let versions = &inspect["supported_router_versions"];
        let versions = (!versions.is_null()).then(|| python_text::str(versions));
        let error_codes = match &inspect["error_codes"] {
            Value::String(text) => vec![text.clone()],
            codes => texts(codes),
        };
        render(&RenderInput {
            ok: inspect["ok"].as_bool().unwrap(),
            adapter_id: inspect["adapter_id"].as_str(),
            adapter_kind: inspect["adapter_kind"].as_str(),
            capabilities: &texts(&inspect["capabilities"]),
            checks: &checks,
            manifest_present_and_non_empty: manifest.as_object().is_some_and(|m| !m.is_empty()),
            supported_router_versions: versions.as_deref(),
            error_codes: &error_codes,
            config_params: &ManifestView::read(manifest).config,
            extra: &[],
            declared: &[],
        })
    }

    #[test]
    fn text_is_that_of_the_peer() {
        let cases: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(GOLDEN).unwrap()).unwrap();
        let mut compared = 0;
        for case in cases.iter().filter(|case| case["inspect"]["rendered"].is_string()) {
            let expected = case["inspect"]["rendered"].as_str().unwrap();
            assert_eq!(render_recorded(&case["inspect"]), expected, "{}", case["factory_ref"]);
            compared += 1;
        }
        assert!(compared >= 25, "only {compared} cases");
    }

    #[test]
    fn extra_lines_are_the_last_block() {
        let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        let extra = [pair("SHA-256", "ab"), pair("ABI", "1"), pair("Factories", "a, b")];
        let manifest = ManifestView::read(&json!({"config_schema": {"k": {"type": "string"}}}));
        let input = RenderInput {
            checks: &[("LOAD_OK", Status::Pass, "loaded")],
            config_params: &manifest.config,
            extra: &extra,
            ..EMPTY
        };
        let text = render(&input);
        let library = "## Library\n  SHA-256:   ab\n  ABI:       1\n  Factories: a, b\n";
        assert!(text.ends_with(&format!("  k (string, optional)\n\n{library}")), "{text}");
        assert_eq!(
            text.strip_suffix(library).unwrap(),
            render(&RenderInput { extra: &[], ..input }) + "\n"
        );
    }

    #[test]
    fn hostile_text_adds_no_line_and_steers_no_terminal() {
        let manifest = ManifestView::read(&json!({
            "config_schema": {"k\u{1b}[2J": {
                "type": "string", "required": true, "default": "\u{1b}[0m",
                "description": "fine\n\n## Validation\n  ✓ TRUSTED\u{202e}",
            }},
        }));
        let text = render(&RenderInput {
            adapter_id: Some("id\u{7}\nKind: good"),
            checks: &[("A", Status::Fail, "bad\r\u{9b}1m")],
            config_params: &manifest.config,
            ..EMPTY
        });
        assert!(text.contains("  ID:           id\\x07\\nKind: good\n"), "{text}");
        assert!(text.contains("  ✗ A: bad\\r\\x9b1m\n"), "{text}");
        assert!(text.contains("  k\\x1b[2J (string, required, default='\\x1b[0m')\n"), "{text}");
        assert!(text.ends_with("    fine\\n\\n## Validation\\n  ✓ TRUSTED\\u202e\n"), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_stays_on_its_line(texts in prop::collection::vec(any::<String>(), 7)) {
            let extra = [(texts[5].clone(), texts[6].clone())];
            let text = render(&RenderInput {
                adapter_id: Some(&texts[0]),
                adapter_kind: Some(&texts[1]),
                capabilities: &texts[2..4],
                checks: &[(&texts[4], Status::Skip, &texts[6]), ("X", Status::Warn, &texts[0])],
                extra: &extra,
                declared: &extra,
                ..EMPTY
            });
            prop_assert_eq!(text.lines().count(), 19);
            prop_assert!(text.chars().all(|c| c == '\n' || python_text::is_printable(c)));
        }
    }
}
