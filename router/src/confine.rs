//! Runs one program, or does one thing with files, in a sandbox of its own: made for it, and gone with it.
//!
//! The router runs itself again as a guard, a small process with one thread, and that forks a child, which confines
//! itself and then becomes the program. The guard ends everything of the session when the program ends or the
//! router lets go, so nothing is left in the background. Nothing is inherited but the standard descriptors, and
//! the socket over which the child is told what to do is closed when it becomes the program.

mod act;
mod archive;
mod child;
mod course;
mod disk;
mod survey;
mod wire;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use child::run_child;
pub(crate) use wire::{Act, Content, Job, Program, WriteMode};

use crate::grant::Feature;
use crate::sandbox::Confinement;
use crate::worker::broker::Contact;
use crate::worker::guard::Watch;

/// The third argument that makes a child the guard of a program.
pub(crate) const GUARD: &str = "program-guard";
/// How many processes there are is the router's to say, which each of them asks.
pub(crate) const WATCH: Watch = Watch { look: Duration::from_millis(500), most_processes: 10_000 };

/// What is to be done, and what it may use.
#[derive(Debug)]
pub(crate) struct Errand {
    /// This program.
    pub(crate) helper: PathBuf,
    pub(crate) job: Job,
    pub(crate) limits: Limits,
    /// For whom connects are made, as the log names it.
    pub(crate) label: String,
}

/// What an execution may use beyond what its profile bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How long it may take.
    pub(crate) time: Duration,
    /// How many bytes it may write to each of standard output and standard error.
    pub(crate) output: usize,
    /// Bytes of the files that it makes or changes in these places. Executions at the same time share the count.
    pub(crate) disk: u64,
    /// Bytes of a single file.
    pub(crate) file: u64,
    /// Limit of new files.
    pub(crate) files: u64,
    pub(crate) places: Vec<PathBuf>,
    /// How much of a disk must be left for others.
    pub(crate) keep_free: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) confinement: Confinement,
    /// Connects that were made or refused, and how many more there were.
    pub(crate) contacts: (Vec<Contact>, u64),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The program ended by itself, with this code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// What was to be done with files is done.
    Done,
    /// What was to be done with files cannot be done.
    Refused { why: String },
    /// It was ended because its time was over.
    TimedOut,
    /// It was ended because it wrote more than it may.
    Flooded,
    /// Its files took more than they may, or its open files cannot be counted.
    Filled { why: String },
    /// It made more files than it may, or they cannot be counted.
    TooManyFiles { why: String },
    /// It was ended because it had more processes than it may.
    Swarmed { most: usize },
    /// It was ended because nobody wants it any more.
    Cancelled,
    /// It could not be begun or followed.
    Failed { why: String },
}

/// Why nothing was run at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unrun {
    /// The kernel lacks what confinement needs.
    Lacking(Vec<Feature>),
    /// Confining failed.
    Unfit(String),
}

/// Carries out an errand. It is given up when the other end of `stop` is closed.
pub(crate) fn run(errand: &Errand, stop: &OwnedFd) -> Result<Ran, Unrun> {
    let failed = |error: io::Error| Unrun::Unfit(format!("cannot run a child: {error}"));
    course::Course::begin(errand).and_then(|course| course.follow(stop)).map_err(failed)?
}
