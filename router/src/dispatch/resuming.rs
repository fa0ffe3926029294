//! How a run is taken up whose process is gone, and what may be in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Broken, Cancel, Execution, Pace, Surroundings};
use crate::caller::Caller;
use crate::event::Failure;
use crate::gate::Selection;
use crate::json::Value;
use crate::loader::Adapter;
use crate::outcome::{Choice, Recorded};
use crate::policy::Act;
use crate::recorder::Recorder;
use crate::registry::Unavailability;
use crate::request::{Mode, Request};
use crate::run::{Origin, Phase};
use crate::share::{self, QueueEntry};
use crate::store::{HeldPlan, Orphan};

/// Why a run cannot go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obstacle {
    pub(crate) why: String,
    /// Whether a call was under way of which nobody knows what it did.
    pub(crate) in_doubt: bool,
    /// True if the held plan is unreadable.
    pub(crate) lost_plan: bool,
    /// Why an adapter that is wanted cannot be called now, if that is all that is in the way.
    pub(crate) unavailable: Option<Unavailability>,
}

impl Obstacle {
    /// Returns how the run fails.
    pub(crate) fn failure(self) -> Failure {
        let Self { why: message, in_doubt, lost_plan, .. } = self;
        if lost_plan {
            Failure::HeldArguments { message }
        } else {
            Failure::Interrupted { message, in_doubt }
        }
    }
}

impl Execution {
    /// Takes up a run whose process is gone. What is recorded may not say enough to go on; then the
    /// obstacle says so, and the run can only be ended.
    pub(crate) fn take_up(recorder: Recorder, orphan: &Orphan, cancelled: Arc<Cancel>) -> Self {
        let recorded = Recorded::read(&orphan.log);
        let Recorded {
            request,
            plan,
            plan_given,
            redacted,
            selected,
            called,
            called_external,
            results,
            caller,
            approval,
            ..
        } = recorded;
        let known = caller.as_ref().map(Caller::read);
        let stranger = known == Some(None);
        let held = redacted.then(|| original_plan(&recorder, orphan, plan.len()));
        let (held, lost_plan) = match held.transpose() {
            Ok(held) => (held, None),
            Err(why) => (None, Some(why)),
        };
        let is_task = held.as_ref().is_some_and(|held| held.is_task);
        let caller = known.flatten().map(Arc::new);
        let origin = super::Origin { caller, stranger, is_task, ..Default::default() };
        let mut whole = request.clone();
        whole.insert("goal", recorder.header().goal.as_str());
        let recorded_steps = || plan.iter().cloned().map(Value::Object).collect::<Vec<_>>();
        let steps = held.map_or_else(recorded_steps, |held| held.steps);
        whole.insert("plan_override", steps);
        let read = Request::read(Value::Object(whole)).ok();
        let read = read.map(|read| (read.policy(), read.timeout(), read.into_parts().1));
        let readable = read.is_some();
        let unreadable = || "its plan cannot be read back".to_owned();
        let lost_plan = lost_plan.or_else(|| (!readable).then(unreadable));
        let lost_plan =
            lost_plan.map(|why| Obstacle { why, lost_plan: redacted, ..Default::default() });
        let (policy, timeout, steps) = read.unwrap_or_default();
        // What is not known to have been a dry run was none.
        let mode = recorder.run().mode().and_then(Mode::from_name).unwrap_or(Mode::Apply);
        Self {
            recorder,
            request,
            plan: Arc::new(steps),
            plan_given,
            redacted_plan: (redacted || !readable).then_some(plan),
            lost_plan,
            planned: std::sync::OnceLock::new(),
            mode,
            policy,
            timeout,
            selected,
            called,
            called_external,
            results,
            memory: None,
            provenance: recorded.provenance,
            failure: None,
            cancelled,
            origin,
            caller_state: super::CallerState::default(),
            // It was accepted before.
            queue_entry: QueueEntry::Exempt,
            before: approval
                .as_ref()
                .map_or(Duration::ZERO, |approval| Duration::from_millis(approval.under_way_ms)),
            approval: approval.map(Box::new),
            since: Instant::now(),
        }
    }

    /// Charges the caller's token with the bytes that the run stores from now on.
    pub(crate) fn charge_caller(&mut self, around: &Surroundings) {
        let token = share::token_id(self.origin.caller.as_deref());
        self.recorder.meter = around.ledger.meter(token);
    }

    /// Says why the run cannot go on from here, if it cannot.
    pub(crate) fn obstacle(&self, around: &Surroundings) -> Option<Obstacle> {
        let phase = self.recorder.run().phase();
        let obstacle = |why: String| Some(Obstacle { why, ..Default::default() });
        if phase == Phase::Started {
            return obstacle("its process was gone before the plan was recorded".to_owned());
        }
        // Nothing is called any more once the results are in.
        if phase == Phase::Provenanced {
            return None;
        }
        if let (Phase::Called(_), Some(step)) = (phase, self.recorder.run().open_step())
            && self.may_have_effects(around)
        {
            let why = format!(
                "its process was gone during the call of step '{step}', and nobody knows what the call did"
            );
            return Some(Obstacle { why, in_doubt: true, ..Default::default() });
        }
        if self.recorder.run().origin() == Origin::Foreign {
            return obstacle(
                "another router began it, and does not say how it is to go on".to_owned(),
            );
        }
        if self.origin.stranger {
            return obstacle("whoever asked for it is not known here".to_owned());
        }
        if self.lost_plan.is_some() {
            return self.lost_plan.clone();
        }
        let missing = self.selected.iter().find(|choice| {
            let known = around.registry.get(&choice.adapter_id);
            known.map(Adapter::adapter_kind) != Ok(choice.adapter_kind.as_str())
        });
        missing.map(|Choice { adapter_id, adapter_kind, .. }| Obstacle {
            why: format!("there is no adapter '{adapter_id}' of kind {adapter_kind} here"),
            unavailable: around.registry.unavailability(adapter_id),
            ..Default::default()
        })
    }

    /// Says whether the call that is open may have done something that must not be done again. What is not known
    /// may be so.
    fn may_have_effects(&self, around: &Surroundings) -> bool {
        let denied = self.lost_plan.is_none() && !self.policy.allow_apply;
        self.mode == Mode::Apply && self.called_external && !denied && !self.repeats(around)
    }

    /// Says whether a contract lets the call that is open be made again.
    fn repeats(&self, around: &Surroundings) -> bool {
        let index = self.recorder.run().steps_started().checked_sub(1);
        let Some(step) = index.and_then(|index| self.plan.get(index)) else { return false };
        let act = Act { adapter_id: &self.called, tool: step.tool(), method: step.method() };
        around.law.operation(act).is_some_and(|operation| operation.may_be_repeated())
    }

    /// Goes on in the middle of a step.
    pub(super) async fn finish_open_step(
        &mut self,
        around: &Surroundings,
        selection: &Selection,
        end: Option<Instant>,
    ) -> Result<Pace, Broken> {
        let run = self.recorder.run();
        let Some(index) = run.open_step().and(run.steps_started().checked_sub(1)) else {
            return Ok(Pace::Goes);
        };
        match run.phase() {
            Phase::StepOpen => self.step(around, selection, index, 1, end).await,
            Phase::Called(attempt) => self.step(around, selection, index, attempt + 1, end).await,
            _ => {
                // What was answered and not judged is judged now.
                self.judge(around)?;
                self.complete_step(index)?;
                Ok(Pace::Goes)
            }
        }
    }
}

/// Returns the original plan of a run from what the store holds.
fn original_plan(recorder: &Recorder, orphan: &Orphan, steps: usize) -> Result<HeldPlan, String> {
    let held = orphan.held.as_ref();
    let held =
        held.ok_or("redaction changed its plan, and the store does not hold the original")?;
    let plan = held.decrypt(recorder.store(), &recorder.header().run_id)?;
    if plan.steps.len() != steps {
        return Err("its held arguments are not those of its plan".to_owned());
    }
    Ok(plan)
}
