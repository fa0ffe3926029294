//! The child process of the loader: confines itself, opens the library, and does with it what it is told.
//!
//! The host talks to it over a socket that is its standard input. The library gets an empty standard
//! input instead, and what it prints goes to the host as text for error messages and the log.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::adapter::{MAX_ANSWER, completion, too_large};
use super::library::{Factory, Instance, Stage};
use super::notice;
use super::side_effects::ProcessState;
use super::wire::{Job, Message, Observations, Task};
use crate::confine;
use crate::grant::Feature;
use crate::sandbox::{self, Code, Entered};
use crate::worker::{self, Kind, Reply, Servant, Wire, guard};

/// A longer description or error of a factory is not passed on; a description is some hundred bytes.
const MAX_TEXT: usize = 256 * 1024;

/// The most calls that a worker carries out at once, if each of them needs a thread.
const MOST_THREADS: usize = 1024;

/// Runs as the child of the loader. The `nexus-router` binary does so when its first argument is
/// [`CHILD_ARGUMENT`](super::CHILD_ARGUMENT); an embedding host may do the same and name itself as the helper.
///
/// It must be the first thing that `main` does: it closes every descriptor but the standard ones, and
/// confines the process for good.
#[must_use]
pub fn run_child() -> ExitCode {
    sandbox::heed_children();
    let argument = |number| std::env::args_os().nth(number)?.into_string().ok();
    match argument(3).as_deref() {
        Some(guard::GUARD) => guard::run(guard::Watch::WORKER, try_one),
        Some(confine::GUARD) => guard::run(confine::WATCH, confine::run_child),
        _ => match argument(2).and_then(|parent| parent.parse().ok()) {
            Some(parent) => try_one(parent),
            None => ExitCode::from(2),
        },
    }
}

fn try_one(parent: u32) -> ExitCode {
    // A file that must not grow is an error for the library, which may do without it.
    sandbox::ignore_file_size_signal();
    match work(parent) {
        Ok(()) => ExitCode::SUCCESS,
        // The host has gone or speaks another language; there is nobody to tell.
        Err(_) => ExitCode::from(2),
    }
}

fn work(parent: u32) -> io::Result<()> {
    let job: Job = serde_json::from_slice(&worker::receive_job(io::stdin())?)?;
    let entered = match job.task {
        Task::Examine => sandbox::enter_observed(&job.profile, parent, hand_over),
        _ => sandbox::enter(&job.profile, parent),
    };
    // Made after the inherited descriptors were closed; now the library cannot reach it as input.
    let wire = over_standard_input()?;
    let Entered { confinement, connects } = match entered {
        Ok(entered) => entered,
        Err(error) => return say(&wire, &Message::Unfit { why: error.to_string() }),
    };
    let missing = job.profile.refused(&confinement);
    if !missing.is_empty() {
        return say(&wire, &Message::Unconfined { missing });
    }
    let session = std::process::id();
    let attended = connects.is_some() && matches!(job.task, Task::Serve);
    say_confined(&wire, &Message::Confined { confinement, session }, connects)?;
    // The router may be forbidden to do what it must to attend to connects.
    if attended && sandbox::probe().is_err() {
        return say(&wire, &Message::Unconfined { missing: vec![Feature::SeccompNotify] });
    }
    let code = Code::now();
    if matches!(job.task, Task::Examine) {
        open_decoys()?;
    }
    // A host may open it on a thread with a small stack, and what fits this one's might not fit there.
    let tried = std::thread::scope(|scope| {
        let (job, wire) = (&job, &wire);
        let on_thread = move || try_library(job, wire, code, &ProcessState::now());
        let thread =
            std::thread::Builder::new().stack_size(worker::STACK).spawn_scoped(scope, on_thread)?;
        thread.join().map_err(|_| io::Error::other("the child panicked"))
    });
    let observed = tried??;
    if let Some(observations) = observed {
        say(&wire, &Message::Stage(Stage::Exit))?;
        say(&wire, &Message::Done(observations))?;
    }
    Ok(())
}

/// Opens descriptors where a host may have its own, so that a library shows which it closes of those that are not its own.
fn open_decoys() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    for least in [8, 20, 32, 64, 100, 128, 200, 250, 1000] {
        // Higher ones than are allowed are not there to be closed.
        if let Ok(decoy) = rustix::io::fcntl_dupfd_cloexec(&nothing, least) {
            // Nobody here may count on it: it is there to be closed.
            let _number = decoy.into_raw_fd();
        }
    }
    Ok(())
}

/// Hands over what hears of this process.
fn hand_over(listener: OwnedFd) -> io::Result<()> {
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let message = serde_json::to_vec(&Message::Listener {})?;
    let sent = Wire::new(socket).send_with(Kind::Said, &message, listener.as_fd());
    // Nobody in this process is to answer.
    drop(listener);
    sent
}

/// Takes the socket from standard input and puts nothing in its place.
fn over_standard_input() -> io::Result<Wire> {
    // As a file, it is written with `write`; a stream would use `send`, which is denied by now.
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(Wire::new(socket))
}

fn say(wire: &Wire, message: &Message) -> io::Result<()> {
    wire.send(Kind::Said, 0, &serde_json::to_vec(message)?)
}

/// Says what is in force, and hands over what hears of connects: whoever holds it can answer them.
fn say_confined(wire: &Wire, message: &Message, connects: Option<OwnedFd>) -> io::Result<()> {
    match connects {
        None => say(wire, message),
        Some(connects) => {
            wire.send_with(Kind::Said, &serde_json::to_vec(message)?, connects.as_fd())
        }
    }
}

/// Goes through the library's life. Nothing is returned when it ended early, as the host then knows.
fn try_library(
    job: &Job,
    wire: &Wire,
    code: Code,
    before: &ProcessState,
) -> io::Result<Option<Observations>> {
    // A failed send shows at the next one; a stage is only the place of a crash.
    let stage = |stage| drop(say(wire, &Message::Stage(stage)));
    let path = Path::new(OsStr::from_bytes(&job.library));
    let factory = match Factory::open(path, &job.function, stage) {
        Ok(factory) => factory,
        Err(error) => {
            let reason = error.reason.code().to_owned();
            say(wire, &Message::Refused { reason, text: error.text })?;
            return Ok(None);
        }
    };
    let create = || -> Result<Instance, String> {
        let host = notice::forwarding_host(wire.clone());
        let made = factory.create(job.adapter_id.as_deref(), &job.config, host);
        made.map_err(|error| match error.len() {
            0..=MAX_TEXT => error,
            _ => long_error(&error, MAX_TEXT),
        })
    };
    stage(Stage::Factory);
    let instance = match create() {
        Ok(instance) => instance,
        Err(error) => {
            say(wire, &Message::FactoryFailed { error })?;
            return Ok(None);
        }
    };
    stage(Stage::Describe);
    let mut observations =
        Observations { description: describe(&instance), ..Observations::default() };
    match &job.task {
        Task::Load => {}
        Task::Examine => {
            observations.side_effects = before.changes(&before.settled());
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
                    Err(long_error(text, MAX_ANSWER))
                }
                answer => answer.map(str::to_owned).map_err(str::to_owned),
            });
            say(wire, &Message::Answer(answer))?;
        }
        Task::Serve => {
            stage(Stage::Call);
            let description = observations.description;
            say(wire, &Message::Serving { description })?;
            let instance = Arc::new(instance);
            let servant = Serving { instance: Arc::clone(&instance), code };
            let servant = Arc::new(servant);
            worker::serve(wire.clone(), servant, MOST_THREADS)?;
            instance.shutdown();
            return Ok(None);
        }
    }
    stage(Stage::Drop);
    instance.shutdown();
    drop(instance);
    Ok(Some(observations))
}

/// Carries out the calls of a worker.
struct Serving {
    instance: Arc<Instance>,
    code: Code,
}

impl Servant for Serving {
    fn start(&self, request: &str, reply: Reply) {
        let done = move |answer: Result<&str, &str>| match answer {
            Ok(text) | Err(text) if text.len() > MAX_ANSWER => {
                reply.send(Err(&long_error(text, MAX_ANSWER)));
            }
            answer => reply.send(answer),
        };
        self.instance.start(request, completion(Box::new(done)));
    }

    fn cancel(&self, call_id: &str) {
        self.instance.cancel(call_id);
    }

    fn rest(&self) {
        self.code.let_go();
    }
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
fn long_error(text: &str, limit: usize) -> String {
    serde_json::to_string(&too_large(text, limit)).unwrap_or_default()
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
