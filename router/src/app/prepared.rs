//! A configuration whose adapters are loaded, and which is not in force yet; and how it comes to be.

use std::sync::{Arc, PoisonError};

use super::catalogues::FreshCatalogs;
use super::contracts::Contracts;
use super::fleet::{Changes, Fleet, FleetParts, LoadMode};
use super::slot::{AdapterSlot, LoadFailure};
use super::{App, Error, Setup, catalogues, lock};
use crate::config::ConfigFile;
use crate::policy::Law;
use crate::signal::Discovery;
use crate::toolspec::Tools;

/// A configuration that can be put in force.
pub struct Prepared {
    pub(super) before: Arc<Fleet>,
    pub(super) setup: Setup,
    pub(super) fleet: Arc<Fleet>,
}

impl Prepared {
    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &ConfigFile {
        &self.setup.config
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.fleet.tools
    }

    /// Returns what is told of signal contracts to anybody.
    #[must_use]
    pub fn discovery(&self) -> Option<Arc<Discovery>> {
        self.fleet.contracts.discovery.clone()
    }

    /// Says whether adapters offer something else than before.
    #[must_use]
    pub fn has_other_catalogues(&self) -> bool {
        !catalogues::same(&self.before.gathered, &self.fleet.gathered)
    }

    /// Lists the adapters that failed to load and had not failed so before.
    #[must_use]
    pub fn new_failures(&self) -> Vec<Arc<LoadFailure>> {
        let failures = |fleet: &Fleet| -> Vec<Arc<LoadFailure>> {
            let failed = fleet.slots.iter().filter_map(AdapterSlot::failure);
            failed.filter(|failure| !failure.needs_config).cloned().collect()
        };
        let known = failures(&self.before);
        let mut new = failures(&self.fleet);
        new.retain(|one| !known.iter().any(|known| Arc::ptr_eq(known, one)));
        new
    }

    /// Returns what the operator lays down for every run.
    #[must_use]
    pub fn law(&self) -> &Law {
        &self.fleet.law
    }
}

impl App {
    /// Makes everything that another configuration needs: adapters, tools, secrets and the law. Nothing of
    /// it is in force yet.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn prepare(&self, config: ConfigFile) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        let contracts = Arc::new(self.contracts_of(&config, Some(&before))?);
        // What is loaded in the background already is not waited for, unless its failure refuses the change.
        let mode = match before.is_loading() && !config.require_all {
            true => LoadMode::Later,
            false => LoadMode::Now,
        };
        let prepared = self.prepare_with(config, contracts, before, mode)?;
        self.refuse_failures(&prepared)?;
        Ok(prepared)
    }

    /// The same for the configuration and the contracts that are in force, when adapters may offer something else.
    ///
    /// # Errors
    /// When what they offer cannot be used.
    pub fn prepare_offers(&self) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        let contracts = Arc::clone(&before.contracts);
        self.prepare_again(contracts, before)
    }

    /// The same for the configuration and the contracts that are in force, when tools were registered or disabled.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn prepare_tools(&self) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        let contracts = Arc::new(self.register_of(&before)?);
        self.prepare_again(contracts, before)
    }

    /// Prepares the configuration that is in force again. No adapter changes its state.
    fn prepare_again(
        &self,
        contracts: Arc<Contracts>,
        before: Arc<Fleet>,
    ) -> Result<Prepared, Error> {
        let (slots, discovering) = (before.slots.clone(), before.discovering);
        let catalogs = FreshCatalogs::new();
        let parts = FleetParts { slots, discovering, catalogs, asks_all: true };
        self.prepare_parts(contracts, before, parts)
    }

    /// Prepares adapters with their states for the configuration that is in force.
    pub(super) fn prepare_parts(
        &self,
        contracts: Arc<Contracts>,
        before: Arc<Fleet>,
        parts: FleetParts,
    ) -> Result<Prepared, Error> {
        let setup = Setup::new(&self.environment, self.config(), &self.named, &self.ears);
        let asked = (&setup.config, &self.named.adapters[..], contracts);
        let secrets = before.secrets.clone();
        let fleet = Fleet::assemble(asked, &setup.loader, secrets, Some(&before), parts)?;
        let fleet = Arc::new(self.checked(&setup.config, fleet)?);
        Ok(Prepared { before, setup, fleet })
    }

    fn prepare_with(
        &self,
        config: ConfigFile,
        contracts: Arc<Contracts>,
        before: Arc<Fleet>,
        mode: LoadMode,
    ) -> Result<Prepared, Error> {
        let setup = Setup::new(&self.environment, config, &self.named, &self.ears);
        let fleet = Arc::new(self.load(&setup, contracts, (Some(&before), mode))?);
        Ok(Prepared { before, setup, fleet })
    }

    /// Puts what was prepared in force. Runs that are under way keep to what they began with. The store
    /// stays where it is.
    ///
    /// # Errors
    /// When the router refuses it. Then what was stays in force.
    pub fn put_in_force(&self, prepared: Prepared) -> Result<Changes, Error> {
        let Prepared { before, setup, fleet } = prepared;
        self.record_refused(&fleet, Some(&before))?;
        if let Some(router) = &*lock(&self.router) {
            router.replace(fleet.registry.clone(), self.options(&setup.config, &fleet))?;
        }
        let changes = fleet.changes_since(&before);
        for gone in &changes.removed {
            self.metrics.forget_adapter(gone);
        }
        *lock(&setup.fleet) = Some(fleet);
        *self.setup.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
        Ok(changes)
    }
}
