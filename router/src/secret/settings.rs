//! The secrets of an adapter's configuration, and what the adapter says without them.

use nexus_router_sdk::redact::{self, Class};
use serde_json::Value;

use super::Secrets;
use crate::json;

/// Returns the secret values of a configuration: what stands under secret-like keys, and the passwords
/// of URLs.
#[must_use]
pub fn secret_values(config: &nexus_router_sdk::Object) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in config {
        collect(value, redact::key_class(key), &mut found);
    }
    found
}

impl Secrets {
    /// Returns a text of an adapter without secrets.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.redact_text(text).unwrap_or_else(|| text.to_owned())
    }

    /// Returns a value of an adapter without secrets.
    pub(crate) fn scrub_value(&self, value: &Value) -> Value {
        self.redact(&value.into()).map_or_else(|| value.clone(), |redacted| redacted.to_serde())
    }

    /// Returns an object of an adapter without secrets.
    pub(crate) fn scrub_object(
        &self,
        object: &nexus_router_sdk::Object,
    ) -> nexus_router_sdk::Object {
        self.redact_object(&json::Object::from(object))
            .map_or_else(|| object.clone(), |redacted| redacted.to_serde())
    }
}

fn collect(value: &Value, within: Class, found: &mut Vec<String>) {
    match (within, value) {
        (Class::Secret | Class::Either, Value::String(text)) => found.push(text.clone()),
        (Class::Secret, Value::Number(number)) => found.push(number.to_string()),
        // The password of a URL is a secret under any key.
        (Class::Plain, Value::String(text)) => found.extend(url_password(text)),
        (_, Value::Array(items)) => items.iter().for_each(|item| collect(item, within, found)),
        (_, Value::Object(members)) => {
            for (key, member) in members {
                collect(member, redact::key_class(key).max(within), found);
            }
        }
        (_, Value::Null | Value::Bool(_) | Value::Number(_)) => {}
    }
}

fn url_password(text: &str) -> Option<String> {
    let rest = text.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    Some(authority.rsplit_once('@')?.0.split_once(':')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::redact::REDACTED;
    use serde_json::json;

    fn secrets(config: Value) -> Secrets {
        let Value::Object(config) = config else { unreachable!() };
        Secrets::empty().with_hidden_values(secret_values(&config))
    }

    #[test]
    fn secrets_of_the_configuration_are_scrubbed() {
        let secrets = secrets(json!({
            "api_key": "sk-12345", "nested": {"password": ["hunter22", 123456]},
            "base_url": "https://user:pa55w0rd@example.com/x", "name": "visible",
            "tokens": 4096, "pin_token": 12,
        }));
        let scrubbed = secrets.scrub("bad sk-12345, hunter22, 123456, pa55w0rd, visible 4096 12");
        assert_eq!(scrubbed.matches(REDACTED).count(), 4, "{scrubbed}");
        assert!(scrubbed.ends_with("visible 4096 12"));
    }

    #[test]
    fn values_are_scrubbed_as_values() {
        let secrets = secrets(json!({"api_key": "pa\"ss1234", "pin_token": 777777}));
        let details = json!({"seen": "got pa\"ss1234", "count": 777777, "list": [1, "pa\"ss1234"],
            "big": u64::MAX, "float": 777777.0});
        let scrubbed = secrets.scrub_value(&details);
        assert_eq!(
            scrubbed,
            json!({"seen": "got [REDACTED]", "count": REDACTED, "list": [1, REDACTED],
                "big": u64::MAX, "float": REDACTED})
        );
    }
}
