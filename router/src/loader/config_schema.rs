//! Checks a configuration against the manifest's `config_schema` and fills in the defaults.
//!
//! Values never appear in a finding: a configuration may hold secrets.

use std::fmt;

use nexus_router_sdk::{Object, ValueType};

use super::manifest::{ConfigParam, ManifestView, json_type};
use crate::python_text::repr_str;

/// Names longer than this are not compared for likeness, which takes quadratic time.
const MAX_COMPARED_CHARS: usize = 64;

/// What became of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigOutcome {
    /// The configuration with the defaults filled in.
    pub config: Object,
    /// The keys whose defaults were filled in.
    pub applied: Vec<String>,
    /// What is wrong with the configuration; nothing if it may be used.
    pub findings: Vec<ConfigFinding>,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFinding {
    /// The key in question.
    pub key: String,
    /// What is wrong with it.
    pub problem: ConfigProblem,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblem {
    /// It is required and not there.
    Missing {
        /// The type that its value must have.
        expected: ValueType,
    },
    /// The manifest does not know it.
    Unknown {
        /// The known key that looks most like it.
        suggestion: Option<String>,
    },
    /// Its value has another type.
    WrongType {
        /// The type that its value must have.
        expected: ValueType,
        /// The JSON name of the type that its value has.
        found: &'static str,
    },
}

impl fmt::Display for ConfigFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = repr_str(&self.key);
        match &self.problem {
            ConfigProblem::Missing { expected } => {
                write!(f, "missing required key {key} ({})", expected.name())
            }
            ConfigProblem::Unknown { suggestion: Some(name) } => {
                write!(f, "unknown key {key}; did you mean {}?", repr_str(name))
            }
            ConfigProblem::Unknown { suggestion: None } => write!(f, "unknown key {key}"),
            ConfigProblem::WrongType { expected, found } => {
                write!(f, "key {key} must be {}, got {found}", expected.name())
            }
        }
    }
}

/// Checks a configuration and fills in the defaults of the keys that are absent.
///
/// Without a manifest, or without a `config_schema` in it, the configuration is taken as it is; an empty
/// `config_schema` allows no key. A default does not stand in for a required key, and one whose type is
/// not the declared type is left out, because the schema itself would refuse it.
#[must_use]
pub fn apply(manifest: Option<&ManifestView>, config: &Object) -> ConfigOutcome {
    let mut outcome =
        ConfigOutcome { config: config.clone(), applied: Vec::new(), findings: Vec::new() };
    let Some(manifest) = manifest.filter(|manifest| manifest.declares_config) else {
        return outcome;
    };
    let mut find = |key: &str, problem| {
        outcome.findings.push(ConfigFinding { key: key.to_owned(), problem });
    };
    for param in &manifest.config {
        let expected = param.value_type;
        match (config.get(&param.name), param.usable_default()) {
            (Some(value), _) if expected.accepts(value) => {}
            (Some(value), _) => {
                find(&param.name, ConfigProblem::WrongType { expected, found: json_type(value) });
            }
            (None, _) if param.required => find(&param.name, ConfigProblem::Missing { expected }),
            (None, Some(default)) => {
                outcome.config.insert(param.name.clone(), default.clone());
                outcome.applied.push(param.name.clone());
            }
            (None, None) => {}
        }
    }
    for key in config.keys() {
        if !manifest.config.iter().any(|param| param.name == *key) {
            let suggestion = nearest(key, &manifest.config).map(str::to_owned);
            find(key, ConfigProblem::Unknown { suggestion });
        }
    }
    outcome
}

/// Returns the known name that looks most like a key, if one is near: a third of its letters may differ.
fn nearest<'a>(key: &str, params: &'a [ConfigParam]) -> Option<&'a str> {
    let length = key.chars().count();
    if length > MAX_COMPARED_CHARS {
        return None;
    }
    let key = key.to_lowercase();
    params
        .iter()
        .map(|param| param.name.as_str())
        .filter(|name| name.chars().count() <= MAX_COMPARED_CHARS)
        .map(|name| (strsim::osa_distance(&key, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, _)| *distance <= length.max(3) / 3)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn view(config_schema: &Value) -> ManifestView {
        ManifestView::read(&json!({"config_schema": config_schema}))
    }

    fn http() -> ManifestView {
        view(&json!({
            "base_url": {"type": "string", "required": true},
            "timeout_s": {"type": "number", "required": false, "default": 30.0},
            "headers": {"type": "object", "required": false},
            "retry": {"type": "boolean", "required": false, "default": null},
        }))
    }

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn findings(manifest: &ManifestView, config: &Value) -> Vec<String> {
        let outcome = apply(Some(manifest), &object(config));
        outcome.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_stand_in_for_absent_keys_only() {
        let outcome = apply(Some(&http()), &object(&json!({"base_url": "u"})));
        assert_eq!(Value::Object(outcome.config), json!({"base_url": "u", "timeout_s": 30.0}));
        assert_eq!(outcome.applied, ["timeout_s"]);
        assert!(outcome.findings.is_empty());

        let given = object(&json!({"timeout_s": 1, "base_url": "u"}));
        let outcome = apply(Some(&http()), &given);
        assert_eq!((outcome.config, outcome.applied), (given, vec![]));
    }

    #[test]
    fn findings_name_key_and_both_types() {
        assert_eq!(
            findings(&http(), &json!({"base_ulr": "u", "timeout_s": "30", "headers": null})),
            [
                "missing required key 'base_url' (string)",
                "key 'headers' must be object, got null",
                "key 'timeout_s' must be number, got string",
                "unknown key 'base_ulr'; did you mean 'base_url'?",
            ]
        );
    }

    #[test]
    fn default_does_not_stand_in_for_a_required_key() {
        let manifest = view(&json!({"k": {"type": "number", "required": true, "default": 1}}));
        assert_eq!(findings(&manifest, &json!({})), ["missing required key 'k' (number)"]);
    }

    #[test]
    fn without_a_schema_nothing_is_checked() {
        let config = object(&json!({"any": [1]}));
        let unchecked = ConfigOutcome { config: config.clone(), applied: vec![], findings: vec![] };
        assert_eq!(apply(None, &config), unchecked);
        assert_eq!(apply(Some(&ManifestView::default()), &config), unchecked);
    }

    #[test]
    fn empty_schema_allows_no_key() {
        assert_eq!(findings(&view(&json!({})), &json!({"any": 1})), ["unknown key 'any'"]);
        assert!(findings(&view(&json!({})), &json!({})).is_empty());
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        let suggestion = |key: &str| nearest(key, &http().config).map(str::to_owned);
        assert_eq!(suggestion("baseurl").as_deref(), Some("base_url"));
        assert_eq!(suggestion("BASE_URL").as_deref(), Some("base_url"));
        assert_eq!(suggestion("timeouts").as_deref(), Some("timeout_s"));
        assert_eq!(suggestion("colour"), None);
        assert_eq!(suggestion(""), None);
        assert_eq!(suggestion(&"base_url".repeat(1_000)), None);
    }

    #[test]
    fn values_never_appear() {
        let config = json!({"base_url": ["hunter2"], "token": "hunter2", "timeout_s": "hunter2"});
        assert!(findings(&http(), &config).iter().all(|text| !text.contains("hunter2")));
    }

    #[test]
    fn hostile_keys_are_made_visible() {
        assert_eq!(
            findings(&view(&json!({})), &json!({"a\u{1b}[31m'": 1})),
            [r#"unknown key "a\x1b[31m'""#]
        );
    }

    proptest! {
        #[test]
        fn given_values_are_never_changed(keys in prop::collection::vec(".{0,12}", 0..8)) {
            let config: Object = keys.into_iter().map(|key| (key, json!("v"))).collect();
            let outcome = apply(Some(&http()), &config);
            for (key, value) in &config {
                prop_assert_eq!(outcome.config.get(key), Some(value));
            }
            prop_assert_eq!(outcome.config.len(), config.len() + outcome.applied.len());
        }
    }
}
