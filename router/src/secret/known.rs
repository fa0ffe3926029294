//! Replacement of known secret values, and pointers to the places that redaction changed.

use nexus_router_sdk::redact::REDACTED;

use super::Secrets;
use super::redact::rewrite;
use crate::json::{self, Object, Value};

/// At most this many pointers are listed.
const MAX_POINTERS: usize = 1000;

impl Secrets {
    /// Returns the object without the exact values of known secrets, or none if it holds none of them.
    ///
    /// Unlike [`redact_object`](Self::redact_object) it ignores keys and forms: all other text stays as it is. An
    /// object without known secrets is only read: nothing is allocated.
    #[must_use]
    pub fn replace_known(&self, object: &Object) -> Option<Object> {
        if self.0.needles.is_empty() {
            return None;
        }
        self.known_members(object)
    }

    /// Returns the text without the exact values of known secrets, or none if it holds none of them.
    #[must_use]
    pub fn replace_known_text(&self, text: &str) -> Option<String> {
        self.0.needles.replace(text)
    }

    /// Returns the text without the exact values of known secrets.
    #[must_use]
    pub(crate) fn without_known(&self, text: &str) -> String {
        self.replace_known_text(text).unwrap_or_else(|| text.to_owned())
    }

    fn known_members(&self, object: &Object) -> Option<Object> {
        rewrite(object, |key, value| (self.replace_known_text(key), self.replace_in_value(value)))
    }

    /// Returns the value without the exact values of known secrets, or none if it holds none of them.
    #[must_use]
    pub(crate) fn replace_in_value(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => self.known_number(value),
            Value::String(text) => self.replace_known_text(text).map(Value::from),
            Value::Array(items) => {
                let mut rest = items.iter();
                let changed = rest.find_map(|item| self.replace_in_value(item))?;
                let before = items.len() - rest.len() - 1;
                let mut replaced = items[..before].to_vec();
                replaced.push(changed);
                let rest =
                    rest.map(|item| self.replace_in_value(item).unwrap_or_else(|| item.clone()));
                replaced.extend(rest);
                Some(Value::Array(replaced))
            }
            Value::Object(object) => self.known_members(object).map(Value::from),
        }
    }

    pub(super) fn known_number(&self, number: &Value) -> Option<Value> {
        let known = self.0.needles.is_secret_number(|| json::to_canonical(number));
        known.then(|| REDACTED.into())
    }
}

/// Returns JSON pointers to the members and items that hold the redaction marker, in order.
#[must_use]
pub(crate) fn redacted_pointers(object: &Object) -> Vec<String> {
    let mut pointers = Vec::new();
    collect_members(object, &mut String::new(), &mut pointers);
    pointers
}

fn collect_members(object: &Object, place: &mut String, pointers: &mut Vec<String>) {
    let length = place.len();
    for (key, value) in object {
        place.push('/');
        place.push_str(&json::pointer_segment(key));
        if key.contains(REDACTED) && pointers.len() < MAX_POINTERS {
            pointers.push(place.clone());
        } else {
            collect(value, place, pointers);
        }
        place.truncate(length);
    }
}

fn collect(value: &Value, place: &mut String, pointers: &mut Vec<String>) {
    if pointers.len() >= MAX_POINTERS {
        return;
    }
    match value {
        Value::String(text) if text.contains(REDACTED) => pointers.push(place.clone()),
        Value::Array(items) => {
            let length = place.len();
            for (index, item) in items.iter().enumerate() {
                place.push_str(&format!("/{index}"));
                collect(item, place, pointers);
                place.truncate(length);
            }
        }
        Value::Object(object) => collect_members(object, place, pointers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;

    fn object(text: &str) -> Object {
        json::parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap()
    }

    #[test]
    fn replaces_known_values_and_nothing_else() {
        let secrets = Secrets::empty().with_hidden_values(["tok-123456".to_owned()]);
        let given = object(
            r#"{"password":"hunter2","note":"password: hunter2","a":["x",{"b":"see tok-123456"}],"tok-123456":1}"#,
        );
        let replaced = secrets.replace_known(&given).unwrap();
        let expected = r#"{"a":["x",{"b":"see [REDACTED]"}],"note":"password: hunter2","password":"hunter2","[REDACTED]":1}"#;
        assert_eq!(Value::from(replaced.clone()), Value::from(object(expected)));
        assert_eq!(redacted_pointers(&replaced), ["/a/1/b", "/[REDACTED]"]);
        let plain = object(r#"{"password":"hunter2","authorization":"Bearer abcdefghijkl"}"#);
        assert_eq!(secrets.replace_known(&plain), None);
        assert!(secrets.redact_object(&plain).is_some());
    }

    #[test]
    fn deeply_nested_objects_are_read_once() {
        let secrets = Secrets::empty().with_hidden_values(["tok-123456".to_owned()]);
        let deep = (0..200).fold(Value::from("tok-123456"), |value, _| {
            let mut object = Object::new();
            object.insert("a", value);
            object.into()
        });
        let deep = deep.into_object().unwrap();
        let shown = Value::from(secrets.replace_known(&deep).unwrap());
        assert_eq!(Value::from(secrets.redact_object(&deep).unwrap()), shown);
        assert!(json::to_compact(&shown).contains(REDACTED));
    }

    #[test]
    fn pointers_escape_keys_and_are_bounded() {
        let marked = object(r#"{"a/b":{"~":"x [REDACTED]"},"list":["[REDACTED]","plain"]}"#);
        assert_eq!(redacted_pointers(&marked), ["/a~1b/~0", "/list/0"]);
        let many = vec![Value::from(REDACTED); MAX_POINTERS + 5];
        let many: Object = [("many".to_owned(), many.into())].into_iter().collect();
        assert_eq!(redacted_pointers(&many).len(), MAX_POINTERS);
    }
}
