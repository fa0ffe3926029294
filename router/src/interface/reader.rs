//! Reads the parts of a contract, and tells everything that is wrong with them.

use std::collections::BTreeMap;
use std::time::Duration;

use semver::Version;

use super::document::{FailureMode, Operation, Retry, Severity};
use super::finding::{Findings, below};
use super::schema;
use crate::json::{Object, Value};

/// No operation may take longer, nor be tried again for longer: a day.
const MAX_TIME_MS: u64 = 24 * 60 * 60 * 1_000;
/// No operation is tried more often.
const MAX_ATTEMPTS: u64 = 100;

/// No list in an operation is longer.
const MAX_LISTED: usize = 100;
/// What stands in an operation.
const OPERATION_MEMBERS: [&str; 13] = [
    "description",
    "tool",
    "method",
    "input_schema",
    "output_schema",
    "timeout_ms",
    "retry",
    "idempotent",
    "read_only",
    "failure_modes",
    "volatile",
    "examples",
    "fault_examples",
];

/// Says whether a text is an error code: upper case, digits and underscores.
fn is_code(code: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&code.len()) && code.bytes().all(fits)
}

/// Reads the parts of a contract.
pub(super) struct Reader<'a> {
    pub(super) findings: &'a mut Findings,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, pointer: &str, message: impl Into<String>) {
        self.findings.add(pointer, "INTERFACE_MALFORMED", message);
    }

    pub(super) fn only(&mut self, object: &Object, place: &str, members: &[&str]) {
        for name in object.keys().filter(|name| !members.contains(name)) {
            let message = format!("is unknown; known are {}", members.join(", "));
            self.findings.add(below(place, name), "INTERFACE_MALFORMED", message);
        }
    }

    pub(super) fn text(&mut self, object: &Object, place: &str, name: &str) -> String {
        match object.get(name).map(Value::as_str) {
            Some(Some(text)) if !text.trim().is_empty() => return text.to_owned(),
            Some(_) => self.wrong(&below(place, name), "must be a text that is not empty"),
            None => self.wrong(&below(place, name), "is missing"),
        }
        String::new()
    }

    pub(super) fn version(&mut self, object: &Object) -> Option<Version> {
        let text = self.text(object, "", "version");
        if text.is_empty() {
            return None;
        }
        match Version::parse(&text) {
            Ok(version) if version.pre.is_empty() && version.build.is_empty() => Some(version),
            _ => {
                self.wrong("/version", format!("{text:?} is no version; write MAJOR.MINOR.PATCH"));
                None
            }
        }
    }

    fn number(&mut self, object: &Object, place: &str, name: &str, most: u64) -> Option<u64> {
        let number = object.get(name).and_then(Value::as_i64).and_then(|it| u64::try_from(it).ok());
        match number.filter(|number| *number <= most) {
            Some(number) => Some(number),
            None => {
                self.wrong(&below(place, name), format!("must be an integer from 0 to {most}"));
                None
            }
        }
    }

    fn truth(&mut self, object: &Object, place: &str, name: &str) -> bool {
        let truth = object.get(name).and_then(Value::as_bool);
        if truth.is_none() {
            self.wrong(&below(place, name), "must be true or false");
        }
        truth.unwrap_or_default()
    }

    pub(super) fn operation(
        &mut self,
        adapter_id: &str,
        name: &str,
        value: &Value,
        place: &str,
    ) -> Option<Operation> {
        let Some(object) = value.as_object() else {
            self.wrong(place, "an operation is an object");
            return None;
        };
        self.only(object, place, &OPERATION_MEMBERS);
        let or = |reader: &mut Self, name: &str, default: &str| match object.get(name) {
            None => default.to_owned(),
            Some(_) => reader.text(object, place, name),
        };
        let input_schema = self.schema(object, place, "input_schema");
        let output_schema = self.schema(object, place, "output_schema");
        let timeout = self.number(object, place, "timeout_ms", MAX_TIME_MS);
        if timeout == Some(0) {
            self.wrong(&below(place, "timeout_ms"), "must not be 0");
        }
        let operation = Operation {
            description: self.text(object, place, "description"),
            tool: or(self, "tool", adapter_id),
            method: or(self, "method", name),
            timeout: Duration::from_millis(timeout.unwrap_or_default()),
            retry: self.retry(object, place),
            idempotent: self.truth(object, place, "idempotent"),
            read_only: self.truth(object, place, "read_only"),
            failure_modes: self.failure_modes(object, place),
            volatile: self.pointers(object, place),
            examples: self.examples(object, place),
            fault_examples: self.fault_examples(object, place),
            input_schema,
            output_schema,
        };
        self.check_examples(&operation, place);
        Some(operation)
    }

    fn schema(&mut self, object: &Object, place: &str, name: &str) -> Value {
        let place = below(place, name);
        let Some(schema) = object.get(name) else {
            self.wrong(&place, "is missing");
            return Value::Null;
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.wrong(&place, "must be the schema of an object: \"type\": \"object\"");
        }
        // One that cannot be used is not tried on the examples either.
        if schema::lint(schema, &place, self.findings) { schema.clone() } else { Value::Null }
    }

    fn retry(&mut self, object: &Object, place: &str) -> Retry {
        let place = below(place, "retry");
        let mut retry = Retry { attempts: 1, base_ms: 0, max_ms: 0 };
        let Some(said) = object.get("retry") else { return retry };
        let Some(said) = said.as_object() else {
            self.wrong(&place, "must be an object with attempts, base_ms and max_ms");
            return retry;
        };
        self.only(said, &place, &["attempts", "base_ms", "max_ms"]);
        retry.attempts = self.number(said, &place, "attempts", MAX_ATTEMPTS).unwrap_or(1);
        if retry.attempts == 0 {
            self.wrong(
                &below(&place, "attempts"),
                "must not be 0; 1 means that nothing is tried again",
            );
        }
        if retry.attempts > 1 {
            retry.base_ms = self.number(said, &place, "base_ms", MAX_TIME_MS).unwrap_or_default();
            retry.max_ms = self.number(said, &place, "max_ms", MAX_TIME_MS).unwrap_or_default();
            if retry.max_ms < retry.base_ms {
                self.wrong(&below(&place, "max_ms"), "must not be less than base_ms");
            }
        }
        retry
    }

    /// Returns a list that is not longer than people write them; nothing, if it is not there.
    pub(super) fn list<'a>(&mut self, object: &'a Object, place: &str, name: &str) -> &'a [Value] {
        match object.get(name).map(Value::as_array) {
            None => &[],
            Some(Some(list)) if list.len() <= MAX_LISTED => list,
            Some(_) => {
                self.wrong(place, format!("must be a list of {MAX_LISTED} at most"));
                &[]
            }
        }
    }

    fn failure_modes(&mut self, object: &Object, place: &str) -> Vec<FailureMode> {
        let place = below(place, "failure_modes");
        if !object.contains_key("failure_modes") {
            self.wrong(&place, "is missing; it is an empty list if nothing can fail");
        }
        let said = self.list(object, &place, "failure_modes");
        let mut modes: Vec<FailureMode> = Vec::new();
        for (index, mode) in said.iter().enumerate() {
            let place = below(&place, &index.to_string());
            let Some(mode) = mode.as_object() else {
                self.wrong(
                    &place,
                    "must be an object with code, severity, halts and perhaps a description",
                );
                continue;
            };
            self.only(mode, &place, &["code", "description", "severity", "halts"]);
            let code = self.text(mode, &place, "code");
            if !code.is_empty() && !is_code(&code) {
                self.wrong(
                    &below(&place, "code"),
                    "must match ^[A-Z0-9_]+$, 64 characters at most",
                );
            }
            if modes.iter().any(|known| known.code == code) {
                self.wrong(&below(&place, "code"), format!("{code} is told twice"));
            }
            let severity = self.text(mode, &place, "severity");
            let severity = Severity::ALL.iter().find(|(name, _)| *name == severity);
            if severity.is_none() {
                self.wrong(&below(&place, "severity"), "must be info, warning or error");
            }
            let severity = severity.map_or(Severity::Error, |(_, severity)| *severity);
            let description =
                mode.contains_key("description").then(|| self.text(mode, &place, "description"));
            let halts = self.truth(mode, &place, "halts");
            modes.push(FailureMode { code, description, severity, halts });
        }
        modes
    }

    fn pointers(&mut self, object: &Object, place: &str) -> Vec<String> {
        let place = below(place, "volatile");
        let said = self.list(object, &place, "volatile");
        let mut pointers = Vec::new();
        for (index, pointer) in said.iter().enumerate() {
            match pointer.as_str().filter(|pointer| pointer.starts_with('/')) {
                Some(pointer) => pointers.push(pointer.to_owned()),
                None => self.wrong(
                    &below(&place, &index.to_string()),
                    "must be a JSON pointer such as /time",
                ),
            }
        }
        pointers
    }

    /// Two operations must not be the same call, or nobody could say which contract holds for it.
    pub(super) fn distinct(&mut self, operations: &BTreeMap<String, Operation>) {
        let mut calls: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for (name, operation) in operations {
            let call = (operation.tool.as_str(), operation.method.as_str());
            if let Some(other) = calls.insert(call, name) {
                let message = format!("calls {}.{}, as {other} does", call.0, call.1);
                self.wrong(&below("/operations", name), message);
            }
        }
    }
}
