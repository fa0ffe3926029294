//! The adapters that a host has chosen to use, by id.

mod unavailable;

use std::collections::BTreeMap;

use nexus_router_sdk::Capability;

use crate::loader::Adapter;

pub use unavailable::{Unavailability, UnavailableAdapter};

/// A set of adapters with a default. Nothing registers itself.
#[derive(Clone, Debug)]
pub struct Registry {
    default_adapter_id: String,
    adapters: BTreeMap<String, Adapter>,
    /// Adapters that the operator wants, and that cannot be called now.
    unavailable: Vec<UnavailableAdapter>,
    /// Whether more adapters may come.
    loading: bool,
}

/// What a registry refuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The id is taken.
    #[error("Adapter already registered: {0}")]
    AlreadyRegistered(String),
    /// There is no adapter of this id.
    #[error("Unknown adapter: {adapter_id}")]
    Unknown {
        /// The id.
        adapter_id: String,
        /// The ids that are registered.
        registered: Vec<String>,
        /// Number of adapters that failed to load. The id of one may be unknown until it is loaded.
        failed: usize,
    },
    /// The adapter does not declare the capability.
    #[error("Adapter '{adapter_id}' lacks required capability: {capability}")]
    CapabilityMissing {
        /// The adapter.
        adapter_id: String,
        /// The capability.
        capability: &'static str,
        /// What the adapter does declare.
        declared: Vec<&'static str>,
    },
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::AlreadyRegistered(_) => "ADAPTER_ALREADY_REGISTERED",
            Self::Unknown { .. } => "UNKNOWN_ADAPTER",
            Self::CapabilityMissing { .. } => "CAPABILITY_MISSING",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::AlreadyRegistered(_) => "give one of the two another adapter_id".to_owned(),
            Self::Unknown { registered, failed: 0, .. } if registered.is_empty() => {
                "register an adapter first".to_owned()
            }
            Self::Unknown { registered, failed: 0, .. } => {
                format!("registered are {}", registered.join(", "))
            }
            Self::Unknown { registered, failed, .. } => format!(
                "registered are {}; {failed} failed to load, see `nexus-router adapter list --running`",
                registered.join(", ")
            ),
            Self::CapabilityMissing { declared, .. } => {
                format!("it declares {}; choose another adapter", declared.join(", "))
            }
        }
    }
}

impl Registry {
    /// Makes an empty registry; calls that name no adapter will go to the default.
    #[must_use]
    pub fn new(default_adapter_id: impl Into<String>) -> Self {
        Self {
            default_adapter_id: default_adapter_id.into(),
            adapters: BTreeMap::new(),
            unavailable: Vec::new(),
            loading: false,
        }
    }

    /// Adds an adapter.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`].
    pub fn register(&mut self, adapter: Adapter) -> Result<(), Error> {
        let id = adapter.adapter_id().to_owned();
        if self.adapters.contains_key(&id) {
            return Err(Error::AlreadyRegistered(id));
        }
        self.adapters.insert(id, adapter);
        Ok(())
    }

    /// Returns an adapter.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn get(&self, adapter_id: &str) -> Result<&Adapter, Error> {
        self.adapters.get(adapter_id).ok_or_else(|| Error::Unknown {
            adapter_id: adapter_id.to_owned(),
            registered: self.adapters.keys().cloned().collect(),
            failed: self.unavailable.iter().filter(|one| one.reason.is_some()).count(),
        })
    }

    /// Returns the default adapter.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not registered.
    pub fn get_default(&self) -> Result<&Adapter, Error> {
        self.get(&self.default_adapter_id)
    }

    /// Returns the id of the default adapter.
    #[must_use]
    pub fn default_adapter_id(&self) -> &str {
        &self.default_adapter_id
    }

    /// Lists the adapters in the order of their ids.
    pub fn adapters(&self) -> impl Iterator<Item = &Adapter> {
        self.adapters.values()
    }

    /// Lists the adapters that declare a capability.
    pub fn find_by_capability(&self, capability: Capability) -> impl Iterator<Item = &Adapter> {
        self.adapters().filter(move |adapter| adapter.capabilities().contains(&capability))
    }

    /// Returns an adapter that declares a capability.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::CapabilityMissing`].
    pub fn require(&self, adapter_id: &str, capability: Capability) -> Result<&Adapter, Error> {
        let adapter = self.get(adapter_id)?;
        if adapter.capabilities().contains(&capability) {
            return Ok(adapter);
        }
        Err(Error::CapabilityMissing {
            adapter_id: adapter_id.to_owned(),
            capability: capability.name(),
            declared: adapter.capabilities().iter().map(|declared| declared.name()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_capabilities_asked_for() {
        let mut registry = Registry::new("null");
        assert_eq!(registry.get_default().unwrap_err().to_string(), "Unknown adapter: null");
        registry.register(Adapter::null()).unwrap();
        let again = registry.register(Adapter::null()).unwrap_err();
        assert_eq!(again.to_string(), "Adapter already registered: null");
        assert_eq!(registry.get_default().unwrap().adapter_kind(), "null");
        assert!(registry.require("null", Capability::DryRun).is_ok());
        let missing = registry.require("null", Capability::Apply).unwrap_err();
        assert_eq!(missing.code(), "CAPABILITY_MISSING");
        assert_eq!(missing.hint(), "it declares dry_run; choose another adapter");
        assert_eq!(registry.find_by_capability(Capability::DryRun).count(), 1);
        assert_eq!(registry.adapters().count(), 1);
    }
}
