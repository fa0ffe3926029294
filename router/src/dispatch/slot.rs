//! The slot of a call: taken before the call is recorded, so that a call that only waited can be resumed.

use std::time::{Duration, Instant};

use nexus_router_sdk::AdapterError;

use super::{Execution, Surroundings, revocation};
use crate::approval::Approval;
use crate::caller::{Caller, Revocation};
use crate::gate::{self, Grounds, Selected, Verdict};
use crate::host::{CallSeat, SeatQueue};
use crate::request::Step;

/// A slot, or the error of a call that got none and the time that it waited.
pub(super) type SlotResult = Result<CallSeat, (AdapterError, Duration)>;

impl Execution {
    /// Asks the gate about a step, unless its caller was revoked.
    pub(super) fn admit<'a>(
        &self,
        around: &'a Surroundings,
        checked: Result<(), Revocation>,
        (caller, approval): (Option<&'a Caller>, Option<&'a Approval>),
        (selected, step): (&'a Selected, &'a Step),
    ) -> Verdict<'a> {
        if let Err(revocation) = checked {
            return Verdict::Deny(revocation::denial(revocation));
        }
        let grounds = Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &around.law,
            caller,
            secrets: &around.secrets,
            approval,
            redacted: self.redacted_plan.is_some(),
            key: self.recorder.store(),
            now: self.recorder.now(),
        };
        gate::admit(grounds, selected, step)
    }

    /// Waits for a slot. The store gets the run meanwhile: after a crash it is resumed.
    pub(super) async fn wait_for_slot(
        &mut self,
        queue: SeatQueue,
        timeout: Option<Duration>,
        end: Option<Instant>,
    ) -> SlotResult {
        self.recorder.flush();
        queue.wait(timeout, end, &self.cancelled.notify).await
    }
}
