//! An interface contract: what an adapter's operations take and give, at one version.
//!
//! One file per adapter, written for people to review. Its digest is that of its canonical text after RFC
//! 8785, so that white space and the order of members do not count, and everything else does.

use std::collections::BTreeMap;
use std::time::Duration;

use semver::Version;

use super::finding::{Finding, Findings, below};
use super::reader::Reader;
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
/// What stands in a contract.
const MEMBERS: [&str; 5] = ["format", "adapter_id", "version", "description", "operations"];
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
    /// Calls whose outcomes depend on a condition that the input does not show.
    pub fault_examples: Vec<FaultExample>,
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
    /// The meaning of the code for this operation, if the contract has one.
    pub description: Option<String>,
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

/// Example of a call whose outcome depends on a condition that the input does not show.
///
/// `interface test` does not make these calls: it cannot create the condition.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultExample {
    /// Condition, as a clause that follows "when".
    pub when: String,
    /// Call and its outcome under this condition.
    pub example: Example,
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
