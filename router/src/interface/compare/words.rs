//! Says in words what changed.

use super::place::Place;
use super::{Change, Class};
use crate::json::{Value, to_compact};

/// Makes a change of what is to be said of a place.
pub(super) fn change(class: Class, place: &Place<'_>, text: String) -> Change {
    let label = place.label();
    let message = if label.is_empty() { text } else { format!("{label}: {text}") };
    Change { class, pointer: place.pointer(), message, operation: None }
}

/// Says in words how a keyword changed.
pub(super) fn worded(keyword: &str, was: Option<&Value>, is: Option<&Value>) -> String {
    match (was, is) {
        (Some(was), Some(is)) => format!("{keyword} {} became {}", short(was), short(is)),
        (None, Some(is)) => format!("{keyword} {} is new", short(is)),
        (was, None) => format!("{keyword} {} is gone", was.map(short).unwrap_or_default()),
    }
}

/// Writes a value as long as a person would read it.
pub(super) fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let flat = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    match value {
        Value::Array(items) if items.len() > 8 || !items.iter().all(flat) => {
            format!("(a list of {})", items.len())
        }
        Value::Object(members) if !members.is_empty() => {
            format!("(an object of {})", members.len())
        }
        Value::String(text) if text.chars().nth(MOST).is_some() => {
            let cut: String = text.chars().take(MOST).collect();
            format!("{}…", to_compact(&cut.into()))
        }
        _ => {
            let text = to_compact(value);
            match text.char_indices().nth(MOST * 4) {
                Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
                None => text,
            }
        }
    }
}
