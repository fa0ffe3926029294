//! The state of a run, and the one function that changes it.
//!
//! Live execution, recovery after a crash and replay all go through [`Run::apply`]. What it refuses is
//! never stored.

mod distinct;

use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use distinct::Distinct;

use crate::approval::Decision;
use crate::event::{Fact, Kind, Requested, Started, ToolCallRetry};
use crate::signal::Action;

/// A run as far as its events tell.
#[derive(Clone, Debug, Default)]
pub struct Run {
    events: u64,
    phase: Phase,
    origin: Origin,
    continues_on_error: bool,
    mode: Option<String>,
    plan: Vec<Arc<str>>,
    selected: Distinct,
    /// Steps that were started; they are started in the order of the plan.
    started: usize,
    failed: usize,
    /// The approvals that were asked for; the last one is open while the run waits.
    asked: Distinct,
    /// How the last approval of the open step was decided.
    decision: Option<Decision>,
    /// Attempts of the call that is open, since it was requested last.
    attempts: u64,
    tools_used: Distinct,
    last_failure_reason: Option<String>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is recorded.
    #[default]
    Empty,
    /// The run exists; it has no plan yet.
    Started,
    /// The plan is fixed; no adapter is chosen yet.
    Planned,
    /// Before the first step, between two steps, or after the last.
    Ready,
    /// A step has begun; its call is not requested.
    StepOpen,
    /// A person was asked about the call of a step, and has not answered.
    Waiting,
    /// A call is requested, for the given time; its result is not recorded.
    Called(u64),
    /// The call succeeded.
    Answered,
    /// The call succeeded, and what its signals say does not reject it.
    Evaluated,
    /// The call failed, or what its signals say rejects it.
    Refused,
    /// The record of what was done is written.
    Provenanced,
    /// It ended well.
    Completed,
    /// It ended badly.
    Failed,
}

impl Phase {
    const fn name(self) -> &'static str {
        match self {
            Self::Empty => "before the run started",
            Self::Started => "before the plan",
            Self::Planned => "before an adapter was selected",
            Self::Ready => "between steps",
            Self::StepOpen => "in a step, before its call",
            Self::Waiting => "while an approval is waited for",
            Self::Called(_) => "during a call",
            Self::Answered | Self::Evaluated | Self::Refused => {
                "after a call, before its step was completed"
            }
            Self::Provenanced => "after the provenance",
            Self::Completed | Self::Failed => "after the end of the run",
        }
    }

    /// Says whether the run is over.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Who wrote the log. The Python router's orders some things differently and says less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// This router, or a successor.
    #[default]
    Ours,
    /// Another program.
    Foreign,
}

/// An event does not follow from what was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Illegal {
    /// The stable code.
    pub code: &'static str,
    /// Which event, and where the run stood.
    pub message: String,
}

impl Illegal {
    /// Every code.
    pub const CODES: [&'static str; 9] = [
        "SEQ_UNEXPECTED",
        "EVENT_OUT_OF_ORDER",
        "EVENT_AFTER_TERMINAL",
        "STEP_NOT_PLANNED",
        "STEP_MISMATCH",
        "ADAPTER_SELECTED_TWICE",
        "OUTCOME_MISMATCH",
        "APPROVAL_MISMATCH",
        "CALL_NOT_APPROVED",
    ];

    fn new(code: &'static str, message: String) -> Self {
        debug_assert!(Self::CODES.contains(&code), "{code}");
        Self { code, message }
    }
}

impl Run {
    /// Makes the run that has no events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event into account, or says why it cannot follow. Refused events change nothing.
    ///
    /// # Errors
    /// When the event is not the next in sequence, or illegal where the run stands.
    pub fn apply(&mut self, seq: i64, fact: &Fact<'_>) -> Result<(), Illegal> {
        if u64::try_from(seq) != Ok(self.events) {
            let message = format!("expected the event at seq {}, got seq {seq}", self.events);
            return Err(Illegal::new("SEQ_UNEXPECTED", message));
        }
        self.transit(fact)?;
        self.events += 1;
        Ok(())
    }

    fn transit(&mut self, fact: &Fact<'_>) -> Result<(), Illegal> {
        match (self.phase, fact) {
            (Phase::Completed | Phase::Failed, _) => {
                let message = format!("{} follows the end of the run", fact.kind().name());
                return Err(Illegal::new("EVENT_AFTER_TERMINAL", message));
            }
            (Phase::Empty, Fact::RunStarted(started)) => self.start(started),
            (Phase::Started, Fact::PlanCreated(planned)) => {
                let steps = planned.steps.iter();
                self.plan = steps.map(|step| text(step.step_id.as_ref()).into()).collect();
                self.phase = if self.selected.is_empty() { Phase::Planned } else { Phase::Ready };
            }
            (Phase::Planned, Fact::DispatchSelected { adapter_id }) => {
                self.select(text(adapter_id.as_ref()))?;
                self.phase = Phase::Ready;
            }
            (Phase::Ready, Fact::DispatchSelected { adapter_id }) if self.started == 0 => {
                self.select(text(adapter_id.as_ref()))?;
            }
            // The Python router chooses the adapter before it records the plan.
            (Phase::Started, Fact::DispatchSelected { adapter_id }) if self.is_foreign() => {
                self.select(text(adapter_id.as_ref()))?;
            }
            (Phase::Ready, Fact::StepStarted { step_id }) if self.may_go_on() => {
                self.begin_step(text(step_id.as_ref()))?;
            }
            (Phase::StepOpen, Fact::ApprovalRequested { step_id, approval_id }) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.ask(text(approval_id.as_ref()))?;
            }
            (Phase::Waiting, Fact::ApprovalDecided { step_id, approval_id, decision }) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.decide(text(approval_id.as_ref()), text(decision.as_ref()))?;
            }
            (Phase::StepOpen, Fact::ToolCallRequested(requested)) => self.request(requested, 1)?,
            // A call of which nobody knows what it did may be asked for once more.
            (Phase::Called(attempt), Fact::ToolCallRequested(requested)) => {
                self.request(requested, attempt + 1)?;
            }
            (Phase::Called(_), Fact::ToolCallRetried(retried)) => self.retry(retried)?,
            (Phase::Called(_), Fact::ToolCallSucceeded { step_id }) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.approved()?;
                self.phase = Phase::Answered;
            }
            (Phase::Called(_), Fact::ToolCallFailed { step_id }) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.phase = Phase::Refused;
            }
            (Phase::Answered, Fact::SignalsEvaluated { step_id, action }) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.evaluate(text(action.as_ref()))?;
            }
            (
                Phase::StepOpen | Phase::Answered | Phase::Evaluated | Phase::Refused,
                Fact::StepCompleted { step_id, status },
            ) => {
                self.same_step(fact.kind(), step_id.as_ref())?;
                self.complete_step(text(status.as_ref()))?;
            }
            (Phase::Ready, Fact::ProvenanceEmitted) => self.phase = Phase::Provenanced,
            (Phase::Provenanced, Fact::RunCompleted { .. }) => {
                if self.failed > 0 || self.started < self.plan.len() {
                    let message = format!(
                        "the run is recorded as completed, but {} of {} steps were started and {} failed",
                        self.started,
                        self.plan.len(),
                        self.failed
                    );
                    return Err(Illegal::new("OUTCOME_MISMATCH", message));
                }
                self.phase = Phase::Completed;
            }
            (Phase::Provenanced | Phase::Started | Phase::Planned, Fact::RunFailed { reason }) => {
                self.fail(reason.as_ref());
            }
            // Of what another router did there is no provenance to record.
            (Phase::Ready, Fact::RunFailed { reason })
                if self.started == 0 || self.is_foreign() =>
            {
                self.fail(reason.as_ref());
            }
            // The Python router leaves the step of a bug open.
            (Phase::Refused, Fact::RunFailed { reason }) if self.is_foreign() => {
                self.fail(reason.as_ref());
            }
            (phase, fact) => {
                let message = format!("{} cannot be recorded {}", fact.kind().name(), phase.name());
                return Err(Illegal::new("EVENT_OUT_OF_ORDER", message));
            }
        }
        Ok(())
    }

    fn start(&mut self, started: &Started<'_>) {
        self.origin = if started.router_version.is_some() { Origin::Ours } else { Origin::Foreign };
        self.continues_on_error = started.continues_on_error;
        self.mode = started.mode.as_deref().map(str::to_owned);
        self.phase = Phase::Started;
    }

    fn select(&mut self, adapter_id: &str) -> Result<(), Illegal> {
        if self.selected.insert(adapter_id) {
            return Ok(());
        }
        Err(Illegal::new(
            "ADAPTER_SELECTED_TWICE",
            format!("the adapter '{adapter_id}' was selected before"),
        ))
    }

    fn begin_step(&mut self, step_id: &str) -> Result<(), Illegal> {
        match self.plan.get(self.started) {
            Some(planned) if **planned == *step_id => {
                self.started += 1;
                self.decision = None;
                self.phase = Phase::StepOpen;
                Ok(())
            }
            Some(planned) => Err(Illegal::new(
                "STEP_NOT_PLANNED",
                format!("step '{step_id}' was started, and the plan's next step is '{planned}'"),
            )),
            None => Err(Illegal::new(
                "STEP_NOT_PLANNED",
                format!("step '{step_id}' was started, and the plan has no further step"),
            )),
        }
    }

    fn ask(&mut self, approval_id: &str) -> Result<(), Illegal> {
        if !self.asked.insert(approval_id) {
            let message = format!("the approval '{approval_id}' was asked for before");
            return Err(Illegal::new("APPROVAL_MISMATCH", message));
        }
        self.phase = Phase::Waiting;
        Ok(())
    }

    fn decide(&mut self, approval_id: &str, decision: &str) -> Result<(), Illegal> {
        let open = self.open_approval().unwrap_or_default();
        if open != approval_id {
            let message =
                format!("the approval '{approval_id}' is decided, and '{open}' is waited for");
            return Err(Illegal::new("APPROVAL_MISMATCH", message));
        }
        let Some(known) = Decision::from_name(decision) else {
            let message = format!("there is no decision '{decision}' about an approval");
            return Err(Illegal::new("APPROVAL_MISMATCH", message));
        };
        self.decision = Some(known);
        self.phase = Phase::StepOpen;
        Ok(())
    }

    /// A call that somebody was asked about can succeed only if they said yes.
    fn approved(&self) -> Result<(), Illegal> {
        match self.decision {
            None | Some(Decision::Approved) => Ok(()),
            Some(decision) => {
                let message =
                    format!("the call succeeded, and its approval is {}", decision.name());
                Err(Illegal::new("CALL_NOT_APPROVED", message))
            }
        }
    }

    fn request(&mut self, requested: &Requested<'_>, attempt: u64) -> Result<(), Illegal> {
        self.same_step(Kind::ToolCallRequested, requested.step_id.as_ref())?;
        if requested.attempt != attempt {
            let message =
                format!("the call is requested as attempt {}, not {attempt}", requested.attempt);
            return Err(Illegal::new("EVENT_OUT_OF_ORDER", message));
        }
        if let Some(method) = requested.method.as_deref() {
            self.tools_used.insert(method);
        }
        self.attempts = 1;
        self.phase = Phase::Called(attempt);
        Ok(())
    }

    fn retry(&mut self, retried: &ToolCallRetry<'_>) -> Result<(), Illegal> {
        self.same_step(Kind::ToolCallRetried, retried.step_id.as_ref())?;
        let expected = self.attempts + 1;
        if retried.attempt != expected {
            let message =
                format!("the call is retried as attempt {}, not {expected}", retried.attempt);
            return Err(Illegal::new("EVENT_OUT_OF_ORDER", message));
        }
        self.attempts = expected;
        Ok(())
    }

    fn evaluate(&mut self, action: &str) -> Result<(), Illegal> {
        self.phase = match Action::from_name(action) {
            Some(Action::AutoReject) => Phase::Refused,
            Some(Action::AutoAccept | Action::RequireReview) => Phase::Evaluated,
            None => {
                let message = format!("there is no action '{action}' for the signals of a call");
                return Err(Illegal::new("OUTCOME_MISMATCH", message));
            }
        };
        Ok(())
    }

    fn complete_step(&mut self, status: &str) -> Result<(), Illegal> {
        let done = matches!(self.phase, Phase::Answered | Phase::Evaluated);
        let expected = if done { "ok" } else { "error" };
        if status != expected {
            let message = format!(
                "the step is completed with status '{status}', but its call says '{expected}'"
            );
            return Err(Illegal::new("OUTCOME_MISMATCH", message));
        }
        self.failed += usize::from(status == "error");
        self.phase = Phase::Ready;
        Ok(())
    }

    fn fail(&mut self, reason: Option<&Cow<'_, str>>) {
        self.last_failure_reason = reason.map(|reason| reason.clone().into_owned());
        self.phase = Phase::Failed;
    }

    fn same_step(&self, kind: Kind, step_id: Option<&Cow<'_, str>>) -> Result<(), Illegal> {
        let (open, given) = (self.open_step().unwrap_or_default(), text(step_id));
        if open == given {
            return Ok(());
        }
        let message = format!("{} is of step '{given}', and step '{open}' is open", kind.name());
        Err(Illegal::new("STEP_MISMATCH", message))
    }

    const fn is_foreign(&self) -> bool {
        matches!(self.origin, Origin::Foreign)
    }

    /// Reports whether steps may follow a failed one. A dry run checks every step.
    fn may_go_on(&self) -> bool {
        let checks_all = self.mode.as_deref() == Some("dry_run");
        self.failed == 0 || self.continues_on_error || checks_all || self.is_foreign()
    }
}

fn text<'a>(text: Option<&'a Cow<'_, str>>) -> &'a str {
    text.map_or("", |text| text.as_ref())
}

impl Run {
    /// Returns the number of events; the next one has this seq.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Returns where the run stands.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Says who wrote the log.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the mode, once the run has started.
    #[must_use]
    pub fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// Returns the ids of the plan's steps.
    #[must_use]
    pub fn plan(&self) -> &[Arc<str>] {
        &self.plan
    }

    /// Returns how many steps were started.
    #[must_use]
    pub const fn steps_started(&self) -> usize {
        self.started
    }

    /// Returns how many steps failed.
    #[must_use]
    pub const fn steps_failed(&self) -> usize {
        self.failed
    }

    /// Returns the step that is open.
    #[must_use]
    pub fn open_step(&self) -> Option<&str> {
        match self.phase {
            Phase::StepOpen
            | Phase::Waiting
            | Phase::Called(_)
            | Phase::Answered
            | Phase::Evaluated
            | Phase::Refused => {
                self.plan.get(self.started.checked_sub(1)?).map(|step_id| &**step_id)
            }
            _ => None,
        }
    }

    /// Returns the approval that is waited for.
    #[must_use]
    pub fn open_approval(&self) -> Option<&str> {
        let last = self.asked.list().last().map(String::as_str);
        last.filter(|_| self.phase == Phase::Waiting)
    }

    /// Returns the adapters that were chosen, in order of first use.
    #[must_use]
    pub fn selected(&self) -> &[String] {
        self.selected.list()
    }

    /// Returns the methods that were called, each once, in order of first use.
    #[must_use]
    pub fn tools_used(&self) -> &[String] {
        self.tools_used.list()
    }

    /// Returns why the run failed, in one word.
    #[must_use]
    pub fn last_failure_reason(&self) -> Option<&str> {
        self.last_failure_reason.as_deref()
    }
}
