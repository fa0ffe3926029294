//! Slots: limit the concurrent calls of one adapter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{FOREVER, cancelled, time_from};
use crate::metrics::{CallInFlight, CallWaits};

/// A slot for one call. It is free again when the adapter is done, not when the caller stops waiting.
#[derive(Debug)]
pub(crate) struct CallSlot {
    _permit: Option<OwnedSemaphorePermit>,
    _in_flight: CallInFlight,
}

impl CallSlot {
    /// Returns a slot of an adapter that has no limit.
    pub(super) fn unlimited(waits: CallWaits) -> Self {
        Self { _permit: None, _in_flight: waits.begins() }
    }

    /// Takes a free slot, or a place in the queue.
    pub(super) fn take(
        free: &Arc<Semaphore>,
        waits: CallWaits,
        limit: Duration,
    ) -> Result<Self, SlotQueue> {
        match Arc::clone(free).try_acquire_owned() {
            Ok(permit) => Ok(Self { _permit: Some(permit), _in_flight: waits.begins() }),
            Err(_) => Err(SlotQueue { free: Arc::clone(free), waits, limit }),
        }
    }
}

/// A place in the queue for a slot, counted as a waiting call.
#[derive(Debug)]
pub(crate) struct SlotQueue {
    free: Arc<Semaphore>,
    waits: CallWaits,
    /// The time that calls of the adapter have.
    limit: Duration,
}

impl SlotQueue {
    /// Waits for a slot as long as for a call: the calls that hold the slots may never end. The semaphore
    /// serves in the order of arrival, so a long run does not starve a short one.
    ///
    /// # Errors
    /// When the time of the step or of the run is over, or the run is cancelled; with the time that passed.
    pub(crate) async fn wait(
        self,
        step: Option<Duration>,
        run: Option<Instant>,
        given_up: &Notify,
    ) -> Result<CallSlot, (AdapterError, Duration)> {
        let Self { free, waits, limit } = self;
        let since = Instant::now();
        let time = time_from(since, limit, step, run);
        let not_called = serde_json::json!({ "called": false });
        let error = tokio::select! {
            permit = free.acquire_owned() => match permit {
                Ok(permit) => {
                    return Ok(CallSlot { _permit: Some(permit), _in_flight: waits.begins() });
                }
                Err(_) => AdapterError::bug("the router is closed"),
            },
            () = tokio::time::sleep(time.min(FOREVER)) => {
                let message = "all call slots of the adapter are in use";
                let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                AdapterError::operational(code::TIMEOUT, message)
                    .details(serde_json::json!({ "timeout_ms": timeout_ms }))
            }
            () = given_up.notified() => cancelled(),
        };
        Err((error.details(not_called), since.elapsed()))
    }
}
