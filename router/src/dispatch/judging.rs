//! How what a call gave is judged by the signals in it, before its step is over.

use super::{Execution, Surroundings};
use crate::event::Payload;
use crate::outcome::{Signals, StepStatus};
use crate::request::Mode;
use crate::run::{Illegal, Phase};

impl Execution {
    /// Holds the last result to the signal contract of its adapter, if that has one, and records what came of it.
    /// What is judged is what was recorded: without secrets. Nothing was done in a dry run, so nothing is judged.
    pub(super) fn judge(&mut self, around: &Surroundings) -> Result<(), Illegal> {
        let Some(judge) = around.law.signals.get(&self.called) else { return Ok(()) };
        let now = self.recorder.now();
        let Some(result) = self.results.last_mut() else { return Ok(()) };
        let answered = self.recorder.run().phase() == Phase::Answered;
        if !answered || result.status != StepStatus::Ok || self.mode == Mode::DryRun {
            return Ok(());
        }
        let (evaluation, decision) = judge.judge(&result.output, now);
        let (evaluation, shown) = (evaluation.to_json(), decision.to_json());
        self.recorder.record(&Payload::SignalsEvaluated {
            step_id: &result.step_id,
            adapter_evaluation: &evaluation,
            policy_snapshot: &decision.snapshot,
            decision: &shown,
        })?;
        Signals::read(Some(&evaluation), Some(&shown)).put_into(result);
        Ok(())
    }
}
