//! How a run is taken up whose process is gone, and what may be in the way.

use std::sync::Arc;
use std::time::Instant;

use super::{Broken, Execution, Surroundings};
use crate::gate::Selection;
use crate::json::Value;
use crate::outcome::{Choice, Recorded};
use crate::recorder::Recorder;
use crate::request::{Mode, Request};
use crate::run::Phase;

impl Execution {
    /// Takes up a run whose process is gone. What is recorded may not say enough to go on; then the
    /// obstacle says so, and the run can only be ended.
    pub(crate) fn take_up(recorder: Recorder, recorded: Recorded) -> Self {
        let Recorded {
            request,
            plan,
            plan_given,
            redacted,
            selected,
            called,
            called_external,
            results,
            ..
        } = recorded;
        let mut whole = request.clone();
        whole.insert("goal", recorder.header().goal.as_str());
        let steps = plan.iter().cloned().map(Value::Object).collect::<Vec<_>>();
        whole.insert("plan_override", steps);
        let read = Request::read(Value::Object(whole)).ok();
        let read = read.map(|read| {
            let (mode, policy, timeout) = (read.mode(), read.policy(), read.timeout());
            (mode, policy, timeout, read.into_parts().1)
        });
        let readable = read.is_some();
        let (mode, policy, timeout, steps) = read.unwrap_or_default();
        Self {
            recorder,
            request,
            plan: Arc::new(steps),
            plan_given,
            redacted_plan: (redacted || !readable).then_some(plan),
            mode,
            policy,
            timeout,
            selected,
            called,
            called_external,
            results,
            provenance: recorded.provenance,
            failure: None,
            cancelled: Arc::default(),
        }
    }

    /// Says why the run cannot go on from here, if it cannot.
    pub(crate) fn obstacle(&self, around: &Surroundings) -> Option<(String, bool)> {
        let phase = self.recorder.run().phase();
        if phase == Phase::Started {
            return Some(("its process was gone before the plan was recorded".to_owned(), false));
        }
        // Nothing is called any more once the results are in.
        if phase == Phase::Provenanced {
            return None;
        }
        if let (Phase::Called(_), Some(step)) = (phase, self.recorder.run().open_step()) {
            let allowed = self.mode == Mode::Apply && self.policy.allow_apply;
            let safe = !(allowed && self.called_external);
            if !safe {
                let message = format!(
                    "its process was gone during the call of step '{step}', and nobody knows what the call did"
                );
                return Some((message, true));
            }
        }
        if self.redacted_plan.is_some() {
            let message =
                "its plan cannot be read back; secrets were taken out before it was recorded";
            return Some((message.to_owned(), false));
        }
        for choice in &self.selected {
            let known = around.registry.get(&choice.adapter_id);
            if known.is_ok_and(|known| known.adapter_kind() == choice.adapter_kind) {
                continue;
            }
            let Choice { adapter_id, adapter_kind, .. } = choice;
            return Some((
                format!("there is no adapter '{adapter_id}' of kind {adapter_kind} here"),
                false,
            ));
        }
        None
    }

    /// Goes on in the middle of a step.
    pub(super) async fn finish_open_step(
        &mut self,
        around: &Surroundings,
        selection: &Selection,
        end: Option<Instant>,
    ) -> Result<(), Broken> {
        let run = self.recorder.run();
        let Some(index) = run.open_step().and(run.steps_started().checked_sub(1)) else {
            return Ok(());
        };
        match run.phase() {
            Phase::StepOpen => self.step(around, selection, index, 1, end).await,
            Phase::Called(attempt) => self.step(around, selection, index, attempt + 1, end).await,
            _ => Ok(self.complete_step(index)?),
        }
    }
}
