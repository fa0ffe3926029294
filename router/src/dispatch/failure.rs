//! Failures that an adapter reports in its output: `isError`, `ok: false`, or a non-zero exit code.

use nexus_router_sdk::{AdapterError, code};

use crate::json::{Object, Value};
use crate::policy::{Act, Law};

/// The code of an MCP tool result with `isError: true`.
pub(super) const TOOL_ERROR: &str = "TOOL_ERROR";
/// The code of a role output with `ok: false`.
pub(super) const ROLE_FAILED: &str = "ROLE_FAILED";
/// The kind of adapters whose tool results are `CallToolResult`s, also where no definition says so.
const MCP: &str = "mcp";
/// The longest text of an output that an error message repeats.
const MAX_QUOTED: usize = 500;

/// Failed call: its error, and the output that the adapter gave with it.
pub(super) struct FailedCall {
    pub(super) error: AdapterError,
    pub(super) output: Option<Object>,
}

impl From<AdapterError> for FailedCall {
    fn from(error: AdapterError) -> Self {
        Self { error, output: None }
    }
}

/// Returns the error that an output reports, if it reports one. `kind` is the kind of the adapter.
pub(super) fn reported_failure(
    law: &Law,
    kind: &str,
    act: Act<'_>,
    output: &Object,
) -> Option<AdapterError> {
    let truth = |name: &str| output.get(name).and_then(Value::as_bool);
    if truth("isError") == Some(true) && (kind == MCP || law.gives_content(act)) {
        return Some(error(TOOL_ERROR, "the tool reports an error", content_text(output)));
    }
    let exit_code = output.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0);
    if let Some(exit_code) = exit_code
        && law.class_of(act).is_some_and(|class| class.executes())
    {
        let message = format!("the program ended with exit code {exit_code}");
        let error = error(code::NONZERO_EXIT, &message, first_error(output));
        return Some(error.details(serde_json::json!({ "exit_code": exit_code })));
    }
    let failed = truth("ok") == Some(false) && law.roles.contains_key(act.adapter_id);
    failed.then(|| error(ROLE_FAILED, "the adapter reports ok: false", first_error(output)))
}

fn error(code: &str, message: &str, quoted: Option<&str>) -> AdapterError {
    let quoted = quoted.map(str::trim).filter(|text| !text.is_empty());
    let message = match quoted.map(|text| (text, text.char_indices().nth(MAX_QUOTED))) {
        None => message.to_owned(),
        Some((text, None)) => format!("{message}: {text}"),
        Some((text, Some((end, _)))) => format!("{message}: {}…", &text[..end]),
    };
    AdapterError::operational(code, message)
}

/// Returns the first text of a tool result.
fn content_text(output: &Object) -> Option<&str> {
    let blocks = output.get("content").and_then(Value::as_array)?;
    blocks.iter().find_map(|block| block.get("text").and_then(Value::as_str))
}

/// Returns the first message among the errors of a role output.
fn first_error(output: &Object) -> Option<&str> {
    let first = output.get("errors").and_then(Value::as_array)?.first()?;
    first.as_str().or_else(|| first.get("message").and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Limits};
    use crate::role::{ActionClass, Role};

    fn object(text: &str) -> Object {
        json::parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
    }

    fn failure(law: &Law, kind: &str, act: Act<'_>, output: &str) -> Option<(String, String)> {
        let failure = reported_failure(law, kind, act, &object(output));
        failure.map(|error| (error.code, error.message))
    }

    #[test]
    fn is_error_fails_only_tool_results() {
        let act = Act { adapter_id: "files", tool: "read", method: "call" };
        let output =
            r#"{"isError":true,"content":[{"type":"image"},{"type":"text","text":"no disk"}]}"#;
        let (code, message) = failure(&Law::default(), "mcp", act, output).unwrap();
        assert_eq!(
            (code.as_str(), message.as_str()),
            (TOOL_ERROR, "the tool reports an error: no disk")
        );
        assert_eq!(failure(&Law::default(), "http", act, output), None);
        assert_eq!(failure(&Law::default(), "mcp", act, r#"{"isError":false}"#), None);
    }

    #[test]
    fn exit_code_fails_executing_classes_only() {
        let mut law = Law::default();
        let [test, write] =
            ["test", "write"].map(|tool| Act { adapter_id: "ci", tool, method: "m" });
        law.classes.insert(test.key(), ActionClass::TestExec);
        law.classes.insert(write.key(), ActionClass::FileWrite);
        let output = r#"{"exit_code":3,"errors":[]}"#;
        let (code, message) = failure(&law, "x", test, output).unwrap();
        assert_eq!(
            (code.as_str(), message.as_str()),
            (code::NONZERO_EXIT, "the program ended with exit code 3")
        );
        assert_eq!(failure(&law, "x", write, output), None);
        assert_eq!(failure(&law, "x", test, r#"{"exit_code":0}"#), None);
    }

    #[test]
    fn ok_false_fails_role_adapters_only() {
        let mut law = Law::default();
        let act = Act { adapter_id: "scout", tool: "web_search", method: "call" };
        let output = r#"{"ok":false,"errors":[{"message":"nothing found"}]}"#;
        assert_eq!(failure(&law, "x", act, output), None);
        law.roles.insert("scout".to_owned(), Role::Scout);
        let (code, message) = failure(&law, "x", act, output).unwrap();
        assert_eq!(code, ROLE_FAILED);
        assert_eq!(message, "the adapter reports ok: false: nothing found");
        assert_eq!(failure(&law, "x", act, r#"{"ok":true}"#), None);
    }

    #[test]
    fn long_texts_are_cut_in_messages() {
        let text = "ä".repeat(MAX_QUOTED + 1);
        let error = error(TOOL_ERROR, "m", Some(&text));
        assert!(error.message.ends_with("ä…") && error.message.chars().count() == MAX_QUOTED + 4);
    }
}
