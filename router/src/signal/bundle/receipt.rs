//! Attestations, and receipts of time stamps for tree heads.

use super::python;
use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical, to_repr};
use crate::key::{PublicKey, Signature};

/// Says whether an attestation is signed by a key: over its compact text.
#[must_use]
pub fn attestation_holds(
    attestation: &Value,
    signature: &str,
    algorithm: &str,
    key: &PublicKey,
) -> bool {
    let signature: Option<Signature> = signature.parse().ok();
    algorithm == "Ed25519"
        && signature
            .is_some_and(|signature| key.verifies(to_canonical(attestation).as_bytes(), &signature))
}

/// Holds a receipt to the tree head that it is for. The time stamp itself is not verified.
#[must_use]
pub fn anchor_receipt(receipt: &Value) -> (bool, Object) {
    let mut details = Object::with_capacity(10);
    for key in ["sth_digest_match", "fields_present", "tsa_granted"] {
        details.insert(key, false);
    }
    let fail = |details: &mut Object, error: String| {
        details.insert("errors", vec![Value::from(error)]);
    };
    let missing = |object: &Value, names: &[&str]| {
        let names: Vec<Value> = names
            .iter()
            .filter(|name| object.get(name).is_none())
            .map(|name| Value::from(*name))
            .collect();
        (!names.is_empty()).then(|| to_repr(&names.into()))
    };
    if let Some(names) = missing(receipt, &FIELDS) {
        fail(&mut details, format!("Missing fields: {names}"));
        return (false, details);
    }
    let head = receipt.get("sth").unwrap_or(&Value::Null);
    if let Some(names) = missing(head, &["tree_size", "root_hash", "timestamp", "signature"]) {
        fail(&mut details, format!("Missing STH fields: {names}"));
        return (false, details);
    }
    details.insert("fields_present", true);
    let text = |key: &str| receipt.get(key).map(python::text).unwrap_or_default();
    let algorithm = text("sth_digest_algorithm");
    if algorithm != "SHA-256" {
        fail(&mut details, format!("Unsupported digest algorithm: {algorithm}"));
        return (false, details);
    }
    let computed = Digest::of(to_canonical(head).as_bytes()).to_string();
    let claimed = text("sth_digest");
    let same = computed == claimed;
    details.insert("sth_digest_match", same);
    let status = text("tsa_status");
    let granted = same && status == "granted";
    details.insert("tsa_granted", granted);
    let stamped = python::truthy(receipt.get("tsr_base64"));
    let start = |text: &str| text.chars().take(16).collect::<String>();
    let error = if !same {
        let (computed, claimed) = (start(&computed), start(&claimed));
        Some(format!("STH digest mismatch: computed={computed}... claimed={claimed}..."))
    } else if !granted {
        let status = receipt.get("tsa_status").map(to_repr).unwrap_or_default();
        Some(format!("TSA status is {status}, not 'granted'"))
    } else if !stamped {
        Some("tsr_base64 is empty — cannot verify externally".to_owned())
    } else {
        None
    };
    details.insert("errors", error.into_iter().map(Value::from).collect::<Vec<Value>>());
    details.insert("computed_digest", computed);
    details.insert("claimed_digest", claimed);
    if granted {
        details.insert("tsr_present", stamped);
        for key in ["anchor_id", "anchor_method", "anchored_at"] {
            details.insert(key, receipt.get(key).cloned().unwrap_or(Value::Null));
        }
    }
    (granted, details)
}

/// The members that a receipt has to have.
const FIELDS: [&str; 9] = [
    "receipt_version",
    "anchor_id",
    "sth",
    "sth_digest",
    "sth_digest_algorithm",
    "anchor_method",
    "tsa_url",
    "tsa_status",
    "anchored_at",
];
