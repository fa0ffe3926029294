//! Translates canonical documents for OpenAI's responses: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::OPENAI_RESPONSES;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; OPENAI_RESPONSES.binding.len()] =
    translator::config_keys(OPENAI_RESPONSES.binding);
const MANIFEST: Manifest = translator::manifest(OPENAI_RESPONSES, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is no binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(OPENAI_RESPONSES, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
