//! Takes secrets out of values: by key, by form, and by exact value.

use nexus_router_sdk::redact::{self, Class, REDACTED};

use super::{Secrets, reference};
use crate::json::{Object, Value};

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
        rewrite(object, member)
    }

    fn is_plain(&self, text: &str) -> bool {
        self.redact_text(text).is_none()
    }
}

/// Returns the object with the keys and values that `member` replaces, or none if it replaces nothing. Each member is
/// looked at once, so that nested objects cost no more than their size.
pub(super) fn rewrite(
    object: &Object,
    member: impl Fn(&str, &Value) -> (Option<String>, Option<Value>),
) -> Option<Object> {
    let mut rewritten: Option<Object> = None;
    for (index, (key, value)) in object.iter().enumerate() {
        let (new_key, new_value) = member(key, value);
        if rewritten.is_none() && new_key.is_none() && new_value.is_none() {
            continue;
        }
        let rewritten = rewritten.get_or_insert_with(|| {
            let mut begun = Object::with_capacity(object.len());
            for (key, value) in object.iter().take(index) {
                begun.insert(key, value.clone());
            }
            begun
        });
        rewritten.insert(
            new_key.unwrap_or_else(|| key.to_owned()),
            new_value.unwrap_or_else(|| value.clone()),
        );
    }
    rewritten
}
