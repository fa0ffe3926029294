//! Seals the runs of a store as they end.
//!
//! The store tells which runs are over and durable. A thread gathers them for a moment, makes a statement about each, has
//! all of them sealed in one append to the log, and keeps the seals in the store. Callers do not wait for it: an answer
//! is given when its run is durable, and the seal follows. What a process left unsealed when it was killed, the next one
//! seals. A process that is killed between the log and the store leaves a leaf that nobody refers to; the run gets another.

mod holding;
mod statement;
mod verify;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bundle::{self, Attached};
use crate::metrics::Metrics;
use crate::seal::{self, Sealer, Trust};
use crate::store::{self, RunSeal, Store};
use crate::tlog::{self, Tree};

pub use holding::{Stray, begin, hold};
pub use verify::{Broken, MAX_BUNDLE, judge, verify};

/// How long runs that ended are let gather: the seal is not waited for, and many together cost little more than one.
const GATHERING: Duration = Duration::from_millis(20);
/// So many runs are sealed at once.
const MOST: usize = 1024;
/// How long it takes until what failed is tried again, at first and at most.
const RETRY: Duration = Duration::from_millis(500);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// What becomes of runs that ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// They are sealed too.
    Seal,
    /// They are left to another process.
    Leave,
}

/// Runs cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no thread for it.
    #[error("there is no thread that could seal runs: {0}")]
    Thread(io::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The log or the keys cannot be used.
    #[error(transparent)]
    Seal(#[from] seal::Error),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] tlog::Error),
    /// The log is not the one that the store knows.
    #[error(transparent)]
    Stray(#[from] Stray),
}

/// Seals runs until it is dropped; what has ended by then is sealed first.
#[derive(Debug)]
pub struct Notary {
    store: Store,
    thread: Option<JoinHandle<()>>,
}

impl Notary {
    /// Begins to seal the runs of a store.
    ///
    /// # Errors
    /// When the store was opened only for reading, or there is no thread.
    pub fn start(
        store: Store,
        sealer: Arc<Sealer>,
        backlog: Backlog,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        let ended = store.ended()?;
        let desk = Desk { store: store.clone(), sealer, metrics };
        let thread = std::thread::Builder::new()
            .name("notary".to_owned())
            .spawn(move || desk.work(&ended, backlog))
            .map_err(Error::Thread)?;
        Ok(Self { store, thread: Some(thread) })
    }
}

impl Drop for Notary {
    fn drop(&mut self) {
        self.store.tell_no_more();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Seals all runs of a store that are over and have no seal. Returns how many those were.
///
/// # Errors
/// When one cannot be sealed.
pub fn seal_backlog(store: &Store, sealer: &Arc<Sealer>, metrics: &Metrics) -> Result<u64, Error> {
    let desk = Desk { store: store.clone(), sealer: Arc::clone(sealer), metrics: metrics.clone() };
    desk.sweep()
}

/// Returns the seal of a run for its bundle, with a proof in the present log; nothing if it has none yet.
///
/// # Errors
/// When the store or the log cannot be read.
pub fn attached(store: &Store, run_id: &str, root: &Path) -> Result<Option<Attached>, Error> {
    let Some((run_no, RunSeal { leaf, attestation })) = store.numbered_seal_of(run_id)? else {
        return Ok(None);
    };
    // Nobody has the log any more in which it was sealed.
    if run_no <= holding::former(store, root)? {
        return Ok(None);
    }
    let trust = Trust::read(&seal::trust_path(root))?;
    let tree = Tree::open(&seal::log_directory(root))?;
    let proof = tree.proof(leaf, &tree.checkpoint(&trust.verifiers())?)?;
    Ok(Some(Attached { attestation, proof: proof.to_string() }))
}

struct Desk {
    store: Store,
    sealer: Arc<Sealer>,
    metrics: Metrics,
}

impl Desk {
    fn work(&self, ended: &Receiver<i64>, backlog: Backlog) {
        if backlog == Backlog::Seal {
            match self.sweep() {
                Ok(0) => {}
                Ok(runs) => tracing::info!(runs, "runs that were left unsealed are sealed"),
                Err(error) => {
                    tracing::error!(%error, "runs that were left unsealed stay so for now");
                }
            }
        }
        let mut waiting: Vec<i64> = Vec::new();
        let mut pause = RETRY;
        loop {
            if waiting.is_empty() {
                let Ok(run_no) = ended.recv() else { return };
                waiting.push(run_no);
                std::thread::sleep(GATHERING);
            }
            waiting.extend(ended.try_iter().take(MOST.saturating_sub(waiting.len())));
            let some = waiting.len().min(MOST);
            let error = match self.seal(&waiting[..some]) {
                Ok(covered) => {
                    if pause > RETRY {
                        tracing::info!("runs can be sealed again");
                    }
                    pause = RETRY;
                    waiting.drain(..covered);
                    continue;
                }
                Err(error) => error,
            };
            if pause == RETRY {
                tracing::error!(%error, "runs cannot be sealed; it is tried again");
            }
            self.metrics.seals_failed();
            match ended.recv_timeout(pause) {
                Ok(run_no) => waiting.push(run_no),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let runs = waiting.len();
                    tracing::error!(runs, "runs stay unsealed; the next start seals them");
                    return;
                }
            }
            pause = (pause * 2).min(MAX_RETRY);
        }
    }

    fn sweep(&self) -> Result<u64, Error> {
        let (mut after, mut sealed) = (0, 0);
        loop {
            let page = self.store.unsealed_after(after, MOST)?;
            let Some(last) = page.last() else { return Ok(sealed) };
            after = *last;
            let mut rest = &page[..];
            while !rest.is_empty() {
                rest = &rest[self.seal(rest)?..];
            }
            sealed += page.len() as u64;
        }
    }

    /// Seals the first of some runs, as many as are not too much at once, and returns how many those were.
    fn seal(&self, runs: &[i64]) -> Result<usize, Error> {
        // A seal that the store cannot keep would be an entry of the log that nobody refers to.
        self.store.refuse_displaced()?;
        let (unsealed, covered) = self.store.unsealed(runs)?;
        if unsealed.is_empty() {
            return Ok(covered);
        }
        let wanted = unsealed.iter().map(|run| statement::of(&bundle::content_of(&run.log)));
        let seals = self.sealer.seal_all(&wanted.collect::<Vec<_>>())?;
        let kept = unsealed.iter().zip(seals).map(|(run, seal)| {
            let attestation = seal.attestation.trim_end().to_owned();
            (run.run_no, RunSeal { leaf: seal.index, attestation })
        });
        self.store.keep_seals(kept.collect())?;
        self.metrics.seals(unsealed.len() as u64);
        Ok(covered)
    }
}
