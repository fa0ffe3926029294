//! Counters of the writing thread, and the listeners for its commits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Error;
use super::gathered::Gathered;
use super::record::Status;
use super::writer::PendingAppend;

/// How long the writer of a store in memory lets appends gather that nobody waits for: many in one transaction cost
/// far less, and readers do not wait for it.
const GATHERING: Duration = Duration::from_millis(20);

/// The same while somebody waits to be told of commits.
const GATHERING_WATCHED: Duration = Duration::from_millis(2);

/// How often the disk was asked, and for how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Transactions that were committed.
    pub commits: u64,
    /// Appends that were in them.
    pub appends: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) appends: AtomicU64,
    /// When a commit failed since the last good one, and not because of what was in it.
    pub(super) failed: Mutex<Option<Instant>>,
    /// Tells that there was a commit.
    pub(super) committed: watch::Sender<()>,
    /// Is told the number of every run that is over and durable.
    pub(super) ended: Mutex<Option<Sender<i64>>>,
    /// How SQLite found the file damaged.
    pub(super) damage: OnceLock<String>,
    /// Appends that nobody waits for, and that are not written yet.
    pub(super) gathered: Gathered,
}

impl Counters {
    /// Takes note of a commit that succeeded, or failed; what changes is logged once.
    pub(super) fn note(&self, error: Option<&Error>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match (error, failed.is_some()) {
            (Some(error), false) => tracing::error!(%error, "the store cannot be written"),
            (None, true) => tracing::info!("the store can be written again"),
            _ => {}
        }
        *failed = error.map(|_| Instant::now());
        error.into_iter().for_each(|error| self.note_damage(error));
    }

    /// Takes note of a damaged file, once.
    pub(super) fn note_damage(&self, error: &Error) {
        if let Error::Damaged(problem) = error
            && error.is_corruption()
            && self.damage.set(problem.clone()).is_ok()
        {
            tracing::error!(code = error.code(), "{error}; runs are refused");
        }
    }

    /// Says for how long appends are gathered that nobody waits for.
    pub(super) fn gathering(&self) -> Duration {
        if self.committed.receiver_count() > 0 { GATHERING_WATCHED } else { GATHERING }
    }

    /// Tells which runs are over.
    pub(super) fn tell_ended(&self, all: &[PendingAppend]) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = &*ended else { return };
        let over = all.iter().filter(|(append, _)| append.progress.status != Status::Running);
        let mut numbers = over.map(|(append, _)| append.ticket.0.load(Ordering::Acquire));
        if numbers.any(|run_no| sender.send(run_no).is_err()) {
            // Nobody wants to know any more.
            *ended = None;
        }
    }
}
