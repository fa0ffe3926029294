//! What came of a run: the answer to the caller, from a live run or from its record.

mod document;
mod held_answer;
mod recorded;
mod signals;
mod text;
mod waiting;

use std::sync::Arc;

use nexus_router_sdk::{AdapterError, ErrorKind, code};
use sha2::{Digest as _, Sha256};

use crate::budget::Reservation;
use crate::digest::Digest;
use crate::event::OutputDigest;
use crate::json::{self, Limits, Object, Value};
use crate::signal::Action;
use crate::store::{Log, Status};

pub(crate) use document::RunDocument;
pub(crate) use recorded::Recorded;
pub use signals::Signals;
pub use waiting::Waiting;

/// Note about a run whose plan has no steps.
pub(crate) const EMPTY_PLAN: &str = "the plan is empty: nothing was done";

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The run.
    pub run_id: String,
    /// Whether it is over, and how.
    pub status: Status,
    /// `dry_run` or `apply`.
    pub mode: String,
    /// The plan as recorded.
    pub plan: Vec<Object>,
    /// The adapters that were chosen, in order of first use.
    pub selected: Vec<Choice>,
    /// What came of each step of the plan, as far as the run got.
    pub results: Vec<StepResult>,
    /// Why it failed, in one word.
    pub reason: Option<String>,
    /// The code and the message of a failure that is not that of a step.
    pub error: Option<(String, String)>,
    /// The text of artifacts and records, canonical.
    pub provenance: String,
    /// How many events were recorded.
    pub events: u64,
    /// The approval that it waits for.
    pub waiting: Option<Waiting>,
    /// Memory that the answers take.
    pub(crate) memory: Option<Arc<Reservation>>,
}

/// An adapter that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The adapter.
    pub adapter_id: String,
    /// Its kind.
    pub adapter_kind: String,
    /// Who chose it.
    pub selection_source: String,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub struct StepResult {
    /// The step.
    pub step_id: String,
    /// Whether it was done.
    pub status: StepStatus,
    /// Whether nothing was really done.
    pub simulated: bool,
    /// Output as recorded; empty if there is none. A failed call may have one too.
    pub output: Object,
    /// Output for the caller of the run, where it differs from the recorded one.
    pub answer: Option<Box<Object>>,
    /// Digest of an output that the record has no room for. The output itself is there only for the caller of a run
    /// with one step, until it is answered.
    pub output_digest: Option<OutputDigest>,
    /// Pointers to the redacted parts of the output that [`for_caller`](Self::for_caller) returns.
    pub redacted: Vec<String>,
    /// Why it failed.
    pub error: Option<StepError>,
    /// What its signals said, if they were looked at.
    pub signals: Option<Signals>,
}

impl StepResult {
    /// Returns the output in the form that the caller gets.
    #[must_use]
    pub fn for_caller(&self) -> &Object {
        self.answer.as_deref().unwrap_or(&self.output)
    }
}

/// Whether a step was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// It was.
    Ok,
    /// It failed.
    Error,
    /// It was not begun, because the run ended before.
    Skipped,
}

impl StepStatus {
    /// Returns the name in responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

/// Why a step failed, free of secrets.
#[derive(Clone, Debug)]
pub struct StepError {
    /// Whether it was to be expected.
    pub kind: ErrorKind,
    /// The stable code.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// What else is known.
    pub details: Object,
}

impl StepError {
    /// Returns the name of the kind.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self.kind {
            ErrorKind::Operational => "operational",
            ErrorKind::Bug => "bug",
        }
    }

    pub(crate) fn of(error: AdapterError) -> Self {
        let details = error.details.iter();
        let mut details: Object =
            details.map(|(key, value)| (key.clone(), Value::from(value))).collect();
        let mut code = error.code;
        // Programs rely on codes, so whatever is none stands among the details.
        if !code::is_well_formed(&code) {
            details.insert("reported_code", code);
            code = match error.kind {
                ErrorKind::Operational => "OPERATIONAL_ERROR".to_owned(),
                ErrorKind::Bug => code::BUG_ERROR.to_owned(),
            };
        }
        Self { kind: error.kind, code, message: error.message, details }
    }
}

/// Returns the digest of canonical `{"request": …, "results": […]}`; steps that were not begun have no
/// part in it. `request` is without its goal and its plan.
pub(crate) fn provenance_digest(
    goal: &str,
    request: &Object,
    plan: Option<&[&Object]>,
    results: &[StepResult],
) -> Digest {
    let mut text = String::with_capacity(1024);
    let mut hasher = Sha256::new();
    text.push_str("{\"request\":{");
    let more = std::iter::once("goal").chain(plan.map(|_| "plan_override"));
    let mut keys: Vec<&str> = request.keys().chain(more).collect();
    keys.sort_unstable();
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        json::write_canonical_str(&mut text, key);
        text.push(':');
        match (request.get(key), plan) {
            (Some(value), _) => json::write_canonical(&mut text, value),
            (None, Some(plan)) if *key != "goal" => {
                text.push('[');
                for (index, step) in plan.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    json::write_canonical_object(&mut text, step);
                    hash_if_long(&mut hasher, &mut text);
                }
                text.push(']');
            }
            (None, _) => json::write_canonical_str(&mut text, goal),
        }
    }
    text.push_str("},\"results\":[");
    let done = results.iter().filter(|result| result.status != StepStatus::Skipped);
    for (index, result) in done.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str("{\"evidence\":[],\"output\":");
        json::write_canonical_object(&mut text, &result.output);
        text.push_str(if result.simulated {
            ",\"simulated\":true"
        } else {
            ",\"simulated\":false"
        });
        text.push_str(",\"status\":\"");
        text.push_str(result.status.name());
        text.push_str("\",\"step_id\":");
        json::write_canonical_str(&mut text, &result.step_id);
        text.push('}');
        hash_if_long(&mut hasher, &mut text);
    }
    text.push_str("]}");
    hasher.update(text);
    Digest::from_bytes(hasher.finalize().into())
}

/// Moves a long text into the digest, so that the whole text is never in memory.
fn hash_if_long(hasher: &mut Sha256, text: &mut String) {
    const LONG: usize = 64 * 1024;
    if text.len() > LONG {
        hasher.update(&*text);
        text.clear();
        text.shrink_to(LONG);
    }
}

impl Outcome {
    /// Returns `ok` or `error`, once the run is over.
    #[must_use]
    pub const fn word(&self) -> Option<&'static str> {
        match self.status {
            Status::Running => None,
            Status::Completed => Some("ok"),
            Status::Failed => Some("error"),
        }
    }

    /// Returns the response: the Python router's members, and ours besides.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut response = self.frame();
        response.insert("plan", self.plan.iter().cloned().map(Value::Object).collect::<Vec<_>>());
        let results = self.results.iter().map(|result| {
            let mut object = result_frame(result);
            object.insert("output", result.for_caller().clone());
            Value::Object(object)
        });
        response.insert("results", results.collect::<Vec<_>>());
        Value::Object(response)
    }

    /// Returns the response with an empty plan and without results: everything that is small.
    pub(crate) fn frame(&self) -> Object {
        let count = |status| {
            Value::from(self.results.iter().filter(|result| result.status == status).count())
        };
        let nobody = || Choice {
            adapter_id: "none".to_owned(),
            adapter_kind: "none".to_owned(),
            selection_source: "failed".to_owned(),
        };
        let first = self.selected.first().cloned().unwrap_or_else(nobody);
        let applied = if self.mode == "apply" { count(StepStatus::Ok) } else { Value::from(0_i64) };
        let mut summary = Object::new();
        summary.insert("mode", self.mode.as_str());
        summary.insert("steps", self.plan.len());
        summary.insert("tools_used", Value::Array(self.tools_used()));
        summary.insert("outputs_total", self.results.len());
        summary.insert("outputs_applied", applied);
        summary.insert("outputs_failed", count(StepStatus::Error));
        summary.insert("outputs_skipped", count(StepStatus::Skipped));
        summary.insert("adapter_id", first.adapter_id.as_str());
        let mut dispatch = Object::new();
        dispatch.insert("adapter_id", first.adapter_id);
        dispatch.insert("adapter_kind", first.adapter_kind);
        dispatch.insert("selection_source", first.selection_source);
        let mut run = Object::new();
        run.insert("run_id", self.run_id.as_str());
        run.insert("events_committed", self.events);
        let mut response = Object::new();
        response.insert("status", self.status.name());
        response.insert("outcome", self.word().map_or(Value::Null, Value::from));
        response.insert("summary", summary);
        response.insert("dispatch", dispatch);
        response.insert("run", run);
        response.insert("plan", Value::Null);
        response.insert("results", Value::Null);
        let provenance = json::parse(self.provenance.as_bytes(), Limits::BUNDLE);
        response.insert("provenance", provenance.unwrap_or(Value::Null));
        if self.plan.is_empty() && self.status == Status::Completed {
            response.insert("note", EMPTY_PLAN);
        }
        if self.needs_review() {
            response.insert("review", "required");
        }
        if let Some(waiting) = &self.waiting {
            response.insert("waiting", waiting.to_json());
        }
        if let Some(reason) = &self.reason {
            response.insert("reason", reason.as_str());
        }
        if let Some((code, message)) = &self.error {
            let mut error = Object::new();
            error.insert("code", code.as_str());
            error.insert("message", message.as_str());
            response.insert("error", error);
        }
        response
    }

    /// Says whether a person has to look at what a step gave.
    #[must_use]
    pub fn needs_review(&self) -> bool {
        let mut signals = self.results.iter().filter_map(|result| result.signals.as_ref());
        signals.any(|signals| signals.action == Action::RequireReview)
    }

    fn tools_used(&self) -> Vec<Value> {
        let begun = self.results.iter().filter(|result| result.status != StepStatus::Skipped);
        let methods = self.plan.iter().zip(begun);
        let mut used: Vec<Value> = Vec::new();
        for (step, _) in methods {
            let method = step.get("call").and_then(|call| call.get("method"));
            if let Some(method) = method
                && !used.contains(method)
            {
                used.push(method.clone());
            }
        }
        used
    }
}

/// Returns a result in the form that callers get, without its output.
pub(crate) fn result_frame(result: &StepResult) -> Object {
    let mut object = Object::new();
    object.insert("step_id", result.step_id.as_str());
    object.insert("status", result.status.name());
    object.insert("simulated", result.simulated);
    object.insert("output", Value::Null);
    object.insert("evidence", Value::Array(Vec::new()));
    if let Some(error) = &result.error {
        let mut shown = Object::new();
        shown.insert("kind", error.kind_name());
        shown.insert("code", error.code.as_str());
        shown.insert("message", error.message.as_str());
        shown.insert("details", error.details.clone());
        object.insert("error", shown);
    }
    if let Some(digest) = result.output_digest {
        object.insert("output_digest", digest.to_json());
    }
    if !result.redacted.is_empty() {
        object.insert("redacted", pointers_json(&result.redacted));
    }
    if let Some(signals) = &result.signals {
        object.insert("signals", signals.to_json());
    }
    object
}

/// Returns pointers as a JSON list.
pub(crate) fn pointers_json(pointers: &[String]) -> Value {
    Value::Array(pointers.iter().map(|pointer| Value::from(pointer.as_str())).collect())
}

/// Returns the result of a step that was not begun.
pub(crate) fn skipped(step_id: &str, simulated: bool) -> StepResult {
    let step_id = step_id.to_owned();
    StepResult {
        step_id,
        status: StepStatus::Skipped,
        simulated,
        output: Object::new(),
        answer: None,
        output_digest: None,
        redacted: Vec::new(),
        error: None,
        signals: None,
    }
}

/// Returns the result of a step that was begun, and whose call was not requested.
pub(crate) fn interrupted(step_id: &str, simulated: bool) -> StepResult {
    let error = AdapterError::operational("INTERRUPTED", "the run ended before the call was made");
    let error = Some(StepError::of(error));
    StepResult { status: StepStatus::Error, error, ..skipped(step_id, simulated) }
}

/// The provenance of a run that did nothing.
pub(crate) const NO_PROVENANCE: &str = r#"{"artifacts":[],"records":[]}"#;

impl Outcome {
    /// Answers from a record.
    #[must_use]
    pub fn of_log(log: &Log) -> Self {
        Self::of_recorded(Recorded::read(log), log)
    }

    fn of_recorded(recorded: Recorded, log: &Log) -> Self {
        let mut results = recorded.results;
        let status = log.record.progress.status;
        let simulated = log.record.header.mode == "dry_run";
        if status != Status::Running {
            for step in recorded.plan.iter().skip(results.len()) {
                let step_id = step.get("step_id").and_then(Value::as_str).unwrap_or_default();
                results.push(skipped(step_id, simulated));
            }
        }
        Self {
            run_id: log.record.header.run_id.clone(),
            status,
            mode: log.record.header.mode.clone(),
            plan: recorded.plan,
            selected: recorded.selected,
            results,
            reason: recorded.reason,
            error: recorded.error,
            provenance: recorded.provenance.unwrap_or_else(|| NO_PROVENANCE.to_owned()),
            events: log.record.progress.events,
            waiting: recorded.approval.filter(|_| log.record.waits).map(Waiting::of),
            memory: None,
        }
    }
}
