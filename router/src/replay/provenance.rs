//! Recomputes the digest of what was asked and what came of it from the log of a run of ours.
//!
//! It is the SHA-256 of the canonical text of `{"request": R, "results": L}`. R has the members of
//! `request` in RUN_STARTED, and `goal`; and, unless PLAN_CREATED says that there was none, the plan as
//! `plan_override`. L has for every step that was completed, in order: `evidence` (empty), `output`,
//! `simulated`, `status` and `step_id`; the output is empty
//! if the call failed without one, or its signals rejected it.

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::event::Fact;
use crate::json;
use crate::signal::Action;
use crate::view::scan::Members;

/// What the digest is made of, as far as the log was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Provenance<'a> {
    started: &'a str,
    planned: &'a str,
    simulated: bool,
    /// The answer to the call of the open step.
    output: Option<&'a str>,
    /// The digest of everything up to the last step that was completed.
    text: Option<Sha256>,
    results: usize,
    /// Room for the text of a result.
    result: String,
}

/// What PROVENANCE_EMITTED says, as far as it matters.
#[derive(Deserialize)]
struct Emitted<'a> {
    #[serde(borrow)]
    provenance: Records<'a>,
}

#[derive(Deserialize)]
struct Records<'a> {
    #[serde(borrow)]
    records: Vec<Record<'a>>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    digests: Vec<Named<'a>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    value: std::borrow::Cow<'a, str>,
}

impl<'a> Provenance<'a> {
    /// Takes an event into account; for PROVENANCE_EMITTED it says in what the digest differs. `output` is
    /// the payload's, if it has one.
    pub(super) fn take(
        &mut self,
        fact: &Fact<'_>,
        payload: &'a str,
        output: Option<&'a str>,
    ) -> Option<String> {
        match fact {
            Fact::RunStarted(started) => {
                self.started = payload;
                self.simulated = started.mode.as_deref() == Some("dry_run");
            }
            Fact::PlanCreated(_) => self.planned = payload,
            Fact::StepStarted { .. } => self.output = None,
            Fact::ToolCallSucceeded { .. } | Fact::ToolCallFailed { .. } => self.output = output,
            // What is rejected is not passed on.
            Fact::SignalsEvaluated { action, .. } => {
                if action.as_deref() == Some(Action::AutoReject.name()) {
                    self.output = None;
                }
            }
            Fact::StepCompleted { step_id, status } => {
                self.complete(step_id.as_deref(), status.as_deref());
            }
            Fact::ProvenanceEmitted => return self.compare(payload),
            Fact::DispatchSelected { .. }
            | Fact::ApprovalRequested { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::ToolCallRequested(_)
            | Fact::ToolCallRetried(_)
            | Fact::RunCompleted { .. }
            | Fact::RunFailed { .. } => {}
        }
        None
    }

    fn complete(&mut self, step_id: Option<&str>, status: Option<&str>) {
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        if self.results > 0 {
            result.push(',');
        }
        result.push_str("{\"evidence\":[],\"output\":");
        result.push_str(self.output.take().unwrap_or("{}"));
        result.push_str(",\"simulated\":");
        result.push_str(if self.simulated { "true" } else { "false" });
        result.push_str(",\"status\":");
        json::write_canonical_str(&mut result, status.unwrap_or_default());
        result.push_str(",\"step_id\":");
        json::write_canonical_str(&mut result, step_id.unwrap_or_default());
        result.push('}');
        self.begun().update(&result);
        self.result = result;
        self.results += 1;
    }

    /// Returns the digest up to the results, of which none may be missing.
    fn begun(&mut self) -> &mut Sha256 {
        let (started, planned) = (self.started, self.planned);
        self.text.get_or_insert_with(|| {
            let mut text = Sha256::new();
            text.update("{\"request\":");
            text.update(request(started, planned));
            text.update(",\"results\":[");
            text
        })
    }

    fn compare(&mut self, payload: &str) -> Option<String> {
        let mut text = self.begun().clone();
        text.update("]}");
        let given = Digest::from_bytes(text.finalize().into()).to_string();
        let emitted: Option<Emitted<'_>> = serde_json::from_str(payload).ok();
        let records = emitted.map(|emitted| emitted.provenance.records).unwrap_or_default();
        let recorded = records.first().and_then(|record| record.digests.first());
        match recorded {
            Some(recorded) if recorded.value == given => None,
            Some(recorded) => Some(format!(
                "the recorded digest of request and results is {}, and the log gives {given}",
                recorded.value
            )),
            None => Some(format!("no digest is recorded, and the log gives {given}")),
        }
    }
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    Members::of(object).find(name)
}

/// Returns the canonical text of the request, put together from the texts of its parts.
fn request(started: &str, planned: &str) -> String {
    let mut parts = Vec::new();
    let mut members = Members::of(member(started, "request").unwrap_or("{}"));
    while let Some(Some(name)) = members.name()
        && let Some(value) = members.value()
    {
        if name != "goal" && name != "plan_override" {
            parts.push((name, value));
        }
    }
    parts.extend(member(started, "goal").map(|goal| ("goal", goal)));
    let (mut plan, mut is_given) = (None, true);
    let mut members = Members::of(planned);
    while let Some(Some(name)) = members.name()
        && let Some(value) = members.value()
    {
        match name {
            "plan" => plan = Some(value),
            "source" => is_given = value != "\"none\"",
            _ => {}
        }
    }
    parts.extend(plan.filter(|_| is_given).map(|plan| ("plan_override", plan)));
    // The names of a request's members are words without escapes, so their texts sort as they do.
    parts.sort_unstable_by_key(|(name, _)| *name);
    let members: Vec<String> =
        parts.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_put_together_in_order() {
        let started = r#"{"goal":"g","mode":"apply","request":{"dispatch":{},"mode":"apply","policy":{"allow_apply":true}},"router_version":"1.2.0"}"#;
        assert_eq!(
            request(started, r#"{"plan":[{"a":1}]}"#),
            r#"{"dispatch":{},"goal":"g","mode":"apply","plan_override":[{"a":1}],"policy":{"allow_apply":true}}"#
        );
        assert_eq!(
            request(
                r#"{"goal":"g","mode":"dry_run","request":{}}"#,
                r#"{"plan":[],"source":"none"}"#
            ),
            r#"{"goal":"g"}"#
        );
    }
}
