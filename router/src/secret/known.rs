//! Replacement of known secret values, and pointers to the places that redaction changed.

use nexus_router_sdk::redact::REDACTED;

use super::Secrets;
use crate::json::{self, Object, Value};

/// At most this many pointers are listed.
const MAX_POINTERS: usize = 1000;

impl Secrets {
    /// Returns the object with the exact values of known secrets replaced, or none if it holds none of them. Unlike
    /// [`redact_object`](Self::redact_object), it leaves all other text as it is.
    #[must_use]
    pub fn replace_known(&self, object: &Object) -> Option<Object> {
        let member = |(key, value): (&str, &Value)| {
            (self.0.needles.replace(key), self.replace_in_value(value))
        };
        let first = object.iter().position(|one| {
            let (key, value) = member(one);
            key.is_some() || value.is_some()
        })?;
        let mut replaced = Object::with_capacity(object.len());
        for (index, (key, value)) in object.iter().enumerate() {
            let (new_key, new_value) =
                if index < first { (None, None) } else { member((key, value)) };
            replaced.insert(
                new_key.unwrap_or_else(|| key.to_owned()),
                new_value.unwrap_or_else(|| value.clone()),
            );
        }
        Some(replaced)
    }

    /// Returns the value with the exact values of known secrets replaced, or none if it holds none of them.
    #[must_use]
    pub(crate) fn replace_in_value(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => {
                let known = self.0.needles.is_secret_number(|| json::to_canonical(value));
                known.then(|| REDACTED.into())
            }
            Value::String(text) => self.0.needles.replace(text).map(Value::from),
            Value::Array(items) => {
                let first = items.iter().position(|item| self.replace_in_value(item).is_some())?;
                let (before, rest) = items.split_at(first);
                let rest = rest
                    .iter()
                    .map(|item| self.replace_in_value(item).unwrap_or_else(|| item.clone()));
                Some(Value::Array(before.iter().cloned().chain(rest).collect()))
            }
            Value::Object(object) => self.replace_known(object).map(Value::from),
        }
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
        place.push_str(&key.replace('~', "~0").replace('/', "~1"));
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
    fn pointers_escape_keys_and_are_bounded() {
        let marked = object(r#"{"a/b":{"~":"x [REDACTED]"},"list":["[REDACTED]","plain"]}"#);
        assert_eq!(redacted_pointers(&marked), ["/a~1b/~0", "/list/0"]);
        let many = vec![Value::from(REDACTED); MAX_POINTERS + 5];
        let many: Object = [("many".to_owned(), many.into())].into_iter().collect();
        assert_eq!(redacted_pointers(&many).len(), MAX_POINTERS);
    }
}
