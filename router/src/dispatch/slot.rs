//! The slot of a call: taken before the call is recorded, so that a call that only waited can be resumed.

use std::time::{Duration, Instant};

use nexus_router_sdk::AdapterError;

use super::{Execution, Surroundings, revocation};
use crate::approval::Approval;
use crate::gate::{self, Grounds, Selected, Verdict};
use crate::host::{CallSlot, SlotQueue};
use crate::request::Step;

/// A slot, or the error of a call that got none and the time that it waited.
pub(super) type SlotResult = Result<CallSlot, (AdapterError, Duration)>;

/// Decision of the gate about a step, with the slot of a permitted call.
pub(super) struct Admitted<'s> {
    pub(super) verdict: Verdict<'s>,
    /// Absent if there is no call.
    pub(super) slot: Option<SlotResult>,
    /// Rules that came into force while the call waited.
    pub(super) newer: Option<Box<Surroundings>>,
}

impl Execution {
    /// Asks the gate about a step, and takes a slot for its call. A call that waited for its slot is decided again, by
    /// the rules and the caller of that moment.
    pub(super) async fn admit_with_slot<'s>(
        &mut self,
        around: &Surroundings,
        (selected, step): (&'s Selected, &'s Step),
        end: Option<Instant>,
    ) -> Admitted<'s> {
        let approval = self.approval.take();
        let verdict = self.admit(around, approval.as_ref(), (selected, step));
        let Some(permit) = verdict.permit() else {
            return Admitted { verdict, slot: None, newer: None };
        };
        let queue = match around.host.take_slot(selected.adapter.adapter_id()) {
            Ok(slot) => return Admitted { verdict, slot: Some(Ok(slot)), newer: None },
            Err(queue) => queue,
        };
        let timeout = step.timeout().into_iter().chain(permit.timeout()).min();
        let waited = Box::pin(self.wait_for_slot(queue, timeout, end)).await;
        if waited.is_err() {
            return Admitted { verdict, slot: Some(waited), newer: None };
        }
        let newer = around.refreshed();
        let around = newer.as_deref().unwrap_or(around);
        let verdict = self.admit(around, approval.as_ref(), (selected, step));
        let slot = verdict.permit().is_some().then_some(waited);
        Admitted { verdict, slot, newer }
    }

    /// Asks the gate about a step, unless its caller was revoked.
    fn admit<'s>(
        &mut self,
        around: &Surroundings,
        approval: Option<&Approval>,
        (selected, step): (&'s Selected, &'s Step),
    ) -> Verdict<'s> {
        match self.check_caller(around) {
            Ok(()) => gate::admit(self.gate_input(around, approval), selected, step),
            Err(revocation) => Verdict::Deny(revocation::denial(revocation)),
        }
    }

    /// Returns the grounds of a decision about a step.
    pub(super) fn gate_input<'a>(
        &'a self,
        around: &'a Surroundings,
        approval: Option<&'a Approval>,
    ) -> Grounds<'a> {
        Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &around.law,
            caller: self.origin.caller.as_deref(),
            secrets: &around.secrets,
            approval,
            redacted: self.redacted_plan.is_some(),
            key: self.recorder.store(),
            now: self.recorder.now(),
        }
    }

    /// Waits for a slot. The store gets the run meanwhile: after a crash it is resumed.
    async fn wait_for_slot(
        &mut self,
        queue: SlotQueue,
        timeout: Option<Duration>,
        end: Option<Instant>,
    ) -> SlotResult {
        self.recorder.flush();
        queue.wait(timeout, end, &self.cancelled.notify).await
    }
}
