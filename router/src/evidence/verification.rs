//! What was decided about a spec before it was executed.

use super::canonical::{self, Domain};
use super::finding::Findings;
use super::reader::Reader;
use super::rejection::LIMITS;
use super::summary::{self, KEY, REASON};
use crate::digest::Digest;
use crate::json::Object;

/// The decision that names the plan to which the step belongs, so that a seal vouches for it before anything is executed.
pub const DECIDED_PLAN: &str = "plan_sha256";

/// The decisions about a spec. The same spec always gets the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The digest of the spec.
    pub spec_sha256: Digest,
    /// Why; a stable text.
    pub reason: String,
    /// The key under which it is executed only once.
    pub idempotency_key: Option<String>,
    /// The decisions: integers, ASCII keys.
    pub decisions: Object,
}

const KEYS: [&str; 4] = ["decisions", "idempotency_key", "reason", "spec_sha256"];

impl Verification {
    /// Returns the canonical text: the bytes of `manifest.sha256.json`.
    ///
    /// # Errors
    /// When what it says would not be read back.
    pub fn text(&self) -> Result<String, Findings> {
        let mut object = Object::with_capacity(KEYS.len());
        object.insert("decisions", self.decisions.clone());
        object.insert("idempotency_key", self.idempotency_key.as_deref());
        object.insert("reason", self.reason.as_str());
        object.insert("spec_sha256", self.spec_sha256.to_string());
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
        let read = Reader::closed(&value, "", &KEYS, &mut findings).and_then(|mut reader| {
            let decisions = reader.object_at("decisions").cloned();
            let key = reader.text_or_null("idempotency_key", KEY, summary::is_key);
            let reason = reader.text("reason", REASON, summary::is_reason);
            let spec = reader.digest("spec_sha256");
            Some(Self {
                spec_sha256: spec?,
                reason: reason?.to_owned(),
                idempotency_key: key?.map(str::to_owned),
                decisions: decisions?,
            })
        });
        findings.or(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Value;

    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        let mut decisions = Object::new();
        decisions.insert("network_granted", true);
        let mut verification = Verification {
            spec_sha256: Digest::of(b""),
            reason: "ok".to_owned(),
            idempotency_key: None,
            decisions,
        };
        let text = verification.text().unwrap();
        let spec = Digest::of(b"");
        let expected = format!(
            "{{\"decisions\":{{\"network_granted\":true}},\"idempotency_key\":null,\
             \"reason\":\"ok\",\"spec_sha256\":\"{spec}\"}}"
        );
        assert_eq!(text, expected);
        assert_eq!(Verification::parse(text.as_bytes()).unwrap(), verification);
        verification.decisions.insert("score", Value::Float(1.5));
        assert_eq!(verification.text().unwrap_err().reason(), "fraction:/decisions/score");
        let findings = Verification::parse(text.replace("\"ok\"", "\"\"").as_bytes()).unwrap_err();
        assert_eq!(findings.reason(), "bad_value:reason");
    }
}
