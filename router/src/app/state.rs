//! How an adapter does, and where it runs, in the form that callers get.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::{App, Error, add_disabled};
use crate::clock::{Clock, Timestamp};
use crate::json::{Object, Value};
use crate::loader::{Adapter, Workers};

impl App {
    /// Adds how an adapter does: `isolation`, `state`, which is `disabled` while its contract cannot be used, `workers`, `restarts`, `last_end` and `until`. One that
    /// runs in this process has none of the rest. `undeclared_error_codes` counts, by code, the errors whose codes the
    /// adapter did not declare; `undeclared_failure_codes` does by operation, for codes that its interface contract does
    /// not list. `circuit` is the state of its circuit breaker, if it has one, with `circuit_until` and `circuit_error`.
    pub(crate) fn add_state(&self, object: &mut Object, adapter: &Adapter) {
        let workers = adapter.workers();
        let isolation = adapter.confined().isolation.name();
        object.insert("isolation", isolation);
        object.insert("state", workers.as_ref().map_or(isolation, |workers| workers.state));
        if let Some(unusable) =
            self.disabled_adapters().ok().and_then(|mut all| all.remove(adapter.adapter_id()))
        {
            object.insert("state", "disabled");
            add_disabled(object, &unusable);
        }
        let number = workers.as_ref().map_or(0, |workers| workers.processes.len());
        object.insert("workers", number);
        object.insert("restarts", workers.as_ref().map_or(0, |workers| workers.restarts));
        let last_end = workers.as_ref().and_then(|workers| workers.last_end.as_deref());
        object.insert("last_end", last_end.map(|text| self.scrubbed(text)));
        object.insert("until", workers.as_ref().and_then(until));
        let mut undeclared = Object::new();
        for (code, count) in adapter.undeclared_codes() {
            undeclared.insert(self.scrubbed(&code), count);
        }
        object.insert("undeclared_error_codes", undeclared);
        let mut of_contract = Object::new();
        for (operation, codes) in adapter.undeclared_failures() {
            let codes: Object = codes
                .into_iter()
                .map(|(code, count)| (self.scrubbed(&code), count.into()))
                .collect();
            of_contract.insert(operation, codes);
        }
        object.insert("undeclared_failure_codes", of_contract);
        let circuit = adapter.breaker().map(|breaker| breaker.status(Instant::now()));
        object.insert("circuit", circuit.as_ref().map(|circuit| circuit.state));
        object.insert("circuit_until", circuit.as_ref().and_then(|circuit| moment(circuit.left?)));
        object.insert("circuit_error", circuit.and_then(|it| Some(self.scrubbed(&it.code?))));
    }

    /// Lists the refs of the libraries that are loaded, each with the file that it would be loaded from now.
    pub(crate) fn libraries(&self) -> Vec<(String, Option<PathBuf>)> {
        let Ok(fleet) = self.fleet() else { return Vec::new() };
        let loader = &self.setup().loader;
        let found = |factory_ref: &str| (factory_ref.to_owned(), loader.find(factory_ref));
        fleet.libraries().into_iter().map(found).collect()
    }

    /// Says whether a ref would be loaded from other bytes now.
    ///
    /// # Errors
    /// When it could not be loaded.
    pub(crate) fn is_outdated(&self, factory_ref: &str) -> Result<bool, Error> {
        Ok(self.fleet()?.is_outdated(&self.setup().loader, factory_ref)?)
    }

    /// Returns a text of an adapter without what is hidden by now.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        self.hidden.read().unwrap_or_else(PoisonError::into_inner).scrub(text)
    }
}

/// Returns the moment after a time.
pub(crate) fn moment(left: Duration) -> Option<String> {
    let left = i64::try_from(left.as_millis()).ok()?;
    let now = Clock::System.now().as_millis();
    Some(Timestamp::from_millis(now.checked_add(left)?).to_string())
}

/// Returns when a worker may be started again, if none may now.
pub(crate) fn until(workers: &Workers) -> Option<String> {
    moment(workers.left?)
}

/// Adds how an adapter is confined: `confinement`, and of workers `landlock`, what is `missing` and the
/// `grants`, as far as there are any.
pub(crate) fn add_confinement(object: &mut Object, adapter: &Adapter) {
    let confined = adapter.confined();
    object.insert("confinement", confined.confinement.as_str());
    if let Some(landlock) = confined.landlock_in_force() {
        object.insert("landlock", landlock);
    }
    let missing: Vec<Value> = confined.missing_names().into_iter().map(Value::from).collect();
    if !missing.is_empty() {
        object.insert("missing", missing);
    }
    if !confined.grants.is_empty() {
        object.insert("grants", confined.grants.to_json());
    }
}
