//! What equal executions give differently is taken out before sealing, by a frozen table, and kept aside.
//!
//! In a scout's result, sources and errors, members are removed by their exact names, at any depth. The outputs
//! of the eight frozen services are trimmed by pointers instead, for there a timestamp may be what was asked for.
//! An envoy's texts are changed only by the redactor that its inputs name. Whatever is taken out is returned, by
//! pointers into what was given, and belongs into `volatile/removed.json`.

mod redact;
mod table;

use super::canonical::{self, Domain};
use super::finding::{Finding, below};
use crate::digest::Digest;
use crate::json::{self, Object, Value};
use crate::role::Role;

pub use redact::Redactor;
pub use table::{NAMES, TABLE_ID, TABLE_SHA256, pointers, table};

/// The revision of the role contract whose normalization this is.
pub const VALIDATES: &str = "1.1.0";

/// An output as it is sealed, and what was taken out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalized {
    value: Value,
    text: String,
    removed: Vec<(String, Value)>,
}

impl Normalized {
    /// Returns the output.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Returns its canonical text: the bytes of `outputs/parsed.json`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what was taken out, each with its pointer into what was given.
    #[must_use]
    pub fn removed(&self) -> &[(String, Value)] {
        &self.removed
    }

    /// Returns the bytes of `volatile/removed.json`, if anything was taken out.
    #[must_use]
    pub fn removed_text(&self) -> Option<String> {
        // Not RFC 8785: what is removed may hold numbers that it cannot write.
        let object = || self.removed.iter().cloned().collect::<Object>();
        (!self.removed.is_empty()).then(|| json::to_canonical(&object().into()))
    }

    fn new(value: Value, removed: Vec<(String, Value)>) -> Result<Self, Finding> {
        let text = canonical::text(&value, Domain::Payload)?;
        Ok(Self { value, text, removed })
    }
}

/// The fields of a scout's output in which members are removed by name.
const SCOUT_FIELDS: [&str; 3] = ["result", "sources", "errors"];

/// Normalizes the output of a role. `operation` is `<adapter>.<operation>` when it came from one of the frozen
/// services, whose output then is the result.
///
/// # Errors
/// `inexact_number:<pointer>` when what is left holds a number that programs disagree about.
pub fn normalize(
    role: Role,
    operation: Option<&str>,
    redactor: Redactor,
    mut output: Value,
) -> Result<Normalized, Finding> {
    let mut removed = Vec::new();
    let pointers = operation.and_then(pointers);
    if let Value::Object(object) = &mut output {
        match role {
            Role::Scout => {
                for field in SCOUT_FIELDS {
                    let Some(value) = object.get_mut(field) else { continue };
                    match pointers {
                        Some(pointers) if field == "result" => {
                            cut(value, pointers, "/result", &mut removed);
                        }
                        _ => strip(value, &mut format!("/{field}"), &mut removed),
                    }
                }
                if let Some(Value::Array(sources)) = object.get_mut("sources") {
                    order(sources, &mut removed)?;
                }
            }
            Role::Envoy => {
                for field in ["stdout", "stderr"] {
                    let Some(Value::String(text)) = object.get_mut(field) else { continue };
                    if let Some(clean) = redactor.redact_text(text) {
                        removed.push((format!("/{field}"), std::mem::replace(text, clean).into()));
                    }
                }
            }
        }
    }
    Normalized::new(output, removed)
}

/// Normalizes what an operation of a frozen service gives, where that is no role's output. What the table does not
/// know stays as it is.
///
/// # Errors
/// As [`normalize`].
pub fn normalize_service(operation: &str, mut output: Value) -> Result<Normalized, Finding> {
    let mut removed = Vec::new();
    cut(&mut output, pointers(operation).unwrap_or_default(), "", &mut removed);
    Normalized::new(output, removed)
}

/// Removes the members of a source's answer to which its own `volatile` pointers lead. Returns them with their pointers.
#[must_use]
pub fn remove_volatile(answer: &mut Value, volatile: &[String]) -> Vec<(String, Value)> {
    let mut removed = Vec::new();
    for pointer in volatile {
        if let Some((parent, name)) = pointer.rsplit_once('/')
            && let Some(Value::Object(object)) = answer.pointer_mut(parent)
            && let Some(value) = object.remove(&name.replace("~1", "/").replace("~0", "~"))
        {
            removed.push((pointer.clone(), value));
        }
    }
    removed
}

/// Removes the members of a source's answer whose names the table removes, at any depth. Returns them with their
/// pointers.
#[must_use]
pub fn remove_named(answer: &mut Value) -> Vec<(String, Value)> {
    let mut removed = Vec::new();
    strip(answer, &mut String::new(), &mut removed);
    removed
}

/// Removes members by name, at any depth.
fn strip(value: &mut Value, place: &mut String, removed: &mut Vec<(String, Value)>) {
    let length = place.len();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                place.push_str(&format!("/{index}"));
                strip(item, place, removed);
                place.truncate(length);
            }
        }
        Value::Object(object) => {
            let gone: Vec<String> =
                object.keys().filter(|name| table::is_removed(name)).map(str::to_owned).collect();
            for name in gone {
                if let Some(value) = object.remove(&name) {
                    removed.push((below(place, &name), value));
                }
            }
            for (name, value) in object.iter_mut() {
                if !matches!(value, Value::Array(_) | Value::Object(_)) {
                    continue;
                }
                *place = below(place, name);
                strip(value, place, removed);
                place.truncate(length);
            }
        }
        _ => {}
    }
}

/// What is kept in place of a credential: nobody should find one in evidence.
const WITHHELD: &str = "withheld: a credential";

/// Removes the members of an object to which pointers lead. All of them are names of members.
fn cut(
    value: &mut Value,
    pointers: &[(&str, table::Means)],
    place: &str,
    removed: &mut Vec<(String, Value)>,
) {
    let Value::Object(object) = value else { return };
    for (pointer, means) in pointers {
        let name = pointer.trim_start_matches('/');
        let Some(value) = object.remove(name) else { continue };
        let place = format!("{place}{pointer}");
        match means {
            table::Means::Remove => removed.push((place, value)),
            table::Means::Digest(instead) => {
                let digest = match &value {
                    Value::String(text) => Digest::of(text.as_bytes()),
                    other => Digest::of(json::to_canonical(other).as_bytes()),
                };
                object.insert(*instead, digest.to_string());
                removed.push((place, WITHHELD.into()));
            }
        }
    }
}

/// Sorts sources by their canonical text, and keeps each once.
fn order(sources: &mut Vec<Value>, removed: &mut Vec<(String, Value)>) -> Result<(), Finding> {
    let mut keyed = Vec::with_capacity(sources.len());
    for (index, source) in sources.iter().enumerate() {
        let text = canonical::text(source, Domain::Payload).map_err(|finding| {
            let pointer = format!("/sources/{index}{}", finding.pointer);
            Finding::new("inexact_number", &pointer, pointer.as_str(), finding.message)
        })?;
        keyed.push((text, index));
    }
    keyed.sort_unstable();
    let mut taken: Vec<Option<Value>> = std::mem::take(sources).into_iter().map(Some).collect();
    let mut last: Option<String> = None;
    for (text, index) in keyed {
        let Some(source) = taken[index].take() else { continue };
        if last.as_ref() == Some(&text) {
            removed.push((format!("/sources/{index}"), source));
        } else {
            sources.push(source);
            last = Some(text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
