//! The load of adapters while the daemon serves: one thread that tries them, and puts them in force as they are ready.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Error, Inner, Service, Standing};
use crate::app::{
    ContractChanges, LoadFailure, Prepared, RetryAnswer, TrialOutcome, WantedAdapter, add_disabled,
    warn_of_disabled,
};
use crate::json::{Object, Value};

/// How long outcomes are collected that are put in force together.
const BATCH: Duration = Duration::from_millis(50);
/// How long to wait after adapters could not be put in force, before those that are left are loaded again.
const RETRY: Duration = Duration::from_secs(10);
/// How long children may take to end when the time of a load is over.
const GRACE: Duration = Duration::from_secs(2);

/// How far the first load of adapters is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadPhase {
    /// Adapters are being loaded.
    #[default]
    Loading,
    /// Every adapter is ready or failed.
    Over,
    /// The adapters do not fit the configuration, so the daemon cannot serve.
    Broken,
}

/// Result of a request to load an adapter again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryResult {
    /// It is loaded again.
    Begins,
    /// It is being loaded already.
    Loading,
    /// It is ready.
    Ready,
    /// There is no such adapter.
    Unknown,
}

/// The load of adapters in the background.
#[derive(Default)]
pub(super) struct AdapterLoading {
    phase: watch::Sender<LoadPhase>,
    /// Why the adapters do not fit the configuration.
    error: Mutex<Option<Error>>,
    messages: Mutex<Option<Sender<LoaderMessage>>>,
}

/// Message to the thread that loads adapters.
enum LoaderMessage {
    /// A trial is over.
    Outcome(Box<TrialOutcome>),
    /// Adapters may have to be loaded.
    Look,
}

/// Trials under way, each with the time by which it has to be over.
type TrialsUnderWay = Vec<(WantedAdapter, Instant)>;

impl Service {
    /// Returns how far the first load of adapters is.
    #[must_use]
    pub fn load_phase(&self) -> LoadPhase {
        *self.inner.loading.phase.borrow()
    }

    /// Waits until every adapter is ready or failed.
    ///
    /// # Errors
    /// When the adapters do not fit the configuration, or one failed and all are required. `load_error` has the error.
    pub async fn loaded(&self) -> Result<(), LoadPhase> {
        let mut phase = self.inner.loading.phase.subscribe();
        let phase = phase.wait_for(|phase| *phase != LoadPhase::Loading).await;
        match phase.as_deref() {
            Ok(LoadPhase::Over) => Ok(()),
            _ => Err(LoadPhase::Broken),
        }
    }

    /// Takes the error that ended the first load, if one did.
    #[must_use]
    pub fn load_error(&self) -> Option<Error> {
        self.inner.loading.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Loads an adapter again that failed, in the name of a caller. It is loaded in the background.
    ///
    /// # Errors
    /// When the refusal of its library cannot be forgotten.
    pub fn retry_adapter(&self, adapter_id: &str, name: &str) -> Result<RetryResult, Error> {
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let (prepared, failure) = match self.inner.app.prepare_retry(adapter_id)? {
            RetryAnswer::Begins(prepared, failure) => (prepared, failure),
            RetryAnswer::Loading => return Ok(RetryResult::Loading),
            RetryAnswer::Ready => return Ok(RetryResult::Ready),
            RetryAnswer::Unknown => return Ok(RetryResult::Unknown),
        };
        self.put_adapters_in_force(*prepared)?;
        drop(one);
        let mut payload = Object::new();
        payload.insert("adapter", failure.adapter_id.as_str());
        payload.insert("name", name);
        self.inner.audit.record("adapter.retried", payload);
        tracing::info!(adapter_id, name, "an adapter that failed is loaded again");
        self.look_for_adapters();
        Ok(RetryResult::Begins)
    }

    /// Starts the thread that loads adapters.
    pub(super) fn begin_loading(&self) {
        let (sender, messages) = channel();
        *lock(&self.inner.loading.messages) = Some(sender);
        let inner = Arc::downgrade(&self.inner);
        let thread = std::thread::Builder::new().name("adapter-loader".to_owned());
        if let Err(error) = thread.spawn(move || run(&inner, &messages)) {
            let error = crate::router::Error::Threads(error.to_string());
            self.end_broken(crate::app::Error::from(error).into());
        }
    }

    /// Has the thread look whether there are adapters to load.
    pub(super) fn look_for_adapters(&self) {
        if let Some(sender) = &*lock(&self.inner.loading.messages) {
            drop(sender.send(LoaderMessage::Look));
        }
    }

    /// Records and logs adapters that failed to load.
    pub(super) fn record_failures(&self, failures: &[Arc<LoadFailure>]) {
        for failure in failures {
            failure.warn();
            let mut payload = Object::new();
            payload.insert("adapter", failure.adapter_id.as_str());
            failure.add_to(&mut payload, true);
            self.inner.audit.record("adapter.failed", payload);
        }
    }

    /// Logs and records the adapters that are disabled by their contracts, and those that are called again.
    pub(super) fn record_contracts(&self, changes: &ContractChanges) {
        for (adapter_id, unusable) in &changes.disabled {
            warn_of_disabled(adapter_id, unusable);
            let mut payload = Object::new();
            payload.insert("adapter", adapter_id.as_str());
            add_disabled(&mut payload, unusable);
            self.inner.audit.record("contract.disabled", payload);
        }
        for adapter_id in &changes.restored {
            tracing::info!(
                adapter_id,
                "the contract of the adapter does not keep it from being called any more"
            );
            let mut payload = Object::new();
            payload.insert("adapter", adapter_id.as_str());
            self.inner.audit.record("contract.restored", payload);
        }
    }

    fn end_broken(&self, error: Error) {
        *self.inner.loading.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.inner.loading.phase.send_replace(LoadPhase::Broken);
    }

    /// Puts adapters in force under the same configuration.
    fn put_adapters_in_force(&self, prepared: Prepared) -> Result<(), Error> {
        let (tools, law) = (prepared.tools().clone(), prepared.law().clone());
        let standing = Standing::of(prepared.config(), tools, law, prepared.discovery())?;
        let changed = standing.tools.changes_since(&self.standing().tools);
        let (failures, contracts) = (prepared.new_failures(), prepared.contract_changes());
        self.inner.app.put_in_force(prepared)?;
        self.record_failures(&failures);
        self.record_contracts(&contracts);
        // At the start nothing was permitted before.
        if self.load_phase() == LoadPhase::Over {
            self.record_offers("an adapter was loaded", &standing);
        }
        self.stand(standing, changed);
        Ok(())
    }

    /// Searches the adapter path if that is to be done, and begins the trials of adapters that have none.
    fn begin_trials(&self, under_way: &mut TrialsUnderWay) -> Result<(), Error> {
        let app = &self.inner.app;
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = app.prepare_discovered()? {
            self.put_adapters_in_force(prepared)?;
        }
        drop(one);
        let mut new = app.waiting_adapters()?;
        new.retain(|wanted| !under_way.iter().any(|(known, _)| known.is_same_load(wanted)));
        if new.is_empty() {
            return Ok(());
        }
        let Some(sender) = lock(&self.inner.loading.messages).clone() else { return Ok(()) };
        let tell = |outcome| LoaderMessage::Outcome(Box::new(outcome));
        let deadline = app.begin_trials(new.clone(), (&sender, tell)) + GRACE;
        under_way.extend(new.into_iter().map(|wanted| (wanted, deadline)));
        Ok(())
    }

    /// Applies outcomes. A failure ends the first load if all adapters are required.
    fn apply_outcomes(&self, outcomes: Vec<TrialOutcome>) -> Result<(), Error> {
        let app = &self.inner.app;
        let one = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.load_phase() == LoadPhase::Loading;
        if first {
            let prepared = app.prepare_outcomes(outcomes)?;
            let refused = app.refuse_failures(&prepared);
            self.put_adapters_in_force(prepared)?;
            drop(one);
            return Ok(refused?);
        }
        for outcome in outcomes {
            let wanted = outcome.wanted().clone();
            let was_ready = outcome.error().is_none();
            let taken = match app.prepare_outcomes(vec![outcome]) {
                Ok(prepared) => self.put_adapters_in_force(prepared),
                Err(error) => Err(error.into()),
            };
            let Err(error) = taken else { continue };
            if !was_ready {
                return Err(error);
            }
            // It does not fit the configuration; what is in force stays.
            let outcome = TrialOutcome::unfit(wanted, &error.full_text(), &error.hint());
            self.put_adapters_in_force(app.prepare_outcomes(vec![outcome])?)?;
        }
        drop(one);
        Ok(())
    }

    /// Ends the first load when no adapter is being loaded any more.
    fn end_first_load(&self) -> Result<(), Error> {
        if self.load_phase() != LoadPhase::Loading || self.inner.app.is_loading()? {
            return Ok(());
        }
        let ready = self.inner.app.ready_adapters()?;
        let unready = self.inner.app.unready_adapters()?;
        let failed = unready.iter().filter(|one| !one.needs_config());
        let failed: Vec<Value> = failed.map(|one| one.adapter_id.as_str().into()).collect();
        tracing::info!(ready = ready.len(), failed = failed.len(), "adapters are loaded");
        let mut payload = Object::new();
        payload.insert("ready", ready.into_iter().map(Value::from).collect::<Vec<_>>());
        payload.insert("failed", failed);
        self.inner.audit.record("adapters.loaded", payload);
        self.inner.loading.phase.send_replace(LoadPhase::Over);
        Ok(())
    }
}

/// Loads adapters until the service is gone or drains.
fn run(inner: &Weak<Inner>, messages: &Receiver<LoaderMessage>) {
    let mut under_way = TrialsUnderWay::new();
    let mut outcomes = Vec::new();
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let service = Service { inner };
        if service.is_draining() {
            return;
        }
        let done = match std::mem::take(&mut outcomes) {
            none if none.is_empty() => Ok(()),
            outcomes => service.apply_outcomes(outcomes),
        };
        let done = done
            .and_then(|()| service.begin_trials(&mut under_way))
            .and_then(|()| service.end_first_load());
        let mut retry = None;
        if let Err(error) = done {
            let text = error.full_text();
            if service.load_phase() == LoadPhase::Loading {
                tracing::error!(error = text, "the adapters do not fit the configuration");
                return service.end_broken(error);
            }
            tracing::error!(error = text, "cannot put an adapter in force; will retry");
            retry = Some(Instant::now() + RETRY);
        }
        // It must not keep the service alive while it waits.
        drop(service);
        if !collect(messages, retry, &mut under_way, &mut outcomes) {
            return;
        }
    }
}

/// Waits for outcomes, and for those that come soon after the first one, but not beyond `wake`. False when all senders
/// are gone.
fn collect(
    messages: &Receiver<LoaderMessage>,
    wake: Option<Instant>,
    under_way: &mut TrialsUnderWay,
    outcomes: &mut Vec<TrialOutcome>,
) -> bool {
    let mut end = under_way.iter().map(|(_, deadline)| *deadline).chain(wake).min();
    loop {
        let message = match end {
            Some(end) => messages.recv_timeout(end.saturating_duration_since(Instant::now())),
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match message {
            Ok(LoaderMessage::Outcome(outcome)) => {
                let same = |(wanted, _): &(WantedAdapter, _)| wanted.is_same_load(outcome.wanted());
                // One that was too late has its outcome already.
                if let Some(found) = under_way.iter().position(same) {
                    under_way.remove(found);
                    outcomes.push(*outcome);
                }
                let soon = Instant::now() + BATCH;
                end = Some(end.map_or(soon, |end| end.min(soon)));
                if under_way.is_empty() {
                    return true;
                }
            }
            Ok(LoaderMessage::Look) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    let now = Instant::now();
    let (late, rest) = std::mem::take(under_way).into_iter().partition(|(_, end)| *end <= now);
    *under_way = rest;
    let late: TrialsUnderWay = late;
    outcomes.extend(late.into_iter().map(|(wanted, _)| TrialOutcome::late(wanted)));
    true
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
