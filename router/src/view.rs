//! A tolerant reading of any log: what a run did, as far as its events tell.
//!
//! Nothing is refused here. What an event does not say, or says in a damaged payload, is not known; what
//! is wrong with a log is for `replay` to say.

mod reading;
pub(crate) mod scan;
mod steps;

use crate::event::{Fact, Kind, Line};
use crate::json::{Object, Value};
use crate::run::Distinct;
use crate::store::{Log, Progress, RunRecord};
use steps::Steps;

pub(crate) use reading::{Reading, read};
pub use steps::StepView;

/// What a run did.
#[derive(Clone, Debug)]
pub struct View {
    run_id: String,
    status: &'static str,
    mode: Option<String>,
    goal: Option<String>,
    steps: Steps,
    steps_planned: u64,
    steps_executed: u64,
    tools_used: Distinct,
    provenance_present: bool,
    terminal: Option<Kind>,
    last_failure_reason: Option<String>,
}

impl View {
    /// Returns what is known of a run before its first event.
    #[must_use]
    pub fn new(record: &RunRecord) -> Self {
        Self {
            run_id: record.header.run_id.clone(),
            status: record.progress.status.name(),
            mode: Some(record.header.mode.clone()),
            goal: Some(record.header.goal.clone()),
            steps: Steps::default(),
            steps_planned: 0,
            steps_executed: 0,
            tools_used: Distinct::default(),
            provenance_present: false,
            terminal: None,
            last_failure_reason: None,
        }
    }

    /// Reads a whole log.
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let mut view = Self::new(&log.record);
        log.lines().filter_map(|line| Line::read(line).ok()).for_each(|line| view.take(&line));
        view
    }

    /// Takes an event into account. One of an unknown kind changes nothing.
    pub fn take(&mut self, line: &Line<'_>) {
        if let Some(kind) = Kind::from_name(&line.kind) {
            read(kind, line.payload, |fact, _| self.record(line.seq, fact));
        }
    }

    /// Takes what an event says into account.
    pub(crate) fn record(&mut self, seq: i64, fact: &Fact<'_>) {
        match fact {
            Fact::RunStarted(started) => {
                self.mode = started.mode.as_deref().map(str::to_owned);
                self.goal = started.goal.as_deref().map(str::to_owned);
            }
            Fact::PlanCreated(planned) => {
                self.steps_planned = planned.steps.len() as u64;
                self.steps.expect(planned.steps.len());
            }
            Fact::DispatchSelected { .. }
            | Fact::ApprovalRequested { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::ToolCallRetried(_)
            | Fact::SignalsEvaluated { .. } => {}
            Fact::StepStarted { step_id } => {
                self.steps_executed += 1;
                if let Some(step_id) = named(step_id.as_deref()) {
                    self.steps.start(step_id, seq);
                }
            }
            Fact::ToolCallRequested(requested) => {
                if let Some(method) = named(requested.method.as_deref()) {
                    self.tools_used.insert(method);
                }
                if let Some(step) = self.step(requested.step_id.as_deref()) {
                    step.tool_call_requested_seq = Some(seq);
                }
            }
            Fact::ToolCallSucceeded { step_id } | Fact::ToolCallFailed { step_id } => {
                if let Some(step) = self.step(step_id.as_deref()) {
                    step.tool_call_result_seq = Some(seq);
                }
            }
            Fact::StepCompleted { step_id, status } => {
                if let Some(step) = self.step(step_id.as_deref()) {
                    step.complete(seq, status.as_deref());
                }
            }
            Fact::ProvenanceEmitted => self.provenance_present = true,
            Fact::RunCompleted { .. } => self.terminal = Some(Kind::RunCompleted),
            Fact::RunFailed { reason } => {
                self.terminal = Some(Kind::RunFailed);
                if let Some(reason) = named(reason.as_deref()) {
                    self.last_failure_reason = Some(reason.to_owned());
                }
            }
        }
    }

    fn step(&mut self, step_id: Option<&str>) -> Option<&mut StepView> {
        self.steps.find_mut(named(step_id)?)
    }

    /// Says whether a step has begun and is not over.
    pub(crate) fn is_open(&mut self, step_id: &str) -> bool {
        self.steps.find_mut(step_id).is_some_and(|step| step.is_open())
    }
}

/// Returns a name; an empty one is none.
pub(crate) fn named(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !name.is_empty())
}

impl View {
    /// Returns the steps that were started, in order.
    #[must_use]
    pub fn steps(&self) -> &[StepView] {
        self.steps.all()
    }

    /// Returns the number of steps of the plan.
    #[must_use]
    pub const fn steps_planned(&self) -> u64 {
        self.steps_planned
    }

    /// Returns how often a step was started.
    #[must_use]
    pub const fn steps_executed(&self) -> u64 {
        self.steps_executed
    }

    /// Returns the methods that were called, each once, in order of first use.
    #[must_use]
    pub fn tools_used(&self) -> &[String] {
        self.tools_used.list()
    }

    /// Returns `ok` or `error` once the run is over.
    #[must_use]
    pub fn outcome(&self) -> Option<&'static str> {
        self.terminal.map(|kind| if kind == Kind::RunCompleted { "ok" } else { "error" })
    }

    /// Returns the kind of the event that ended the run; the last, if there are several.
    #[must_use]
    pub const fn terminal(&self) -> Option<Kind> {
        self.terminal
    }

    /// Returns why the run failed, in one word; the last, if several are given.
    #[must_use]
    pub fn last_failure_reason(&self) -> Option<&str> {
        self.last_failure_reason.as_deref()
    }

    /// Puts what the events tell beside what the store knows already.
    pub(crate) fn summarise(&self, progress: &mut Progress) {
        progress.steps_planned = self.steps_planned;
        progress.steps_executed = self.steps_executed;
        progress.tools_used = self.tools_used.list().to_vec();
        progress.outcome = self.outcome().map(str::to_owned);
        progress.last_failure_reason.clone_from(&self.last_failure_reason);
    }

    /// Returns the view in the form that callers of replay get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let steps = self.steps.all().iter();
        let steps: Object = steps.map(|step| (step.step_id().to_owned(), step.to_json())).collect();
        let mut view = Object::with_capacity(9);
        view.insert("run_id", self.run_id.as_str());
        view.insert("status", self.status);
        view.insert("outcome", self.outcome());
        view.insert("mode", self.mode.as_deref());
        view.insert("goal", self.goal.as_deref());
        view.insert("steps", steps);
        view.insert("tools_used", texts(self.tools_used.list()));
        view.insert("provenance_present", self.provenance_present);
        view.insert("terminal_event_type", self.terminal.map(Kind::name));
        view.into()
    }
}

/// Returns texts as an array.
pub(crate) fn texts(texts: &[String]) -> Value {
    texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>().into()
}
