//! What the signals of a step said, as its result tells it: the same from a live run and from its record.

use nexus_router_sdk::ErrorKind;

use super::{StepError, StepResult, StepStatus};
use crate::json::{Object, Value};
use crate::signal::Action;

/// What the signals of a step said.
#[derive(Clone, Debug, PartialEq)]
pub struct Signals {
    /// What is to be done with its work.
    pub action: Action,
    /// Why.
    pub reason: String,
    /// The rule that decided, counted from 0.
    pub rule_index: Option<i64>,
    /// The contract.
    pub adapter_id: String,
    /// Its version.
    pub adapter_version: Option<String>,
    /// What its validator said.
    pub validation_result: String,
}

impl Signals {
    /// The code of a step whose signals are rejected.
    pub(crate) const REJECTED: &str = "SIGNALS_REJECTED";

    /// Reads what an evaluation and a decision say. What cannot be read needs a person to look at it.
    pub(crate) fn read(evaluation: Option<&Object>, decision: Option<&Object>) -> Self {
        fn text(object: Option<&Object>, key: &str) -> Option<String> {
            object.and_then(|it| it.get(key)).and_then(Value::as_str).map(str::to_owned)
        }
        let action = text(decision, "action").and_then(|name| Action::from_name(&name));
        Self {
            action: action.unwrap_or(Action::RequireReview),
            reason: text(decision, "reason").unwrap_or_default(),
            rule_index: decision.and_then(|it| it.get("rule_index")).and_then(Value::as_i64),
            adapter_id: text(evaluation, "adapter_id").unwrap_or_default(),
            adapter_version: text(evaluation, "adapter_version"),
            validation_result: text(evaluation, "validation_result").unwrap_or_default(),
        }
    }

    /// Returns the form in responses.
    pub(crate) fn to_json(&self) -> Object {
        let mut object = Object::with_capacity(6);
        object.insert("action", self.action.name());
        object.insert("reason", self.reason.as_str());
        object.insert("rule_index", self.rule_index);
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("adapter_version", self.adapter_version.as_deref());
        object.insert("validation_result", self.validation_result.as_str());
        object
    }

    /// Tells why the work of a step is rejected.
    pub(crate) fn told(&self) -> String {
        format!("the signals of the call are rejected: {}", self.reason)
    }

    /// Puts this into the result of the call: one that is rejected fails, and what it gave is not passed on.
    pub(crate) fn put_into(self, result: &mut StepResult) {
        if self.action == Action::AutoReject {
            let mut details = self.to_json();
            details.remove("reason");
            result.status = StepStatus::Error;
            result.output = Object::new();
            result.answer = None;
            result.redacted = Vec::new();
            result.error = Some(StepError {
                kind: ErrorKind::Operational,
                code: Self::REJECTED.to_owned(),
                message: self.told(),
                details,
            });
        }
        result.signals = Some(self);
    }
}
