//! The child process of a dry run: confines itself, opens the library, and tells what it saw.
//!
//! The host talks to it over a socket that is its standard input. The library gets an empty standard
//! input instead, and what it prints goes to the host as text for error messages.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use nexus_router_sdk::{AdapterError, code};

use super::adapter::MAX_ANSWER;
use super::error::Reason;
use super::library::{Factory, Instance, Stage};
use super::notice;
use super::side_effects::ProcessState;
use super::wire::{Job, Message, Observations, Task};
use crate::sandbox::{self, Entered};

/// The first argument that makes the binary a child. Not for people.
pub const CHILD_ARGUMENT: &str = "__adapter-child";

/// A longer description or error of a factory is not passed on; a description is some hundred bytes.
const MAX_TEXT: usize = 256 * 1024;

/// The stack of a thread as most programs make them.
const STACK: usize = 2 * 1024 * 1024;

/// Runs as the child of a dry run. The `nexus-router` binary does so when its first argument is
/// [`CHILD_ARGUMENT`]; an embedding host may do the same and name itself as the helper.
///
/// It must be the first thing that `main` does: it closes every descriptor but the standard ones, and
/// confines the process for good.
#[must_use]
pub fn run_child() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        // The host has gone or speaks another language; there is nobody to tell.
        Err(_) => ExitCode::from(2),
    }
}

fn work() -> io::Result<()> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    let job: Job = serde_json::from_slice(&line)?;
    let entered = sandbox::enter(&job.profile, job.parent);
    // Made after the inherited descriptors were closed; now the library cannot reach it as input.
    let wire = Wire::over_standard_input()?;
    let Entered { confinement, connects } = match entered.and_then(|entered| judge(&job, entered)) {
        Ok(entered) => entered,
        Err(error) => {
            let reason = Reason::OpenFailed.code().to_owned();
            return wire.send(&Message::Refused { reason, text: error.to_string() });
        }
    };
    // Nobody decides on connects of a dry run, so all fail.
    drop(connects);
    wire.send(&Message::Confined(confinement))?;
    // A host may open it on a thread with a small stack, and what fits this one's might not fit there.
    let tried = std::thread::scope(|scope| {
        let on_thread = || try_library(&job, &wire, &ProcessState::now());
        let thread =
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, on_thread)?;
        thread.join().map_err(|_| io::Error::other("the child panicked"))
    });
    let observed = tried??;
    if let Some(observations) = observed {
        wire.send(&Message::Stage(Stage::Exit))?;
        wire.send(&Message::Done(observations))?;
    }
    Ok(())
}

/// Refuses a confinement that lacks more than it may.
fn judge(job: &Job, entered: Entered) -> io::Result<Entered> {
    let refused = job.profile.refused(&entered.confinement);
    if refused.is_empty() {
        return Ok(entered);
    }
    let names: Vec<&str> = refused.iter().map(|feature| feature.name()).collect();
    let text = format!("the kernel cannot confine it as it must: it lacks {}", names.join(", "));
    Err(io::Error::other(text))
}

/// Goes through the library's life. Nothing is returned when it ended early, as the host then knows.
fn try_library(job: &Job, wire: &Wire, before: &ProcessState) -> io::Result<Option<Observations>> {
    // A failed send shows at the next one; a stage is only the place of a crash.
    let stage = |stage| drop(wire.send(&Message::Stage(stage)));
    let path = Path::new(OsStr::from_bytes(&job.library));
    let factory = match Factory::open(path, &job.function, stage) {
        Ok(factory) => factory,
        Err(error) => {
            let reason = error.reason.code().to_owned();
            wire.send(&Message::Refused { reason, text: error.text })?;
            return Ok(None);
        }
    };
    let create = || -> Result<Instance, String> {
        let wire = wire.clone();
        let sink = Arc::new(move |notice| drop(wire.send(&Message::Notice(notice))));
        let made = factory.create(job.adapter_id.as_deref(), &job.config, notice::host(sink));
        made.map_err(|error| match error.len() {
            0..=MAX_TEXT => error,
            length => long_error(length, MAX_TEXT),
        })
    };
    stage(Stage::Factory);
    let instance = match create() {
        Ok(instance) => instance,
        Err(error) => {
            wire.send(&Message::FactoryFailed { error })?;
            return Ok(None);
        }
    };
    stage(Stage::Describe);
    let mut observations =
        Observations { description: describe(&instance), ..Observations::default() };
    match &job.task {
        Task::Load => {}
        Task::Examine => {
            observations.side_effects = before.changes(&ProcessState::now());
            stage(Stage::Factory);
            let second = create();
            stage(Stage::Drop);
            instance.shutdown();
            drop(instance);
            stage(Stage::Describe);
            observations.second_instance = difference(&observations.description, &second);
            stage(Stage::Drop);
            if let Ok(second) = second {
                second.shutdown();
            }
            return Ok(Some(observations));
        }
        Task::Call { request } => {
            stage(Stage::Call);
            let answer = instance.call(request, |answer| match answer {
                Ok(text) | Err(text) if text.len() > MAX_ANSWER => {
                    Err(long_error(text.len(), MAX_ANSWER))
                }
                answer => answer.map(str::to_owned).map_err(str::to_owned),
            });
            wire.send(&Message::Answer(answer))?;
        }
    }
    stage(Stage::Drop);
    instance.shutdown();
    drop(instance);
    Ok(Some(observations))
}

/// Returns the description, or the description of why it is not passed on.
fn describe(instance: &Instance) -> String {
    let text = instance.describe();
    if text.len() <= MAX_TEXT {
        return text;
    }
    let problem = format!("the description has {} bytes; the limit is {MAX_TEXT}", text.len());
    serde_json::json!({ "error": problem }).to_string()
}

/// Returns the error that stands for a text that is too long to pass on.
fn long_error(length: usize, limit: usize) -> String {
    let message = format!("the answer has {length} bytes; the limit is {limit}");
    let error = AdapterError::operational(code::OUTPUT_TOO_LARGE, message);
    serde_json::to_string(&error).unwrap_or_default()
}

/// Tells how a second instance, which has outlived the first, differs from it.
fn difference(first: &str, second: &Result<Instance, String>) -> Option<String> {
    let second = match second {
        Err(error) => return Some(format!("the second call of the factory failed: {error}")),
        Ok(second) => describe(second),
    };
    (second != first)
        .then(|| format!("the first describes itself as {first}, the second as {second}"))
}

/// The child's end of the socket.
#[derive(Clone)]
struct Wire(Arc<Mutex<File>>);

impl Wire {
    /// Takes the socket from standard input and puts nothing in its place.
    fn over_standard_input() -> io::Result<Self> {
        // As a file, it is written with `write`; a stream would use `send`, which is denied by now.
        let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let nothing = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Self(Arc::new(Mutex::new(socket))))
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }
}
