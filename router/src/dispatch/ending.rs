//! How a run ends: what is open is closed, the provenance recorded, and the outcome told.

use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::{ErrorKind, code};

use super::{Broken, Execution};
use crate::approval::Decision;
use crate::event::{Failure, Payload, PlanSource, Provenance};
use crate::json::Object;
use crate::outcome::{
    NO_PROVENANCE, Outcome, StepError, Waiting, interrupted, provenance_digest, skipped,
};
use crate::request::{Mode, Step};
use crate::run::{Illegal, Origin, Phase};

impl Execution {
    /// Ends the run: what is open is closed, the provenance written, and all of it made durable.
    pub(crate) async fn end(&mut self, failure: Option<Failure>) -> Result<(), Broken> {
        self.failure = failure;
        self.keep_plan_for_answer();
        self.record_end()?;
        Ok(self.recorder.commit().await?)
    }

    /// Ends the run without waiting for the store, which may be unable to record it at present. A run
    /// that is over stays what it is; only the word of it is missing in the store.
    pub(crate) fn end_later(&mut self, failure: Failure) -> Result<(), Illegal> {
        if !self.recorder.run().phase().is_terminal() {
            self.failure = Some(failure);
            self.record_end()?;
        }
        self.recorder.owe();
        Ok(())
    }

    /// Keeps the held plan of a task whose only call ends with a question.
    fn keep_plan_for_answer(&mut self) {
        let [result] = &self.results[..] else { return };
        let asks = result.error.as_ref().is_some_and(|error| {
            error.code == code::INPUT_REQUIRED
                && error.details.get("requests").is_some_and(|asked| asked.as_object().is_some())
        });
        if self.origin.is_task && asks {
            self.recorder.keep_plan_for_answer();
        }
    }

    fn record_end(&mut self) -> Result<(), Illegal> {
        self.close_open_step()?;
        if self.recorder.run().phase() == Phase::Started {
            let source = PlanSource::Lost;
            self.recorder.record(&Payload::PlanCreated { plan: &[], source, redacted: false })?;
        }
        let run = self.recorder.run();
        // A run that did nothing has nothing to show.
        let idle = run.steps_started() == 0 && self.failure.is_some();
        let ours = run.origin() == Origin::Ours;
        if run.phase() == Phase::Ready && ours && !idle {
            let steps: Vec<&Object> =
                (0..run.plan().len()).map(|index| self.recorded(index)).collect();
            let plan = self.plan_given.then_some(&steps[..]);
            let header = self.recorder.header();
            let provenance = Provenance {
                prov_id: self.recorder.next_event_id(),
                run_id: &header.run_id,
                digest: provenance_digest(&header.goal, &self.request, plan, &self.results),
            };
            let mut text = String::with_capacity(384);
            provenance.write(&mut text);
            self.recorder.record(&Payload::ProvenanceEmitted(&text))?;
            self.provenance = Some(text);
        }
        match &self.failure {
            None => self.recorder.record(&Payload::RunCompleted),
            Some(failure) => self.recorder.record(&Payload::RunFailed(failure)),
        }
    }

    /// Records that a step which is open will not be finished.
    fn close_open_step(&mut self) -> Result<(), Illegal> {
        let run = self.recorder.run();
        let Some(step_id) = run.open_step().map(str::to_owned) else { return Ok(()) };
        if let Some(approval_id) = run.open_approval().map(str::to_owned) {
            self.recorder.record(&Payload::ApprovalDecided {
                step_id: &step_id,
                approval_id: &approval_id,
                decision: Decision::Void,
                by: None,
                reason: None,
            })?;
        }
        let run = self.recorder.run();
        let (phase, index) = (run.phase(), run.steps_started() - 1);
        let mut result = interrupted(&step_id, self.mode == Mode::DryRun);
        if let Phase::Called(_) = phase {
            let in_doubt =
                matches!(self.failure, Some(Failure::Interrupted { in_doubt: true, .. }));
            let message = if in_doubt {
                "nobody knows what the call did"
            } else {
                "the call was given up, and had no effects"
            };
            let mut details = Object::new();
            details.insert("in_doubt", in_doubt);
            result.error = Some(StepError {
                kind: ErrorKind::Operational,
                code: "INTERRUPTED".to_owned(),
                message: message.to_owned(),
                details,
            });
            self.record_result(&result, Duration::ZERO)?;
        }
        if matches!(phase, Phase::Called(_) | Phase::StepOpen) {
            self.results.push(result);
        }
        self.complete_step(index)
    }

    /// Returns what came of the run.
    pub(crate) fn into_outcome(self) -> Outcome {
        let run = self.recorder.run();
        let status = self.recorder.status();
        let mut results = self.results;
        let waits = run.phase() == Phase::Waiting;
        // Of a run that is not over, nobody knows yet what will be skipped.
        for step_id in run.plan().iter().skip(results.len()).filter(|_| !waits) {
            results.push(skipped(step_id, self.mode == Mode::DryRun));
        }
        let error = self.failure.as_ref().and_then(Failure::error);
        let plan = match self.redacted_plan {
            Some(plan) => plan,
            None => Arc::unwrap_or_clone(self.plan).into_iter().map(Step::into_raw).collect(),
        };
        Outcome {
            run_id: self.recorder.header().run_id.clone(),
            status,
            mode: self.recorder.header().mode.clone(),
            plan,
            selected: self.selected,
            results,
            reason: run.last_failure_reason().map(str::to_owned),
            error: error.map(|(code, message)| (code.to_owned(), message)),
            provenance: self.provenance.unwrap_or_else(|| NO_PROVENANCE.to_owned()),
            events: run.events(),
            waiting: self.approval.filter(|_| waits).map(|approval| Waiting::of(*approval)),
            memory: self.memory.map(Arc::new),
        }
    }
}
