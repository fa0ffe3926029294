//! Compares the defaults of two schemas, by the value that each is for.
//!
//! A default is what a caller asks for that omits a value. A new default promises more than before and is minor, if it
//! fits its own schema. One that includes the old one is minor, too: a larger number, or a list or an object with
//! everything that was in the old one. Any other change means something else to callers that omit the value, and is
//! major; so is a default that is gone. In an output, a default only describes.

use std::collections::HashSet;

use super::super::keyword::number;
use super::index::{DefaultEntry, SchemaIndex};
use super::proof::SchemaProver;
use super::values::key;
use super::words::worded;
use super::{Change, Class};
use crate::json::Value;

/// The steps that looking whether a default fits may take.
const MAX_STEPS: usize = 20_000;

/// Lists the changes of defaults.
pub(super) fn changes(old: &Value, new: &Value, is_output: bool, pointer: &str) -> Vec<Change> {
    if !mentions_default(old) && !mentions_default(new) {
        return Vec::new();
    }
    let (Some(was), Some(is)) =
        (SchemaIndex::of(old, old, pointer), SchemaIndex::of(new, new, pointer))
    else {
        let (class, pointer) = (Class::Major, pointer.to_owned());
        let message = "has too many schemas to compare their defaults".to_owned();
        return vec![Change { class, pointer, message, operation: None }];
    };
    let mut changes = differences(was, &is);
    if is_output {
        changes.iter_mut().for_each(|change| change.class = Class::Patch);
    }
    changes
}

fn differences<'a>(was: SchemaIndex<'a>, is: &SchemaIndex<'a>) -> Vec<Change> {
    let mut unmatched: Vec<&DefaultEntry<'_>> = is.entries.iter().collect();
    // The same default in the same place is not a change.
    let mut gone = remove_matching(was.entries, &mut unmatched, |old, new| {
        old.path == new.path && key(old.value) == key(new.value)
    });
    // Variants may be told apart in another way now.
    let paths = |paths: &mut dyn Iterator<Item = &String>| paths.cloned().collect::<HashSet<_>>();
    let was_known = paths(&mut gone.iter().map(|old| &old.path));
    let is_known = paths(&mut unmatched.iter().map(|new| &new.path));
    gone = remove_matching(gone, &mut unmatched, |old, new| {
        old.plain_path == new.plain_path
            && key(old.value) == key(new.value)
            && !is_known.contains(&old.path)
            && !was_known.contains(&new.path)
    });
    let mut changes = Vec::new();
    for by_variant in [true, false] {
        let mut rest = Vec::new();
        for old in gone {
            let found = unmatched.iter().position(|new| match by_variant {
                true => old.path == new.path,
                false => old.plain_path == new.plain_path,
            });
            match found {
                Some(index) => {
                    changes.extend(changed(Some(&old), Some(unmatched.remove(index))));
                }
                None => rest.push(old),
            }
        }
        gone = rest;
    }
    // The comparison of members reports values that are gone.
    for old in gone.iter().filter(|old| is.visited.contains(&old.plain_path)) {
        changes.extend(changed(Some(old), None));
    }
    for new in unmatched {
        let change = changed(None, Some(new));
        let is_known = was.visited.contains(&new.plain_path);
        changes.extend(change.filter(|change| is_known || change.class == Class::Major));
    }
    changes
}

/// Removes the entries that match one of others, each once, and returns the rest.
fn remove_matching<'a>(
    old: Vec<DefaultEntry<'a>>,
    new: &mut Vec<&DefaultEntry<'a>>,
    is_match: impl Fn(&DefaultEntry<'a>, &DefaultEntry<'a>) -> bool,
) -> Vec<DefaultEntry<'a>> {
    let mut is_unmatched = |old: &DefaultEntry<'a>| {
        let found = new.iter().position(|new| is_match(old, new));
        found.map(|index| new.remove(index)).is_none()
    };
    old.into_iter().filter(|old| is_unmatched(old)).collect()
}

fn changed(old: Option<&DefaultEntry<'_>>, new: Option<&DefaultEntry<'_>>) -> Option<Change> {
    let (was, is) = (old.map(|old| old.value), new.map(|new| new.value));
    let entry = new.or(old)?;
    let text = worded("default", was, is);
    let (class, reason) = match (was, is) {
        (_, Some(is)) if does_not_fit(is, entry) => (Class::Major, ", and does not fit its schema"),
        (Some(was), Some(is)) if !includes(is, was) => {
            (Class::Major, "; callers that omit it get something else")
        }
        (Some(_), None) => (Class::Major, "; callers that omit it relied on it"),
        _ => (Class::Minor, ""),
    };
    let DefaultEntry { pointer, label, .. } = entry;
    let message = match label.is_empty() {
        true => format!("{text}{reason}"),
        false => format!("{label}: {text}{reason}"),
    };
    Some(Change { class, pointer: pointer.clone(), message, operation: None })
}

/// Returns whether a default does not fit its own schema.
fn does_not_fit(value: &Value, entry: &DefaultEntry<'_>) -> bool {
    SchemaProver::new(MAX_STEPS).evaluate(value, entry.schema) == Some(false)
}

/// Returns whether a default includes another one: everything that the other one asked for.
fn includes(is: &Value, was: &Value) -> bool {
    match (was, is) {
        (Value::Array(was), Value::Array(is)) => {
            let now: HashSet<String> = is.iter().map(key).collect();
            was.iter().all(|item| now.contains(&key(item)))
        }
        (Value::Object(was), Value::Object(is)) => was
            .iter()
            .all(|(name, member)| is.get(name).is_some_and(|other| includes(other, member))),
        _ => match (number(was), number(is)) {
            (Some(was), Some(is)) => is >= was,
            _ => key(was) == key(is),
        },
    }
}

fn mentions_default(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(mentions_default),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name == "default" || mentions_default(value))
        }
        _ => false,
    }
}
