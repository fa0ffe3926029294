//! The declaration: its keys, and the two hashes that bind it.

use std::cmp::Ordering;

use super::types;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value, to_canonical};

/// How large a declaration may be.
pub const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64, values: 100_000 };

/// The keys that every declaration has, in the order in which their mistakes are told.
pub const REQUIRED: [&str; 10] = [
    "adapter_contract_version",
    "adapter_id",
    "adapter_version",
    "input_schema_version",
    "input_schema_hash",
    "output_fields",
    "allowed_policy_fields",
    "validator_name",
    "validator_version",
    "contract_hash",
];

/// The keys that say what became of a contract. No hash covers them.
pub const LIFECYCLE: [&str; 6] = [
    "status",
    "supersedes",
    "replaced_by",
    "published_at",
    "min_verifier_version",
    "distribution_channel",
];

/// A text is no declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON, or too much of it.
    #[error("{0}")]
    Json(#[from] json::Error),
    /// It is something else than an object.
    #[error("declaration is not a JSON object but of type {0}")]
    NoObject(&'static str),
}

/// Reads a declaration.
///
/// # Errors
/// When the text is no JSON object, or exceeds [`LIMITS`].
pub fn read(text: &[u8]) -> Result<Object, ReadError> {
    match json::parse(text, LIMITS)? {
        Value::Object(declaration) => Ok(declaration),
        other => Err(ReadError::NoObject(other.type_name())),
    }
}

/// What may become of a contract.
pub const STATUSES: [&str; 3] = ["active", "deprecated", "revoked"];

/// By which way a contract may have come.
pub const CHANNELS: [&str; 4] =
    ["aigentsy.builtin", "aigentsy.examples", "developer.local", "third_party"];

/// A list of fields has no order, so that nothing can be hashed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} has no order: {why}")]
pub struct Unordered {
    /// The key of the declaration.
    pub key: &'static str,
    /// What stands in the way.
    pub why: &'static str,
}

/// Returns the hash that binds a contract: the SHA-256 of the canonical text of eight of its keys.
///
/// # Errors
/// When a list of fields cannot be sorted.
pub fn contract_hash(declaration: &Object) -> Result<String, Unordered> {
    let mut hashed = Object::with_capacity(8);
    copy(declaration, &mut hashed, "adapter_contract_version", "1.0.0");
    for key in ["adapter_id", "adapter_version", "input_schema_version"] {
        copy(declaration, &mut hashed, key, "");
    }
    for key in ["output_fields", "allowed_policy_fields"] {
        hashed.insert(key, sorted(declaration, key)?);
    }
    for key in ["validator_name", "validator_version"] {
        copy(declaration, &mut hashed, key, "");
    }
    Ok(Digest::of(to_canonical(&hashed.into()).as_bytes()).to_string())
}

/// Returns the hash of what a contract says of its fields: the same of four of its keys.
///
/// # Errors
/// When the list of fields cannot be sorted.
pub fn input_schema_hash(declaration: &Object) -> Result<String, Unordered> {
    let mut hashed = Object::with_capacity(4);
    copy(declaration, &mut hashed, "input_schema_version", "");
    hashed.insert("output_fields", sorted(declaration, "output_fields")?);
    for key in ["validator_name", "validator_version"] {
        copy(declaration, &mut hashed, key, "");
    }
    Ok(Digest::of(to_canonical(&hashed.into()).as_bytes()).to_string())
}

/// Computes both hashes of a declaration anew, and before them the validator that binds the types of its fields, if it
/// has types. What is missing is added at the end.
///
/// # Errors
/// When a list of fields cannot be sorted; then nothing is changed.
pub fn rehash(declaration: &mut Object) -> Result<(), Unordered> {
    for key in ["output_fields", "allowed_policy_fields"] {
        sorted(declaration, key)?;
    }
    if let Some(field_types) = declaration.get(types::FIELD_TYPES) {
        let name = types::validator_name(field_types);
        declaration.insert("validator_name", name);
        declaration.insert("validator_version", types::TYPED_VERSION);
    }
    let hashes = [input_schema_hash(declaration)?, contract_hash(declaration)?];
    for (key, hash) in ["input_schema_hash", "contract_hash"].into_iter().zip(hashes) {
        declaration.insert(key, hash);
    }
    Ok(())
}

/// Returns a declaration without its comments: the members whose names begin with an underscore.
#[must_use]
pub fn without_comments(declaration: &Object) -> Object {
    let members = declaration.iter().filter(|(name, _)| !name.starts_with('_'));
    members.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn copy(from: &Object, to: &mut Object, key: &str, absent: &str) {
    to.insert(key, from.get(key).cloned().unwrap_or_else(|| absent.into()));
}

/// Returns the entries of a list of fields in order. Whatever else stands there is read as the AiGentsy tools do:
/// a text is its characters, an object its names, and what is empty is an empty list.
fn sorted(declaration: &Object, key: &'static str) -> Result<Vec<Value>, Unordered> {
    let mut entries = match declaration.get(key) {
        None | Some(Value::Null | Value::Bool(false) | Value::Int(0)) => return Ok(Vec::new()),
        Some(Value::Float(zero)) if *zero == 0.0 => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries.clone(),
        Some(Value::String(text)) => text.chars().map(|c| c.to_string().into()).collect(),
        Some(Value::Object(object)) => object.keys().map(Value::from).collect(),
        Some(_) => return Err(Unordered { key, why: "it is no list" }),
    };
    // Before they are sorted: an order that only some of them have is none.
    let text = |entry: &Value| entry.as_str().is_some();
    if entries.len() > 1
        && !entries.iter().all(text)
        && entries.iter().any(|entry| number(entry).is_none())
    {
        return Err(Unordered { key, why: "its entries are of different kinds, or no names" });
    }
    entries.sort_by(|one, two| order(one, two).unwrap_or(Ordering::Equal));
    Ok(entries)
}

fn order(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        (one, two) => number(one)?.partial_cmp(&number(two)?),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        // Only the order counts, and no contract with numbers for names is ever registered.
        Value::Int(integer) => Some(*integer as f64),
        Value::BigInt(digits) => digits.parse().ok(),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}
