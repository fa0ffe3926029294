//! Manifests: lists of entries that a publisher signed.
//!
//! The hash of a manifest covers its publisher and the hashes of its entries. What else keeps an old manifest from being
//! taken for the present one is in its [`Freshness`], which the AiGentsy tools pass over.

mod build;
mod freshness;
mod source;
mod verify;

pub use build::{Builder, Built, Problem, seal};
pub use freshness::{Freshness, FreshnessReport};
pub use source::{Source, gather, is_named};
pub use verify::{HashStatus, Report, Row, Rules, Top, check_row, check_top, verify};

use super::Finding;
use super::declaration::STATUSES;
use super::entry::{entry_status, text};
use super::publisher::Trust;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value, to_canonical};

/// The largest manifest that is read.
pub const LIMITS: Limits = Limits { bytes: 64 << 20, depth: 64, values: 1_000_000 };

/// A text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// It is JSON, and no object.
    #[error("the document is {0}, and must be an object")]
    NoObject(&'static str),
}

/// Reads a JSON object: a manifest, an entry, a publisher document, a pin file, a declaration.
///
/// # Errors
/// When the text is no JSON, or no object.
pub fn read_object(text: &[u8]) -> Result<Object, Malformed> {
    let value = json::parse(text, LIMITS)?;
    let kind = value.type_name();
    value.into_object().ok_or(Malformed::NoObject(kind))
}

/// Returns the entries of a manifest; what is empty in any way is an empty list.
///
/// # Errors
/// Everything in it that is no entry.
pub fn entries(manifest: &Object) -> Result<Vec<&Object>, Vec<String>> {
    let entries = match manifest.get("contracts") {
        None | Some(Value::Null | Value::Bool(false) | Value::Int(0)) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(Value::Object(members)) if members.is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(other) => {
            return Err(vec![format!("contracts is {}, and must be an array", other.type_name())]);
        }
    };
    let wrong: Vec<String> = (entries.iter().enumerate())
        .filter(|(_, entry)| entry.as_object().is_none())
        .map(|(at, it)| format!("contracts/{at} is {}, and must be an object", it.type_name()))
        .collect();
    if wrong.is_empty() {
        Ok(entries.iter().filter_map(Value::as_object).collect())
    } else {
        Err(wrong)
    }
}

/// Returns the hash of a manifest: over its publisher, and the hashes that its entries say they have, in their order.
#[must_use]
pub fn manifest_hash(manifest: &Object, entries: &[&Object]) -> String {
    let member = |key: &str, absent: &str| manifest.get(key).cloned().unwrap_or(absent.into());
    let hashes = entries.iter().map(|it| it.get("entry_hash").cloned().unwrap_or("".into()));
    let mut hashed = Object::with_capacity(4);
    hashed.insert("manifest_schema_version", member("manifest_schema_version", "1.0.0"));
    hashed.insert("ordered_entry_hashes", hashes.collect::<Vec<Value>>());
    hashed.insert("publisher_id", member("publisher_id", ""));
    hashed.insert("publisher_key_id", member("publisher_key_id", ""));
    Digest::of(to_canonical(&hashed.into()).as_bytes()).to_string()
}

/// Returns the entry of a version of a contract, with its place: of several the one with the worst status, or the
/// first.
#[must_use]
pub fn find<'a>(entries: &[&'a Object], id: &str, version: &str) -> Option<(usize, &'a Object)> {
    let is_it = |entry: &Object| {
        text(entry, "adapter_id") == Some(id) && text(entry, "adapter_version") == Some(version)
    };
    let found = entries.iter().enumerate().filter(|(_, entry)| is_it(entry));
    // A revocation is not undone by an entry that stands before it.
    let worst = |(at, entry): &(usize, &&Object)| (badness(entry), std::cmp::Reverse(*at));
    found.max_by_key(worst).map(|(at, entry)| (at, *entry))
}

/// Returns how bad the status of an entry is. One that is not known is worse than any other.
pub(super) fn badness(entry: &Object) -> usize {
    let status = entry_status(entry);
    STATUSES.iter().position(|known| Some(*known) == status).unwrap_or(STATUSES.len())
}

/// Returns what is wrong with how fresh a manifest says it is; nothing if it says nothing.
#[must_use]
pub fn check_freshness(manifest: &Object, trust: &Trust, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    freshness::check(manifest, trust, now, &mut findings);
    findings
}
