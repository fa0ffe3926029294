//! An interface contract: what an adapter's operations take and give, at one version.
//!
//! One file per adapter, written for people to review. Its digest is that of its canonical text after RFC
//! 8785, so that white space and the order of members do not count, and everything else does.

use std::collections::BTreeMap;
use std::time::Duration;

use semver::Version;

use super::finding::{Finding, Findings, below};
use super::schema;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};

/// What a file says that it is.
pub const FORMAT: &str = "nexus-router.interface/1";
/// A longer file is none.
pub const MAX_BYTES: usize = 4 << 20;
/// So much of a contract is read.
const LIMITS: Limits = Limits { bytes: MAX_BYTES, depth: 64, values: 200_000 };
/// No adapter has more operations.
const MAX_OPERATIONS: usize = 1_000;
/// No operation may take longer, nor be tried again for longer: a day.
const MAX_TIME_MS: u64 = 24 * 60 * 60 * 1_000;
/// No operation is tried more often.
const MAX_ATTEMPTS: u64 = 100;

/// What stands in a contract.
const MEMBERS: [&str; 5] = ["format", "adapter_id", "version", "description", "operations"];
/// What stands in an operation.
const OPERATION_MEMBERS: [&str; 12] = [
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
];

/// A contract that is well formed.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The adapter that it is of.
    pub adapter_id: String,
    /// Its version.
    pub version: Version,
    /// What the adapter is for.
    pub description: String,
    /// The operations by name.
    pub operations: BTreeMap<String, Operation>,
    /// The document, as it was written.
    pub document: Value,
    /// The digest of its canonical text.
    pub digest: Digest,
}

/// One operation of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What it does.
    pub description: String,
    /// The tool that the adapter is asked for.
    pub tool: String,
    /// The method of that tool.
    pub method: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// The JSON Schema of the output.
    pub output_schema: Value,
    /// How long a call may take.
    pub timeout: Duration,
    /// How often, and how soon, a call may be made again.
    pub retry: Retry,
    /// Whether two equal calls do what one does.
    pub idempotent: bool,
    /// Whether a call changes nothing.
    pub read_only: bool,
    /// How a call may fail.
    pub failure_modes: Vec<FailureMode>,
    /// Parts of the output that differ between equal calls, as JSON pointers.
    pub volatile: Vec<String>,
    /// Calls and what comes of them.
    pub examples: Vec<Example>,
}

/// How often a call may be made, and how long the pauses in between are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Calls altogether; one means that nothing is tried again.
    pub attempts: u64,
    /// The first pause.
    pub base_ms: u64,
    /// The longest pause.
    pub max_ms: u64,
}

/// A way in which a call may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureMode {
    /// The error code.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// Whether whoever called has to stop.
    pub halts: bool,
}

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It is only told.
    Info,
    /// The answer is worth less.
    Warning,
    /// There is no answer.
    Error,
}

impl Severity {
    /// Every severity with its name.
    pub const ALL: [(&str, Self); 3] =
        [("info", Self::Info), ("warning", Self::Warning), ("error", Self::Error)];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A call and what comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The arguments.
    pub input: Object,
    /// The output, or the code of the error.
    pub comes: Result<Value, String>,
}

impl Interface {
    /// Reads a contract.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Finding>> {
        let document = match json::parse(text, LIMITS) {
            Ok(document) => document,
            Err(error) => {
                let mut findings = Findings::default();
                findings.add("", "INTERFACE_MALFORMED", error.to_string());
                return Err(findings.into_vec());
            }
        };
        Self::from_document(document)
    }

    /// Takes a contract that is parsed already.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn from_document(document: Value) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::default();
        let Some(object) = document.as_object() else {
            findings.add("", "INTERFACE_MALFORMED", "a contract is an object");
            return Err(findings.into_vec());
        };
        let digest = digest_of(&document, &mut findings);
        let mut reader = Reader { findings: &mut findings };
        reader.only(object, "", &MEMBERS);
        let format = reader.text(object, "", "format");
        if !format.is_empty() && format != FORMAT {
            let message = format!("is {format:?}; this program knows {FORMAT:?}");
            reader.wrong("/format", message);
        }
        let adapter_id = reader.text(object, "", "adapter_id");
        if !adapter_id.is_empty() && !is_adapter_id(&adapter_id) {
            reader.wrong("/adapter_id", "must match ^[a-z0-9-]+$, 64 characters at most");
        }
        let version = reader.version(object);
        let description = reader.text(object, "", "description");
        let mut operations = BTreeMap::new();
        match object.get("operations").and_then(Value::as_object) {
            Some(listed) if listed.is_empty() || listed.len() > MAX_OPERATIONS => {
                reader.wrong("/operations", format!("must have 1 to {MAX_OPERATIONS} operations"));
            }
            Some(listed) => {
                for (name, operation) in listed.iter() {
                    let place = below("/operations", name);
                    if !is_operation(name) {
                        reader.wrong(&place, "an operation's name must match ^[a-z][a-z0-9_]*$, 64 characters at most");
                    }
                    if let Some(operation) = reader.operation(&adapter_id, name, operation, &place)
                    {
                        operations.insert(name.to_owned(), operation);
                    }
                }
            }
            None => reader.wrong("/operations", "is missing, or no object"),
        }
        reader.distinct(&operations);
        let version = version.unwrap_or(Version::new(0, 0, 0));
        findings.or(Self { adapter_id, version, description, operations, document, digest })
    }

    /// Returns the canonical text, of which the digest is.
    #[must_use]
    pub fn canonical(&self) -> String {
        // Whoever could not be written was refused.
        json::to_jcs(&self.document).unwrap_or_default()
    }
}

fn digest_of(document: &Value, findings: &mut Findings) -> Digest {
    match json::to_jcs(document) {
        Ok(text) => Digest::of(text.as_bytes()),
        Err(error) => {
            findings.add("", "INTERFACE_MALFORMED", error.to_string());
            Digest::ZERO
        }
    }
}

/// Says whether a text can be the id of an adapter in a contract.
#[must_use]
pub fn is_adapter_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&id.len()) && id.bytes().all(fits)
}

fn is_operation(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 64
        && name.bytes().all(fits)
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
}

/// Says whether a text is an error code: upper case, digits and underscores.
fn is_code(code: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&code.len()) && code.bytes().all(fits)
}

struct Reader<'a> {
    findings: &'a mut Findings,
}

impl Reader<'_> {
    fn wrong(&mut self, pointer: &str, message: impl Into<String>) {
        self.findings.add(pointer, "INTERFACE_MALFORMED", message);
    }

    fn only(&mut self, object: &Object, place: &str, members: &[&str]) {
        for name in object.keys().filter(|name| !members.contains(name)) {
            let message = format!("is unknown; known are {}", members.join(", "));
            self.findings.add(below(place, name), "INTERFACE_MALFORMED", message);
        }
    }

    fn text(&mut self, object: &Object, place: &str, name: &str) -> String {
        match object.get(name).map(Value::as_str) {
            Some(Some(text)) if !text.trim().is_empty() => return text.to_owned(),
            Some(_) => self.wrong(&below(place, name), "must be a text that is not empty"),
            None => self.wrong(&below(place, name), "is missing"),
        }
        String::new()
    }

    fn version(&mut self, object: &Object) -> Option<Version> {
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

    fn operation(
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
            input_schema,
            output_schema,
        };
        self.keeps_its_examples(&operation, place);
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

    fn failure_modes(&mut self, object: &Object, place: &str) -> Vec<FailureMode> {
        let place = below(place, "failure_modes");
        let Some(said) = object.get("failure_modes").and_then(Value::as_array) else {
            self.wrong(&place, "must be a list, empty if nothing can fail");
            return Vec::new();
        };
        let mut modes: Vec<FailureMode> = Vec::new();
        for (index, mode) in said.iter().enumerate() {
            let place = below(&place, &index.to_string());
            let Some(mode) = mode.as_object() else {
                self.wrong(&place, "must be an object with code, severity and halts");
                continue;
            };
            self.only(mode, &place, &["code", "severity", "halts"]);
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
            modes.push(FailureMode { code, severity, halts: self.truth(mode, &place, "halts") });
        }
        modes
    }

    fn pointers(&mut self, object: &Object, place: &str) -> Vec<String> {
        let place = below(place, "volatile");
        let Some(said) = object.get("volatile") else { return Vec::new() };
        let Some(said) = said.as_array() else {
            self.wrong(&place, "must be a list of JSON pointers");
            return Vec::new();
        };
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

    fn examples(&mut self, object: &Object, place: &str) -> Vec<Example> {
        let place = below(place, "examples");
        let Some(said) = object.get("examples") else { return Vec::new() };
        let Some(said) = said.as_array() else {
            self.wrong(&place, "must be a list of objects with input, and output or error");
            return Vec::new();
        };
        let mut examples = Vec::new();
        for (index, example) in said.iter().enumerate() {
            let place = below(&place, &index.to_string());
            let members = example.as_object();
            let input = members.and_then(|members| members.get("input")).and_then(Value::as_object);
            let (Some(members), Some(input)) = (members, input) else {
                self.wrong(&place, "must be an object with input, and output or error");
                continue;
            };
            self.only(members, &place, &["input", "output", "error"]);
            let comes = match (members.get("output"), members.get("error").and_then(Value::as_str))
            {
                (Some(output), None) => Ok(output.clone()),
                (None, Some(code)) => Err(code.to_owned()),
                _ => {
                    self.wrong(&place, "must have either output or error");
                    continue;
                }
            };
            examples.push(Example { input: input.clone(), comes });
        }
        examples
    }

    /// Holds the examples to the schemas and the failure modes that they are examples of.
    fn keeps_its_examples(&mut self, operation: &Operation, place: &str) {
        if operation.examples.is_empty() {
            return;
        }
        let read = |schema: &Value| crate::conform::Schema::read(&schema.to_serde()).ok();
        // Schemas that cannot be used are told where they stand.
        let (Some(input), Some(output)) =
            (read(&operation.input_schema), read(&operation.output_schema))
        else {
            return;
        };
        for (index, example) in operation.examples.iter().enumerate() {
            let place = below(&below(place, "examples"), &index.to_string());
            if let Err(misfit) = input.check(&example.input.to_serde().into()) {
                self.wrong(&below(&place, "input"), format!("does not fit input_schema: {misfit}"));
            }
            match &example.comes {
                Ok(value) => {
                    if let Err(misfit) = output.check(&value.to_serde()) {
                        let message = format!("does not fit output_schema: {misfit}");
                        self.wrong(&below(&place, "output"), message);
                    }
                }
                Err(code) if operation.failure_modes.iter().all(|mode| mode.code != *code) => {
                    let message = format!("{code} is none of the failure_modes");
                    self.wrong(&below(&place, "error"), message);
                }
                Err(_) => {}
            }
        }
    }

    /// Two operations must not be the same call, or nobody could say which contract holds for it.
    fn distinct(&mut self, operations: &BTreeMap<String, Operation>) {
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
