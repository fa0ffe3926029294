//! What a log says in full, for those who go on with it or answer from it.

use nexus_router_sdk::{Capability, ErrorKind};

use super::{Choice, Signals, StepError, StepResult, StepStatus, interrupted};
use crate::approval::{Approval, Decision, Ruling};
use crate::event::{Kind, Line, OutputDigest};
use crate::json::{self, Limits, Object, Value};
use crate::secret::redacted_pointers;
use crate::store::Log;

/// What a log says in full, for those who go on with it or answer from it.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The request without its goal and its plan.
    pub(crate) request: Object,
    /// Who asked for it.
    pub(crate) caller: Option<Object>,
    /// The plan.
    pub(crate) plan: Vec<Object>,
    /// Whether the request had a plan.
    pub(crate) plan_given: bool,
    /// Whether secrets were taken out of the plan.
    pub(crate) redacted: bool,
    pub(crate) selected: Vec<Choice>,
    /// The adapter of the last call.
    pub(crate) called: String,
    /// Whether that adapter declared that it has effects.
    pub(crate) called_external: bool,
    /// Results of steps whose call is over.
    pub(crate) results: Vec<StepResult>,
    /// What a person was asked last about the step that is open, and what they said.
    pub(crate) approval: Option<Approval>,
    pub(crate) provenance: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) error: Option<(String, String)>,
}

impl Recorded {
    /// Reads a log in full. What is damaged or foreign is passed over; replay is what judges.
    pub(crate) fn read(log: &Log) -> Self {
        let mut recorded = Self::default();
        let simulated = log.record.header.mode == "dry_run";
        for line in log.lines() {
            let Ok(event) = Line::read(line) else { continue };
            let Some(kind) = Kind::from_name(&event.kind) else { continue };
            let limits = Limits { bytes: usize::MAX, ..Limits::BUNDLE };
            let payload = json::parse(event.payload.as_bytes(), limits);
            let Some(payload) = payload.ok().and_then(Value::into_object) else { continue };
            recorded.take(kind, payload, simulated, (&log.record.header.run_id, &event.ts));
        }
        recorded
    }

    pub(super) fn take(
        &mut self,
        kind: Kind,
        mut payload: Object,
        simulated: bool,
        (run_id, ts): (&str, &str),
    ) {
        let text = |payload: &Object, key: &str| {
            payload.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match kind {
            Kind::RunStarted => {
                let request = payload.remove("request").and_then(Value::into_object);
                self.request = request.unwrap_or_default();
                self.caller =
                    payload.remove("caller").map(|caller| caller.into_object().unwrap_or_default());
            }
            Kind::PlanCreated => {
                self.plan_given = !payload.contains_key("source");
                self.redacted = payload.contains_key("redacted");
                if let Some(Value::Array(steps)) = payload.remove("plan") {
                    self.plan = steps.into_iter().filter_map(Value::into_object).collect();
                }
            }
            Kind::DispatchSelected => self.selected.push(Choice {
                adapter_id: text(&payload, "adapter_id"),
                adapter_kind: text(&payload, "adapter_kind"),
                selection_source: text(&payload, "selection_source"),
            }),
            Kind::ToolCallSucceeded => {
                let step_id = text(&payload, "step_id");
                self.results.push(result_with_output(step_id, simulated, &mut payload));
            }
            Kind::ToolCallFailed => {
                let bug = text(&payload, "error_kind") == "bug";
                let details = payload.remove("details").and_then(Value::into_object);
                let error = StepError {
                    kind: if bug { ErrorKind::Bug } else { ErrorKind::Operational },
                    code: text(&payload, "error_code"),
                    message: text(&payload, "message"),
                    details: details.unwrap_or_default(),
                };
                let result = result_with_output(text(&payload, "step_id"), simulated, &mut payload);
                let status = StepStatus::Error;
                self.results.push(StepResult { status, error: Some(error), ..result });
            }
            Kind::SignalsEvaluated => {
                let part = |key: &str| payload.get(key).and_then(Value::as_object);
                let signals = Signals::read(part("adapter_evaluation"), part("decision"));
                let step_id = text(&payload, "step_id");
                if let Some(last) = self.results.last_mut().filter(|it| it.step_id == step_id) {
                    signals.put_into(last);
                }
            }
            Kind::ProvenanceEmitted => {
                let provenance = payload.remove("provenance");
                self.provenance = provenance.map(|provenance| json::to_canonical(&provenance));
            }
            Kind::RunFailed => {
                self.reason = Some(text(&payload, "reason")).filter(|reason| !reason.is_empty());
                let message = text(&payload, "message");
                if !message.is_empty() {
                    self.error = Some((text(&payload, "error_code"), message));
                }
            }
            // A step that was interrupted before its call has no result of a call.
            Kind::StepCompleted => {
                self.approval = None;
                let step_id = text(&payload, "step_id");
                if self.results.last().is_none_or(|last| last.step_id != step_id) {
                    self.results.push(interrupted(&step_id, simulated));
                }
            }
            Kind::ToolCallRequested => {
                self.called = text(&payload, "adapter_id");
                let declared = payload.get("adapter_capabilities").and_then(Value::as_array);
                let external = |name: &Value| name.as_str() == Some(Capability::External.name());
                self.called_external = declared.is_none_or(|names| names.iter().any(external));
            }
            Kind::ApprovalRequested => self.approval = Approval::read(run_id, ts, &payload),
            Kind::ApprovalDecided => {
                let asked = self.approval.as_mut();
                let asked = asked.filter(|it| it.approval_id == text(&payload, "approval_id"));
                let decision = Decision::from_name(&text(&payload, "decision"));
                if let (Some(approval), Some(decision)) = (asked, decision) {
                    let given = |key| payload.get(key).and_then(Value::as_str).map(str::to_owned);
                    let (by, reason) = (given("by"), given("reason"));
                    approval.ruling = Some(Ruling { decision, by, reason, at: ts.to_owned() });
                }
            }
            Kind::StepStarted => self.approval = None,
            Kind::ToolCallRetried | Kind::RunCompleted => {}
        }
    }
}

/// Returns the result of a call with the output that its event records, if it records one.
fn result_with_output(step_id: String, simulated: bool, payload: &mut Object) -> StepResult {
    let output = payload.remove("output").and_then(Value::into_object).unwrap_or_default();
    let output_digest = payload.get("output_digest").and_then(OutputDigest::read);
    StepResult {
        step_id,
        status: StepStatus::Ok,
        simulated,
        redacted: redacted_pointers(&output),
        output,
        output_digest,
        answer: None,
        error: None,
        signals: None,
    }
}
