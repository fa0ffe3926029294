//! Configuration parameters of a manifest, as reports and errors show them. Secret defaults stay hidden.

use nexus_router_sdk::redact::{self, REDACTED};
use nexus_router_sdk::{Object, code};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;
use super::manifest::{ConfigParam, ManifestView};
use super::{LoadRequest, Loader};
use crate::python_text::visible;

/// Parameters that an error lists; `inspect` lists all of them.
const MAX_LISTED: usize = 40;
/// Characters of a description or a default that an error repeats.
const MAX_CHARS: usize = 160;

impl ConfigParam {
    /// Returns the default, with its secrets replaced.
    #[must_use]
    pub fn shown_default(&self) -> Option<Value> {
        self.default.as_ref().map(|default| shown_default(&self.name, default))
    }

    /// Says whether the default holds a secret, which nothing shows.
    #[must_use]
    pub fn has_secret_default(&self) -> bool {
        self.default.is_some() && self.shown_default() != self.default
    }

    /// Returns one line about the parameter: name, type, need, default and description.
    fn line(&self) -> String {
        let need = if self.required { "required" } else { "optional" };
        let default = self.shown_default().map(|default| format!(", default {default}"));
        let line = format!(
            "{} ({}, {need}{})",
            shortened(&self.name),
            self.value_type.name(),
            shortened(&default.unwrap_or_default())
        );
        match self.description.as_deref().filter(|text| !text.is_empty()) {
            Some(description) => format!("{line}: {}", shortened(description)),
            None => line,
        }
    }
}

/// Writes `name`, `type`, `required`, and `default` and `description` if there are any.
impl Serialize for ConfigParam {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("type", self.value_type.name())?;
        map.serialize_entry("required", &self.required)?;
        if let Some(default) = self.shown_default() {
            map.serialize_entry("default", &default)?;
        }
        if let Some(description) = &self.description {
            map.serialize_entry("description", description)?;
        }
        map.end()
    }
}

/// Returns a manifest as it may be shown: without the secrets among the defaults.
#[must_use]
pub fn shown_manifest(manifest: &Value) -> Value {
    let mut shown = manifest.clone();
    let entries = shown.get_mut("config_schema").and_then(Value::as_object_mut);
    for (name, entry) in entries.into_iter().flatten() {
        if let Some(default) = entry.get_mut("default") {
            *default = shown_default(name, default);
        }
    }
    shown
}

fn shown_default(name: &str, default: &Value) -> Value {
    // An empty default says that there is none.
    if default.as_str().is_some_and(str::is_empty) {
        return default.clone();
    }
    let redacted = redact::value(&json!({ name: default }));
    redacted.get(name).cloned().unwrap_or_else(|| REDACTED.into())
}

/// Returns the parameters for the hint of an error.
pub(super) fn listed(params: &[ConfigParam]) -> String {
    if params.is_empty() {
        return "the adapter takes no parameters".to_owned();
    }
    let lines: Vec<String> = params.iter().take(MAX_LISTED).map(ConfigParam::line).collect();
    let more = match params.len().checked_sub(MAX_LISTED) {
        None | Some(0) => String::new(),
        Some(more) => format!("; and {more} more, which nexus-router adapter inspect shows"),
    };
    format!("the parameters are {}{more}", lines.join("; "))
}

/// Returns the parameters for the details of an error.
pub(super) fn details(params: &[ConfigParam]) -> Value {
    let shown = params.iter().take(MAX_LISTED).map(|param| {
        let mut shown = serde_json::to_value(param).unwrap_or_default();
        for key in ["default", "description"] {
            let long = shown.get(key).map(Value::to_string).filter(|text| text.len() > MAX_CHARS);
            if let Some(long) = long {
                shown[key] = shortened(&long).into();
            }
        }
        shown
    });
    shown.collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text),
    }
}

/// Takes `adapter_id` out of the configuration: it is a parameter of every factory, not a key of any.
pub(super) fn split_config(
    request: &LoadRequest<'_>,
) -> Result<(Option<String>, Object), AdapterLoadError> {
    let invalid = |message: &str| {
        AdapterLoadError::new(request.factory_ref, Reason::ConfigInvalid, message.to_owned())
    };
    let Value::Object(config) = request.config else {
        return Err(invalid("config must be a JSON object"));
    };
    let mut config = config.clone();
    let adapter_id = match (request.adapter_id, config.shift_remove("adapter_id")) {
        (Some(id), _) if !id.is_empty() => Some(id.to_owned()),
        (Some(_), _) => None,
        (None, None | Some(Value::Null)) => None,
        (None, Some(Value::String(id))) => Some(id),
        (None, Some(_)) => return Err(invalid("config key 'adapter_id' must be a string")),
    };
    Ok((adapter_id, config))
}

impl Loader {
    /// Adds the parameters to an error about a configuration that is not an object, if the library states them.
    pub(super) fn with_parameters(
        &self,
        error: AdapterLoadError,
        factory_ref: &FactoryRef,
    ) -> AdapterLoadError {
        let records = self.adapter_path.find(factory_ref).and_then(|path| Self::factories(&path));
        let function = factory_ref.function();
        let record = records
            .ok()
            .and_then(|records| records.into_iter().find(|record| record.factory == function));
        let manifest = record.and_then(|record| record.manifest).filter(Value::is_object);
        match manifest.map(|manifest| ManifestView::read(&manifest)) {
            Some(view) if view.declares_config => error.with_parameters(&view.config),
            _ => error,
        }
    }
}

impl AdapterLoadError {
    /// Returns whether another configuration would do: the manifest or the factory rejects this one. It would not if the
    /// manifest itself is wrong.
    pub(crate) fn wants_other_config(&self) -> bool {
        match self.cause() {
            None => self.reason() == Reason::ConfigInvalid,
            Some(cause) => {
                self.reason() == Reason::FactoryFailed && cause.cause_type == code::CONFIG_REJECTED
            }
        }
    }

    /// Adds the parameters that the manifest states to the details and the hint.
    pub(super) fn with_parameters(self, params: &[ConfigParam]) -> Self {
        debug_assert_eq!(self.reason(), Reason::ConfigInvalid, "only these are about parameters");
        let hint = format!("correct the configuration; {}", listed(params));
        self.with_hint(hint).with_known_parameters(details(params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(schema: &Value) -> Vec<ConfigParam> {
        ManifestView::read(&json!({ "config_schema": schema })).config
    }

    #[test]
    fn secret_defaults_are_shown_nowhere() {
        let schema = json!({
            "api_key": {"type": "string", "required": false, "default": "sk-very-secret"},
            "base_url": {"type": "string", "required": false, "default": "https://ada:sk-very-secret@example.com/"},
            "headers": {"type": "object", "required": false, "default": {"Authorization": "Bearer sk-very-secret", "Accept": "text/plain"}},
            "max_tokens": {"type": "number", "required": false, "default": 4096},
            "password": {"type": "string", "required": false, "default": ""},
        });
        let params = params(&schema);
        let manifest = shown_manifest(&json!({ "kind": "k", "config_schema": schema }));
        let shown = format!(
            "{} {} {manifest} {}",
            listed(&params),
            details(&params),
            serde_json::to_string(&params).unwrap()
        );
        assert!(!shown.contains("very-secret"), "{shown}");
        assert!(shown.contains("max_tokens (number, optional, default 4096)"), "{shown}");
        assert!(
            shown.contains("text/plain")
                && shown.contains(r#"password (string, optional, default "")"#)
        );
        let secret: Vec<bool> = params.iter().map(ConfigParam::has_secret_default).collect();
        assert_eq!(secret, [true, true, true, false, false]);
    }

    #[test]
    fn hint_names_all_that_a_parameter_is() {
        let schema = json!({
            "base_url": {"type": "string", "required": true, "description": "Where to"},
            "retries": {"type": "number", "required": false, "default": 3},
        });
        assert_eq!(
            listed(&params(&schema)),
            "the parameters are base_url (string, required): Where to; retries (number, optional, default 3)"
        );
        assert_eq!(listed(&[]), "the adapter takes no parameters");
    }

    #[test]
    fn lists_are_bounded_for_any_manifest() {
        let entry = json!({
            "type": "string", "required": false,
            "default": "d".repeat(10_000), "description": "\u{1b}".repeat(10_000),
        });
        let schema: nexus_router_sdk::Object =
            (0..1_000).map(|number| (format!("k{number:04}"), entry.clone())).collect();
        let params = params(&schema.into());
        let hint = listed(&params);
        assert!(hint.ends_with("; and 960 more, which nexus-router adapter inspect shows"));
        assert!(!hint.contains('\u{1b}') && hint.len() < 60_000, "{}", hint.len());
        let details = details(&params);
        assert_eq!(details.as_array().unwrap().len(), MAX_LISTED);
        assert!(details.to_string().len() < 60_000);
    }
}
