//! Replay: reads a log again from its first event, and reports everything that cannot be true.
//!
//! The violations that the Python router knows come first, with its words. Ours follow under codes of
//! their own: the rules of [`crate::run::Run::apply`], the hash chain, the status beside the log, and
//! the digest of what was asked and what came of it. A log of another program never promised to keep
//! these rules, so there they are warnings.

mod code;
mod peer;
mod provenance;
#[cfg(test)]
mod tests;

use crate::digest::Digest;
use crate::event::{Fact, Kind, Line};
use crate::json::{Object, Value};
use crate::run::{Origin, Run};
use crate::store::{Log, Status};
use crate::view::{Reading, View, read};
use peer::Peer;
use provenance::Provenance;

pub use code::CODES;

/// So many events are read between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Something in a log that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The stable code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// The event, if it is one.
    pub event: Option<EventRef>,
}

/// An event that a violation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRef {
    /// Its place in the sequence.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
}

/// Whether violations make a replay fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// They do.
    #[default]
    Strict,
    /// They are only reported.
    Lenient,
}

/// What a replay found.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What the run did.
    pub view: View,
    /// What cannot be true.
    pub violations: Vec<Violation>,
    /// What a log of ours would not hold, in one of another program.
    pub warnings: Vec<Violation>,
    /// Who wrote the log.
    pub origin: Origin,
    /// How many events there are.
    pub events: u64,
    /// The last link of the chain, as the events give it.
    pub head: Digest,
}

impl Replay {
    /// Says whether nothing speaks against the log.
    #[must_use]
    pub fn is_ok(&self, strictness: Strictness) -> bool {
        strictness == Strictness::Lenient || self.violations.is_empty()
    }

    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self, strictness: Strictness) -> Value {
        let mut replay = Object::new();
        replay.insert("ok", self.is_ok(strictness));
        replay.insert("run_view", self.view.to_json());
        replay.insert("violations", listed(&self.violations));
        if !self.warnings.is_empty() {
            replay.insert("warnings", listed(&self.warnings));
        }
        replay.into()
    }
}

/// Returns the form that callers get when there is no such run.
#[must_use]
pub fn not_found(run_id: &str) -> Value {
    let message = format!("Run {run_id} not found");
    let violation = Violation { code: "RUN_NOT_FOUND", message, event: None };
    let mut replay = Object::new();
    replay.insert("ok", false);
    replay.insert("run_view", Value::Null);
    replay.insert("violations", listed(&[violation]));
    replay.into()
}

/// Returns violations in the form that callers get.
#[must_use]
pub fn listed(violations: &[Violation]) -> Value {
    violations.iter().map(Violation::to_json).collect::<Vec<_>>().into()
}

impl Violation {
    fn to_json(&self) -> Value {
        let mut violation = Object::with_capacity(4);
        violation.insert("code", self.code);
        violation.insert("message", self.message.as_str());
        if let Some(event) = &self.event {
            violation.insert("seq", event.seq);
            violation.insert("event_id", event.event_id.as_str());
        }
        violation.into()
    }

    fn of(code: &'static str, message: String, line: &Line<'_>) -> Self {
        let event = EventRef { seq: line.seq, event_id: line.event_id.clone().into_owned() };
        Self { code, message, event: Some(event) }
    }

    const fn of_run(code: &'static str, message: String) -> Self {
        Self { code, message, event: None }
    }
}

/// Replays a log.
#[must_use]
pub fn replay(log: &Log) -> Replay {
    replay_with(log, |_, _| {})
}

/// Replays a log; `progress` hears now and then how many events are done, and of how many.
#[must_use]
pub fn replay_with(log: &Log, mut progress: impl FnMut(u64, u64)) -> Replay {
    let mut replayer = Replayer::new(log);
    let mut head = Digest::ZERO;
    for line in log.lines() {
        head = head.chain(line);
        replayer.take(line);
        if replayer.events.is_multiple_of(STRIDE) {
            progress(replayer.events, log.record.progress.events);
        }
    }
    replayer.finish(head)
}

/// Replays a log whose chain was just made from its lines.
pub(crate) fn replay_chained(log: &Log) -> Replay {
    let mut replayer = Replayer::new(log);
    log.lines().for_each(|line| replayer.take(line));
    replayer.finish(log.record.progress.head)
}

/// For whom a finding of ours is a violation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// For logs of ours alone.
    Ours,
    /// For every log.
    Everyones,
}

struct Replayer<'a> {
    log: &'a Log,
    view: View,
    peer: Peer,
    own: Vec<(Promise, Violation)>,
    /// The run, until an event does not follow; what comes after that means nothing.
    run: Option<Run>,
    /// Who wrote the log, once it has said so.
    origin: Option<Origin>,
    provenance: Provenance<'a>,
    events: u64,
}

impl<'a> Replayer<'a> {
    fn new(log: &'a Log) -> Self {
        Self {
            log,
            view: View::new(&log.record),
            peer: Peer::default(),
            own: Vec::new(),
            run: Some(Run::new()),
            origin: None,
            provenance: Provenance::default(),
            events: 0,
        }
    }

    fn find(&mut self, promise: Promise, violation: Violation) {
        self.own.push((promise, violation));
    }

    fn take(&mut self, text: &'a str) {
        let place = self.events;
        self.events += 1;
        let line = match Line::read(text) {
            Ok(line) => line,
            Err(error) => {
                let message = format!("event {place} cannot be read: {error}");
                self.run = None;
                return self.find(Promise::Everyones, Violation::of_run("EVENT_INVALID", message));
            }
        };
        self.peer.sequence(&line);
        let run_id = &self.log.record.header.run_id;
        if line.run_id != *run_id {
            let message = format!("the event is of run {}, not of {run_id}", line.run_id);
            self.find(Promise::Ours, Violation::of("EVENT_RUN_ID_MISMATCH", message, &line));
        }
        let Some(kind) = Kind::from_name(&line.kind) else {
            let message = format!("there is no event type '{}'", line.kind);
            self.run = None;
            return self.find(Promise::Ours, Violation::of("UNKNOWN_EVENT_TYPE", message, &line));
        };
        read(kind, line.payload, |fact, reading| self.fact(&line, fact, reading));
    }

    fn fact(&mut self, line: &Line<'a>, fact: &Fact<'_>, reading: Reading<'a>) {
        self.peer.fact(line, fact, &mut self.view);
        self.view.record(line.seq, fact);
        if let (None, Fact::RunStarted(started)) = (self.origin, fact) {
            let ours = started.router_version.is_some();
            self.origin = Some(if ours { Origin::Ours } else { Origin::Foreign });
        }
        let (promise, error) = match reading {
            Reading::Sound { output } => return self.apply(line, fact, output),
            Reading::NotFinite(error) => (Promise::Ours, error),
            Reading::Damaged(error) => (Promise::Everyones, error),
        };
        self.run = None;
        let message = format!("the payload of {} cannot be read: {error}", line.kind);
        self.find(promise, Violation::of("PAYLOAD_INVALID", message, line));
    }

    fn apply(&mut self, line: &Line<'a>, fact: &Fact<'_>, output: Option<&'a str>) {
        if let Some(run) = &mut self.run
            && let Err(illegal) = run.apply(line.seq, fact)
        {
            self.run = None;
            self.find(Promise::Ours, Violation::of(illegal.code, illegal.message, line));
        }
        if self.origin == Some(Origin::Ours)
            && let Some(message) = self.provenance.take(fact, line.payload, output)
        {
            self.find(Promise::Ours, Violation::of("PROVENANCE_MISMATCH", message, line));
        }
    }

    fn finish(mut self, head: Digest) -> Replay {
        let progress = &self.log.record.progress;
        if head != progress.head {
            let message = format!(
                "the chain of the events ends with {head}, and {} is recorded",
                progress.head
            );
            self.find(Promise::Everyones, Violation::of_run("CHAIN_BROKEN", message));
        }
        let said = match self.view.terminal() {
            None => Status::Running,
            Some(Kind::RunCompleted) => Status::Completed,
            Some(_) => Status::Failed,
        };
        if said != progress.status {
            let (status, said) = (progress.status.name(), said.name());
            let message = format!("the status is {status}, and the log says {said}");
            self.find(Promise::Ours, Violation::of_run("STATUS_MISMATCH", message));
        }
        let mut violations = self.peer.finish();
        let mut warnings = Vec::new();
        let origin = self.origin.unwrap_or(Origin::Foreign);
        for (promise, violation) in self.own {
            if origin == Origin::Ours || promise == Promise::Everyones {
                violations.push(violation);
            } else {
                warnings.push(violation);
            }
        }
        Replay { view: self.view, violations, warnings, origin, events: self.events, head }
    }
}
