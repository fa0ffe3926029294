//! Whether the bundle of a run is what was sealed.

use std::path::Path;

use super::statement;
use crate::bundle;
use crate::evidence::manifest;
use crate::evidence::verify::{Finding, Kind, Reason, Verdict, basis, reason};
use crate::files;
use crate::json::{self, Limits, Value};
use crate::seal::{self, Trust, Verified};

/// A larger file is no bundle.
pub const MAX_BUNDLE: usize = Limits::BUNDLE.bytes;

/// Why a bundle is not what was sealed.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// It is no bundle, or says other digests than it has.
    #[error("it is no sound bundle: {0}")]
    Bundle(#[from] bundle::Error),
    /// It has members that no bundle has.
    #[error("it has the member {0:?}, which no bundle has and nothing vouches for")]
    Strange(String),
    /// A member is missing that every sealed bundle has.
    #[error("the member {0:?} is missing, which every sealed bundle has")]
    Missing(&'static str),
    /// It has no seal.
    #[error("it has no seal: {0:?} is missing")]
    Unsealed(&'static str),
    /// Its seal is not genuine.
    #[error(transparent)]
    Seal(#[from] seal::Broken),
    /// Its seal is of something else.
    #[error(
        "its seal is genuine, and of something else: {0} of the statement is not that of the bundle"
    )]
    Other(&'static str),
}

impl Broken {
    /// Returns why it is not genuine, in the words of verdicts, and the member that it lies in.
    fn reason(&self) -> (Reason, &'static str) {
        match self {
            Self::Bundle(bundle::Error::DigestMismatch(_)) => (Reason::HashMismatch, "digests"),
            Self::Bundle(bundle::Error::ChainMismatch { .. }) => (Reason::HashMismatch, "chain"),
            Self::Bundle(_) => (Reason::Malformed, ""),
            Self::Strange(_) => (Reason::Unlisted, ""),
            Self::Missing(name) => (Reason::Missing, *name),
            Self::Unsealed(_) => (Reason::Unsealed, ""),
            Self::Other(_) => (Reason::StatementMismatch, "attestation"),
            Self::Seal(broken) => {
                let (reason, file) = reason(broken);
                let member = if file == manifest::PROOF { "proof" } else { "attestation" };
                (reason, member)
            }
        }
    }
}

/// Judges the file of an exported run.
#[must_use]
pub fn judge(file: &Path, trust: Option<&Trust>) -> Verdict {
    let mut verdict = Verdict::new(file.display().to_string(), Kind::Run, 1);
    let mut find = |reason, member: &str, message: String| {
        verdict.findings.push(Finding::new(reason, member, message));
    };
    let bytes = match files::read_bounded(file, MAX_BUNDLE) {
        Ok(bytes) if bytes.len() > MAX_BUNDLE => {
            let message = format!("it has more than {MAX_BUNDLE} bytes");
            find(Reason::FileTooLarge, "", message);
            return verdict;
        }
        Ok(bytes) => bytes,
        Err(error) => {
            find(Reason::Unreadable, "", error.to_string());
            return verdict;
        }
    };
    let Some(trust) = trust else {
        let message = "no keys are given that could be trusted; name a trust.json";
        find(Reason::NoTrust, "", message.to_owned());
        return verdict;
    };
    match verify(&bytes, trust) {
        Ok(verified) => {
            verdict.checked = vec!["digests", "chain", "signature", "inclusion", "statement"];
            let subject = verified.statement.subjects.first();
            verdict.manifest_sha256 = subject.map(|subject| subject.sha256);
            verdict.rests_on = Some(basis(&verified));
        }
        Err(broken) => {
            let (reason, member) = broken.reason();
            find(reason, member, broken.to_string());
        }
    }
    verdict
}

/// Verifies the bundle of a run: the seal in it is genuine, and of this run. When it was exported, and from where, nobody
/// vouches for.
///
/// # Errors
/// Why it is not genuine.
pub fn verify(bytes: &[u8], trust: &Trust) -> Result<Verified, Broken> {
    let value = json::parse(bytes, Limits::BUNDLE).map_err(bundle::Error::from)?;
    let content = bundle::content(&value)?;
    if let Some(name) = content.strange.first() {
        return Err(Broken::Strange(name.clone()));
    }
    let missing =
        ["exported_at", "digests", "chain"].into_iter().find(|name| value.get(name).is_none());
    if let Some(name) = missing {
        return Err(Broken::Missing(name));
    }
    let attestation = value.get("attestation").ok_or(Broken::Unsealed("attestation"))?;
    let proof = value.get("proof").and_then(Value::as_str).ok_or(Broken::Unsealed("proof"))?;
    let (leaf, expected) = statement::of(&content);
    let line = format!("{}\n", json::to_compact(attestation));
    let verified = seal::verify(trust, leaf, line.as_bytes(), proof)?;
    let found = &verified.statement;
    if found.subjects != expected.subjects {
        return Err(Broken::Other("the subject"));
    }
    // Another version of the program may have sealed it, under another table of roles: that is said, and signed.
    let without_environment = |predicate: &Value| {
        let mut predicate = predicate.as_object().cloned().unwrap_or_default();
        predicate.remove("environment");
        predicate
    };
    if found.predicate_type != expected.predicate_type
        || without_environment(&found.predicate) != without_environment(&expected.predicate)
    {
        return Err(Broken::Other("the predicate"));
    }
    Ok(verified)
}
