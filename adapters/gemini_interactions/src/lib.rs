//! Translates canonical documents for Google's Interactions API: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::GEMINI_INTERACTIONS;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; GEMINI_INTERACTIONS.binding.len()] =
    translator::config_keys(GEMINI_INTERACTIONS.binding);
const MANIFEST: Manifest = translator::manifest(GEMINI_INTERACTIONS, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is not a binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(GEMINI_INTERACTIONS, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
