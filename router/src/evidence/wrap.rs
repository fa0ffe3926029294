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
    /// An output that reports a failure.
    Failed {
        /// The output.
        output: Object,
        /// The stable code.
        code: String,
        /// The message of the error.
        message: String,
    },
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

impl Given {
    /// Returns the output that the adapter gave, if it gave one.
    const fn output(&self) -> Option<&Object> {
        match self {
            Self::Output(output) | Self::Failed { output, .. } => Some(output),
            Self::Error { .. } => None,
        }
    }
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
            output.insert("result", given.output().cloned().unwrap_or_default());
            output.insert("sources", Value::Array(Vec::new()));
        }
        Role::Envoy => {
            let text = |name: &str| given.output()?.get(name).and_then(Value::as_str);
            let exit_code = |result: &Object| result.get("exit_code").and_then(Value::as_i64);
            let exit_code = match given {
                Given::Output(result) => exit_code(result).unwrap_or(0),
                Given::Failed { output, .. } => exit_code(output).unwrap_or(NO_OUTPUT),
                Given::Error { code, .. } if code == "TIMEOUT" => TIMED_OUT,
                Given::Error { .. } => NO_OUTPUT,
            };
            // What is no program has no standard output; what it gave is as good as one.
            let stdout = match (text("stdout"), given.output()) {
                (Some(stdout), _) => stdout.to_owned(),
                (None, Some(result)) => json::to_canonical(&result.clone().into()),
                (None, None) => String::new(),
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
    let (code, message, findings) = match given {
        Given::Output(_) => return Vec::new(),
        Given::Failed { code, message, .. } => (code, message, &[][..]),
        Given::Error { code, message, findings } => (code, message, &findings[..]),
    };
    let mut error = Object::new();
    error.insert("code", code.as_str());
    error.insert("message", message.as_str());
    if !findings.is_empty() {
        let findings = findings.iter().map(|finding| Value::from(finding.as_str()));
        error.insert("findings", Value::Array(findings.collect()));
    }
    vec![error.into()]
}
