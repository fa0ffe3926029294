//! The host's side of a dry run: starts the child, listens until a deadline, and names its end.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::hearing::{Halt, Hearing};
use super::library::Stage;
use super::notice::Notice;
use super::observer::{ObservedAttempts, Observer};
use super::wire::Observations;
use crate::sandbox::{Profile, ReadablePlaces};
use crate::worker::{Ending, Followed, Process, Recipe};

/// How unknown libraries are tried before a host opens them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// In a confined child: this program, with [`CHILD_ARGUMENT`](super::CHILD_ARGUMENT) as its argument.
    Helper(PathBuf),
    /// Not at all. A library that crashes when it is opened then takes the host with it.
    Off,
}

/// A dry run gets at least and at most this long, whatever the limits say.
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// What came of a dry run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What the child saw, or why it was not done.
    pub(super) result: Result<Observations, Halt>,
    /// The step that the child had reached; nothing when it never spoke, and so is no child of ours.
    pub(super) stage: Option<Stage>,
    /// What the library printed.
    pub(super) printed: String,
    /// What the adapter told the host.
    pub(super) notices: Vec<Notice>,
    /// The answer to the call.
    pub(super) answer: Option<Result<String, String>>,
    /// What the child attempted, if it was observed.
    pub(super) observed: Option<ObservedAttempts>,
    /// Whether it ran out of time because it got too little of the processors.
    pub(super) is_starved: bool,
}

/// Runs a job in a child, which is observed if it gets a profile to be held against.
pub(super) fn run(
    recipe: &Recipe,
    time: Duration,
    observed: Option<&Profile>,
) -> io::Result<Outcome> {
    let mut process = Process::start(recipe)?;
    let limit = time.clamp(MIN_TIME, MAX_TIME);
    let mut hearing = Hearing::default();
    let deadline = Instant::now() + limit;
    let mut observer = None;
    let followed = process.follow(&recipe.job, deadline, |frame, descriptor| {
        let flow = hearing.take(frame, descriptor);
        if let Some((listener, profile)) = hearing.listener.take().zip(observed) {
            observer = Some(Observer::start(listener, ReadablePlaces::of(profile)));
        }
        flow
    })?;
    let observer = observer.transpose()?;
    let Hearing { result, stage, confinement, notices, answer, session, epitaph, .. } = hearing;
    if let Some(session) = session {
        process.set_session(session);
    }
    let ending = match followed {
        Followed::Ended(status) => {
            // Without a guard, only the library itself could have said it.
            let told = epitaph.filter(|_| recipe.guarded);
            told.or(status.map(Ending::of)).filter(|ending| !ending.is_well())
        }
        Followed::Late => Some(Ending::TimedOut { limit }),
        Followed::Garbled => Some(Ending::Garbled { how: "it sent what is no frame" }),
        // It says that it serves, which it was not asked to.
        Followed::Enough => Some(Ending::Garbled { how: "it sent what it should not" }),
    };
    let killed = !matches!(followed, Followed::Ended(_));
    let is_starved = matches!(followed, Followed::Late) && is_starved(process.id(), limit);
    let result = match (result, ending) {
        (Some(Err(halt)), _) if matches!(followed, Followed::Enough) => Err(halt),
        (_, Some(ending)) if killed => Err(Halt::Ended(ending)),
        // Destructors of the library run after the last message, and may still crash.
        (Some(Ok(mut observations)), None) => {
            observations.confinement = confinement.unwrap_or_default();
            Ok(observations)
        }
        (Some(Ok(_)) | None, Some(ending)) => Err(Halt::Ended(ending)),
        (Some(Err(halt)), _) => Err(halt),
        (None, None) => Err(Halt::Ended(Ending::Exited { code: 0 })),
    };
    if killed {
        process.stop();
    }
    let observed = observer.map(Observer::finish);
    let printed = process.take_printed();
    Ok(Outcome { result, stage, printed, notices, answer, observed, is_starved })
}

/// Returns whether a thread of a process waited for a processor for more than half of a time. Without figures of the
/// kernel, it did not.
pub(super) fn is_starved(process: u32, time: Duration) -> bool {
    let waited = |task: std::fs::DirEntry| -> Option<Duration> {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    tasks.into_iter().flatten().flatten().filter_map(waited).any(|waited| waited > time / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_without_a_wait_is_not_starved() {
        assert!(!is_starved(std::process::id(), MAX_TIME));
        // There is no such process.
        assert!(!is_starved(u32::MAX, Duration::ZERO));
    }
}
