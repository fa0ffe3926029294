//! Events of a bundle: the hash that chains them, the leaf of the log, and the text that an actor signs.

use super::python;
use crate::digest::Digest;
use crate::json::{Object, Value, to_spaced, write_canonical, write_canonical_str};
use crate::merkle;

/// The members that the hash of an event covers, in the order of their names.
pub(super) const HASHED: [&str; 7] =
    ["actor_id", "deal_id", "event_id", "event_type", "payload", "prev_hash", "timestamp"];

/// Returns the hash of an event.
pub(super) fn hash(event: &Object) -> String {
    let mut text = String::from("{");
    for (index, key) in HASHED.into_iter().enumerate() {
        text.push_str(if index > 0 { ", \"" } else { "\"" });
        text.push_str(key);
        text.push_str("\": ");
        match (event.get(key), key) {
            (Some(value), _) => text.push_str(&to_spaced(value)),
            (None, "payload") => text.push_str("{}"),
            (None, _) => text.push_str("\"\""),
        }
    }
    text.push('}');
    Digest::of(text.as_bytes()).to_string()
}

/// Returns the text that an actor signs for an event.
pub(super) fn signed_text(event: &Object, key_id: &str) -> String {
    let mut text = String::from("{");
    for key in HASHED {
        if key == "payload" {
            text.push_str("\"key_id\":");
            write_canonical_str(&mut text, key_id);
            text.push(',');
        }
        text.push('"');
        text.push_str(key);
        text.push_str("\":");
        match (event.get(key), key) {
            (Some(value), _) => write_canonical(&mut text, value),
            (None, "payload") => text.push_str("{}"),
            (None, _) => text.push_str("\"\""),
        }
        text.push(',');
    }
    text.pop();
    text.push('}');
    text
}

/// Returns the text of an event's leaf in the log; none if one of the five members that it needs is no text.
#[must_use]
pub fn leaf_text(event: &Value) -> Option<String> {
    let mut text = String::from("{");
    for (name, key) in [
        ("deal_id", "deal_id"),
        ("event_hash", "hash"),
        ("event_id", "event_id"),
        ("event_type", "event_type"),
        ("timestamp", "timestamp"),
    ] {
        let value = event.get(key)?.as_str().filter(|value| !value.is_empty())?;
        text.push('"');
        text.push_str(name);
        text.push_str("\":");
        write_canonical_str(&mut text, value);
        text.push(',');
    }
    text.pop();
    text.push('}');
    Some(text)
}

/// Returns the leaf of an event in the log.
#[must_use]
pub fn leaf(event: &Value) -> Option<Digest> {
    leaf_text(event).map(|text| merkle::leaf(text.as_bytes()))
}

/// Returns the events of a bundle; what is no list has none.
pub(super) fn all(bundle: &Value) -> &[Value] {
    bundle.get("events").and_then(Value::as_array).unwrap_or_default()
}

/// Returns the payload of an event, if it is an object.
pub(super) fn payload(event: &Value) -> Option<&Object> {
    event.get("payload")?.as_object()
}

/// Returns a member of an event as text for people: what is not there is empty.
pub(super) fn shown(event: &Value, key: &str) -> String {
    event.get(key).map(python::text).unwrap_or_default()
}

/// Holds the events to their chain.
pub(super) fn chain(bundle: &Value) -> Object {
    let events = all(bundle);
    let mut errors = Vec::new();
    let mut last: Option<&Value> = None;
    for (index, event) in events.iter().enumerate() {
        let Some(object) = event.as_object() else {
            errors.push(format!("Event {index}: not an object, but {}", event.type_name()));
            last = None;
            continue;
        };
        let id = object.get("event_id").map_or_else(|| "?".to_owned(), python::text);
        let claimed = object.get("hash");
        if claimed.and_then(Value::as_str) != Some(&hash(object)) {
            errors.push(format!("Event {index} ({id}): hash mismatch"));
        }
        if index > 0 && (last.is_none() || object.get("prev_hash") != last) {
            errors.push(format!("Event {index} ({id}): prev_hash break"));
        }
        last = claimed;
    }
    if let Some(other) = bundle.get("events").filter(|events| events.as_array().is_none()) {
        errors.push(format!("events: not an array, but {}", other.type_name()));
    }
    let mut step = Object::with_capacity(3);
    step.insert("passed", errors.is_empty());
    step.insert("event_count", events.len());
    step.insert("errors", errors.into_iter().map(Value::from).collect::<Vec<Value>>());
    step
}
