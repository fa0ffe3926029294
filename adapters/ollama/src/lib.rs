//! Translates canonical documents for Ollama's chat: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::OLLAMA;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; OLLAMA.binding.len()] = translator::config_keys(OLLAMA.binding);
const MANIFEST: Manifest = translator::manifest(OLLAMA, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is no binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(OLLAMA, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
