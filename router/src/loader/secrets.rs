//! Keeping the secrets of a configuration out of texts that come from an adapter.

use nexus_router_sdk::{Object, redact};
use serde_json::Value;

/// Shorter values would blot out ordinary words.
const MIN_LENGTH: usize = 4;

/// The secret values of a configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Collects every text under a secret-like key.
    pub(super) fn of(config: &Object) -> Self {
        let mut found = Vec::new();
        for (key, value) in config {
            collect(value, redact::is_secret_key(key), &mut found);
        }
        // The longest first: one secret may begin with another.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(found)
    }

    /// Returns a text without secrets: neither these, nor what looks like one.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret.as_str(), redact::REDACTED);
        }
        redact::text(&text)
    }
}

impl Secrets {
    /// Returns a value without secrets: in its texts, its keys and its numbers.
    pub(super) fn scrub_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.scrub(text).into(),
            Value::Number(number) if self.0.contains(&number.to_string()) => {
                redact::REDACTED.into()
            }
            Value::Array(items) => items.iter().map(|item| self.scrub_value(item)).collect(),
            Value::Object(members) => self.scrub_object(members).into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Returns an object without secrets; what stands under a secret-like key is one.
    pub(super) fn scrub_object(&self, members: &Object) -> Object {
        let scrubbed =
            members.iter().map(|(key, value)| (self.scrub(key), self.scrub_value(value)));
        redact::object(&scrubbed.collect())
    }
}

fn collect(value: &Value, secret: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if secret && text.len() >= MIN_LENGTH => found.push(text.clone()),
        // The password of a URL is a secret under any key.
        Value::String(text) => found.extend(url_password(text)),
        Value::Number(number) if secret && number.to_string().len() >= MIN_LENGTH => {
            found.push(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, secret, found)),
        Value::Object(members) => {
            for (key, member) in members {
                collect(member, secret || redact::is_secret_key(key), found);
            }
        }
        _ => {}
    }
}

fn url_password(text: &str) -> Option<String> {
    let rest = text.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let password = authority.rsplit_once('@')?.0.split_once(':')?.1;
    (password.len() >= MIN_LENGTH).then(|| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_of_the_configuration_are_scrubbed() {
        let config = json!({
            "api_key": "sk-12345", "nested": {"password": ["hunter22", 123456]},
            "base_url": "https://user:pa55w0rd@example.com/x", "name": "visible",
        });
        let Value::Object(config) = config else { unreachable!() };
        let scrubbed =
            Secrets::of(&config).scrub("bad sk-12345, hunter22, 123456, pa55w0rd, visible");
        assert_eq!(scrubbed.matches(redact::REDACTED).count(), 4, "{scrubbed}");
        assert!(scrubbed.contains("visible"));
    }

    #[test]
    fn values_are_scrubbed_as_values() {
        let config = json!({"api_key": "pa\"ss1234", "pin_token": 777777});
        let Value::Object(config) = config else { unreachable!() };
        let details = json!({"seen": "got pa\"ss1234", "count": 777777, "list": [1, "pa\"ss1234"]});
        let scrubbed = Secrets::of(&config).scrub_value(&details);
        assert_eq!(
            scrubbed,
            json!({"seen": "got [REDACTED]", "count": "[REDACTED]", "list": [1, "[REDACTED]"]})
        );
    }
}
