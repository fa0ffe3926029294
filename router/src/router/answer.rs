//! What a caller is answered: an outcome, or an error that may carry one.

use super::Error;
use crate::event::Failure;
use crate::json::{Object, Value};
use crate::outcome::{Outcome, StepStatus};

/// Turns a bug into an error, and anything else into an answer.
pub(super) fn answer(outcome: Outcome) -> Result<Outcome, Error> {
    if outcome.reason.as_deref() != Some(Failure::BUG) {
        return Ok(outcome);
    }
    let failed = outcome.results.iter().rfind(|result| result.status == StepStatus::Error);
    let (step_id, code, message) = match failed.map(|result| (&result.step_id, &result.error)) {
        Some((step_id, Some(error))) => {
            (step_id.clone(), error.code.clone(), error.message.clone())
        }
        _ => <(String, String, String)>::default(),
    };
    let run_id = outcome.run_id.clone();
    Err(Error::Bug { run_id, step_id, code, message, outcome: Box::new(outcome) })
}

/// Returns the response as JSON, also where the answer is an error that carries a run.
#[must_use]
pub fn response(answer: &Result<Outcome, Error>) -> Value {
    match answer {
        Ok(outcome) => outcome.to_json(),
        Err(error) => {
            let known = error.outcome().and_then(|outcome| outcome.to_json().into_object());
            let mut response = known.unwrap_or_default();
            let mut shown = Object::new();
            shown.insert("code", error.code());
            shown.insert("message", error.to_string());
            shown.insert("hint", error.hint());
            if let Some(run_id) = error.run_id() {
                shown.insert("run_id", run_id);
            }
            if let Some(steps) = error.steps() {
                shown.insert("steps", steps);
            }
            response.insert("error", shown);
            Value::Object(response)
        }
    }
}
