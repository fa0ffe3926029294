//! The examination of a seal: who signed what, and whether the log has it.

use super::exam::{Claim, Exam};
use super::verdict::{Basis, Reason};
use crate::attest::{self, Link};
use crate::digest::Digest;
use crate::evidence::manifest::{ATTESTATION, PROOF};
use crate::evidence::statement::ROLE_TABLE;
use crate::json::Value;
use crate::merkle;
use crate::role;
use crate::seal::{Broken, Trust, Verified, verify};
use crate::tlog;

/// Examines the seal of a bundle, which must be about what was found in the bundle.
pub(super) fn examine(
    exam: &mut Exam,
    claim: Option<Claim>,
    trust: Option<&Trust>,
    hashes_only: bool,
) {
    if hashes_only {
        return;
    }
    if !exam.contents.cut && exam.digest(ATTESTATION).is_none() && exam.digest(PROOF).is_none() {
        let message = "there is no attestation: anyone can have written this";
        return exam.tell(Reason::Unsealed, "", message);
    }
    for file in [ATTESTATION, PROOF] {
        if exam.digest(file).is_none() {
            exam.missing(file);
        }
    }
    let Some(trust) = trust else {
        let message = "no keys are given that could be trusted; name a trust.json";
        return exam.tell(Reason::NoTrust, "", message);
    };
    let (Some(claim), Some(attestation), Some(proof)) =
        (claim, exam.bytes(ATTESTATION), exam.bytes(PROOF))
    else {
        // Whatever is missing was told; what is left can only be said to be no seal of this.
        return;
    };
    let Ok(proof) = std::str::from_utf8(proof) else {
        return exam.tell(Reason::BadProof, PROOF, "it is no UTF-8");
    };
    match verify(trust, claim.leaf, attestation, proof) {
        Ok(verified) => {
            exam.checked("signature");
            exam.checked("inclusion");
            let differs = differs(&claim, &verified);
            match differs {
                None => {
                    exam.checked("statement");
                    stands(exam, &claim, &verified);
                }
                Some(message) => exam.tell(Reason::StatementMismatch, ATTESTATION, message),
            }
        }
        Err(broken) => {
            let (reason, file) = reason(&broken);
            exam.tell(reason, file, broken.to_string());
        }
    }
}

/// Records what the verdict rests on.
fn stands(exam: &mut Exam, claim: &Claim, verified: &Verified) {
    // It was read as a statement, so it is written again as the same bytes.
    let statement = verified.statement.to_bytes().unwrap_or_default();
    let entry = claim.leaf.entry(Digest::of(&statement)).to_bytes();
    exam.verdict.leaf_hash = Some(merkle::leaf(&entry));
    exam.verdict.rests_on = Some(basis(verified));
}

/// Returns what a verdict rests on whose seal holds.
pub(crate) fn basis(verified: &Verified) -> Basis {
    let signers = verified.checkpoint.signers();
    Basis {
        attestation_key: verified.key,
        leaf: verified.index,
        log_key: signers.first().map_or_else(String::new, ToString::to_string),
        tree_size: verified.checkpoint.size,
        tree_root: verified.checkpoint.root,
    }
}

/// Says what a statement says otherwise than the files.
fn differs(claim: &Claim, verified: &Verified) -> Option<String> {
    let statement = &verified.statement;
    if statement.subjects != claim.subjects {
        return Some("its subjects are not the files of this bundle".to_owned());
    }
    let link = match Link::of(statement) {
        Ok(link) => link,
        Err(error) => return Some(error.to_string()),
    };
    let table = link.environment.get(ROLE_TABLE).and_then(Value::as_str);
    if table != Some(role::TABLE_SHA256) {
        let found = table.unwrap_or("nothing");
        let expected = role::TABLE_SHA256;
        return Some(format!("{ROLE_TABLE} is {found}, and the frozen table has {expected}"));
    }
    let expected = (claim.link)(link.environment.clone());
    let parts = [
        ("name", link.name == expected.name),
        ("command", link.command == expected.command),
        ("materials", link.materials == expected.materials),
        ("byproducts", link.byproducts == expected.byproducts),
        ("environment", link.environment == expected.environment),
    ];
    let (name, _) = parts.into_iter().find(|(_, same)| !same)?;
    Some(format!("its {name} is not what the files of this bundle say"))
}

/// Returns why a seal does not hold, in the words of verdicts, and the file that it lies in.
pub(crate) fn reason(broken: &Broken) -> (Reason, &'static str) {
    match broken {
        Broken::Attestation(attest::Error::UnknownKey { .. }) => {
            (Reason::UntrustedKey, ATTESTATION)
        }
        Broken::Attestation(attest::Error::BadSignature(_)) => (Reason::BadSignature, ATTESTATION),
        Broken::Attestation(_) | Broken::Payload(_) => (Reason::Malformed, ATTESTATION),
        Broken::KeyOutOfRange { .. } => (Reason::ExpiredKey, ATTESTATION),
        Broken::Proof(tlog::Error::UnknownKey { .. } | tlog::Error::Origin { .. }) => {
            (Reason::UntrustedLog, PROOF)
        }
        Broken::Proof(_) | Broken::Added(_) => (Reason::BadProof, PROOF),
        Broken::LogKeyOutOfRange { .. } => (Reason::ExpiredKey, PROOF),
    }
}
