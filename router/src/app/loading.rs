//! Adapters that are loaded while the router works: tried in the background, and put in force as they become ready.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::catalogues::FreshCatalogs;
use super::fleet::{Fleet, FleetParts, scrubbing, without};
use super::slot::{
    AdapterCounts, AdapterOrigin, AdapterSlot, LoadFailure, SlotState, UnreadyAdapter,
    WantedAdapter,
};
use super::trials::TrialOutcome;
use super::{App, Error, Prepared, plan, trials};
use crate::config::ConfigFile;
use crate::loader::{FactoryRef, Loader};
use crate::secret::Secrets;

/// Answer to a request to load an adapter again.
pub(crate) enum RetryAnswer {
    /// It is loaded again, once the change is put in force.
    Begins(Box<Prepared>, Arc<LoadFailure>),
    /// It is being loaded already.
    Loading,
    /// It is ready.
    Ready,
    /// There is no such adapter.
    Unknown,
}

impl App {
    /// Returns whether adapters are being loaded.
    pub(crate) fn is_loading(&self) -> Result<bool, Error> {
        Ok(self.fleet()?.is_loading())
    }

    /// Returns how many adapters there are in each state. Libraries that only need a configuration do not count.
    #[must_use]
    pub fn adapter_counts(&self) -> AdapterCounts {
        let mut counts = AdapterCounts::default();
        let Ok(fleet) = self.fleet() else { return counts };
        counts.loading += usize::from(fleet.discovering);
        for slot in &fleet.slots {
            match &slot.state {
                SlotState::Loading => counts.loading += 1,
                SlotState::Ready(_) => counts.ready += 1,
                SlotState::Failed(failure) if failure.needs_config => {}
                SlotState::Failed(_) => counts.failed += 1,
            }
        }
        counts
    }

    /// Lists the adapters that are being loaded or failed to load.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn unready_adapters(&self) -> Result<Vec<UnreadyAdapter>, Error> {
        Ok(self.fleet()?.slots.iter().filter_map(AdapterSlot::unready).collect())
    }

    /// Lists the ids of the adapters that serve, without the built-in one if nobody asked for it.
    pub(crate) fn ready_adapters(&self) -> Result<Vec<String>, Error> {
        let fleet = self.fleet()?;
        let members = fleet.slots.iter().filter_map(AdapterSlot::member);
        Ok(members.map(|member| member.adapter.adapter_id().to_owned()).collect())
    }

    /// Searches the adapter path if that is still to be done, and prepares a change that adds the adapters on it.
    pub(crate) fn prepare_discovered(&self) -> Result<Option<Prepared>, Error> {
        let (setup, before) = (self.setup(), self.fleet()?);
        if !before.discovering {
            return Ok(None);
        }
        let loader = scrubbing(&setup.loader, &self.hidden);
        let slots = plan::discover(&loader, Some(&before), &setup.config.workers);
        let (discovering, catalogs) = (false, FreshCatalogs::new());
        let parts = FleetParts { slots, discovering, catalogs, asks_all: false };
        self.prepare_parts(Arc::clone(&before.contracts), before, parts).map(Some)
    }

    /// Lists the adapters that are to be loaded.
    pub(crate) fn waiting_adapters(&self) -> Result<Vec<WantedAdapter>, Error> {
        let fleet = self.fleet()?;
        let loading = fleet.slots.iter().filter(|slot| slot.is_loading());
        Ok(loading.map(|slot| slot.wanted.clone()).collect())
    }

    /// Begins to load adapters, and returns when all of them have to be loaded.
    pub(crate) fn begin_trials<T: Send + 'static>(
        &self,
        wanted: Vec<WantedAdapter>,
        told: (&Sender<T>, fn(TrialOutcome) -> T),
    ) -> Instant {
        let setup = self.setup();
        let loader = scrubbing(&setup.loader, &self.hidden);
        trials::begin(&loader, wanted, setup.config.workers.load_timeout, told)
    }

    /// Prepares a change that applies the outcomes of trials. Outcomes of adapters that are not wanted any more are
    /// dropped.
    pub(crate) fn prepare_outcomes(&self, outcomes: Vec<TrialOutcome>) -> Result<Prepared, Error> {
        let before = self.fleet()?;
        let mut slots = before.slots.clone();
        let loader = scrubbing(&self.setup().loader, &self.hidden);
        let catalogs = apply(&mut slots, outcomes, &loader, &before.secrets);
        let discovering = before.discovering;
        let parts = FleetParts { slots, discovering, catalogs, asks_all: false };
        self.prepare_parts(Arc::clone(&before.contracts), before, parts)
    }

    /// Prepares another load of an adapter that failed, and forgets that its library was refused.
    pub(crate) fn prepare_retry(&self, name: &str) -> Result<RetryAnswer, Error> {
        let before = self.fleet()?;
        let mut slots = before.slots.clone();
        let Some(slot) = slots.iter_mut().find(|slot| slot.is_named(name)) else {
            let known = before.registry.get(name).is_ok();
            return Ok(if known { RetryAnswer::Ready } else { RetryAnswer::Unknown });
        };
        let failure = match &slot.state {
            SlotState::Ready(_) => return Ok(RetryAnswer::Ready),
            SlotState::Loading => return Ok(RetryAnswer::Loading),
            SlotState::Failed(failure) => Arc::clone(failure),
        };
        slot.wanted
            .forget_refusal(&self.setup().loader)
            .map_err(|error| without(&before.secrets, &error))?;
        let mut discovering = before.discovering;
        match FactoryRef::parse(&slot.wanted.entry.factory_ref) {
            Ok(_) => slot.set(SlotState::Loading),
            // A file that could not be read is listed without its factories.
            Err(_) => discovering = true,
        }
        let catalogs = FreshCatalogs::new();
        let parts = FleetParts { slots, discovering, catalogs, asks_all: false };
        let prepared = self.prepare_parts(Arc::clone(&before.contracts), before, parts)?;
        Ok(RetryAnswer::Begins(Box::new(prepared), failure))
    }
}

impl App {
    /// Refuses adapters that do not fit the rest of the configuration.
    pub(super) fn checked(&self, config: &ConfigFile, fleet: Fleet) -> Result<Fleet, Error> {
        let fleet = self.refuse_unknown_bindings(config, fleet)?;
        self.refuse_misplaced(config, fleet)
    }

    /// Refuses a change in which an adapter failed to load, if all are required.
    ///
    /// # Errors
    /// With the first failure.
    pub(crate) fn refuse_failures(&self, prepared: &Prepared) -> Result<(), Error> {
        match prepared.setup.config.require_all {
            true => self
                .refuse_failed(&prepared.setup.config, &prepared.fleet)
                .inspect_err(|_| prepared.fleet.warn_of_failed()),
            false => Ok(()),
        }
    }

    /// Refuses adapters that failed to load where all are required, and those that were named for this very use.
    ///
    /// # Errors
    /// With the first failure that is not accepted.
    pub(super) fn refuse_failed(&self, config: &ConfigFile, fleet: &Fleet) -> Result<(), Error> {
        let strict =
            |slot: &&AdapterSlot| config.require_all || slot.wanted.origin == AdapterOrigin::Named;
        let failed = fleet.slots.iter().filter(strict).filter_map(AdapterSlot::failure);
        let mut failed = failed.filter(|failure| !failure.needs_config);
        match failed.next() {
            Some(failure) => Err(without(&fleet.secrets, &failure.error).into()),
            None => Ok(()),
        }
    }
}

impl Fleet {
    /// Returns the error of the first adapter that failed to load; none failed if it is still being loaded.
    pub(super) fn first_failure(&self) -> Error {
        let mut failed = self.slots.iter().filter_map(AdapterSlot::failure);
        match failed.find(|failure| !failure.needs_config) {
            Some(failure) => without(&self.secrets, &failure.error).into(),
            None => Error::Overloaded("adapters are being loaded"),
        }
    }

    /// Logs every adapter that failed to load, with the reason and the remedy.
    pub(super) fn warn_of_failed(&self) {
        let failed = self.slots.iter().filter_map(AdapterSlot::failure);
        failed.filter(|failure| !failure.needs_config).for_each(|failure| failure.warn());
    }
}

/// Gives adapters that are being loaded the outcomes of their trials, and returns the catalogues that came with them.
pub(super) fn apply(
    slots: &mut [AdapterSlot],
    outcomes: Vec<TrialOutcome>,
    loader: &Loader,
    secrets: &Secrets,
) -> FreshCatalogs {
    let mut catalogs = FreshCatalogs::new();
    for TrialOutcome { wanted, result, digest, catalog } in outcomes {
        let mut loading = slots.iter_mut().filter(|slot| slot.is_loading());
        let Some(slot) = loading.find(|slot| slot.wanted.is_same_load(&wanted)) else { continue };
        match result {
            Ok(adapter) => {
                catalogs.extend(catalog.map(|catalog| (adapter.clone(), catalog)));
                slot.set(SlotState::Ready(slot.wanted.member(adapter)));
            }
            Err(error) => {
                let error = without(secrets, &error);
                let digest = digest.or_else(|| slot.wanted.digest(loader));
                let failure = slot.wanted.failure(error, digest);
                slot.set(SlotState::Failed(failure));
            }
        }
    }
    catalogs
}
