//! The adapters of a router, loaded as the operator says, and every secret that they were given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::error::Error;
use crate::config::{self, AdapterEntry, ConfigFile};
use crate::loader::{Adapter, AdapterLoadError, LoadRequest, Loader, Notice, NoticeSink};
use crate::registry::Registry;
use crate::secret::{Secrets, secret_values};

/// Loaded adapters.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) registry: Registry,
    pub(super) secrets: Secrets,
    /// Calls at once and time per call, for adapters that have their own.
    pub(super) limits: BTreeMap<String, (Option<usize>, Option<Duration>)>,
}

impl Fleet {
    /// Loads the adapters of a configuration, and those that are named besides. The built-in one is always
    /// there.
    pub(super) fn load(
        loader: &Loader,
        config: &ConfigFile,
        named: &[AdapterEntry],
    ) -> Result<Self, Error> {
        let secrets = Secrets::from_sources(&config.secrets, config::variable)
            .map_err(|source| Error::Secret { place: "router.toml".to_owned(), source })?;
        let entries: Vec<(&AdapterEntry, Value)> = named
            .iter()
            .chain(&config.adapters)
            .map(|entry| Ok((entry, resolved(entry, &secrets)?)))
            .collect::<Result<_, Error>>()?;
        // All of them, before the first one is loaded: one adapter may tell what another was given.
        let hidden = entries.iter().filter_map(|(_, config)| config.as_object());
        let secrets = secrets.with_hidden_values(hidden.flat_map(secret_values));
        let notices = scrubbed(&loader.notices, &secrets);
        let loader = Loader { notices, ..loader.clone() };
        let mut adapters = Vec::with_capacity(entries.len());
        for (entry, config) in &entries {
            let request = LoadRequest {
                factory_ref: &entry.factory_ref,
                adapter_id: entry.id.as_deref(),
                config,
                pin: entry.pin,
            };
            adapters.push(loader.load(&request).map_err(|error| without(&secrets, &error))?);
        }
        let limits = entries.iter().zip(&adapters).map(|((entry, _), adapter)| {
            (adapter.adapter_id().to_owned(), (entry.calls, entry.timeout))
        });
        let limits = limits.filter(|(_, own)| *own != (None, None)).collect();
        let default = default_adapter(config, named, &adapters);
        let mut registry = Registry::new(default);
        registry.register(Adapter::null())?;
        for adapter in adapters {
            // The built-in one is there already, and there is only one of it.
            if adapter.factory_ref() != Adapter::NULL_REF {
                registry.register(adapter)?;
            }
        }
        registry.get_default()?;
        Ok(Self { registry, secrets, limits })
    }
}

/// Chooses the adapter of steps that name none: the first that was named for this very use, the one that
/// the configuration says, its only one, or the built-in one.
fn default_adapter(config: &ConfigFile, named: &[AdapterEntry], loaded: &[Adapter]) -> String {
    let only = |loaded: &[Adapter]| match loaded {
        [one] => Some(one.adapter_id().to_owned()),
        _ => None,
    };
    let chosen = match (named, loaded) {
        ([_, ..], [first, ..]) => Some(first.adapter_id().to_owned()),
        _ => config.default_adapter.clone().or_else(|| only(loaded)),
    };
    chosen.unwrap_or_else(|| Adapter::null().adapter_id().to_owned())
}

/// Returns an adapter's configuration with the secrets that it refers to.
fn resolved(entry: &AdapterEntry, secrets: &Secrets) -> Result<Value, Error> {
    let resolved = secrets.resolve(&entry.config).map_err(|source| {
        let place = format!("the configuration of {}", entry.factory_ref);
        Error::Secret { place, source }
    })?;
    Ok(Value::Object(resolved.to_serde()))
}

/// Takes secrets out of the error of a load, which may repeat what another adapter was given.
fn without(secrets: &Secrets, error: &AdapterLoadError) -> AdapterLoadError {
    let scrubbed = AdapterLoadError::new(
        error.factory_ref(),
        error.reason(),
        secrets.scrub(&error.to_string()),
    )
    .with_hint(secrets.scrub(error.hint()));
    match error.cause() {
        Some(cause) => scrubbed.caused_by(&cause.cause_type, secrets.scrub(&cause.text)),
        None => scrubbed,
    }
}

/// Returns a sink that passes notices on without secrets.
fn scrubbed(sink: &NoticeSink, secrets: &Secrets) -> NoticeSink {
    let (sink, secrets) = (Arc::clone(sink), secrets.clone());
    Arc::new(move |notice| {
        sink(match notice {
            Notice::Log { level, message, fields, call_id } => Notice::Log {
                level,
                message: secrets.scrub(&message),
                fields: secrets.scrub_object(&fields),
                call_id,
            },
            Notice::Progress { done, total, message, call_id } => {
                Notice::Progress { done, total, message: secrets.scrub(&message), call_id }
            }
            Notice::Output { text, call_id } => {
                Notice::Output { text: secrets.scrub(&text), call_id }
            }
        });
    })
}
