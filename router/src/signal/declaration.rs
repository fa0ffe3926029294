//! The declaration: its keys, and the two hashes that bind it.

use std::cmp::Ordering;

use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical};

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

/// Returns a declaration without its comments: the members whose names begin with an underscore.
#[must_use]
pub fn without_comments(declaration: &Object) -> Object {
    let mut rest = Object::with_capacity(declaration.len());
    for (name, value) in declaration.iter().filter(|(name, _)| !name.starts_with('_')) {
        rest.insert(name, value.clone());
    }
    rest
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
    let mut why = None;
    entries.sort_by(|one, two| {
        order(one, two).unwrap_or_else(|| {
            why = Some("its entries are of different kinds");
            Ordering::Equal
        })
    });
    match why {
        Some(why) => Err(Unordered { key, why }),
        None => Ok(entries),
    }
}

fn order(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        _ => number(one)?.partial_cmp(&number(two)?),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        // Only the order counts, and no contract with numbers for names is ever registered.
        #[expect(clippy::cast_precision_loss)]
        Value::Int(integer) => Some(*integer as f64),
        Value::BigInt(digits) => digits.parse().ok(),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}
