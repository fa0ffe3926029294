//! The violations that the Python router knows, with its words.

use super::Violation;
use crate::event::{Fact, Line};
use crate::view::{View, named};

/// What these checks remember of a log.
#[derive(Debug, Default)]
pub(super) struct Peer {
    violations: Vec<Violation>,
    last_seq: Option<i64>,
    has_run_started: bool,
    has_plan: bool,
    has_terminal: bool,
}

impl Peer {
    /// Checks an event's place in the sequence.
    pub(super) fn sequence(&mut self, line: &Line<'_>) {
        let seq = line.seq;
        match self.last_seq {
            None if seq != 0 => {
                let message = format!("First event seq should be 0, got {seq}");
                self.violations.push(Violation::of("SEQ_NOT_ZERO", message, line));
            }
            Some(last) if last.checked_add(1) != Some(seq) => {
                let expected = i128::from(last) + 1;
                let message = format!("Expected seq {expected}, got {seq}");
                self.violations.push(Violation::of("SEQ_GAP", message, line));
            }
            _ => {}
        }
        self.last_seq = Some(seq);
    }

    /// Checks what an event says, before the view takes it into account.
    pub(super) fn fact(&mut self, line: &Line<'_>, fact: &Fact<'_>, view: &mut View) {
        match fact {
            Fact::RunStarted(_) => {
                self.has_run_started = true;
                if line.seq != 0 {
                    let message = format!("RUN_STARTED should be seq 0, found at {}", line.seq);
                    self.violations.push(Violation::of("RUN_STARTED_NOT_FIRST", message, line));
                }
            }
            Fact::PlanCreated(_) => {
                self.has_plan = true;
                if !self.has_run_started {
                    let message = "PLAN_CREATED appeared before RUN_STARTED".to_owned();
                    self.violations.push(Violation::of("PLAN_BEFORE_RUN_STARTED", message, line));
                }
            }
            Fact::ToolCallRequested(requested) => {
                let step_id = requested.step_id.as_deref();
                self.open("TOOL_CALL_WITHOUT_STEP", "TOOL_CALL_REQUESTED", step_id, line, view);
            }
            Fact::ToolCallSucceeded { step_id } | Fact::ToolCallFailed { step_id } => {
                let step_id = step_id.as_deref();
                self.open("TOOL_RESULT_WITHOUT_STEP", "Tool result", step_id, line, view);
            }
            Fact::StepCompleted { step_id, .. } => {
                let step_id = step_id.as_deref();
                self.open("STEP_COMPLETED_WITHOUT_START", "STEP_COMPLETED", step_id, line, view);
            }
            Fact::RunCompleted { .. } | Fact::RunFailed { .. } => self.has_terminal = true,
            Fact::DispatchSelected { .. }
            | Fact::StepStarted { .. }
            | Fact::ApprovalRequested { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::ToolCallRetried(_)
            | Fact::SignalsEvaluated { .. }
            | Fact::ProvenanceEmitted => {}
        }
    }

    fn open(
        &mut self,
        code: &'static str,
        what: &str,
        step_id: Option<&str>,
        line: &Line<'_>,
        view: &mut View,
    ) {
        if let Some(step_id) = named(step_id)
            && !view.is_open(step_id)
        {
            let message = format!("{what} for {step_id} without STEP_STARTED");
            self.violations.push(Violation::of(code, message, line));
        }
    }

    /// Returns everything that was found.
    pub(super) fn finish(mut self) -> Vec<Violation> {
        if self.last_seq.is_none() {
            return vec![Violation::of_run("NO_EVENTS", "Run has no events".to_owned())];
        }
        for (has, code, message) in [
            (self.has_run_started, "NO_RUN_STARTED", "RUN_STARTED event not found"),
            (self.has_plan, "NO_PLAN_CREATED", "PLAN_CREATED event not found"),
            (
                self.has_terminal,
                "NO_TERMINAL_EVENT",
                "No terminal event (RUN_COMPLETED or RUN_FAILED) found",
            ),
        ] {
            if !has {
                self.violations.push(Violation::of_run(code, message.to_owned()));
            }
        }
        self.violations
    }
}
