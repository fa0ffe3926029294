//! Translates canonical documents for Anthropic's messages: a pure function, bound by its configuration.
#![forbid(unsafe_code)]

use nexus_router_sdk::translate::target::ANTHROPIC;
use nexus_router_sdk::translator::{self, Translating};
use nexus_router_sdk::{AdapterError, ConfigKey, Manifest, Object, export_adapter};

const KEYS: [ConfigKey; ANTHROPIC.binding.len()] = translator::config_keys(ANTHROPIC.binding);
const MANIFEST: Manifest = translator::manifest(ANTHROPIC, &KEYS);

/// Makes the translator.
///
/// # Errors
/// When the configuration is no binding of the target.
pub fn create_adapter(
    adapter_id: Option<&str>,
    config: Object,
) -> Result<Translating, AdapterError> {
    Translating::new(ANTHROPIC, adapter_id, config)
}

export_adapter!(create_adapter, MANIFEST);
