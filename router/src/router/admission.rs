//! Admission of new runs: the limit of all runs, and the share of the caller's token.

use super::places::Place;
use super::{Error, Inner, Router, Submission};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::dispatch::Surroundings;
use crate::outcome::Recorded;
use crate::registry::{Registry, Unavailability};
use crate::request::{Mode, Request, Step};
use crate::share::{self, ShareRefusal};
use crate::store::{self, Orphan};

/// The milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

impl Inner {
    /// Takes a place for a run.
    pub(super) fn enter(&self, submission: &Submission) -> Result<Place, Error> {
        self.store.refuse_unusable()?;
        if self.store.is_full() {
            let problem = "it is in memory, and holds only runs that are under way or wait";
            return Err(store::Error::Full(problem.to_owned()).into());
        }
        let token = share::token_id(submission.caller.as_deref());
        self.places.take(token)
    }
}

impl Router {
    /// Charges each token with the bytes that its runs stored within the last hour, as if that were now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn restore_usage(&self) -> Result<(), Error> {
        let since = self.inner.clock.now().as_millis() - HOUR_MS;
        let since = Timestamp::from_millis(since);
        let stored = self.inner.store.stored_bytes_since(since)?;
        let around = self.inner.around();
        for (token, bytes) in stored {
            if let Some(meter) = around.ledger.meter(&token) {
                meter.charge(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
        }
        Ok(())
    }
}

/// Returns the caller of a run whose process is gone, if the record has one.
pub(super) fn caller_of(orphan: &Orphan) -> Option<Caller> {
    Recorded::read(&orphan.log).caller.as_ref().and_then(Caller::read)
}

/// Refuses a run of which an adapter is still being loaded, before anything is recorded: the same request may succeed
/// a moment later, also under its idempotency key.
pub(super) fn refuse_loading(registry: &Registry, request: &Request) -> Result<(), Error> {
    if !registry.is_loading() {
        return Ok(());
    }
    let whole = request.dispatch().adapter_id();
    let of_step = |step: &Step| match step.dispatch().adapter_id().or(whole) {
        Some(adapter_id) => registry.unavailability(adapter_id),
        None => registry
            .unaddressed_unavailability(step.tool())
            .or_else(|| registry.unavailability(registry.default_adapter_id())),
    };
    let mut steps = request.plan().iter().filter_map(of_step);
    let found = match request.plan() {
        [] => registry.unavailability(whole.unwrap_or(registry.default_adapter_id())),
        _ => steps.find(Unavailability::is_loading),
    };
    match found.filter(Unavailability::is_loading) {
        Some(unavailable) => Err(Error::Unavailable(unavailable)),
        None => Ok(()),
    }
}

/// Refuses a run whose first call would find the queue share of its token in use, before anything is recorded.
pub(super) fn refuse_full_queue(
    around: &Surroundings,
    request: &Request,
    caller: Option<&Caller>,
) -> Result<(), Error> {
    let token = share::token_id(caller);
    let Some(step) = request.plan().first().filter(|_| !token.is_empty()) else { return Ok(()) };
    if request.mode() != Mode::Apply && !request.policy().simulate {
        return Ok(());
    }
    let own = step.dispatch().adapter_id();
    let adapter_id = own
        .or_else(|| request.dispatch().adapter_id())
        .unwrap_or(around.registry.default_adapter_id());
    match around.host.full_queue(adapter_id, token) {
        None => Ok(()),
        Some(limit) => Err(ShareRefusal::Queue { adapter_id: adapter_id.to_owned(), limit }.into()),
    }
}
