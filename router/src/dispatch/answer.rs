//! Result of a step: its recorded form, and the caller's form where redaction makes them differ.

use nexus_router_sdk::{AdapterError, code};

use super::Execution;
use super::failure::FailedCall;
use crate::json::{Object, Value};
use crate::outcome::{StepError, StepResult, StepStatus};
use crate::request::Mode;
use crate::secret::{Secrets, redacted_pointers};

impl Execution {
    /// Makes the result of a step. The record gets the redacted output; the caller gets the output as it is, except
    /// for exact values of known secrets.
    pub(super) fn result(
        &self,
        step_id: String,
        answer: Result<Object, FailedCall>,
        secrets: &Secrets,
    ) -> StepResult {
        let (output, error) = match answer {
            Ok(output) => (Some(output), None),
            Err(FailedCall { error, output }) => (output, Some(shown_error(error, secrets))),
        };
        let status = if error.is_some() { StepStatus::Error } else { StepStatus::Ok };
        let OutputForms { output, answer, redacted } =
            output.map(|output| OutputForms::of(output, secrets)).unwrap_or_default();
        let simulated = self.mode == Mode::DryRun;
        let (output_digest, signals) = (None, None);
        StepResult {
            step_id,
            status,
            simulated,
            output,
            answer,
            output_digest,
            redacted,
            error,
            signals,
        }
    }

    /// Holds the caller's form of the last result, if it differs from the recorded one. It is written together with
    /// the events of the step.
    pub(super) fn hold_answer(&mut self, index: usize) {
        let last = self.results.last().filter(|result| result.output_digest.is_none());
        let Some(answer) = last.and_then(|result| result.answer.as_deref()) else { return };
        self.recorder.hold(index, self.origin.caller.as_deref(), answer);
    }
}

/// Two forms of an output.
#[derive(Default)]
struct OutputForms {
    output: Object,
    answer: Option<Box<Object>>,
    redacted: Vec<String>,
}

impl OutputForms {
    fn of(given: Object, secrets: &Secrets) -> Self {
        let Some(output) = secrets.redact_object(&given) else {
            return Self { output: given, ..Self::default() };
        };
        let answer = secrets.replace_known(&given).unwrap_or(given);
        if answer == output {
            return Self { redacted: redacted_pointers(&output), output, answer: None };
        }
        Self { redacted: redacted_pointers(&answer), output, answer: Some(Box::new(answer)) }
    }
}

/// Returns an error in the form that is recorded and shown.
fn shown_error(error: AdapterError, secrets: &Secrets) -> StepError {
    let mut error = StepError::of(error);
    if let Some(shown) = secrets.redact_text(&error.code) {
        error.code = shown;
    }
    if let Some(message) = secrets.redact_text(&error.message) {
        error.message = message;
    }
    let request = InputRequest::take(&mut error);
    if let Some(details) = secrets.redact_object(&error.details) {
        error.details = details;
    }
    request.put_back(&mut error, secrets);
    error
}

/// Input that a call requests from its caller. Redaction leaves its requests and state intact.
#[derive(Default)]
struct InputRequest {
    requests: Option<Value>,
    state: Option<Value>,
}

impl InputRequest {
    fn take(error: &mut StepError) -> Self {
        if error.code != code::INPUT_REQUIRED {
            return Self::default();
        }
        Self { requests: error.details.remove("requests"), state: error.details.remove("state") }
    }

    fn put_back(self, error: &mut StepError, secrets: &Secrets) {
        if let Some(requests) = self.requests {
            error.details.insert("requests", secrets.redact_texts(&requests));
        }
        if let Some(Value::String(state)) = self.state {
            error.details.insert("state", secrets.without_known(&state));
        }
    }
}
