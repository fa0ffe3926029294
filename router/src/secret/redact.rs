//! Takes secrets out of values: by key, by form, and by exact value.

use nexus_router_sdk::redact::{self, Class, REDACTED};

use super::{Secrets, reference};
use crate::json::{self, Object, Value};

impl Secrets {
    /// Returns the value without its secrets, or nothing if it has none.
    ///
    /// A value without secrets is only looked at: nothing is allocated.
    #[must_use]
    pub fn redact(&self, value: &Value) -> Option<Value> {
        self.walk(value, Class::Plain)
    }

    /// Returns the object without its secrets, or nothing if it has none.
    #[must_use]
    pub fn redact_object(&self, object: &Object) -> Option<Object> {
        self.members(object, Class::Plain)
    }

    /// Returns the text without its secrets, or nothing if it has none.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> Option<String> {
        let Some(known) = self.0.needles.replace(text) else {
            return redact::text_if_secret(text);
        };
        Some(redact::text_if_secret(&known).unwrap_or(known))
    }

    /// Returns the object without the values of known secrets, or nothing if it has none of them.
    ///
    /// Unlike [`redact_object`](Self::redact_object) it ignores keys and forms: everything else stays as it is. An object
    /// without known secrets is only looked at: nothing is allocated.
    #[must_use]
    pub fn replace_known(&self, object: &Object) -> Option<Object> {
        if self.0.needles.is_empty() {
            return None;
        }
        self.known_members(object)
    }

    /// Returns the text without the values of known secrets, or nothing if it has none of them.
    #[must_use]
    pub fn replace_known_text(&self, text: &str) -> Option<String> {
        self.0.needles.replace(text)
    }

    fn known_members(&self, object: &Object) -> Option<Object> {
        let member =
            |key: &str, value: &Value| (self.replace_known_text(key), self.known_value(value));
        let is_changed = |(key, value): (&str, &Value)| !matches!(member(key, value), (None, None));
        let before = object.iter().position(is_changed)?;
        let mut replaced = Object::with_capacity(object.len());
        for (index, (key, value)) in object.iter().enumerate() {
            let (new_key, new_value) =
                if index < before { (None, None) } else { member(key, value) };
            replaced.insert(
                new_key.unwrap_or_else(|| key.to_owned()),
                new_value.unwrap_or_else(|| value.clone()),
            );
        }
        Some(replaced)
    }

    fn known_value(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => self.known_number(value),
            Value::String(text) => self.replace_known_text(text).map(Value::from),
            Value::Array(items) => {
                let first = items.iter().position(|item| self.known_value(item).is_some())?;
                let (before, rest) = items.split_at(first);
                let rest =
                    rest.iter().map(|item| self.known_value(item).unwrap_or_else(|| item.clone()));
                Some(before.iter().cloned().chain(rest).collect::<Vec<_>>().into())
            }
            Value::Object(object) => self.known_members(object).map(Value::from),
        }
    }

    fn known_number(&self, number: &Value) -> Option<Value> {
        let known = self.0.needles.is_secret_number(|| json::to_canonical(number));
        known.then(|| REDACTED.into())
    }

    /// Returns the value without known secrets and texts that look like one, whatever the keys say: what a
    /// schema calls `password` is no password.
    #[must_use]
    pub(crate) fn redact_texts(&self, value: &Value) -> Value {
        let shown = |text: &str| self.redact_text(text).unwrap_or_else(|| text.to_owned());
        match value {
            Value::String(text) => shown(text).into(),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.redact_texts(item)).collect())
            }
            Value::Object(object) => {
                let members = object.iter();
                Value::Object(
                    members.map(|(key, it)| (shown(key), self.redact_texts(it))).collect(),
                )
            }
            other => other.clone(),
        }
    }

    /// Walks a value whose surroundings are of class `within`.
    fn walk(&self, value: &Value, within: Class) -> Option<Value> {
        match (within, value) {
            (_, Value::Object(object))
                if reference(object).is_some_and(|name| self.is_plain(name)) =>
            {
                None
            }
            (_, Value::String(text)) if text == REDACTED => None,
            (Class::Secret, _) | (Class::Either, Value::String(_)) => Some(REDACTED.into()),
            (_, Value::Null | Value::Bool(_)) => None,
            (_, Value::Int(_) | Value::BigInt(_) | Value::Float(_)) => self.known_number(value),
            (Class::Plain, Value::String(text)) => self.redact_text(text).map(Value::from),
            (_, Value::Array(items)) => self.items(items, within).map(Value::from),
            (_, Value::Object(object)) => self.members(object, within).map(Value::from),
        }
    }

    fn items(&self, items: &[Value], within: Class) -> Option<Vec<Value>> {
        let mut rest = items.iter();
        let changed = rest.find_map(|item| self.walk(item, within))?;
        let before = items.len() - rest.len() - 1;
        let mut redacted = Vec::with_capacity(items.len());
        redacted.extend_from_slice(&items[..before]);
        redacted.push(changed);
        redacted.extend(rest.map(|item| self.walk(item, within).unwrap_or_else(|| item.clone())));
        Some(redacted)
    }

    fn members(&self, object: &Object, within: Class) -> Option<Object> {
        let member = |key: &str, value: &Value| {
            let shown = self.redact_text(key);
            // The key as shown may say more: `pwd=3 max` is about a limit, `pwd=[REDACTED]` a password.
            let class_shown = shown.as_deref().map_or(Class::Plain, redact::key_class);
            (shown, self.walk(value, redact::key_class(key).max(class_shown).max(within)))
        };
        let is_changed = |(key, value): (&str, &Value)| {
            let (key, value) = member(key, value);
            key.is_some() || value.is_some()
        };
        let before = object.iter().position(is_changed)?;
        let mut redacted = Object::with_capacity(object.len());
        for (index, (key, value)) in object.iter().enumerate() {
            let (new_key, new_value) =
                if index < before { (None, None) } else { member(key, value) };
            redacted.insert(
                new_key.unwrap_or_else(|| key.to_owned()),
                new_value.unwrap_or_else(|| value.clone()),
            );
        }
        Some(redacted)
    }

    fn is_plain(&self, text: &str) -> bool {
        self.redact_text(text).is_none()
    }
}
