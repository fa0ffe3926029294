//! Seats: how many calls of one adapter are under way at once, and who waits for the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{FOREVER, cancelled};
use crate::metrics::{CallInFlight, CallWaits};

/// A seat for one call. It is free again when the adapter is done, not when the caller stops waiting.
#[derive(Debug)]
pub(crate) struct CallSeat {
    _permit: Option<OwnedSemaphorePermit>,
    _in_flight: CallInFlight,
}

impl CallSeat {
    /// Returns a seat of an adapter that has no limit.
    pub(super) fn unlimited(waits: CallWaits) -> Self {
        Self { _permit: None, _in_flight: waits.begins() }
    }

    /// Takes a free seat, or a place in the queue.
    pub(super) fn take(
        free: &Arc<Semaphore>,
        waits: CallWaits,
        limit: Duration,
    ) -> Result<Self, SeatQueue> {
        match Arc::clone(free).try_acquire_owned() {
            Ok(permit) => Ok(Self { _permit: Some(permit), _in_flight: waits.begins() }),
            Err(_) => Err(SeatQueue { free: Arc::clone(free), waits, limit }),
        }
    }
}

/// A place in the queue for a seat, counted as a waiting call.
#[derive(Debug)]
pub(crate) struct SeatQueue {
    free: Arc<Semaphore>,
    waits: CallWaits,
    /// The time that calls of the adapter have.
    limit: Duration,
}

impl SeatQueue {
    /// Waits for a seat as long as for a call: the calls that hold the seats may never end. The semaphore
    /// serves in the order of arrival, so a long run does not starve a short one.
    ///
    /// # Errors
    /// When the time of the step or of the run is over, or the run is cancelled; with the time that passed.
    pub(crate) async fn wait(
        self,
        step: Option<Duration>,
        run: Option<Instant>,
        given_up: &Notify,
    ) -> Result<CallSeat, (AdapterError, Duration)> {
        let Self { free, waits, limit } = self;
        let since = Instant::now();
        let remaining = run.map(|end| end.saturating_duration_since(since));
        let time = step.unwrap_or(limit).min(remaining.unwrap_or(Duration::MAX));
        let not_called = serde_json::json!({ "called": false });
        let error = tokio::select! {
            permit = free.acquire_owned() => match permit {
                Ok(permit) => {
                    return Ok(CallSeat { _permit: Some(permit), _in_flight: waits.begins() });
                }
                Err(_) => AdapterError::bug("the router is closed"),
            },
            () = tokio::time::sleep(time.min(FOREVER)) => {
                let message = "all calls that the adapter carries out at once are under way";
                let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                AdapterError::operational(code::TIMEOUT, message)
                    .details(serde_json::json!({ "timeout_ms": timeout_ms }))
            }
            () = given_up.notified() => cancelled(),
        };
        Err((error.details(not_called), since.elapsed()))
    }
}
