//! A tool spec: what a tool takes and gives, what it does to the world, and which operation carries it out.
//!
//! Reading holds it to its form alone, and tells everything that is wrong with that. Whether it may be registered
//! is for the gates to say. Its digest is that of its canonical text after RFC 8785.

use semver::Version;

use super::members;
use super::parts::{
    Dependencies, ExecutionMode, ExecutionTarget, ResourceClass, RollbackStrategy, SideEffect,
    Validation,
};
use super::reader::{MALFORMED, Reader, SCHEMA_INVALID, parse};
use crate::conform::Schema;
use crate::digest::Digest;
use crate::interface::{Finding, Findings, below};
use crate::json::{self, Limits, Object, Value};

/// A longer file is none.
pub const MAX_BYTES: usize = 1 << 20;
/// So much of a tool spec is read.
pub(super) const LIMITS: Limits = Limits { bytes: MAX_BYTES, depth: 64, values: 50_000 };
/// No tool may take longer.
const MAX_SECONDS: i64 = 3_600;

/// What stands in a tool spec.
const MEMBERS: [&str; 18] = [
    "tool_id",
    "version",
    "description",
    "input_schema",
    "output_schema",
    "execution_mode",
    "credentials_required",
    "side_effects",
    "rollback_strategy",
    "timeout_seconds",
    "resource_class",
    "adapter_id",
    "adapter_operation",
    "adapter_contract_version",
    "execution_target",
    "dependencies",
    "validation",
    "metadata",
];

/// A tool spec that is well formed.
#[derive(Clone, Debug)]
pub struct ToolDocument {
    /// The tool.
    pub tool_id: String,
    /// The version of the spec.
    pub version: Version,
    /// What the tool does.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// The JSON Schema of the output.
    pub output_schema: Value,
    /// Where it is carried out.
    pub execution_mode: ExecutionMode,
    /// The names of the credentials that it needs.
    pub credentials_required: Vec<String>,
    /// What it does to the world.
    pub side_effects: Vec<SideEffect>,
    /// How that is undone.
    pub rollback_strategy: RollbackStrategy,
    /// How long it may take.
    pub timeout_seconds: u32,
    /// What it works on.
    pub resource_class: ResourceClass,
    /// The adapter that carries it out.
    pub adapter_id: Option<String>,
    /// The operation of the adapter.
    pub adapter_operation: Option<String>,
    /// The version of the adapter's contract that it was written for.
    pub adapter_contract_version: Option<Version>,
    /// Where it is carried out, in more detail.
    pub execution_target: Option<ExecutionTarget>,
    /// What must be there.
    pub dependencies: Dependencies,
    /// What must hold, for people.
    pub validation: Validation,
    /// Whatever else its author says.
    pub metadata: Object,
    /// The document, as it was written.
    pub document: Value,
    /// The digest of its canonical text.
    pub digest: Digest,
}

impl ToolDocument {
    /// Reads a tool spec.
    ///
    /// # Errors
    /// With everything that is wrong with its form.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Finding>> {
        Self::from_document(parse(text, LIMITS)?)
    }

    /// Takes a tool spec that is parsed already.
    ///
    /// # Errors
    /// With everything that is wrong with its form.
    pub fn from_document(document: Value) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::default();
        let Some(object) = document.as_object() else {
            findings.add("", MALFORMED, "a tool spec is an object");
            return Err(findings.into_vec());
        };
        let digest = digest_of(&document, &mut findings);
        let mut reader = Reader { findings: &mut findings, object, place: "" };
        reader.only(&MEMBERS);
        let tool_id = reader.text("tool_id", 1, 128);
        if !tool_id.is_empty() && !is_tool_id(&tool_id) {
            reader.wrong("tool_id", "must match ^[a-z0-9_-]+$");
        }
        if reader.get("version").is_none() {
            reader.wrong("version", "is missing; write MAJOR.MINOR.PATCH");
        }
        let version = reader.version("version", false);
        let description = reader.text("description", 10, 500);
        let input_schema = schema(&mut reader, "input_schema");
        let output_schema = schema(&mut reader, "output_schema");
        let execution_mode =
            reader.word("execution_mode", ExecutionMode::from_name, ExecutionMode::NAMES);
        // A value in the place of a name would be a secret: it is never shown.
        let must = "the name of a credential: ^[A-Z0-9_]+$, never its value";
        let credentials_required = reader.texts("credentials_required", true, is_credential, must);
        let side_effects = members::side_effects(&mut reader);
        let rollback_strategy =
            reader.word("rollback_strategy", RollbackStrategy::from_name, RollbackStrategy::NAMES);
        let timeout_seconds = timeout(&mut reader);
        let resource_class =
            reader.word("resource_class", ResourceClass::from_name, ResourceClass::NAMES);
        let adapter_id = reader.optional("adapter_id");
        let adapter_operation = reader.optional("adapter_operation");
        let adapter_contract_version = reader.version("adapter_contract_version", true);
        let execution_target = members::execution_target(&mut reader);
        let dependencies = members::dependencies(&mut reader);
        let validation = members::validation(&mut reader);
        let metadata = reader.object("metadata").unwrap_or_default();
        let (
            Some(version),
            Some(execution_mode),
            Some(rollback_strategy),
            Some(timeout_seconds),
            Some(resource_class),
            true,
        ) = (
            version,
            execution_mode,
            rollback_strategy,
            timeout_seconds,
            resource_class,
            findings.is_empty(),
        )
        else {
            return Err(findings.into_vec());
        };
        Ok(Self {
            tool_id,
            version,
            description,
            input_schema,
            output_schema,
            execution_mode,
            credentials_required,
            side_effects,
            rollback_strategy,
            timeout_seconds,
            resource_class,
            adapter_id,
            adapter_operation,
            adapter_contract_version,
            execution_target,
            dependencies,
            validation,
            metadata,
            document,
            digest,
        })
    }
}

fn digest_of(document: &Value, findings: &mut Findings) -> Digest {
    match json::to_jcs(document) {
        Ok(text) => Digest::of(text.as_bytes()),
        Err(error) => {
            findings.add("", MALFORMED, error.to_string());
            Digest::ZERO
        }
    }
}

/// Says whether a text can be the id of a tool.
pub(super) fn is_tool_id(id: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=128).contains(&id.len()) && id.bytes().all(fits)
}

fn is_credential(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// Reads a schema. It is compiled once here, so that the gates may take it as usable however often they look.
fn schema(reader: &mut Reader<'_>, name: &str) -> Value {
    let Some(schema) = reader.get(name).cloned() else {
        reader.wrong(name, "is missing");
        return Value::Null;
    };
    if schema.get("type").and_then(Value::as_str).is_none() {
        reader.wrong(name, "must be an object with a type, such as {\"type\": \"object\"}");
    } else if let Err(problem) = Schema::read(&schema.to_serde()) {
        reader.findings.add(below(reader.place, name), SCHEMA_INVALID, problem);
    }
    schema
}

fn timeout(reader: &mut Reader<'_>) -> Option<u32> {
    let said = reader.get("timeout_seconds").and_then(Value::as_i64);
    let seconds = said.filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    if seconds.is_none() {
        let message = format!("must be an integer from 1 to {MAX_SECONDS}");
        reader.wrong("timeout_seconds", message);
    }
    seconds.and_then(|seconds| u32::try_from(seconds).ok())
}
