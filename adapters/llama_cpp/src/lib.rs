//! Translates canonical documents for the server of llama.cpp: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::LLAMA_CPP;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; LLAMA_CPP.binding.len()] = translator::config_keys(LLAMA_CPP.binding);
const MANIFEST: Manifest = translator::manifest(LLAMA_CPP, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is no binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(LLAMA_CPP, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
