//! Reading a manifest: what is wrong with it, and a typed view of what is right.
//!
//! A manifest comes out of a foreign file. Nothing here trusts it, and every message shows control
//! characters as escapes.

use std::collections::BTreeSet;

use nexus_router_sdk::{Object, ValueType, canonical, code};
use serde_json::Value;

use crate::python_text::{self, repr_str, visible};

/// The largest manifest, in bytes of compact JSON.
pub const MAX_BYTES: usize = 256 * 1024;

/// The largest number of keys in `config_schema`.
pub const MAX_CONFIG_KEYS: usize = 1_000;

const FIELDS: &[&str] = &[
    "schema_version",
    "kind",
    "capabilities",
    "supported_router_versions",
    "config_schema",
    "error_codes",
];
const ENTRY_FIELDS: &[&str] = &["type", "required", "default", "description"];

/// The well-formed parts of a manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestView {
    /// The kind; empty when the manifest has none.
    pub kind: String,
    /// The capabilities, in the manifest's order.
    pub capabilities: Vec<String>,
    /// The routers that the adapter works with, as a PEP 440 specifier.
    pub supported_router_versions: Option<String>,
    /// Whether the manifest has a `config_schema`. Without one, any configuration is accepted.
    pub declares_config: bool,
    /// The configuration keys, sorted by name.
    pub config: Vec<ConfigParam>,
    /// The error codes, in the manifest's order.
    pub error_codes: Vec<String>,
}

/// One key of the configuration, as `inspect` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigParam {
    /// The key.
    pub name: String,
    /// The type that a value must have.
    pub value_type: ValueType,
    /// Whether the key must be given.
    pub required: bool,
    /// The value that stands in when the key is not given; its type is not checked here.
    pub default: Option<Value>,
    /// What the key is for.
    pub description: Option<String>,
}

impl ManifestView {
    /// Reads whatever is well-formed and leaves the rest out; [`schema_errors`] names the rest.
    #[must_use]
    pub fn read(manifest: &Value) -> Self {
        let text = |field| manifest.get(field).and_then(Value::as_str).map(str::to_owned);
        let entries = manifest.get("config_schema").and_then(Value::as_object);
        let mut config: Vec<_> =
            entries.into_iter().flatten().filter_map(ConfigParam::read).collect();
        config.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            kind: text("kind").unwrap_or_default(),
            capabilities: texts(manifest.get("capabilities")),
            supported_router_versions: text("supported_router_versions"),
            declares_config: entries.is_some(),
            config,
            error_codes: texts(manifest.get("error_codes")),
        }
    }
}

impl ConfigParam {
    fn read((name, entry): (&String, &Value)) -> Option<Self> {
        let value_type = ValueType::from_name(entry.get("type")?.as_str()?)?;
        Some(Self {
            name: name.clone(),
            value_type,
            required: entry.get("required").and_then(Value::as_bool).unwrap_or(false),
            default: entry.get("default").cloned(),
            description: entry.get("description").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// Returns the default, unless its type is not the declared one.
    #[must_use]
    pub fn usable_default(&self) -> Option<&Value> {
        self.default.as_ref().filter(|default| self.value_type.accepts(default))
    }
}

/// Returns what the specification forbids, in the order and words of the Python router.
///
/// Stricter than that router in three ways: a manifest that is not an object is an error, `true` and
/// `1.0` are not the schema version 1, and there are limits of size.
#[must_use]
pub fn schema_errors(manifest: &Value) -> Vec<String> {
    let Some(fields) = manifest.as_object() else {
        return vec![format!("Manifest must be a dict, got: {}", canonical::type_name(manifest))];
    };
    if serde_json::to_writer(Budget { left: MAX_BYTES }, manifest).is_err() {
        return vec![format!("Manifest is larger than {MAX_BYTES} bytes")];
    }
    let mut errors = Vec::new();
    match fields.get("schema_version") {
        None => errors.push("Missing required field: schema_version".to_owned()),
        Some(version) if version.as_u64() == Some(1) => {}
        Some(version) => {
            let version = visible_str(version);
            errors.push(format!("Invalid schema_version: {version} (expected 1)"));
        }
    }
    match fields.get("kind") {
        None => errors.push("Missing required field: kind".to_owned()),
        Some(Value::String(kind)) if !kind.is_empty() => {}
        Some(_) => errors.push("Field 'kind' must be a non-empty string".to_owned()),
    }
    match fields.get("capabilities") {
        None => errors.push("Missing required field: capabilities".to_owned()),
        Some(capabilities) => errors.extend(list_error("capabilities", capabilities)),
    }
    if fields.get("supported_router_versions").is_some_and(|versions| !versions.is_string()) {
        errors.push("Field 'supported_router_versions' must be a string".to_owned());
    }
    if let Some(codes) = fields.get("error_codes") {
        errors.extend(list_error("error_codes", codes));
    }
    match fields.get("config_schema") {
        None => {}
        Some(Value::Object(entries)) if entries.len() > MAX_CONFIG_KEYS => errors.push(format!(
            "Field 'config_schema' must have at most {MAX_CONFIG_KEYS} keys, got: {}",
            entries.len()
        )),
        Some(Value::Object(entries)) => {
            for (name, entry) in entries {
                entry_errors(&format!("config_schema[{}]", repr_str(name)), entry, &mut errors);
            }
        }
        Some(_) => errors.push("Field 'config_schema' must be a dict".to_owned()),
    }
    errors
}

/// Returns the JSON pointers of fields that the specification does not know.
#[must_use]
pub fn unknown_fields(manifest: &Value) -> Vec<String> {
    let unknown = |fields: &Object, known: &[&str], prefix: &str| -> Vec<String> {
        let names = fields.keys().filter(|name| !known.contains(&name.as_str()));
        names.map(|name| format!("{prefix}/{}", pointer_token(name))).collect()
    };
    let Some(fields) = manifest.as_object() else { return Vec::new() };
    let mut pointers = unknown(fields, FIELDS, "");
    for (name, entry) in config_entries(manifest) {
        if let Some(entry) = entry.as_object() {
            let prefix = format!("/config_schema/{}", pointer_token(name));
            pointers.extend(unknown(entry, ENTRY_FIELDS, &prefix));
        }
    }
    pointers
}

/// Returns the capabilities that the manifest lists more than once.
#[must_use]
pub fn repeated_capabilities(manifest: &Value) -> Vec<String> {
    repeated(&texts(manifest.get("capabilities")))
}

/// Returns the names that stand in a list more than once, each once and visible.
pub(crate) fn repeated(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&String> = names.iter().filter(|name| !seen.insert(*name)).collect();
    twice.into_iter().map(|name| visible(name)).collect()
}

/// Returns a message for each default whose type is not the declared one.
#[must_use]
pub fn default_errors(manifest: &Value) -> Vec<String> {
    let params = config_entries(manifest).filter_map(ConfigParam::read);
    params
        .filter_map(|param| {
            let default = param.default.as_ref().filter(|_| param.usable_default().is_none())?;
            Some(format!(
                "config_schema[{}].default must be {}, got {}",
                repr_str(&param.name),
                param.value_type.name(),
                json_type(default)
            ))
        })
        .collect()
}

/// Returns the error codes that are not upper-case words joined by single underscores.
#[must_use]
pub fn malformed_error_codes(manifest: &Value) -> Vec<String> {
    let codes = texts(manifest.get("error_codes"));
    codes.iter().filter(|code| !code::is_well_formed(code)).map(|code| visible(code)).collect()
}

/// Returns the JSON name of a value's type.
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn list_error(field: &str, value: &Value) -> Option<String> {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => None,
        Value::Array(_) => Some(format!("Field '{field}' must contain only strings")),
        _ => Some(format!("Field '{field}' must be a list")),
    }
}

fn entry_errors(place: &str, entry: &Value, errors: &mut Vec<String>) {
    let Some(fields) = entry.as_object() else {
        errors.push(format!("{place} must be a dict"));
        return;
    };
    match fields.get("type") {
        None => errors.push(format!("{place} missing required field: type")),
        Some(Value::String(name)) if ValueType::from_name(name).is_some() => {}
        Some(other) => {
            let names: Vec<_> = ValueType::ALL.iter().map(|known| known.name()).collect();
            let names = python_text::list(&names);
            let other = visible_str(other);
            errors.push(format!("{place}.type invalid: {other} (must be one of {names})"));
        }
    }
    match fields.get("required") {
        None => errors.push(format!("{place} missing required field: required")),
        Some(Value::Bool(_)) => {}
        Some(_) => errors.push(format!("{place}.required must be a boolean")),
    }
}

fn config_entries(manifest: &Value) -> impl Iterator<Item = (&String, &Value)> {
    manifest.get("config_schema").and_then(Value::as_object).into_iter().flatten()
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn visible_str(value: &Value) -> String {
    visible(&python_text::str(value))
}

fn pointer_token(name: &str) -> String {
    visible(&crate::json::pointer_segment(name))
}

/// A writer that keeps nothing and fails once more than `left` bytes were written.
struct Budget {
    left: usize,
}

impl std::io::Write for Budget {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const GOLDEN: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/nexus/adapters.json");

    /// The cases of the golden file that have a manifest: name, manifest, the whole case.
    fn golden() -> Vec<(String, Value, Value)> {
        let cases: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(GOLDEN).unwrap()).unwrap();
        cases
            .into_iter()
            .filter_map(|case| {
                let manifest = case["validate"]["metadata"]["manifest"].clone();
                let name = case["factory_ref"].as_str().unwrap().to_owned();
                manifest.is_object().then_some((name, manifest, case))
            })
            .collect()
    }

    fn valid() -> Value {
        json!({"schema_version": 1, "kind": "demo", "capabilities": ["apply"]})
    }

    fn with(field: &str, value: Value) -> Value {
        let mut manifest = valid();
        manifest[field] = value;
        manifest
    }

    #[test]
    fn messages_and_order_are_those_of_the_peer() {
        let mut compared = 0;
        for (name, manifest, case) in golden() {
            let checks = case["validate"]["checks"].as_array().unwrap();
            let check = checks.iter().find(|check| check["id"] == "MANIFEST_SCHEMA").unwrap();
            let errors = schema_errors(&manifest);
            let ours = if errors.is_empty() {
                "Manifest schema is valid".to_owned()
            } else {
                format!("Invalid manifest schema: {}", errors.join("; "))
            };
            assert_eq!(ours, check["message"].as_str().unwrap(), "{name}");
            compared += 1;
        }
        assert!(compared >= 15, "only {compared} cases");
    }

    #[test]
    fn view_lists_the_parameters_of_the_peer() {
        let mut compared = 0;
        for (name, manifest, case) in golden() {
            if case["inspect"]["config_params"].is_array() {
                let config = serde_json::to_value(ManifestView::read(&manifest).config).unwrap();
                assert_eq!(config, case["inspect"]["config_params"], "{name}");
                compared += 1;
            }
        }
        assert!(compared >= 3, "only {compared} cases");
    }

    #[test]
    fn only_the_integer_one_is_the_schema_version() {
        for (version, shown) in [
            (json!(true), "True"),
            (json!(1.0), "1.0"),
            (json!(null), "None"),
            (json!([1]), "[1]"),
            (json!("\u{1b}[2J"), r"\x1b[2J"),
        ] {
            let expected = format!("Invalid schema_version: {shown} (expected 1)");
            assert_eq!(schema_errors(&with("schema_version", version)), [expected]);
        }
    }

    #[test]
    fn type_that_is_a_list_is_reported() {
        let entry = json!({"it's": {"type": ["string"], "required": true}});
        assert_eq!(
            schema_errors(&with("config_schema", entry)),
            [
                r#"config_schema["it's"].type invalid: ['string'] (must be one of ['array', 'boolean', 'number', 'object', 'string'])"#
            ]
        );
    }

    #[test]
    fn manifest_that_is_no_object_is_reported() {
        assert_eq!(schema_errors(&json!([1])), ["Manifest must be a dict, got: list"]);
        assert_eq!(schema_errors(&json!(null)), ["Manifest must be a dict, got: NoneType"]);
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let room = MAX_BYTES - with("kind", json!("")).to_string().len();
        assert!(schema_errors(&with("kind", json!("k".repeat(room)))).is_empty());
        assert_eq!(
            schema_errors(&with("kind", json!("k".repeat(room + 1)))),
            ["Manifest is larger than 262144 bytes"]
        );
        let keys = |count: usize| -> Value {
            let entry = json!({"type": "string", "required": false});
            (0..count).map(|i| (format!("k{i}"), entry.clone())).collect::<Object>().into()
        };
        assert!(schema_errors(&with("config_schema", keys(MAX_CONFIG_KEYS))).is_empty());
        assert_eq!(
            schema_errors(&with("config_schema", keys(MAX_CONFIG_KEYS + 1))),
            ["Field 'config_schema' must have at most 1000 keys, got: 1001"]
        );
    }

    #[test]
    fn unknown_fields_are_named_by_pointer() {
        let mut manifest = with(
            "config_schema",
            json!({"a/b~": {"type": "string", "required": true, "min": 1}, "c": 1}),
        );
        manifest["vendor\n"] = json!("x");
        assert_eq!(unknown_fields(&manifest), [r"/vendor\n", "/config_schema/a~1b~0/min"]);
        assert!(unknown_fields(&json!([1])).is_empty());
        assert!(unknown_fields(&valid()).is_empty());
    }

    #[test]
    fn defaults_of_another_type_are_named() {
        let (_, manifest, _) = golden().swap_remove(0);
        assert_eq!(
            default_errors(&manifest),
            ["config_schema['nul'].default must be string, got null"]
        );
        let entry = json!({"n": {"type": "number", "required": false, "default": true}});
        assert_eq!(
            default_errors(&with("config_schema", entry)),
            ["config_schema['n'].default must be number, got boolean"]
        );
    }

    #[test]
    fn malformed_error_codes_are_named() {
        let codes = json!(["TIMEOUT", "X", "time_out", "A__B", "", 7, "E\u{1b}"]);
        assert_eq!(
            malformed_error_codes(&with("error_codes", codes)),
            ["time_out", "A__B", "", r"E\x1b"]
        );
    }

    #[test]
    fn view_leaves_out_what_is_malformed() {
        let view = ManifestView::read(&json!({
            "kind": 5, "capabilities": ["apply", 1], "error_codes": "x",
            "supported_router_versions": 1,
            "config_schema": {
                "z": {"type": "string", "required": "yes", "description": 1},
                "a": 1, "b": {}, "c": {"type": "int", "required": true},
                "d": {"type": "number", "required": true, "default": null},
            },
        }));
        assert_eq!((view.kind.as_str(), view.supported_router_versions), ("", None));
        assert_eq!((view.capabilities, view.error_codes), (vec!["apply".to_owned()], vec![]));
        assert!(view.declares_config);
        let names: Vec<_> = view.config.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names, ["d", "z"]);
        assert_eq!(
            (view.config[0].default.as_ref(), view.config[0].required),
            (Some(&Value::Null), true)
        );
        assert_eq!((view.config[1].required, &view.config[1].description), (false, &None));
        assert_eq!(ManifestView::read(&json!([1])), ManifestView::default());
    }

    /// Any JSON, with the names of a manifest among its keys.
    fn hostile() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!("string")),
        ];
        let known = [FIELDS, ENTRY_FIELDS].concat();
        let name = prop_oneof![proptest::sample::select(known).prop_map(str::to_owned), ".{0,3}"];
        leaf.prop_recursive(4, 64, 8, move |inner| {
            let members = prop::collection::vec((name.clone(), inner.clone()), 0..8);
            prop_oneof![
                prop::collection::vec(inner, 0..8).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_manifest_makes_it_panic(manifest in hostile()) {
            let texts = [
                schema_errors(&manifest),
                unknown_fields(&manifest),
                default_errors(&manifest),
                malformed_error_codes(&manifest),
            ];
            prop_assert!(texts.iter().flatten().flat_map(|t| t.chars()).all(python_text::is_printable));
            let view = ManifestView::read(&manifest);
            prop_assert!(view.config.is_sorted_by(|a, b| a.name < b.name));
        }
    }
}
