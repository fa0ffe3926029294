//! What keeps an old manifest from being taken for the present one: a number that only grows, and a last day.

use super::super::Finding;
use super::super::publisher::{SignatureStatus, Trust};
use super::{entries, manifest_hash};
use crate::clock::Timestamp;
use crate::json::{Object, Value, to_canonical};
use crate::key::SigningKey;
use crate::signal::entry::text;
use crate::signal::is_hash;

/// What stands before the text that is signed, so that the signature is good for nothing else.
const DOMAIN: &str = "nexus-router manifest freshness 1\n";
/// The member of the manifest.
pub(super) const MEMBER: &str = "freshness";

/// The place of a manifest among those of its publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Grows with every manifest.
    pub sequence: u64,
    /// When it was made: RFC 3339.
    pub generated_at: String,
    /// From when on it is no longer good; none for never.
    pub expires_at: Option<String>,
    /// The hash of the manifest before it.
    pub previous_manifest_hash: Option<String>,
}

/// What was found about the freshness of a manifest.
#[derive(Clone, Debug)]
pub struct FreshnessReport {
    /// What it says; none if it says nothing that can be read.
    pub freshness: Option<Freshness>,
    /// What is known of its signature.
    pub signature: SignatureStatus,
}

impl Freshness {
    /// Reads what a manifest says; none if it says nothing.
    ///
    /// # Errors
    /// Everything in it that cannot be what it should be.
    pub fn of(manifest: &Object) -> Result<Option<Self>, Vec<String>> {
        let Some(told) = manifest.get(MEMBER) else { return Ok(None) };
        let Some(told) = told.as_object() else {
            return Err(vec!["freshness is no object".to_owned()]);
        };
        let mut wrong = Vec::new();
        let sequence = told.get("sequence").and_then(Value::as_i64);
        let sequence = sequence.and_then(|it| u64::try_from(it).ok());
        if sequence.is_none() {
            wrong.push("freshness/sequence is no number from 0 on".to_owned());
        }
        let is_time = |text: &&str| Timestamp::parse(text).is_some();
        let generated_at = text(told, "generated_at").filter(is_time);
        if generated_at.is_none() {
            wrong.push("freshness/generated_at is no time (RFC 3339)".to_owned());
        }
        let expires_at = text(told, "expires_at").filter(is_time);
        if expires_at.is_none() && !told.get("expires_at").is_none_or(Value::is_null) {
            wrong.push("freshness/expires_at is no time (RFC 3339), nor null".to_owned());
        }
        let previous = text(told, "previous_manifest_hash").filter(|it| is_hash(it));
        if previous.is_none() && !told.get("previous_manifest_hash").is_none_or(Value::is_null) {
            wrong.push("freshness/previous_manifest_hash is no hash, nor null".to_owned());
        }
        match (sequence, generated_at) {
            (Some(sequence), Some(generated_at)) if wrong.is_empty() => Ok(Some(Self {
                sequence,
                generated_at: generated_at.to_owned(),
                expires_at: expires_at.map(str::to_owned),
                previous_manifest_hash: previous.map(str::to_owned),
            })),
            _ => Err(wrong),
        }
    }

    /// Returns its members, without the signature.
    #[must_use]
    pub fn to_object(&self) -> Object {
        let mut object = Object::with_capacity(5);
        object.insert("sequence", self.sequence);
        object.insert("generated_at", self.generated_at.as_str());
        object.insert("expires_at", self.expires_at.as_deref());
        object.insert("previous_manifest_hash", self.previous_manifest_hash.as_deref());
        object
    }

    /// Returns its members, signed for a manifest of this hash.
    pub(super) fn signed(&self, manifest_hash: &str, key: &SigningKey) -> Object {
        let mut object = self.to_object();
        let signature = key.sign(self.message(manifest_hash).as_bytes());
        object.insert("signature", signature.to_string());
        object
    }

    fn message(&self, manifest_hash: &str) -> String {
        let mut object = self.to_object();
        object.insert("manifest_hash", manifest_hash);
        format!("{DOMAIN}{}", to_canonical(&object.into()))
    }
}

/// Holds the freshness of a manifest to its signature, to the time, and to what was seen before.
pub(super) fn check(
    manifest: &Object,
    trust: &Trust,
    now: Timestamp,
    findings: &mut Vec<Finding>,
) -> FreshnessReport {
    let at = |message: String| Finding::error("/freshness", message);
    let freshness = match Freshness::of(manifest) {
        Ok(Some(freshness)) => freshness,
        Ok(None) => {
            return FreshnessReport { freshness: None, signature: SignatureStatus::Absent };
        }
        Err(wrong) => {
            findings.extend(wrong.into_iter().map(at));
            return FreshnessReport { freshness: None, signature: SignatureStatus::Bad };
        }
    };
    // What the manifest says of its hash was compared with its entries by whoever calls this.
    let hash = text(manifest, "manifest_hash").unwrap_or_default();
    let told = manifest.get(MEMBER).and_then(Value::as_object);
    let signature = told.and_then(|told| told.get("signature"));
    let signature = trust.judge(manifest, freshness.message(hash).as_bytes(), signature);
    if signature.is_refused() {
        findings.push(at(format!("freshness: {}", signature.meaning())));
    }
    if text(manifest, "generated_at") != Some(freshness.generated_at.as_str()) {
        let message = format!(
            "generated_at is {}, and the one that is signed is {}",
            text(manifest, "generated_at").unwrap_or("not there"),
            freshness.generated_at
        );
        findings.push(Finding::error("/generated_at", message));
    }
    let expires = freshness.expires_at.as_deref();
    if let Some(expires) = expires.filter(|it| Timestamp::parse(it).is_none_or(|it| it <= now)) {
        let message = format!("the manifest expired at {expires}; get a newer one");
        findings.push(Finding::error("/freshness/expires_at", message));
    }
    FreshnessReport { freshness: Some(freshness), signature }
}

/// Holds a manifest to the one that was seen before it.
pub(super) fn compare(
    manifest: &Object,
    present: Option<&Freshness>,
    previous: &Object,
    trust: &Trust,
    findings: &mut Vec<Finding>,
) {
    let at = |message: String| Finding::error("/freshness/sequence", message);
    let before = match (entries(previous), Freshness::of(previous)) {
        (Ok(entries), Ok(before)) => {
            let hash = text(previous, "manifest_hash").unwrap_or_default();
            if manifest_hash(previous, &entries) != hash {
                let message = "the previous manifest is not what its manifest_hash says; it cannot be compared with";
                return findings.push(at(message.to_owned()));
            }
            before
        }
        (Err(wrong), _) | (_, Err(wrong)) => {
            return findings.extend(wrong.iter().map(|it| at(format!("previous manifest: {it}"))));
        }
    };
    let Some(before) = before else { return };
    let told = previous.get(MEMBER).and_then(Value::as_object);
    let hash = text(previous, "manifest_hash").unwrap_or_default();
    let signature = told.and_then(|told| told.get("signature"));
    // A key that was retired since was good when the previous manifest was taken.
    if trust.judge(previous, before.message(hash).as_bytes(), signature) == SignatureStatus::Bad {
        return findings
            .push(at("the signature of the previous manifest does not hold".to_owned()));
    }
    let Some(present) = present else {
        let message = format!(
            "the previous manifest has the sequence {}; this one has none",
            before.sequence
        );
        return findings.push(at(message));
    };
    let own = text(manifest, "manifest_hash").unwrap_or_default();
    if present.sequence < before.sequence {
        let message = format!(
            "a step back: sequence {} after {}; somebody shows an old manifest",
            present.sequence, before.sequence
        );
        findings.push(at(message));
    } else if present.sequence == before.sequence && own != hash {
        let message =
            format!("two manifests have the sequence {}: {own} and {hash}", present.sequence);
        findings.push(at(message));
    } else if present.sequence == before.sequence.saturating_add(1)
        && present.previous_manifest_hash.as_deref() != Some(hash)
    {
        let message = format!(
            "the manifest follows {}, and the one before it is {hash}",
            present.previous_manifest_hash.as_deref().unwrap_or("none")
        );
        findings.push(Finding::error("/freshness/previous_manifest_hash", message));
    }
}
