//! What was refused before anything was executed, and why.

use super::canonical::{self, Domain};
use super::finding::Findings;
use super::name;
use super::reader::Reader;
use super::summary::{self, KEY, Outcome, REASON, SCHEMA_VERSION};
use crate::digest::Digest;
use crate::json::{Limits, Object, Value};

/// A larger rejection is none.
pub const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64, values: 20_000 };

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The id of the task.
    pub task_id: String,
    /// Why; a stable text, from which the id of the rejection is made.
    pub reason: String,
    /// The key under which it would have been executed only once.
    pub idempotency_key: Option<String>,
    /// The execution that came before, if that is why.
    pub prior_exec_id: Option<String>,
    /// The digest of the manifest of that execution.
    pub prior_manifest_sha256: Option<Digest>,
    /// Whatever else there is to say: integers, ASCII keys.
    pub context: Object,
}

const KEYS: [&str; 9] = [
    "context",
    "exec_id",
    "idempotency_key",
    "outcome",
    "prior_exec_id",
    "prior_manifest_sha256",
    "reason",
    "schema_version",
    "task_id",
];

impl Rejection {
    /// Returns a refusal without more to say.
    #[must_use]
    pub fn new(task_id: &str, reason: &str) -> Self {
        Self {
            task_id: task_id.to_owned(),
            reason: reason.to_owned(),
            idempotency_key: None,
            prior_exec_id: None,
            prior_manifest_sha256: None,
            context: Object::new(),
        }
    }

    /// Returns a refusal for findings: the first is the reason, and all are in the context.
    #[must_use]
    pub fn of_findings(task_id: &str, findings: &Findings) -> Self {
        let mut rejection = Self::new(task_id, findings.reason());
        let reasons: Vec<Value> = findings.reasons().into_iter().map(Value::from).collect();
        rejection.context.insert("findings", reasons);
        rejection
    }

    /// Returns the id: the first sixteen digits of the digest of the reason.
    #[must_use]
    pub fn id(&self) -> String {
        rejection_id(&self.reason)
    }

    /// Returns the canonical text: the bytes of `rejection.json`.
    ///
    /// # Errors
    /// When what it says would not be read back.
    pub fn text(&self) -> Result<String, Findings> {
        let mut object = Object::with_capacity(KEYS.len());
        object.insert("context", self.context.clone());
        // Nothing was executed, so there is no execution.
        object.insert("exec_id", Value::Null);
        object.insert("idempotency_key", self.idempotency_key.as_deref());
        object.insert("outcome", Outcome::Rejected.name());
        object.insert("prior_exec_id", self.prior_exec_id.as_deref());
        let prior = self.prior_manifest_sha256.map(|digest| digest.to_string());
        object.insert("prior_manifest_sha256", prior);
        object.insert("reason", self.reason.as_str());
        object.insert("schema_version", SCHEMA_VERSION);
        object.insert("task_id", self.task_id.as_str());
        let text = canonical::text(&object.into(), Domain::Control)?;
        Self::parse(text.as_bytes())?;
        Ok(text)
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        let value = canonical::read(bytes, LIMITS, Domain::Control)?;
        let mut findings = Findings::default();
        let rejection = Reader::closed(&value, "", &KEYS, &mut findings).and_then(|mut reader| {
            let context = reader.object_at("context").cloned();
            if reader.object().get("exec_id").is_some_and(|value| !value.is_null()) {
                reader.wrong("exec_id", "null: nothing was executed");
            }
            let key = reader.text_or_null("idempotency_key", KEY, summary::is_key);
            reader.text("outcome", "REJECTED", |text| text == Outcome::Rejected.name());
            let prior =
                reader.text_or_null("prior_exec_id", "the id of an execution", name::is_exec_id);
            let manifest = match reader.object().get("prior_manifest_sha256") {
                Some(Value::Null) => Some(None),
                _ => reader.digest("prior_manifest_sha256").map(Some),
            };
            let reason = reader.text("reason", REASON, summary::is_reason);
            reader.integer("schema_version", SCHEMA_VERSION..=SCHEMA_VERSION);
            let task_id = reader.text("task_id", "the id of a task", name::is_task_id);
            Some(Self {
                task_id: task_id?.to_owned(),
                reason: reason?.to_owned(),
                idempotency_key: key?.map(str::to_owned),
                prior_exec_id: prior?.map(str::to_owned),
                prior_manifest_sha256: manifest?,
                context: context?,
            })
        });
        findings.or(rejection)
    }
}

/// Returns the id of a rejection for a reason.
#[must_use]
pub fn rejection_id(reason: &str) -> String {
    let mut id = Digest::of(reason.as_bytes()).to_string();
    id.truncate(16);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_ids_come_out() {
        assert_eq!(rejection_id("duplicate_execution"), "ef8554e1d18103d2");
        assert_eq!(rejection_id("exit_code:1"), "94019c427c905162");
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut rejection = Rejection::new("t1", "duplicate_execution");
        let empty = "{\"context\":{},\"exec_id\":null,\"idempotency_key\":null,\
                     \"outcome\":\"REJECTED\",\"prior_exec_id\":null,\
                     \"prior_manifest_sha256\":null,\"reason\":\"duplicate_execution\",\
                     \"schema_version\":1,\"task_id\":\"t1\"}";
        assert_eq!(rejection.text().unwrap(), empty);
        rejection.idempotency_key = Some("k".to_owned());
        rejection.prior_exec_id = Some("e0".to_owned());
        rejection.prior_manifest_sha256 = Some(Digest::of(b""));
        rejection.context.insert("step", 2);
        let text = rejection.text().unwrap();
        assert_eq!(Rejection::parse(text.as_bytes()).unwrap(), rejection);
    }

    #[test]
    fn what_would_not_be_read_back_is_not_written() {
        let bad = |change: &dyn Fn(&mut Rejection)| {
            let mut rejection = Rejection::new("t1", "r");
            change(&mut rejection);
            rejection.text().unwrap_err().reason().to_owned()
        };
        assert_eq!(bad(&|it| it.task_id = "verify".to_owned()), "bad_value:task_id");
        assert_eq!(bad(&|it| it.reason.clear()), "bad_value:reason");
        assert_eq!(bad(&|it| it.reason = "r".repeat(4097)), "bad_value:reason");
        assert_eq!(bad(&|it| it.context.insert("x", Value::Float(0.5))), "fraction:/context/x");
        assert_eq!(bad(&|it| it.prior_exec_id = Some("..".to_owned())), "bad_value:prior_exec_id");
    }

    #[test]
    fn a_rejection_of_something_executed_is_none() {
        let text = Rejection::new("t1", "r").text().unwrap();
        for (from, to, reason) in [
            ("\"exec_id\":null", "\"exec_id\":\"e1\"", "bad_value:exec_id"),
            ("REJECTED", "SUCCEEDED", "bad_value:outcome"),
            ("\"schema_version\":1", "\"schema_version\":2", "bad_value:schema_version"),
            ("\"context\":{},", "", "missing_key:context"),
            ("\"context\":{}", "\"context\":[]", "wrong_type:context:array"),
        ] {
            let findings = Rejection::parse(text.replace(from, to).as_bytes()).unwrap_err();
            assert_eq!(findings.reason(), reason);
        }
    }
}
