//! The static self-description of an adapter, written by its author as a constant.

use crate::{Capability, json_text};

/// The manifest: pure data that the router reads from the file without running any code.
///
/// It is advisory: the instance is the source of truth, and `nexus-router adapter validate` fails when
/// the two disagree.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    pub(crate) kind: &'static str,
    pub(crate) capabilities: &'static [Capability],
    pub(crate) router_versions: Option<&'static str>,
    pub(crate) config: Option<&'static [ConfigKey]>,
    pub(crate) error_codes: Option<&'static [&'static str]>,
}

impl Manifest {
    /// Makes a manifest of the two required fields.
    ///
    /// # Panics
    /// When a capability is listed twice; in a constant that is an error of the compiler.
    ///
    /// ```compile_fail
    /// # use nexus_router_sdk::{Capability, Manifest};
    /// const MANIFEST: Manifest = Manifest::new("http", &[Capability::Apply, Capability::Apply]);
    /// ```
    #[must_use]
    pub const fn new(kind: &'static str, capabilities: &'static [Capability]) -> Self {
        assert!(is_set(capabilities), "a capability is listed twice");
        Self { kind, capabilities, router_versions: None, config: None, error_codes: None }
    }

    /// States which routers the adapter works with, as a PEP 440 specifier such as `>=1.2,<2`.
    #[must_use]
    pub const fn router_versions(mut self, specifier: &'static str) -> Self {
        self.router_versions = Some(specifier);
        self
    }

    /// Lists every configuration key; the router refuses others.
    ///
    /// # Panics
    /// When a key is listed twice; in a constant that is an error of the compiler.
    ///
    /// ```compile_fail
    /// # use nexus_router_sdk::{ConfigKey, Manifest, ValueType};
    /// const URL: ConfigKey = ConfigKey::required("url", ValueType::String, "Where to");
    /// const MANIFEST: Manifest = Manifest::new("http", &[]).config(&[URL, URL]);
    /// ```
    #[must_use]
    pub const fn config(mut self, keys: &'static [ConfigKey]) -> Self {
        assert!(are_unique(keys), "a key of the configuration is listed twice");
        self.config = Some(keys);
        self
    }

    /// Lists the error codes that calls may end with.
    #[must_use]
    pub const fn error_codes(mut self, codes: &'static [&'static str]) -> Self {
        self.error_codes = Some(codes);
        self
    }
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    pub(crate) name: &'static str,
    pub(crate) value_type: ValueType,
    pub(crate) required: bool,
    pub(crate) default_json: Option<&'static str>,
    pub(crate) description: &'static str,
}

impl ConfigKey {
    /// Describes a key that must be given.
    #[must_use]
    pub const fn required(
        name: &'static str,
        value_type: ValueType,
        description: &'static str,
    ) -> Self {
        Self { name, value_type, required: true, default_json: None, description }
    }

    /// Describes a key that may be left out.
    #[must_use]
    pub const fn optional(
        name: &'static str,
        value_type: ValueType,
        description: &'static str,
    ) -> Self {
        Self { name, value_type, required: false, default_json: None, description }
    }

    /// Gives the value, as JSON text, that the router fills in when the key is left out.
    ///
    /// ```
    /// # use nexus_router_sdk::{ConfigKey, ValueType};
    /// const GREETING: ConfigKey =
    ///     ConfigKey::optional("greeting", ValueType::String, "How to greet")
    ///         .default_json(r#""Hello""#);
    /// ```
    ///
    /// # Panics
    /// When the text is not JSON, or not of the key's type; in a constant that is an error of the compiler.
    ///
    /// ```compile_fail
    /// # use nexus_router_sdk::{ConfigKey, ValueType};
    /// const GREETING: ConfigKey =
    ///     ConfigKey::optional("greeting", ValueType::String, "How to greet")
    ///         .default_json("Hello");
    /// ```
    #[must_use]
    pub const fn default_json(mut self, json: &'static str) -> Self {
        assert!(
            json_text::is_valid(json),
            "the default of a configuration key is not JSON; a text needs quotation marks of its own: \
             r#\"\"Hello\"\"#"
        );
        assert!(
            json_text::is_of_type(json, self.value_type),
            "the default of a configuration key is not of the key's type"
        );
        self.default_json = Some(json);
        self
    }
}

const fn is_set(capabilities: &[Capability]) -> bool {
    let mut seen = 0_u32;
    let mut i = 0;
    while i < capabilities.len() {
        let bit = 1 << capabilities[i] as u32;
        if seen & bit != 0 {
            return false;
        }
        seen |= bit;
        i += 1;
    }
    true
}

const fn are_unique(keys: &[ConfigKey]) -> bool {
    let mut i = 0;
    while i < keys.len() {
        let mut earlier = 0;
        while earlier < i {
            if is_same(keys[i].name.as_bytes(), keys[earlier].name.as_bytes()) {
                return false;
            }
            earlier += 1;
        }
        i += 1;
    }
    true
}

/// Compares texts, which the standard library cannot do at compile time.
const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([a, rest_of_one @ ..], [b, rest_of_other @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (rest_of_one, rest_of_other);
    }
    one.is_empty() && other.is_empty()
}

/// The type of a configuration value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Text.
    String,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
}

impl ValueType {
    /// Every type, in the order of their names.
    pub const ALL: &[Self] =
        &[Self::Array, Self::Boolean, Self::Number, Self::Object, Self::String];

    /// Returns the name that stands in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
        }
    }

    /// Returns the type of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value_type| value_type.name() == name)
    }

    /// Says whether a value is of this type.
    #[must_use]
    pub const fn accepts(self, value: &serde_json::Value) -> bool {
        use serde_json::Value;
        matches!(
            (self, value),
            (Self::String, Value::String(_))
                | (Self::Number, Value::Number(_))
                | (Self::Boolean, Value::Bool(_))
                | (Self::Object, Value::Object(_))
                | (Self::Array, Value::Array(_))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn panic_text(action: impl FnOnce() -> ConfigKey + std::panic::UnwindSafe) -> String {
        (*catch_unwind(action).unwrap_err().downcast::<&str>().unwrap()).to_owned()
    }

    #[test]
    fn default_must_be_json_of_the_keys_type() {
        let key = |value_type, json| ConfigKey::optional("k", value_type, "").default_json(json);
        assert_eq!(key(ValueType::Number, "1.5").default_json, Some("1.5"));
        let text = panic_text(move || key(ValueType::String, "Hello"));
        assert!(text.contains("is not JSON") && text.ends_with("r#\"\"Hello\"\"#"), "{text}");
        let text = panic_text(move || key(ValueType::String, "1.5"));
        assert!(text.contains("not of the key's type"), "{text}");
    }

    #[test]
    fn capability_listed_twice_is_found() {
        assert!(is_set(&[]) && is_set(Capability::ALL));
        assert!(!is_set(&[Capability::Apply, Capability::DryRun, Capability::Apply]));
    }

    #[test]
    fn keys_are_told_apart() {
        let keys = |names: &[&'static str]| -> Vec<ConfigKey> {
            names.iter().map(|name| ConfigKey::required(name, ValueType::String, "")).collect()
        };
        assert!(are_unique(&keys(&[])));
        assert!(are_unique(&keys(&["a", "b", "ab", "", "A"])));
        assert!(!are_unique(&keys(&["a", "b", "a"])));
        assert!(!are_unique(&keys(&["a", "", ""])));
    }
}
