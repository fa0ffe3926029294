//! The trial of a library, before anything of it runs where it could do harm: in a confined child that is observed.
//!
//! The child is confined as the workers of the adapter are, and reads what is granted. It neither writes nor connects
//! nor starts programs, even if that is granted: making an instance has no side effects. The gate and loading make the
//! same trial.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use nexus_router_sdk::AdapterError;

use super::dry_run::{self, Outcome};
use super::error::{AdapterLoadError, Reason};
use super::hearing::Halt;
use super::library::Stage;
use super::opened::{Opened, call_error};
use super::rehearsal::Surroundings;
use super::verdict::VerdictFile;
use super::wire::{Observations, Task};
use super::{
    Call, DryRun, LoadRequest, Loader, Trial, adapter, checks, helper_error, simulation, working,
};
use crate::grant::{Feature, Grants, Isolation};
use crate::sandbox::{Metadata, Profile, Reading};
use crate::worker::{CHILD_ARGUMENT, Ending, Recipe};

/// Processor time that a dry run may have beyond its time: the deadline comes first.
const GRACE: Duration = Duration::from_secs(2);

/// Descriptors that a dry run may have open.
const DESCRIPTORS: u64 = 256;

/// Bounds of a child: its profile, its environment and its time.
pub(super) struct ChildBounds {
    profile: Profile,
    environment: Vec<(OsString, OsString)>,
    pub(super) limit: Duration,
}

/// Failure of a trial.
#[derive(Debug)]
pub(super) struct TrialError {
    pub(super) error: AdapterLoadError,
    /// Whether another trial of the same library would end alike.
    pub(super) is_lasting: bool,
    /// Whether the kernel cannot confine the library.
    pub(super) is_unconfined: bool,
}

impl From<AdapterLoadError> for TrialError {
    fn from(error: AdapterLoadError) -> Self {
        Self { error, is_lasting: false, is_unconfined: false }
    }
}

impl Loader {
    /// Makes one call in the confined child, which has neither network nor files to write.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when the adapter does not load. The call's own error is in the outcome.
    pub fn try_call(
        &self,
        request: &LoadRequest<'_>,
        call: &Call<'_>,
    ) -> Result<Trial, AdapterLoadError> {
        let opened = self.prepare(request)?;
        opened.admit_statically()?;
        let task = Task::Call { request: call.request() };
        let bounds = self.call_bounds(&opened);
        let outcome = self.run_child(&opened, task, &Surroundings::default(), bounds)?;
        let answer = match (outcome.result, outcome.answer, outcome.stage) {
            (Ok(_), Some(answer), _) => {
                adapter::read_answer(answer.as_deref().map_err(String::as_str))
            }
            (Ok(_), None, _) => {
                Err(AdapterError::bug("the adapter ended the call without an answer"))
            }
            // A child that ended in or after the call has loaded; how it ended is the call's result.
            (Err(Halt::Ended(ending)), _, Some(stage)) if stage >= Stage::Call => {
                Err(call_error(&ending, stage))
            }
            (Err(halt), _, stage) => return Err(opened.halted(&halt, stage, &outcome.printed)),
        };
        let notices = outcome.notices.iter().map(|notice| opened.scrub_notice(notice)).collect();
        let printed = opened.scrub(&outcome.printed);
        Ok(Trial { answer: answer.map_err(|error| opened.scrub_error(error)), notices, printed })
    }

    /// Opens a library for examination: everything up to a described instance, in the child. What the file tells is
    /// there even if the child could not make an instance.
    pub(crate) fn examine(
        &self,
        request: &LoadRequest<'_>,
    ) -> Result<(Opened, Result<Observations, AdapterLoadError>), AdapterLoadError> {
        let opened = self.prepare(request)?;
        let observations = self.try_library(&opened).map_err(|failed| failed.error);
        Ok((opened, observations))
    }

    /// Tries a library, and returns what was observed.
    pub(super) fn try_library(&self, opened: &Opened) -> Result<Observations, TrialError> {
        let bounds = self.trial_bounds(opened)?;
        let limit = bounds.limit;
        let outcome = self.run_child(opened, Task::Examine, &Surroundings::default(), bounds)?;
        let Outcome { result, stage, printed, observed, is_starved, .. } = outcome;
        let scrubbed = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| opened.scrub(line)).collect()
        };
        let effects = observed.as_ref().map(|it| scrubbed(it.effects.lines())).unwrap_or_default();
        let denied = observed.as_ref().map(|it| scrubbed(it.denied.lines())).unwrap_or_default();
        let mut observations = match result {
            Ok(observations) => observations,
            Err(halt) => {
                let is_lasting = is_lasting(&halt, stage, limit) && !is_starved;
                let is_unconfined = matches!(halt, Halt::Unconfined { .. });
                let error = opened.halted(&halt, stage, &printed);
                let told: Vec<String> = effects.into_iter().chain(denied).collect();
                let error = match told.is_empty() {
                    true => error,
                    false => error.with_note(&format!("the sandbox denied {}", told.join("; "))),
                };
                return Err(TrialError { error, is_lasting, is_unconfined });
            }
        };
        observations.is_observed = observed.is_some_and(|observed| !observed.is_blind);
        observations.denied = denied;
        observations.side_effects.extend(effects);
        if !printed.is_empty() {
            let effect = format!("output: at least {} bytes were printed", printed.len());
            observations.side_effects.push(effect);
        }
        Ok(observations)
    }

    /// Tries a library, admits what it says of itself, and holds it to the checks of the gate if they are required. If
    /// it is refused, and would be again, that is remembered.
    pub(super) fn admit_tried(
        &self,
        opened: &Opened,
        verdict: &VerdictFile,
    ) -> Result<Observations, TrialError> {
        let observations = self.try_library(opened).inspect_err(|failed| {
            if failed.is_lasting {
                verdict.remember_refusal(opened, &failed.error);
            }
        })?;
        opened.admit(&observations.description)?;
        if self.placement.require_valid {
            self.require_valid(opened, &observations).inspect_err(|error| {
                if !checks::is_lasting(error) {
                    return;
                }
                match checks::is_momentary(error, &observations) {
                    true => verdict.remember_briefly(opened, error),
                    false => verdict.remember_refusal(opened, error),
                }
            })?;
        }
        Ok(observations)
    }

    pub(super) fn run_child(
        &self,
        opened: &Opened,
        task: Task,
        surroundings: &Surroundings,
        bounds: ChildBounds,
    ) -> Result<Outcome, AdapterLoadError> {
        let helper = self.helper(opened)?;
        let unusable =
            |error: &std::io::Error| helper_error(opened.factory_ref.as_str(), helper, error);
        let ChildBounds { profile, environment, limit } = bounds;
        let observed = matches!(task, Task::Examine).then(|| profile.clone());
        let guarded = !profile.grants.run.is_empty();
        let job = opened.job(task, profile);
        let recipe = Recipe {
            program: helper.to_owned(),
            argument: CHILD_ARGUMENT,
            lasting: false,
            guarded,
            environment: environment.into_iter().chain(surroundings.environment.clone()).collect(),
            directory: surroundings.directory.clone(),
            job: serde_json::to_vec(&job).map_err(|error| unusable(&error.into()))?,
        };
        let place = self.trial_place(opened)?;
        dry_run::run(&recipe, place.limit(limit), observed.as_ref())
            .map_err(|error| unusable(&error))
    }

    /// Returns the bounds of a trial: those of a worker without the rights to change something, or, for a library that is to
    /// be opened here, nothing but reading, and as far as the kernel can do it.
    pub(super) fn trial_bounds(&self, opened: &Opened) -> Result<ChildBounds, AdapterLoadError> {
        if self.placement.isolation != Isolation::Worker {
            return Ok(self.call_bounds(opened));
        }
        let grants = without_effects(&working::granted(self, opened)?);
        let environment = working::environment(self, &grants);
        let profile = working::profile(self, opened, grants);
        Ok(ChildBounds { profile, environment, limit: self.placement.start_timeout })
    }

    /// Returns the bounds of a child that makes calls.
    pub(super) fn call_bounds(&self, opened: &Opened) -> ChildBounds {
        let worker = self.placement.isolation == Isolation::Worker;
        let all = || Feature::ALL.iter().map(|(_, feature)| *feature).collect();
        let grants = &self.placement.grants;
        let profile = Profile {
            memory: self.limits.memory,
            processor: Some(self.limits.time.saturating_add(GRACE)),
            descriptors: DESCRIPTORS,
            reading: if worker { Reading::Granted } else { Reading::Anything },
            library_path: self.readable(opened),
            grants: if worker { grants.clone() } else { Grants::default() },
            workspace: None,
            metadata: Metadata::Denied,
            processes: None,
            file_size: None,
            accept: if worker { self.placement.accept_missing.clone() } else { all() },
        };
        let environment = self.library_path.clone().map(|path| ("LD_LIBRARY_PATH".into(), path));
        ChildBounds {
            profile,
            environment: environment.into_iter().collect(),
            limit: self.limits.time,
        }
    }

    /// Returns what a child must be able to read.
    pub(super) fn readable(&self, opened: &Opened) -> Vec<PathBuf> {
        let places = self.library_path.iter().flat_map(std::env::split_paths);
        places.filter(|place| place.is_absolute()).chain([opened.image.copy.clone()]).collect()
    }

    /// Returns the program that children run.
    pub(super) fn helper(&self, opened: &Opened) -> Result<&std::path::Path, AdapterLoadError> {
        match &self.dry_run {
            DryRun::Helper(helper) => Ok(helper),
            DryRun::Off => {
                let message = "a confined child is needed, and dry runs are turned off";
                Err(opened.fail(Reason::DryRunUnavailable, message))
            }
        }
    }
}

/// Returns grants with which a process reads what it is granted, and changes nothing.
fn without_effects(grants: &Grants) -> Grants {
    let mut grants = simulation::read_only_grants(grants);
    grants.read.append(&mut grants.run);
    grants
}

/// Returns whether a library that ended like this in one child would do so in another. Ends that this machine or another
/// process may have caused do not last.
pub(super) fn is_lasting(halt: &Halt, stage: Option<Stage>, limit: Duration) -> bool {
    let Halt::Ended(ending) = halt else { return false };
    if stage.is_none_or(|stage| stage < Stage::Open) {
        return false;
    }
    const BY_OTHERS: [i32; 5] =
        [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGBUS];
    match ending {
        Ending::Crashed { signal } => !BY_OTHERS.contains(signal),
        // A host that ignores the ends of its children has no status.
        Ending::Exited { code } => *code != -1,
        Ending::TimedOut { limit: given } => *given >= limit,
        Ending::Garbled { .. } | Ending::Flooded | Ending::Overran { .. } => true,
        Ending::Stopped => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_read_what_is_granted_and_change_nothing() {
        let grants = Grants {
            connect: vec!["*:443".parse().unwrap()],
            read: vec!["/r".into()],
            write: vec!["/w".into()],
            run: vec!["/bin/true".into()],
            env: vec!["HOME".to_owned()],
        };
        let expected = Grants {
            read: vec!["/r".into(), "/w".into(), "/bin/true".into()],
            env: vec!["HOME".to_owned()],
            ..Grants::default()
        };
        assert_eq!(without_effects(&grants), expected);
    }

    #[test]
    fn faults_of_the_machine_do_not_last() {
        let limit = Duration::from_secs(10);
        let timed_out = |limit| Ending::TimedOut { limit };
        for (ending, stage, lasts) in [
            (Ending::Crashed { signal: libc::SIGSEGV }, Some(Stage::Open), true),
            (Ending::Crashed { signal: libc::SIGABRT }, Some(Stage::Factory), true),
            (Ending::Crashed { signal: libc::SIGKILL }, Some(Stage::Open), false),
            (Ending::Crashed { signal: libc::SIGTERM }, Some(Stage::Open), false),
            (Ending::Crashed { signal: libc::SIGSEGV }, Some(Stage::Start), false),
            (Ending::Crashed { signal: libc::SIGSEGV }, None, false),
            (Ending::Exited { code: 3 }, Some(Stage::Factory), true),
            (Ending::Exited { code: -1 }, Some(Stage::Factory), false),
            (timed_out(limit), Some(Stage::Factory), true),
            (timed_out(limit / 2), Some(Stage::Factory), false),
            (Ending::Stopped, Some(Stage::Factory), false),
        ] {
            let halt = Halt::Ended(ending.clone());
            assert_eq!(is_lasting(&halt, stage, limit), lasts, "{ending:?} {stage:?}");
        }
        let refused = Halt::Refused { reason: "OPEN_FAILED".to_owned(), text: String::new() };
        assert!(!is_lasting(&refused, Some(Stage::Open), limit));
    }
}
