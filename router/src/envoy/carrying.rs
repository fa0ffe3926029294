//! Carrying out an order: in a sandbox of its own, and what came of it in the frozen form of the role.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use nexus_router_sdk::AdapterError;
use rustix::fs::{Dir, Mode, OFlags};

use super::order::{Order, Task};
use super::staging::{Place, Staged};
use super::{Answered, Envoy, NAMES, PlanGrant, cancelled, unavailable};
use crate::confine::{self, Act, End, Job, Program, Ran};
use crate::digest::Digest;
use crate::evidence::{Report, name};
use crate::json::{self, Object, Value};
use crate::role::{ActionClass, Role};
use crate::sandbox::Profile;

/// More artifacts of one execution are told of, and not kept.
const MOST_ARTIFACTS: usize = 64;
/// Nor are those that are larger than this, all together.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// And of those that are larger than this, all together, there is no digest.
const MOST_DIGESTED: u64 = 2 * 1024 * 1024 * 1024;

/// The exit code of what took too long, of what could not be executed, and of what was killed.
const TIMED_OUT: i32 = 124;
const NOT_EXECUTED: i32 = 125;
const KILLED: i32 = 137;

impl Envoy {
    /// Carries out an order, and waits for its end.
    pub(super) fn carry_out(
        &self,
        class: ActionClass,
        order: &Order,
        plan: &[PlanGrant],
        (call_id, deadline): (&str, Option<i64>),
    ) -> Result<Answered, AdapterError> {
        let failed = |why: String| AdapterError::operational("EXECUTOR_FAILED", why);
        let staged = self.staging.directory(order.task.places()).map_err(failed)?;
        let profile = self.profile(order, plan, &staged);
        let (cwd, act) = self.act(order, !profile.grants.connect.is_empty(), &staged);
        let job = Job { profile: profile.clone(), cwd, act };
        let time = deadline.and_then(|ms| u64::try_from(ms).ok()).map_or(order.timeout, before);
        let errand = self.errand(job, order, &staged, time);
        let (reader, writer) = std::io::pipe().map_err(|error| failed(error.to_string()))?;
        // One without a name cannot be cancelled, and ends by itself.
        let nameless = match call_id {
            "" => Some(writer),
            name => {
                let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                calls.insert(name.to_owned(), writer);
                None
            }
        };
        let ran = confine::run(&errand, &reader.into());
        self.cancel(call_id);
        drop(nameless);
        let ran = ran.map_err(|unrun| unavailable(&unrun))?;
        if ran.end == End::Cancelled {
            return Err(cancelled());
        }
        // What was given up in the middle is nothing that came out.
        let whole = matches!(ran.end, End::Done | End::Exited(_));
        let out = staged.place(Place::Artifacts).filter(|_| whole);
        let found = out.map(|directory| artifacts(&directory)).unwrap_or_default();
        let text = answer(class, &ran, &found);
        let outputs = found
            .into_iter()
            .filter_map(|one| Some((format!("artifacts/{}", one.name), one.bytes?)));
        let network = network(&ran).map(|log| ("network.jsonl".to_owned(), log));
        let report = Report {
            sandbox: facts(&profile, &ran),
            outputs: outputs.chain(network).collect(),
            volatile: Vec::new(),
            reason: reason(&ran.end),
        };
        Ok(Answered { text, report })
    }

    fn act(&self, order: &Order, connects: bool, staged: &Staged) -> (String, Act) {
        let here = || ".".to_owned();
        match &order.task {
            Task::Run { argv, cwd, env, stdin } => {
                let file = self.program(&argv[0]).map(|file| file.to_string_lossy().into_owned());
                let mut environment: Vec<(String, Vec<u8>)> =
                    env.iter().filter_map(|name| variable(name, staged)).collect();
                if connects {
                    environment.push((NAMES.0.to_owned(), NAMES.1.as_bytes().to_vec()));
                }
                let program = Program {
                    file: file.unwrap_or_default(),
                    argv: argv.clone(),
                    environment,
                    stdin: stdin.clone(),
                };
                (cwd.clone(), Act::Start(program))
            }
            Task::Write { path, content, mode } => {
                (here(), Act::Write { path: path.clone(), content: content.clone(), mode: *mode })
            }
            Task::Pack { paths, name } => {
                let directory = staged.place(Place::Artifacts).unwrap_or_default();
                let directory = directory.to_string_lossy().into_owned();
                (here(), Act::Pack { paths: paths.clone(), directory, name: name.clone() })
            }
        }
    }
}

/// An execution ends a little before the router stops waiting for it, so that its end is told.
fn before(deadline_ms: u64) -> Duration {
    Duration::from_millis(deadline_ms - (deadline_ms / 10).min(500))
}

fn variable(name: &str, staged: &Staged) -> Option<(String, Vec<u8>)> {
    use std::os::unix::ffi::OsStringExt as _;
    let value = match Place::of_variable(name).and_then(|place| staged.place(place)) {
        Some(path) => path.into_os_string(),
        None => crate::config::variable(name)?,
    };
    Some((name.to_owned(), value.into_vec()))
}

/// Returns the answer in the form of the role, as adapters give it.
fn answer(class: ActionClass, ran: &Ran, artifacts: &[Artifact]) -> String {
    let exit_code = match ran.end {
        End::Exited(code) => code,
        End::Signalled(signal) => 128 + signal,
        End::Done => 0,
        End::Refused { .. } => 1,
        End::TimedOut => TIMED_OUT,
        End::Failed { .. } => NOT_EXECUTED,
        End::Flooded
        | End::Filled { .. }
        | End::TooManyFiles { .. }
        | End::Swarmed { .. }
        | End::Cancelled => KILLED,
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut output = Object::with_capacity(9);
    output.insert("adapter_role", Role::Envoy.name());
    output.insert("adapter_version", Role::Envoy.adapter_version());
    output.insert("action_class", class.name());
    output.insert("ok", exit_code == 0);
    output.insert("exit_code", exit_code);
    output.insert("stdout", lossy(&ran.stdout));
    output.insert("stderr", lossy(&ran.stderr));
    let artifacts: Vec<Value> = artifacts.iter().map(Artifact::to_json).collect();
    output.insert("artifacts", artifacts);
    output.insert("errors", errors(&ran.end));
    let mut answer = Object::with_capacity(1);
    answer.insert("output", output);
    json::to_canonical(&answer.into())
}

/// Returns why an execution did not succeed, as its evidence says it.
fn reason(end: &End) -> Option<String> {
    let reason = match end {
        End::Exited(0) | End::Done => return None,
        End::Exited(code) => format!("exit_code:{code}"),
        End::Signalled(signal) => format!("signal:{signal}"),
        End::Refused { .. } => "refused".to_owned(),
        End::TimedOut => "timeout".to_owned(),
        End::Flooded => "output_limit".to_owned(),
        End::Filled { .. } => "disk_limit".to_owned(),
        End::TooManyFiles { .. } => "files_limit".to_owned(),
        End::Swarmed { .. } => "process_limit".to_owned(),
        End::Cancelled => "cancelled".to_owned(),
        End::Failed { .. } => "executor_failed".to_owned(),
    };
    Some(reason)
}

fn errors(end: &End) -> Vec<Value> {
    let message = match end {
        End::Exited(_) | End::Done => return Vec::new(),
        End::Signalled(signal) => {
            format!("the program was ended by {}", crate::worker::ending::signal_name(*signal))
        }
        End::Refused { why } | End::Failed { why } => why.clone(),
        End::TimedOut => {
            "the time was over; the program and all that it had started were killed".to_owned()
        }
        End::Flooded => "it wrote more than it may, and was killed".to_owned(),
        End::Filled { why } | End::TooManyFiles { why } => {
            format!("{why}; whatever was left of it was killed")
        }
        End::Swarmed { most } => format!("it had more than {most} processes, and was killed"),
        End::Cancelled => "nobody wanted it any more".to_owned(),
    };
    let mut error = Object::with_capacity(2);
    error.insert("code", reason(end));
    error.insert("message", message);
    vec![error.into()]
}

/// Says how it was confined.
fn facts(profile: &Profile, ran: &Ran) -> Object {
    let mut facts = Object::new();
    facts.insert("fds", vec![Value::from(0), Value::from(1), Value::from(2)]);
    facts.insert("landlock_abi", ran.confinement.landlock);
    facts.insert("landlock_errata", ran.confinement.errata);
    facts.insert("metadata_writes", profile.metadata.name());
    facts.insert("netns", false);
    facts.insert("processes", profile.processes);
    facts.insert("seccomp_sha256", profile.seccomp_digest().map(|digest| digest.to_string()));
    facts.insert("userns", false);
    facts
}

/// Returns what was done over the network, a line each, if any of it was granted.
fn network(ran: &Ran) -> Option<Vec<u8>> {
    let (contacts, more) = &ran.contacts;
    let mut lines = String::new();
    for contact in contacts {
        let mut line = Object::with_capacity(3);
        line.insert("granted", contact.granted);
        line.insert("result", contact.result.as_str());
        line.insert("target", contact.target.as_str());
        lines.push_str(&json::to_canonical(&line.into()));
        lines.push('\n');
    }
    if *more > 0 {
        lines.push_str(&format!("{{\"left_out\":{more}}}\n"));
    }
    (!lines.is_empty()).then(|| lines.into_bytes())
}

/// A file that came out.
struct Artifact {
    name: String,
    size: u64,
    /// None if there is too much even to read.
    sha256: Option<Digest>,
    /// None if there is too much to keep.
    bytes: Option<Vec<u8>>,
}

impl Artifact {
    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("kept", self.bytes.is_some());
        object.insert("name", self.name.as_str());
        object.insert("sha256", self.sha256.map(|digest| digest.to_string()));
        object.insert("size", self.size);
        object.into()
    }
}

/// Takes what came out: regular files, by name. A link is none, wherever it leads.
fn artifacts(directory: &Path) -> Vec<Artifact> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(directory, flags, Mode::empty()) else {
        return Vec::new();
    };
    let entries = Dir::read_from(&directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| name::is_output(name)).collect();
    names.sort_unstable();
    names.truncate(MOST_ARTIFACTS);
    let (mut room, mut digested) = (MOST_BYTES, MOST_DIGESTED);
    let taken = names.into_iter().map(|name| take(&directory, name, &mut room, &mut digested));
    taken.flatten().collect()
}

fn take(directory: &OwnedFd, name: String, room: &mut u64, digested: &mut u64) -> Option<Artifact> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name.as_str(), flags, Mode::empty()).ok()?;
    let mut file = File::from(file);
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    if size > *room {
        let within = size <= *digested;
        *digested = digested.saturating_sub(size);
        let sha256 = if within { Some(Digest::of_reader(&mut file).ok()?) } else { None };
        return Some(Artifact { name, size, sha256, bytes: None });
    }
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).ok()?;
    *room -= size;
    let sha256 = Some(Digest::of(&bytes));
    Some(Artifact { name, size: bytes.len() as u64, sha256, bytes: Some(bytes) })
}
