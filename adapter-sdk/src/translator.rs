//! Translators as adapters: canonical documents in, payloads of a provider out, nothing else.
//!
//! Another translator is a [`Target`] and these lines:
//!
//! ```
//! use nexus_router_sdk::translate::{Target, target};
//! use nexus_router_sdk::translator::{self, Translating};
//! use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};
//!
//! const TARGET: &Target = target::OPENAI; // or one of your own
//! const KEYS: [ConfigKey; TARGET.binding.len()] = translator::config_keys(TARGET.binding);
//! const MANIFEST: Manifest = translator::manifest(TARGET, &KEYS);
//!
//! fn create_adapter(
//!     adapter_id: Option<&str>,
//!     config: Object,
//! ) -> Result<Translating, AdapterError> {
//!     Translating::new(TARGET, adapter_id, config)
//! }
//!
//! export_adapter!(create_adapter, MANIFEST);
//! # fn main() {}
//! ```
//!
//! The operation is `translate.render`. A provider that refused a payload is handed back to
//! `translate.rejected`, which answers with an error and so ends the step: nothing else comes of it, and the
//! document is what it was. [`testing::passive`](crate::testing::passive) proves what a translator must keep.

mod declared;

use nexus_router_translate::{CODES, Field, Refusal, Rendered, Setting, SettingKind, Target};
use nexus_router_translate::{Translator, rule};
use serde_json::{Value, json};

use crate::{
    Adapter, AdapterError, CallContext, Capability, Catalog, ConfigKey, Manifest, Object, Passive,
    Tool, ValueType, code,
};

/// The tool of all operations.
pub const TOOL: &str = "translate";
/// Renders a document.
pub const RENDER: &str = "render";
/// Turns a provider's refusal into an error.
pub const REJECTED: &str = "rejected";

/// The capabilities of every translator. None is external.
pub const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

/// Makes the keys of a configuration from the fields of a binding.
#[must_use]
pub const fn config_keys<const N: usize>(fields: &'static [Field]) -> [ConfigKey; N] {
    let mut keys = [ConfigKey::required("", ValueType::String, ""); N];
    let mut i = 0;
    while i < N {
        let Field { name, kind, required, meaning } = fields[i];
        let value_type = match kind {
            SettingKind::Text | SettingKind::Name | SettingKind::Word(_) => ValueType::String,
            SettingKind::Limit | SettingKind::Whole { .. } | SettingKind::Decimal { .. } => {
                ValueType::Number
            }
            SettingKind::Flag => ValueType::Boolean,
        };
        keys[i] = if required {
            ConfigKey::required(name, value_type, meaning)
        } else {
            ConfigKey::optional(name, value_type, meaning)
        };
        i += 1;
    }
    keys
}

/// Makes the manifest of a translator.
#[must_use]
pub const fn manifest(target: &'static Target, keys: &'static [ConfigKey]) -> Manifest {
    Manifest::new(target.id, CAPABILITIES)
        .router_versions(">=1.2,<2")
        .config(keys)
        .error_codes(CODES)
}

/// A translator as an adapter.
#[derive(Debug)]
pub struct Translating {
    adapter_id: String,
    translator: Translator,
    /// What every output has besides its payload.
    about: Object,
}

impl Translating {
    /// Makes the adapter of a target.
    ///
    /// # Errors
    /// When the configuration is no binding of the target.
    pub fn new(
        target: &'static Target,
        adapter_id: Option<&str>,
        config: Object,
    ) -> Result<Self, AdapterError> {
        let settings = config.into_iter().map(|(name, value)| (name, setting(value)));
        let translator =
            Translator::new(target, settings).map_err(|refusal| refused(target.id, &refusal))?;
        let about = declared::about(&translator);
        Ok(Self { adapter_id: adapter_id.unwrap_or(target.id).to_owned(), translator, about })
    }

    /// Renders a document: the output of `translate.render`, without a host.
    ///
    /// # Errors
    /// The rule that the document breaks, as the error of a call.
    pub fn render_document(&self, document: &[u8]) -> Result<Object, AdapterError> {
        let Rendered { payload, sha256, canonical_sha256 } = self
            .translator
            .render(document)
            .map_err(|refusal| refused(self.translator.target().id, &refusal))?;
        let mut output = Object::with_capacity(self.about.len() + 3);
        output.insert("payload".to_owned(), payload.into());
        output.insert("sha256".to_owned(), sha256.into());
        output.insert("canonical_sha256".to_owned(), canonical_sha256.into());
        output.extend(self.about.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(output)
    }

    fn render(&self, mut args: Object) -> Result<Object, AdapterError> {
        match args.remove("document") {
            Some(Value::String(document)) if args.is_empty() => {
                self.render_document(document.as_bytes())
            }
            _ => {
                let message = "args must be {\"document\": TEXT}, the text of a canonical document";
                Err(AdapterError::operational(code::INVALID_ARGUMENT, message))
            }
        }
    }

    /// The provider's answer becomes the error of this call, and nothing is kept of it.
    fn rejected(&self, args: &Object) -> AdapterError {
        let is_digest = |value: &Value| {
            value.as_str().is_some_and(|text| {
                text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            })
        };
        let known = ["canonical_sha256", "response", "sha256"];
        let fits = args.len() == known.len()
            && args.contains_key("response")
            && ["canonical_sha256", "sha256"]
                .iter()
                .all(|name| args.get(*name).is_some_and(is_digest));
        if !fits {
            let message = "args must be {\"canonical_sha256\", \"sha256\", \"response\"}: the digests of \
                           an output of translate.render, and what the provider answered";
            return AdapterError::operational(code::INVALID_ARGUMENT, message);
        }
        let target = self.translator.target().id;
        let message = format!("{target} refused the payload; the document is unchanged");
        let rule = rule::PROVIDER_REJECTED;
        AdapterError::operational(rule.code, message)
            .details(json!({ "target": target, "rule": rule.meaning, "hint": rule.remedy }))
            .details(Value::Object(args.clone()))
    }
}

impl Adapter for Translating {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        self.translator.target().id
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        _context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        match (tool, method) {
            (TOOL, RENDER) => self.render(args),
            (TOOL, REJECTED) => Err(self.rejected(&args)),
            _ => {
                let message = format!("there is only {TOOL}.{RENDER} and {TOOL}.{REJECTED}");
                Err(AdapterError::operational(code::INVALID_ARGUMENT, message))
            }
        }
    }

    fn starts_at_once(&self) -> bool {
        // A rendering is over before a thread would have been woken.
        true
    }

    fn has_catalog(&self) -> bool {
        true
    }

    fn catalog(&self, _context: &CallContext) -> Result<Catalog, AdapterError> {
        let target = self.translator.target().id;
        let text = json!({ "type": "string" });
        let digest = json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" });
        let render = Tool::new(
            &format!("render_{}", target.replace('.', "_")),
            &format!("Renders a canonical document (FACET) as the payload of {target}"),
        )
        .operation(TOOL, RENDER)
        .input(json!({
            "type": "object",
            "properties": { "document": text },
            "required": ["document"],
            "additionalProperties": false,
        }))
        .output(json!({
            "type": "object",
            "properties": { "payload": text, "sha256": digest, "canonical_sha256": digest },
            "required": ["payload", "sha256", "canonical_sha256"],
        }));
        Ok(Catalog { tools: vec![render], ..Catalog::default() })
    }

    fn passive(&self) -> Option<Passive> {
        Some(declared::passive(&self.translator))
    }
}

/// The error of a document or a binding that was refused.
fn refused(target: &str, refusal: &Refusal) -> AdapterError {
    let Refusal { rule, pointer, message, offset } = refusal;
    let place = if pointer.is_empty() { "the document" } else { pointer };
    let mut details = json!({
        "target": target,
        "pointer": pointer,
        "rule": rule.meaning,
        "hint": rule.remedy,
    });
    if let Some(offset) = offset {
        details["offset"] = (*offset).into();
    }
    AdapterError::operational(rule.code, format!("{place}: {message}")).details(details)
}

fn setting(value: Value) -> Setting {
    match value {
        Value::String(text) => Setting::Text(text),
        Value::Bool(flag) => Setting::Flag(flag),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => Setting::Number(whole),
            (None, Some(decimal)) => Setting::Decimal(decimal),
            (None, None) => Setting::Other,
        },
        _ => Setting::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Recorder};
    use nexus_router_translate::target;

    fn made(target: &'static Target, config: &Value) -> Result<Translating, AdapterError> {
        Translating::new(target, None, config.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn catalogue_offers_the_rendering_under_the_name_of_the_target() {
        let config = json!({ "api_version": "v1", "model": "m", "store": false, "strict": false });
        let translator = made(target::OPENAI_RESPONSES, &config).unwrap();
        let catalog = translator.catalog(&Recorder::default().context()).unwrap();
        let [tool] = catalog.tools.as_slice() else { panic!("{catalog:?}") };
        assert_eq!(tool.name(), "render_openai_responses");
        assert_eq!((tool.tool.as_str(), tool.method.as_str()), (TOOL, RENDER));
    }

    #[test]
    fn manifest_has_the_settings_of_the_target_and_no_default() {
        const KEYS: [ConfigKey; target::ANTHROPIC.binding.len()] =
            config_keys(target::ANTHROPIC.binding);
        const MANIFEST: Manifest = manifest(target::ANTHROPIC, &KEYS);
        let manifest = testing::manifest(&MANIFEST);
        let keys = manifest["config_schema"].as_object().unwrap();
        assert_eq!(keys.len(), target::ANTHROPIC.binding.len());
        assert!(keys.values().all(|key| key.get("default").is_none()));
        for (name, value_type) in
            [("model", "string"), ("max_tokens", "number"), ("stream", "boolean")]
        {
            assert_eq!(keys[name]["type"], value_type);
            assert_eq!(keys[name]["required"], name != "stream");
        }
        let types = ["temperature", "thinking_budget_tokens", "effort"].map(|n| &keys[n]["type"]);
        assert_eq!(types, ["number", "number", "string"]);
        assert_eq!(manifest["kind"], "anthropic");
    }

    #[test]
    fn binding_that_is_none_is_refused_with_a_pointer() {
        let error =
            made(target::OLLAMA, &json!({ "api_version": "api", "model": "m" })).unwrap_err();
        assert_eq!(error.code, "X.nexus.BINDING_MISSING");
        assert_eq!(error.details["pointer"], "/stream");
        let wrong = json!({ "api_version": "api", "model": "m", "stream": 1.5 });
        assert_eq!(made(target::OLLAMA, &wrong).unwrap_err().code, "X.nexus.BINDING_INVALID");
    }
}
