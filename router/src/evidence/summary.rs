//! What came of an execution, in the nine keys of `run_summary.json`.

use super::canonical::{self, Domain};
use super::finding::Findings;
use super::name;
use super::reader::Reader;
use crate::digest::Digest;
use crate::json::{Limits, Object, Value};

/// The version of the schema of summaries and rejections.
pub const SCHEMA_VERSION: i64 = 1;
/// A larger summary is none.
pub const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 2, values: 100 };
/// The longest reason.
pub const LONGEST_REASON: usize = 4096;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was executed, and did what it should.
    Succeeded,
    /// It was executed, and did not.
    Failed,
    /// It was not executed.
    Rejected,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Rejected];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Rejected => "REJECTED",
        }
    }

    /// Finds an outcome by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// What `run_summary.json` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The id of the task.
    pub task_id: String,
    /// The id of the execution.
    pub exec_id: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why; a stable text.
    pub reason: String,
    /// The key under which it is executed only once, usually the digest of the spec.
    pub idempotency_key: Option<String>,
    /// The digest of the manifest of its inputs.
    pub inputs_manifest_sha256: Digest,
    /// The digest of its spec.
    pub spec_sha256: Digest,
    /// The digest of its manifest.
    pub manifest_sha256: Digest,
}

const KEYS: [&str; 9] = [
    "exec_id",
    "idempotency_key",
    "inputs_manifest_sha256",
    "manifest_sha256",
    "outcome",
    "reason",
    "schema_version",
    "spec_sha256",
    "task_id",
];

impl RunSummary {
    /// Returns the canonical text: the bytes of `run_summary.json`.
    ///
    /// # Errors
    /// When what it says would not be read back.
    pub fn text(&self) -> Result<String, Findings> {
        let mut object = Object::with_capacity(KEYS.len());
        object.insert("exec_id", self.exec_id.as_str());
        object.insert("idempotency_key", self.idempotency_key.as_deref());
        object.insert("inputs_manifest_sha256", self.inputs_manifest_sha256.to_string());
        object.insert("manifest_sha256", self.manifest_sha256.to_string());
        object.insert("outcome", self.outcome.name());
        object.insert("reason", self.reason.as_str());
        object.insert("schema_version", SCHEMA_VERSION);
        object.insert("spec_sha256", self.spec_sha256.to_string());
        object.insert("task_id", self.task_id.as_str());
        let value = object.into();
        Self::read(&value)?;
        Ok(canonical::text(&value, Domain::Control)?)
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        Self::read(&canonical::read(bytes, LIMITS, Domain::Control)?)
    }

    fn read(value: &Value) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let summary = Reader::closed(value, "", &KEYS, &mut findings).and_then(|mut reader| {
            let exec_id = reader.text("exec_id", "the id of an execution", name::is_exec_id);
            let key = reader.text_or_null("idempotency_key", KEY, is_key);
            let inputs = reader.digest("inputs_manifest_sha256");
            let manifest = reader.digest("manifest_sha256");
            let outcome = reader.text("outcome", "SUCCEEDED, FAILED or REJECTED", |text| {
                Outcome::from_name(text).is_some()
            });
            let reason = reader.text("reason", REASON, is_reason);
            reader.integer("schema_version", SCHEMA_VERSION..=SCHEMA_VERSION);
            let spec = reader.digest("spec_sha256");
            let task_id = reader.text("task_id", "the id of a task", name::is_task_id);
            Some(Self {
                task_id: task_id?.to_owned(),
                exec_id: exec_id?.to_owned(),
                outcome: Outcome::from_name(outcome?)?,
                reason: reason?.to_owned(),
                idempotency_key: key?.map(str::to_owned),
                inputs_manifest_sha256: inputs?,
                spec_sha256: spec?,
                manifest_sha256: manifest?,
            })
        });
        findings.or(summary)
    }
}

pub(super) const REASON: &str = "a text of 1 to 4096 bytes";
pub(super) const KEY: &str = "a text of 1 to 4096 bytes, or null";

pub(super) fn is_reason(text: &str) -> bool {
    (1..=LONGEST_REASON).contains(&text.len())
}

pub(super) fn is_key(text: &str) -> bool {
    is_reason(text)
}
