//! What the store knows of a run besides its events.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use super::{HeldAnswer, HeldArgumentsChange};
use crate::approval::Ruling;
use crate::caller::Caller;
use crate::digest::Digest;

/// Whether a run is over, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It is carried out, or was when its process died.
    Running,
    /// It ended well.
    Completed,
    /// It ended badly.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Running, Self::Completed, Self::Failed];

    /// Returns the name in stored runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }

    /// Finds a status by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// What a run is, from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its id.
    pub run_id: String,
    /// `dry_run` or `apply`.
    pub mode: String,
    /// What it is for.
    pub goal: String,
    /// When it was created.
    pub created_at: String,
}

/// How far a run got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether it is over.
    pub status: Status,
    /// The steps of its plan.
    pub steps_planned: u64,
    /// The steps that were started.
    pub steps_executed: u64,
    /// The methods that were called, each once.
    pub tools_used: Vec<String>,
    /// `ok` or `error`, once it is over.
    pub outcome: Option<String>,
    /// Why it failed, in one word.
    pub last_failure_reason: Option<String>,
    /// How many events it has.
    pub events: u64,
    /// The last link of its hash chain.
    pub head: Digest,
}

/// A stored run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// What it is.
    pub header: Header,
    /// How far it got.
    pub progress: Progress,
    /// Where it was imported from, as JSON text.
    pub origin: Option<String>,
    /// Whether a process of this store carries it out, or did.
    pub owned: bool,
    /// Whether it waits for a person, and nobody carries it out meanwhile.
    pub waits: bool,
}

/// A run with its events, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The run.
    pub record: RunRecord,
    /// Its events in order: texts of one or more lines.
    pub bodies: Vec<String>,
}

impl Log {
    /// Returns the lines of the events.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.bodies.iter().flat_map(|body| body.lines())
    }
}

/// Some of the events of a run, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The run.
    pub record: RunRecord,
    /// The events in order, each with its number. There may be more.
    pub lines: Vec<(u64, String)>,
}

/// A run's place in the store; not known before its first commit.
#[derive(Clone, Debug, Default)]
pub struct Ticket(pub(super) Arc<AtomicI64>);

impl Ticket {
    /// Says whether the run is in the store.
    pub(crate) fn is_placed(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Acquire) != 0
    }
}

/// Binds an idempotency key to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: String,
    /// The digest of the request as given.
    pub request_digest: Digest,
}

/// Events to be appended to a run, with how far the run is after them.
#[derive(Clone, Debug)]
pub struct Append {
    /// The run's place.
    pub ticket: Ticket,
    /// What the run is.
    pub header: Arc<Header>,
    /// How far it is after these events.
    pub progress: Progress,
    /// The events, one line each, every line ended by a newline.
    pub body: String,
    /// How many they are.
    pub count: u64,
    /// The idempotency key, with the first events of a run.
    pub claim: Option<Claim>,
    /// The caller, with the first events of a run. It sees the run by its token.
    pub caller: Option<Arc<Caller>>,
    /// What these events say of approvals.
    pub approvals: Vec<ApprovalChange>,
    /// Answers of these events that are held for the caller of the run.
    pub held: Vec<HeldAnswer>,
    /// Change of the held arguments of the run.
    pub arguments: Option<Box<HeldArgumentsChange>>,
    /// Whether the run waits for a person after these events; then no process is its owner.
    pub waits: bool,
}

impl Append {
    /// Returns the bytes that the store writes: the events, and held answers and arguments.
    pub(crate) fn stored_bytes(&self) -> usize {
        let answers: usize = self.held.iter().map(HeldAnswer::stored_bytes).sum();
        let arguments = self.arguments.as_deref().map_or(0, HeldArgumentsChange::stored_bytes);
        self.body.len() + answers + arguments
    }
}

/// What an event says of an approval, for the row that stands beside the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalChange {
    /// It is asked for.
    Asked {
        /// The approval.
        approval_id: String,
        /// The step.
        step_id: String,
        /// When.
        requested_at: String,
        /// Until when.
        expires_at: String,
        /// The payload of the event.
        request: String,
    },
    /// It is decided.
    Decided {
        /// The approval.
        approval_id: String,
        /// How, by whom, why and when.
        ruling: Ruling,
    },
}
