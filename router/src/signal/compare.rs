//! What differs between two contracts, key by key, as the AiGentsy tools tell it.

use std::collections::BTreeMap;

use super::declaration::LIFECYCLE;
use super::same::same;
use crate::json::{Object, Value};

/// A key whose values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference<'a> {
    /// The key.
    pub field: &'a str,
    /// The older value; none if there is none.
    pub old: Option<&'a Value>,
    /// The newer value; none if there is none.
    pub new: Option<&'a Value>,
}

impl Difference<'_> {
    /// Returns what the AiGentsy tools say of the key. They take every key for hashed that is not of the lifecycle.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if LIFECYCLE.contains(&self.field) {
            "lifecycle (discovery-only — does NOT change hash)"
        } else {
            "hash-impacting"
        }
    }
}

/// Lists the keys whose values differ, in their order; comments are none.
#[must_use]
pub fn differences<'a>(old: &'a Object, new: &'a Object) -> Vec<Difference<'a>> {
    let mut values: BTreeMap<&str, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
    for (field, value) in old {
        values.entry(field).or_default().0 = Some(value);
    }
    for (field, value) in new {
        values.entry(field).or_default().1 = Some(value);
    }
    let told = values
        .into_iter()
        .filter(|(field, (old, new))| !field.starts_with('_') && !same(*old, *new));
    told.map(|(field, (old, new))| Difference { field, old, new }).collect()
}
