//! Translates canonical documents for OpenAI's chat completions: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::OPENAI;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; OPENAI.binding.len()] = translator::config_keys(OPENAI.binding);
const MANIFEST: Manifest = translator::manifest(OPENAI, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is no binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(OPENAI, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
