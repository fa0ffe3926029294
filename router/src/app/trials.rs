//! Trials of several adapters at once, each on a thread of its own, within one time for all of them.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, Catalog};

use super::catalogues;
use super::slot::WantedAdapter;
use crate::digest::Digest;
use crate::loader::{Adapter, AdapterLoadError, Loader, Reason, TrialPlaces};

/// Threads that load adapters. Most of them wait for a child.
const THREADS: usize = 256;
/// How long children may take to end when the time is over.
const GRACE: Duration = Duration::from_secs(2);

/// Answer of an adapter that was asked for its catalogue.
pub(super) type CatalogAnswer = Result<Catalog, AdapterError>;

/// Result of the trial of an adapter.
pub(crate) struct TrialOutcome {
    pub(super) wanted: WantedAdapter,
    pub(super) result: Result<Adapter, AdapterLoadError>,
    /// The library before the trial, if it is known.
    pub(super) digest: Option<Digest>,
    /// Its catalogue, if it has one.
    pub(super) catalog: Option<CatalogAnswer>,
}

impl TrialOutcome {
    /// Returns the error of the load, if it failed.
    pub(crate) fn error(&self) -> Option<&AdapterLoadError> {
        self.result.as_ref().err()
    }

    /// Makes the outcome of a trial that failed.
    const fn failed(wanted: WantedAdapter, error: AdapterLoadError) -> Self {
        Self { wanted, result: Err(error), digest: None, catalog: None }
    }

    /// Makes the outcome of a trial that did not end in time.
    pub(crate) fn late(wanted: WantedAdapter) -> Self {
        let message = "it was not loaded before workers.load_timeout_ms was over";
        let hint = "raise workers.load_timeout_ms, or load it with `nexus-router adapter retry`";
        let reason = Reason::LibraryTimedOut;
        let error = AdapterLoadError::new(&wanted.entry.factory_ref, reason, message);
        Self::failed(wanted, error.with_hint(hint))
    }

    /// Returns the adapter that was to be loaded.
    pub(crate) const fn wanted(&self) -> &WantedAdapter {
        &self.wanted
    }

    /// Makes the outcome of an adapter that does not fit the configuration.
    pub(crate) fn unfit(wanted: WantedAdapter, why: &str, hint: &str) -> Self {
        let (factory_ref, reason) = (&wanted.entry.factory_ref, Reason::ConfigInvalid);
        let error = AdapterLoadError::new(factory_ref, reason, why).with_hint(hint);
        Self::failed(wanted, error)
    }
}

/// Begins to load adapters, and returns when all of them have to be loaded. Each outcome goes to `tell`.
pub(super) fn begin<T: Send + 'static>(
    loader: &Loader,
    wanted: Vec<WantedAdapter>,
    budget: Duration,
    (sink, tell): (&Sender<T>, fn(TrialOutcome) -> T),
) -> Instant {
    let places = TrialPlaces::new(budget);
    let deadline = places.deadline();
    let loader = Arc::new(Loader { places: Some(places), ..loader.clone() });
    let threads = wanted.len().min(THREADS);
    let queue = Arc::new(Mutex::new(VecDeque::from(wanted)));
    for _ in 0..threads {
        let (loader, own, own_sink) = (Arc::clone(&loader), Arc::clone(&queue), sink.clone());
        let work = move || {
            while let Some(wanted) = next(&own) {
                // Without a receiver, the adapter ends with its outcome.
                drop(own_sink.send(tell(run(&loader, wanted))));
            }
        };
        let thread = std::thread::Builder::new().name("adapter-trial".to_owned());
        if let Err(error) = thread.spawn(work) {
            tracing::error!(%error, "cannot start a thread that loads adapters");
        }
    }
    deadline
}

fn next(queue: &Mutex<VecDeque<WantedAdapter>>) -> Option<WantedAdapter> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn run(loader: &Loader, wanted: WantedAdapter) -> TrialOutcome {
    // A library that is replaced while it is tried differs from this, and is tried again.
    let digest = wanted.digest(loader);
    let result = wanted.load(loader);
    let catalog = match &result {
        Ok(adapter) if adapter.has_catalog() => Some(catalogues::ask(adapter)),
        _ => None,
    };
    TrialOutcome { wanted, result, digest, catalog }
}

/// Loads adapters, and waits for all of them as long as they have time.
pub(super) fn run_all(
    loader: &Loader,
    wanted: Vec<WantedAdapter>,
    budget: Duration,
) -> Vec<TrialOutcome> {
    let mut missing = wanted.clone();
    if missing.is_empty() {
        return Vec::new();
    }
    let (sink, told) = channel();
    let end = begin(loader, wanted, budget, (&sink, |outcome| outcome)) + GRACE;
    drop(sink);
    let mut outcomes = Vec::with_capacity(missing.len());
    while !missing.is_empty() {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(outcome) => {
                let found = missing.iter().position(|one| one.is_same_load(&outcome.wanted));
                if let Some(found) = found {
                    missing.remove(found);
                }
                outcomes.push(outcome);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    outcomes.extend(missing.into_iter().map(TrialOutcome::late));
    outcomes
}
