//! What a plain adapter gave, put into the frozen form of the role in which it was called.
//!
//! The router is the adapter of the role then: the version is its own, and which library answered stands among the
//! inputs.

use super::output::NO_OUTPUT;
use crate::json::{self, Object, Value};
use crate::role::{ActionClass, Role};

/// The exit code of what took too long.
const TIMED_OUT: i64 = 124;

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// An output.
    Output(Object),
    /// No output, but an error.
    Error {
        /// The stable code.
        code: String,
        /// What is told.
        message: String,
        /// What is wrong with an output that was refused.
        findings: Vec<String>,
    },
}

/// Returns the output of a role.
pub(super) fn wrap(class: ActionClass, version: &str, given: &Given) -> Value {
    let mut output = Object::with_capacity(9);
    output.insert("adapter_role", class.role().name());
    output.insert("adapter_version", version);
    output.insert("action_class", class.name());
    output.insert("ok", matches!(given, Given::Output(_)));
    match class.role() {
        Role::Scout => {
            let result = match given {
                Given::Output(result) => result.clone(),
                Given::Error { .. } => Object::new(),
            };
            output.insert("result", result);
            output.insert("sources", Value::Array(Vec::new()));
        }
        Role::Envoy => {
            let text = |name: &str| match given {
                Given::Output(result) => result.get(name).and_then(Value::as_str),
                Given::Error { .. } => None,
            };
            let exit_code = match given {
                Given::Output(result) => {
                    result.get("exit_code").and_then(Value::as_i64).unwrap_or(0)
                }
                Given::Error { code, .. } if code == "TIMEOUT" => TIMED_OUT,
                Given::Error { .. } => NO_OUTPUT,
            };
            // What is no program has no standard output; what it gave is as good as one.
            let stdout = match (text("stdout"), given) {
                (Some(stdout), _) => stdout.to_owned(),
                (None, Given::Output(result)) => json::to_canonical(&result.clone().into()),
                (None, Given::Error { .. }) => String::new(),
            };
            output.insert("exit_code", exit_code);
            output.insert("stdout", stdout);
            output.insert("stderr", text("stderr").unwrap_or_default());
            output.insert("artifacts", Value::Array(Vec::new()));
        }
    }
    output.insert("errors", Value::Array(errors(given)));
    output.into()
}

fn errors(given: &Given) -> Vec<Value> {
    let Given::Error { code, message, findings } = given else { return Vec::new() };
    let mut error = Object::new();
    error.insert("code", code.as_str());
    error.insert("message", message.as_str());
    if !findings.is_empty() {
        let findings = findings.iter().map(|finding| Value::from(finding.as_str()));
        error.insert("findings", Value::Array(findings.collect()));
    }
    vec![error.into()]
}
