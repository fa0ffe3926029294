//! The checks of the gate: what they are, and their results for one opened library.
//!
//! `adapter validate` reports all of them. A load that requires valid adapters refuses a library if one fails.

mod passive;
mod table;

use serde::Serialize;

pub(crate) use passive::declared_lines;
pub(crate) use table::Candidate;
pub use table::{CHECKS, Check};

use super::Loader;
use super::error::{AdapterLoadError, Reason};
use super::opened::Opened;
use super::wire::Observations;
use passive::Rehearsal;
use table::Outcome;

/// Whether unknown capabilities are failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// They are.
    #[default]
    Strict,
    /// They are warnings.
    Lenient,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds.
    Pass,
    /// It does not hold, and the adapter is not ok.
    Fail,
    /// It does not hold, and the adapter may still be ok.
    Warn,
    /// It could not be looked at, because of another check.
    Skip,
}

impl Status {
    /// Returns the word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Skip => "skip",
        }
    }

    /// Returns the sign for it.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Pass => '✓',
            Self::Fail => '✗',
            Self::Warn => '⚠',
            Self::Skip => '○',
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The stable id.
    pub id: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub message: String,
}

impl Loader {
    /// Renders the examples of an adapter that declares itself passive; none for any other.
    pub(crate) fn rehearse_examples(
        &self,
        opened: &Opened,
        observations: &Observations,
    ) -> Result<Option<Rehearsal>, AdapterLoadError> {
        passive::rehearse(self, opened, observations)
    }

    /// Returns the error for the checks that fail, unless all pass.
    pub(super) fn require_valid(
        &self,
        opened: &Opened,
        observations: &Observations,
    ) -> Result<(), AdapterLoadError> {
        let rehearsal = self.rehearse_examples(opened, observations)?;
        let candidate = Candidate::new(opened, observations, Strictness::Strict, rehearsal);
        let results = run_checks(&candidate);
        let failed: Vec<&CheckResult> =
            results.iter().filter(|result| result.status == Status::Fail).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        let remedy = CHECKS.iter().find(|check| check.id == first.id).map_or("", |it| it.remedy);
        let ids: Vec<&str> = failed.iter().map(|result| result.id).collect();
        let messages: Vec<String> =
            failed.iter().map(|result| format!("{}: {}", result.id, result.message)).collect();
        let module = opened.factory_ref.module();
        let message =
            format!("module '{module}' fails checks of the gate: {}", messages.join("; "));
        let hint = format!(
            "{remedy}; `nexus-router adapter validate` shows every check; require_valid = false in [workers] loads it anyway"
        );
        Err(opened
            .fail(Reason::ChecksFailed, message)
            .with_hint(hint)
            .caused_by("checks", ids.join(", ")))
    }
}

/// Returns whether failed checks would fail again. The examples of passive adapters are rendered in processes that a busy
/// machine may end.
pub(super) fn is_lasting(error: &AdapterLoadError) -> bool {
    let passive = |id: &str| id == passive::ID;
    error.reason() == Reason::ChecksFailed
        && !error.cause().is_some_and(|cause| cause.text.split(", ").any(passive))
}

/// Returns whether checks failed only for effects that come and go with time: threads that had not ended, and output.
pub(super) fn is_momentary(error: &AdapterLoadError, observations: &Observations) -> bool {
    let comes_and_goes =
        |effect: &String| ["threads:", "output:"].iter().any(|kind| effect.starts_with(kind));
    error.cause().is_some_and(|cause| cause.text == "NO_SIDE_EFFECTS")
        && observations.side_effects.iter().all(comes_and_goes)
}

/// Runs every check, in the order of the table.
pub(crate) fn run_checks(candidate: &Candidate<'_>) -> Vec<CheckResult> {
    CHECKS.iter().map(|check| run_check(check, candidate)).collect()
}

fn run_check(check: &Check, candidate: &Candidate<'_>) -> CheckResult {
    result(check, (check.run)(candidate))
}

/// Runs the named checks, and returns those that fail.
pub(crate) fn run_failing_checks(candidate: &Candidate<'_>, ids: &[&str]) -> Vec<CheckResult> {
    let named = CHECKS.iter().filter(|check| ids.contains(&check.id));
    named
        .map(|check| run_check(check, candidate))
        .filter(|check| check.status == Status::Fail)
        .collect()
}

/// Returns the result of `LOAD_OK` for a library that did not load.
pub(crate) fn load_failure(error: &AdapterLoadError) -> CheckResult {
    result(&CHECKS[0], Outcome::Fail(format!("Failed to load adapter: {error}")))
}

fn result(check: &Check, outcome: Outcome) -> CheckResult {
    let (status, message) = match outcome {
        Outcome::Pass(message) => (Status::Pass, message),
        Outcome::Fail(message) => (Status::Fail, message),
        Outcome::Warn(message) => (Status::Warn, message),
        Outcome::Skip(message) => (Status::Skip, message),
    };
    CheckResult { id: check.id, status, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_and_output_come_and_go() {
        let failed = |checks: &str| {
            AdapterLoadError::new("m:f", Reason::ChecksFailed, "failed").caused_by("checks", checks)
        };
        let with = |effects: &[&str]| Observations {
            side_effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
            ..Observations::default()
        };
        let race = with(&["threads: 2 before, 3 after", "output: at least 3 bytes were printed"]);
        assert!(is_momentary(&failed("NO_SIDE_EFFECTS"), &race));
        assert!(!is_momentary(&failed("NO_SIDE_EFFECTS, KIND_MATCHES"), &race));
        let lasting = with(&["threads: 2 before, 3 after", "write: /tmp/x"]);
        assert!(!is_momentary(&failed("NO_SIDE_EFFECTS"), &lasting));
    }
}
