//! Answers that were held for the caller of a run, put back into its outcome.

use super::Outcome;
use crate::json::Object;
use crate::secret::redacted_pointers;

impl Outcome {
    /// Returns whether redaction changed the output of a step. Only then an answer may be held.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        self.results.iter().any(|result| !result.redacted.is_empty())
    }

    /// Puts held answers in place of the recorded outputs, by the index of their step.
    pub(crate) fn restore(&mut self, answers: Vec<(usize, Object)>) {
        for (step, answer) in answers {
            let result = self.results.get_mut(step);
            // The work of a step whose signals were rejected is not passed on.
            if let Some(result) = result.filter(|result| !result.redacted.is_empty()) {
                result.redacted = redacted_pointers(&answer);
                result.answer = Some(Box::new(answer));
            }
        }
    }
}
