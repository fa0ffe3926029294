//! The slot of a call: taken before the call is recorded, so that a call that only waited can be resumed.

use std::time::{Duration, Instant};

use nexus_router_sdk::AdapterError;

use super::{Execution, Surroundings, revocation};
use crate::approval::Approval;
use crate::gate::{self, Admission, Grounds, Selected, Verdict};
use crate::host::{CallSlot, SlotQueue, TakenSlot};
use crate::json::Object;
use crate::policy::DecisionText;
use crate::request::Step;
use crate::share;

/// A slot, or the error of a call that got none and the time that it waited.
pub(super) type SlotResult = Result<CallSlot, (AdapterError, Duration)>;

/// Decision of the gate about a step, with the slot of a permitted call.
pub(super) struct Admitted<'s> {
    pub(super) verdict: Verdict<'s>,
    /// The policy's decision as recorded.
    pub(super) decision: Option<DecisionText>,
    /// The step as recorded, with the defaults of its contract, if it lacked some.
    pub(super) filled: Option<Object>,
    /// Absent if there is no call.
    pub(super) slot: Option<SlotResult>,
    /// Rules that came into force while the call waited.
    pub(super) newer: Option<Box<Surroundings>>,
    /// What a person was asked about the step, and what they said.
    pub(super) approval: Option<Box<Approval>>,
}

impl Execution {
    /// Asks the gate about a step, and takes a slot for its call. A call that waited for its slot is decided again, by
    /// the rules and the caller of that moment.
    pub(super) async fn admit_with_slot<'s>(
        &mut self,
        around: &Surroundings,
        (selected, step, index): (&'s Selected, &'s Step, usize),
        end: Option<Instant>,
    ) -> Admitted<'s> {
        let approval = self.approval.take();
        let Admission { verdict, decision, filled } =
            self.admit(around, approval.as_deref(), (selected, step, index));
        let admitted = Admitted { verdict, decision, filled, slot: None, newer: None, approval };
        let Some(permit) = admitted.verdict.permit() else { return admitted };
        let kind = (!permit.is_dry_run()).then(|| permit.kind());
        let queue = match around.host.take_slot(&selected.adapter, kind) {
            TakenSlot::Free(slot) => return Admitted { slot: Some(Ok(slot)), ..admitted },
            TakenSlot::Rejected(error) => {
                return Admitted { slot: Some(Err((error, Duration::ZERO))), ..admitted };
            }
            TakenSlot::Queue(queue) => queue,
        };
        let timeout = step.timeout().into_iter().chain(permit.timeout()).min();
        let waited = Box::pin(self.wait_for_slot(queue, timeout, end)).await;
        if waited.is_err() {
            return Admitted { slot: Some(waited), ..admitted };
        }
        let newer = around.refreshed();
        let around = newer.as_deref().unwrap_or(around);
        let approval = admitted.approval;
        let Admission { verdict, decision, filled } =
            self.admit(around, approval.as_deref(), (selected, step, index));
        let slot = verdict.permit().is_some().then_some(waited);
        Admitted { verdict, decision, filled, slot, newer, approval }
    }

    /// Asks the gate about a step, unless its caller was revoked.
    fn admit<'s>(
        &mut self,
        around: &Surroundings,
        approval: Option<&Approval>,
        (selected, step, index): (&'s Selected, &'s Step, usize),
    ) -> Admission<'s> {
        match self.check_caller(around) {
            Ok(()) => gate::admit(self.gate_input(around, approval, index), selected, step),
            Err(revocation) => {
                let denial = revocation::denial(revocation);
                let decision = around.law.denial_text(&denial.details, None);
                Admission { verdict: Verdict::Deny(denial), decision, filled: None }
            }
        }
    }

    /// Returns the grounds of a decision about a step.
    pub(super) fn gate_input<'a>(
        &'a self,
        around: &'a Surroundings,
        approval: Option<&'a Approval>,
        index: usize,
    ) -> Grounds<'a> {
        Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &around.law,
            caller: self.origin.caller.as_deref(),
            secrets: &around.secrets,
            approval,
            recorded: self.redacted_plan.as_ref().and_then(|plan| plan.get(index)),
            key: self.recorder.store(),
            now: self.recorder.now(),
            run_id: &self.recorder.header().run_id,
            goal: &self.recorder.header().goal,
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
        let token = share::token_id(self.origin.caller.as_deref());
        queue.wait((token, self.queue_entry), timeout, end, &self.cancelled.notify).await
    }
}
