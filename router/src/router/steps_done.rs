//! Steps of a run that the store could not record to its end, by what is known of each.

use std::fmt::{Display, Formatter, Result};

use crate::json::{Object, Value};
use crate::outcome::{Outcome, StepResult, StepStatus, interrupted};

/// Most ids of each kind in a message.
const SHOWN: usize = 20;

/// Step ids of a run, by what is known of each step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StepsDone<'a> {
    done: Vec<&'a str>,
    failed: Vec<&'a str>,
    in_doubt: Vec<&'a str>,
    not_begun: Vec<&'a str>,
}

impl<'a> StepsDone<'a> {
    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        let mut steps = Self::default();
        for result in &outcome.results {
            let list = match result.status {
                StepStatus::Ok => &mut steps.done,
                StepStatus::Skipped => &mut steps.not_begun,
                StepStatus::Error if is_in_doubt(result) => &mut steps.in_doubt,
                StepStatus::Error if was_not_called(result) => &mut steps.not_begun,
                StepStatus::Error => &mut steps.failed,
            };
            list.push(&result.step_id);
        }
        steps
    }

    /// Returns whether any call was made, or may have been.
    pub(crate) fn has_calls(&self) -> bool {
        !(self.done.is_empty() && self.failed.is_empty() && self.in_doubt.is_empty())
    }

    fn lists(&self) -> [(&'static str, &[&'a str]); 4] {
        [
            ("done", &self.done),
            ("failed", &self.failed),
            ("in_doubt", &self.in_doubt),
            ("not_begun", &self.not_begun),
        ]
    }

    pub(crate) fn to_json(&self) -> Object {
        let mut object = Object::new();
        for (name, steps) in self.lists() {
            object.insert(name, steps.iter().map(|step| Value::from(*step)).collect::<Vec<_>>());
        }
        object
    }
}

/// Returns whether nobody knows what the call of a step did.
fn is_in_doubt(result: &StepResult) -> bool {
    let in_doubt = result.error.as_ref().and_then(|error| error.details.get("in_doubt"));
    in_doubt.and_then(Value::as_bool) == Some(true)
}

/// Returns whether the run ended before the call of a step was made.
fn was_not_called(result: &StepResult) -> bool {
    let code = interrupted("", false).error.map(|error| error.code);
    result.error.as_ref().map(|error| &error.code) == code.as_ref()
}

impl Display for StepsDone<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let lists = self.lists().into_iter().filter(|(_, steps)| !steps.is_empty());
        for (index, (name, steps)) in lists.enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let shown = steps[..steps.len().min(SHOWN)].join(", ");
            write!(f, "{separator}{} {}: {shown}", steps.len(), name.replace('_', " "))?;
            if steps.len() > SHOWN {
                f.write_str(", …")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::outcome::{StepError, skipped};
    use nexus_router_sdk::ErrorKind;

    fn failed(step_id: &str, code: &str, in_doubt: Option<bool>) -> StepResult {
        let mut details = Object::new();
        if let Some(in_doubt) = in_doubt {
            details.insert("in_doubt", in_doubt);
        }
        let (code, message) = (code.to_owned(), String::new());
        let error = Some(StepError { kind: ErrorKind::Operational, code, message, details });
        StepResult { status: StepStatus::Error, error, ..skipped(step_id, false) }
    }

    fn outcome(results: Vec<StepResult>) -> Outcome {
        Outcome {
            run_id: "r".to_owned(),
            status: crate::store::Status::Failed,
            mode: "apply".to_owned(),
            plan: Vec::new(),
            selected: Vec::new(),
            results,
            reason: None,
            error: None,
            provenance: String::new(),
            events: 0,
            waiting: None,
            memory: None,
        }
    }

    #[test]
    fn every_step_is_listed_by_what_is_known() {
        let done = StepResult { status: StepStatus::Ok, ..skipped("a", false) };
        let outcome = outcome(vec![
            done,
            failed("b", "TIMEOUT", None),
            failed("c", "INTERRUPTED", Some(true)),
            failed("d", "INTERRUPTED", Some(false)),
            skipped("e", false),
        ]);
        let steps = StepsDone::of(&outcome);
        assert!(steps.has_calls());
        assert_eq!(steps.to_string(), "1 done: a; 1 failed: b; 1 in doubt: c; 2 not begun: d, e");
        assert_eq!(
            json::to_compact(&steps.to_json().into()),
            r#"{"done":["a"],"failed":["b"],"in_doubt":["c"],"not_begun":["d","e"]}"#
        );
    }

    #[test]
    fn long_plans_are_counted_and_shortened() {
        let outcome = outcome((0..30).map(|_| skipped("s", false)).collect());
        let steps = StepsDone::of(&outcome);
        assert!(!steps.has_calls());
        let text = steps.to_string();
        assert!(text.starts_with("30 not begun: s, ") && text.ends_with(", …"), "{text}");
        assert_eq!(text.matches('s').count(), SHOWN);
    }
}
