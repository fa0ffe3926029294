//! A configuration whose adapters are loaded, and which is not in force yet; and how it comes to be.

use std::sync::{Arc, PoisonError};

use super::contracts::Contracts;
use super::fleet::{Changes, Fleet};
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
        self.prepare_with(config, contracts, before)
    }

    /// The same for the configuration and the contracts that are in force, when adapters may offer something else.
    ///
    /// # Errors
    /// When what they offer cannot be used.
    pub fn prepare_offers(&self) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        self.prepare_with(self.config(), Arc::clone(&before.contracts), before)
    }

    /// The same for the configuration and the contracts that are in force, when tools were registered or disabled.
    ///
    /// # Errors
    /// When the register cannot be read.
    pub fn prepare_tools(&self) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        let contracts = Arc::new(self.register_of(&before)?);
        self.prepare_with(self.config(), contracts, before)
    }

    fn prepare_with(
        &self,
        config: ConfigFile,
        contracts: Arc<Contracts>,
        before: Arc<Fleet>,
    ) -> Result<Prepared, Error> {
        let setup = Setup::new(&self.environment, config, &self.named, &self.ears);
        let fleet = Arc::new(self.load(&setup, contracts, Some(&before))?);
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
