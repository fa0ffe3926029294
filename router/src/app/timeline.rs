//! A run as it went in time: what was done when, for how long, and what came of it.

use crate::approval::{Approval, Decision, Ruling};
use crate::clock::Timestamp;
use crate::event::{Kind, Line};
use crate::json::{self, Limits, Object, Value};
use crate::outcome::{Choice, Signals};
use crate::signal::Action;
use crate::store::{Log, RunRecord, Status};

/// A run as it went in time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// What the store knows of the run.
    pub record: RunRecord,
    /// The adapters, in order of first use.
    pub adapters: Vec<Choice>,
    /// The steps, in the order in which they were begun; then those of the plan that were not.
    pub spans: Vec<Span>,
    /// When its first event was recorded.
    pub began: Option<Timestamp>,
    /// When its last event was recorded, as far as it got.
    pub last: Option<Timestamp>,
    /// Why it failed, in one word.
    pub reason: Option<String>,
    /// What its failure says, where it is not that of a step.
    pub message: Option<String>,
}

/// A step in time.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// The step.
    pub step_id: String,
    /// The tool.
    pub tool: String,
    /// The method of the tool.
    pub method: String,
    /// The adapter that was called.
    pub adapter_id: Option<String>,
    /// What came of it.
    pub status: SpanStatus,
    /// When it began.
    pub began: Option<Timestamp>,
    /// When it was over.
    pub ended: Option<Timestamp>,
    /// How long the call took, as it was measured.
    pub duration_ms: Option<u64>,
    /// Attempts at its call beyond the first one.
    pub retries: u64,
    /// The code and the message of its failure.
    pub error: Option<(String, String)>,
    /// What people were asked about it, and what they said.
    pub approvals: Vec<Approval>,
    /// What its signals said.
    pub signals: Option<Signals>,
    /// Forecast of a dry run.
    pub forecast: Option<StepForecast>,
}

/// Decision of the gate about a step outside of a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepForecast {
    /// The gate would let it through.
    Permitted,
    /// A person would be asked.
    NeedsApproval,
    /// The gate would deny it.
    Denied,
}

impl StepForecast {
    /// Reads the forecast from the result of a call in a dry run.
    fn read(kind: Kind, payload: &Value) -> Option<Self> {
        let of = |key: &str, member: &str| payload.get(key).and_then(|it| it.get(member)).is_some();
        match kind {
            Kind::ToolCallFailed => of("details", "denied_by").then_some(Self::Denied),
            _ if of("output", "approval_required") => Some(Self::NeedsApproval),
            _ => Some(Self::Permitted),
        }
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanStatus {
    /// It was done.
    Ok,
    /// It failed.
    Error,
    /// It is being carried out, or was when the process died.
    Running,
    /// A person is asked about it, and has not answered.
    Asked,
    /// It was not begun yet.
    #[default]
    Waiting,
    /// It was not begun, and the run is over.
    Skipped,
}

impl SpanStatus {
    /// Returns the word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Running => "running",
            Self::Asked => "needs approval",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
        }
    }
}

impl Timeline {
    /// Reads a run's events. What is damaged is passed over; replay is what judges.
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let mut timeline = Self {
            record: log.record.clone(),
            adapters: Vec::new(),
            spans: Vec::new(),
            began: None,
            last: None,
            reason: None,
            message: None,
        };
        let mut plan = Vec::new();
        for line in log.lines() {
            let Ok(line) = Line::read(line) else { continue };
            let Some(kind) = Kind::from_name(&line.kind) else { continue };
            let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
            let Ok(payload) = json::parse(line.payload.as_bytes(), limits) else { continue };
            let moment = Timestamp::parse(&line.ts);
            timeline.began = timeline.began.or(moment);
            timeline.last = moment.or(timeline.last);
            timeline.take(kind, &payload, (&line.ts, moment), &mut plan);
        }
        let over = log.record.progress.status != Status::Running;
        let status = if over { SpanStatus::Skipped } else { SpanStatus::Waiting };
        let begun = timeline.spans.len();
        timeline.spans.extend(plan.into_iter().skip(begun).map(|span| Span { status, ..span }));
        timeline
    }

    fn take(
        &mut self,
        kind: Kind,
        payload: &Value,
        (ts, moment): (&str, Option<Timestamp>),
        plan: &mut Vec<Span>,
    ) {
        match kind {
            Kind::PlanCreated => {
                let steps = payload.get("plan").and_then(Value::as_array).unwrap_or_default();
                plan.extend(steps.iter().map(planned));
            }
            Kind::DispatchSelected => self.adapters.push(Choice {
                adapter_id: text(payload, "adapter_id"),
                adapter_kind: text(payload, "adapter_kind"),
                selection_source: text(payload, "selection_source"),
            }),
            Kind::StepStarted => {
                let step_id = text(payload, "step_id");
                let known = plan.iter().find(|span| span.step_id == step_id).cloned();
                let known = known.unwrap_or_default();
                let status = SpanStatus::Running;
                self.spans.push(Span { step_id, status, began: moment, ..known });
            }
            Kind::ApprovalRequested => {
                let run_id = self.record.header.run_id.clone();
                let asked = payload.as_object().and_then(|it| Approval::read(&run_id, ts, it));
                if let Some(span) = self.span(payload) {
                    span.status = SpanStatus::Asked;
                    span.approvals.extend(asked);
                }
            }
            Kind::ApprovalDecided => {
                let decision = Decision::from_name(&text(payload, "decision"));
                let said = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
                if let Some(span) = self.span(payload) {
                    span.status = SpanStatus::Running;
                    if let (Some(last), Some(decision)) = (span.approvals.last_mut(), decision) {
                        let (by, reason) = (said("by"), said("reason"));
                        last.ruling = Some(Ruling { decision, by, reason, at: ts.to_owned() });
                    }
                }
            }
            Kind::ToolCallRequested => {
                let adapter_id = Some(text(payload, "adapter_id"));
                if let Some(span) = self.span(payload) {
                    span.adapter_id = adapter_id;
                }
            }
            Kind::ToolCallRetried => {
                if let Some(span) = self.span(payload) {
                    span.retries += 1;
                }
            }
            Kind::ToolCallSucceeded | Kind::ToolCallFailed => {
                let duration = payload.get("duration_ms").and_then(Value::as_i64);
                let error = (kind == Kind::ToolCallFailed)
                    .then(|| (text(payload, "error_code"), text(payload, "message")));
                let forecast =
                    self.is_dry_run().then(|| StepForecast::read(kind, payload)).flatten();
                if let Some(span) = self.span(payload) {
                    span.forecast = forecast;
                    let failed = error.is_some();
                    span.status = if failed { SpanStatus::Error } else { SpanStatus::Ok };
                    span.duration_ms = duration.and_then(|time| u64::try_from(time).ok());
                    span.ended = moment;
                    span.error = error;
                }
            }
            Kind::SignalsEvaluated => {
                let part = |key: &str| payload.get(key).and_then(Value::as_object);
                let signals = Signals::read(part("adapter_evaluation"), part("decision"));
                if let Some(span) = self.span(payload) {
                    if signals.action == Action::AutoReject {
                        span.status = SpanStatus::Error;
                        span.error = Some((Signals::REJECTED.to_owned(), signals.told()));
                    }
                    span.signals = Some(signals);
                }
            }
            Kind::StepCompleted => {
                let failed = text(payload, "status") == "error";
                if let Some(span) = self.span(payload) {
                    span.status = if failed { SpanStatus::Error } else { SpanStatus::Ok };
                    span.ended = moment;
                }
            }
            Kind::RunFailed => {
                self.reason = Some(text(payload, "reason")).filter(|reason| !reason.is_empty());
                self.message = failure(payload);
            }
            Kind::RunStarted | Kind::ProvenanceEmitted | Kind::RunCompleted => {}
        }
    }

    /// Returns the step that an event is about: the last that was begun under its id.
    fn span(&mut self, payload: &Value) -> Option<&mut Span> {
        let step_id = payload.get("step_id").and_then(Value::as_str)?;
        self.spans.iter_mut().rfind(|span| span.step_id == step_id)
    }

    /// Returns whether the run is a dry run.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.record.header.mode == "dry_run"
    }

    /// Returns the approval that the run waits for, if it does so here.
    #[must_use]
    pub fn waiting(&self) -> Option<&Approval> {
        let asked = self.spans.iter().rfind(|span| span.status == SpanStatus::Asked)?;
        asked.approvals.last().filter(|_| self.record.waits)
    }

    /// Returns how long the run took so far, in milliseconds.
    #[must_use]
    pub fn milliseconds(&self) -> Option<u64> {
        between(self.began, self.last)
    }

    /// Returns the steps in the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let spans = self.spans.iter().map(|span| {
            let mut object = Object::new();
            object.insert("step_id", span.step_id.as_str());
            object.insert("tool", span.tool.as_str());
            object.insert("method", span.method.as_str());
            object.insert("adapter_id", span.adapter_id.clone());
            object.insert("status", span.status.name());
            object.insert("started_at", span.began.map(|moment| moment.to_string()));
            object.insert("ended_at", span.ended.map(|moment| moment.to_string()));
            object.insert("duration_ms", span.duration_ms);
            if span.retries > 0 {
                object.insert("retries", span.retries);
            }
            if let Some((code, message)) = &span.error {
                let mut error = Object::new();
                error.insert("code", code.as_str());
                error.insert("message", message.as_str());
                object.insert("error", error);
            }
            if let Some(signals) = &span.signals {
                object.insert("signals", signals.to_json());
            }
            if !span.approvals.is_empty() {
                let approvals: Vec<Value> = span.approvals.iter().map(Approval::to_json).collect();
                object.insert("approvals", approvals);
            }
            Value::Object(object)
        });
        Value::Array(spans.collect())
    }
}

impl Span {
    /// Returns how long the step took, in milliseconds.
    #[must_use]
    pub fn milliseconds(&self) -> Option<u64> {
        self.duration_ms.or_else(|| between(self.began, self.ended))
    }
}

fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<u64> {
    u64::try_from(to?.as_millis() - from?.as_millis()).ok()
}

/// Returns what the failure of a run says, besides its reason.
fn failure(payload: &Value) -> Option<String> {
    let number = |key: &str| payload.get(key).and_then(Value::as_i64);
    let said = Some(text(payload, "message")).filter(|text| !text.is_empty());
    said.or_else(|| match (number("plan_steps"), number("max_steps"), number("timeout_ms")) {
        (Some(planned), Some(allowed), _) => {
            Some(format!("the plan has {planned} steps, and the policy allows {allowed}"))
        }
        (_, _, Some(time)) => Some(format!("it was not over after {time} milliseconds")),
        _ => None,
    })
}

fn planned(step: &Value) -> Span {
    let call = step.get("call").unwrap_or(&Value::Null);
    Span {
        step_id: text(step, "step_id"),
        tool: text(call, "tool"),
        method: text(call, "method"),
        ..Span::default()
    }
}

fn text(object: &Value, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
