//! Slots: limit the concurrent calls of one adapter, and serve those that wait round robin over tokens.

use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::sync::Notify;

use super::{FOREVER, breaker_pass, cancelled, time_from};
use crate::breaker::{BreakerPass, BreakerSettings, CallKind};
use crate::loader::Adapter;
use crate::metrics::{CallInFlight, CallWaits};
use crate::share::{FairPermit, FairPool, QueueEntry, ShareRefusal};

/// A slot for one call. It is free again when the adapter is done, not when the caller stops waiting.
#[derive(Debug)]
pub(crate) struct CallSlot {
    _permit: Option<FairPermit>,
    _in_flight: CallInFlight,
    /// What the circuit breaker says of the call.
    pass: BreakerPass,
}

/// A slot, a place in the queue for one, or the rejection of the call.
#[derive(Debug)]
pub(crate) enum TakenSlot {
    /// The call may be made.
    Free(CallSlot),
    /// All slots are taken.
    Queue(SlotQueue),
    /// The circuit of the adapter is open.
    Rejected(AdapterError),
}

impl CallSlot {
    /// Returns a slot of an adapter that has no limit.
    pub(super) fn unlimited(waits: CallWaits, pass: BreakerPass) -> Self {
        Self { _permit: None, _in_flight: waits.begins(), pass }
    }

    /// Returns what the circuit breaker says of the call. The slot does not keep it.
    pub(super) fn take_pass(&mut self) -> BreakerPass {
        std::mem::take(&mut self.pass)
    }

    /// Takes a free slot, or returns the queue in which to wait for one.
    pub(super) fn take(
        (adapter, settings, kind): Circuit<'_>,
        slots: &FairPool,
        waits: CallWaits,
        limit: Duration,
        pass: BreakerPass,
    ) -> TakenSlot {
        match slots.try_acquire() {
            Some(permit) => {
                TakenSlot::Free(Self { _permit: Some(permit), _in_flight: waits.begins(), pass })
            }
            None => {
                let (adapter, slots) = (adapter.clone(), slots.clone());
                TakenSlot::Queue(SlotQueue { adapter, settings, kind, slots, waits, limit })
            }
        }
    }
}

/// What the circuit breaker of an adapter needs to judge a call.
type Circuit<'a> = (&'a Adapter, BreakerSettings, Option<CallKind>);

/// The queue for a slot, and a call in it that is counted as waiting.
#[derive(Debug)]
pub(crate) struct SlotQueue {
    adapter: Adapter,
    settings: BreakerSettings,
    kind: Option<CallKind>,
    slots: FairPool,
    waits: CallWaits,
    /// The time that calls of the adapter have.
    limit: Duration,
}

impl SlotQueue {
    /// Waits for a slot in the queue of a token, as long as for a call: the calls that hold the slots may never end. Tokens
    /// are served round robin, the calls of one token in the order of arrival.
    ///
    /// # Errors
    /// When the circuit is open, the token has too many calls in the queue, the time of the step or of the run is over, or the run is cancelled;
    /// with the time that passed.
    pub(crate) async fn wait(
        self,
        (token, entry): (&str, QueueEntry),
        step: Option<Duration>,
        run: Option<Instant>,
        given_up: &Notify,
    ) -> Result<CallSlot, (AdapterError, Duration)> {
        let Self { adapter, settings, kind, slots, waits, limit } = self;
        let adapter_id = adapter.adapter_id();
        let since = Instant::now();
        let time = time_from(since, limit, step, run);
        let not_called = serde_json::json!({ "called": false });
        // Callers without a token have turns like a token, and no limit of their own.
        let entry = if token.is_empty() { QueueEntry::Exempt } else { entry };
        let waiter = match slots.enqueue(token, entry) {
            Ok(waiter) => waiter,
            Err(full) => {
                let refusal =
                    ShareRefusal::Queue { adapter_id: adapter_id.to_owned(), limit: full.limit };
                let error = AdapterError::operational(refusal.code(), refusal.to_string());
                return Err((error.details(not_called), Duration::ZERO));
            }
        };
        let error = tokio::select! {
            permit = waiter => {
                // The circuit may have opened meanwhile.
                let pass = breaker_pass(&adapter, &settings, kind);
                let pass = pass.map_err(|error| (error, since.elapsed()))?;
                return Ok(CallSlot { _permit: Some(permit), _in_flight: waits.begins(), pass });
            }
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
