//! The entry of a contract in a manifest: its fifteen hashed keys, its hash and its signature.

use super::declaration::STATUSES;
use super::pattern::{is_hash, is_id, is_pointer, is_semver};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical};
use crate::key::SigningKey;

/// The keys that the hash of an entry covers, in the order in which they are written. A key that is not there counts as an
/// empty text; one that is `null` as `null`.
pub const HASHED: [&str; 15] = [
    "entry_schema_version",
    "adapter_id",
    "adapter_version",
    "contract_hash",
    "input_schema_hash",
    "status",
    "distribution_channel",
    "published_at",
    "docs_url",
    "declaration_url",
    "release_notes",
    "supersedes",
    "replaced_by",
    "publisher_id",
    "publisher_key_id",
];

/// Returns the hash of an entry: the SHA-256 of the canonical text of its fifteen keys.
#[must_use]
pub fn entry_hash(entry: &Object) -> String {
    let mut hashed = Object::with_capacity(HASHED.len());
    for key in HASHED {
        hashed.insert(key, entry.get(key).cloned().unwrap_or_else(|| "".into()));
    }
    Digest::of(to_canonical(&hashed.into()).as_bytes()).to_string()
}

/// What a publisher says of a contract, besides what the contract says itself.
#[derive(Clone, Debug, Default)]
pub struct Publication {
    /// What became of it.
    pub status: String,
    /// By which way it comes.
    pub channel: String,
    /// When it was published.
    pub published_at: String,
    /// Where it is documented.
    pub docs_url: String,
    /// Where the declaration is.
    pub declaration_url: String,
    /// What is new.
    pub release_notes: String,
    /// The version that it takes the place of: `ID@VERSION`.
    pub supersedes: String,
    /// The version that takes its place: `ID@VERSION`.
    pub replaced_by: String,
    /// Who publishes it.
    pub publisher_id: String,
    /// With which key.
    pub publisher_key_id: String,
}

impl Publication {
    /// Returns the entry of a declaration, not signed.
    #[must_use]
    pub fn entry(&self, declaration: &Object) -> Object {
        let mut entry = Object::with_capacity(HASHED.len() + 2);
        entry.insert("entry_schema_version", "1.0.0");
        for key in ["adapter_id", "adapter_version", "contract_hash", "input_schema_hash"] {
            entry.insert(key, declaration.get(key).cloned().unwrap_or_else(|| "".into()));
        }
        let said = [
            &self.status,
            &self.channel,
            &self.published_at,
            &self.docs_url,
            &self.declaration_url,
            &self.release_notes,
            &self.supersedes,
            &self.replaced_by,
            &self.publisher_id,
            &self.publisher_key_id,
        ];
        for (key, text) in HASHED[5..].iter().zip(said) {
            entry.insert(*key, text.as_str());
        }
        entry
    }
}

/// Writes the hash of an entry into it, and the signature of a key for that.
pub fn sign_entry(entry: &mut Object, key: &SigningKey) {
    let hash = entry_hash(entry);
    let signature = key.sign(hash.as_bytes());
    entry.insert("entry_hash", hash);
    entry.insert("entry_signature", signature.to_string());
}

/// Returns what is wrong with the form of an entry: a name, a version or a hash that is none. The hash of an entry holds
/// for any value, so that it says nothing about this.
#[must_use]
pub fn entry_form(entry: &Object) -> Vec<&'static str> {
    let holds = |key: &str, rule: fn(&str) -> bool| text(entry, key).is_some_and(rule);
    let mut wrong = Vec::new();
    if !holds("adapter_id", is_id) {
        wrong.push("adapter_id must be reverse-DNS style");
    }
    if !holds("adapter_version", is_semver) {
        wrong.push("adapter_version is not semver MAJOR.MINOR.PATCH");
    }
    if !holds("contract_hash", is_hash) {
        wrong.push("contract_hash is not a sha256 hex digest (64 lowercase hex chars)");
    }
    if !holds("input_schema_hash", is_hash) {
        wrong.push("input_schema_hash is not a sha256 hex digest (64 lowercase hex chars)");
    }
    wrong
}

/// Returns the pointers of an entry that lead nowhere, as they are no `ID@VERSION`.
#[must_use]
pub fn bad_pointers(entry: &Object) -> Vec<&'static str> {
    let is_bad = |key: &&str| match entry.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::String(pointer)) => !pointer.is_empty() && !is_pointer(pointer),
        Some(_) => true,
    };
    ["supersedes", "replaced_by"].into_iter().filter(is_bad).collect()
}

/// Returns the status of an entry; one that says nothing is active. None if it is no status.
#[must_use]
pub fn entry_status(entry: &Object) -> Option<&str> {
    match entry.get("status") {
        None => Some("active"),
        Some(status) => status.as_str().filter(|status| STATUSES.contains(status)),
    }
}

/// Returns `ID@VERSION` of an entry, or of a pin, for people.
#[must_use]
pub fn entry_name(entry: &Object) -> String {
    let part = |key| text(entry, key).unwrap_or("?");
    format!("{}@{}", part("adapter_id"), part("adapter_version"))
}

/// Writes a time as entries do: to the second.
#[must_use]
pub fn to_seconds(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.split('.').next().unwrap_or(&text))
}

/// Returns a member that is a text.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}
