//! Turns a database of the Python router into one of ours, in its place and in one transaction.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::backup::{Purpose, copy};
use super::import::{NewRun, insert};
use super::open::reader;
use super::record::{Log, Status};
use super::rows::Counts;
use super::schema::{self, Layout, MAX_EVENTS};
use super::{BUSY_TIMEOUT, Error, identity, python};

/// The number of no owner; runs that nobody carries out are recovered.
const NOBODY: i64 = 0;

/// What to do with a run.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Store it.
    Take(Box<NewRun>),
    /// Leave it in the backup alone.
    Leave,
    /// Change nothing at all.
    Refuse,
}

/// A run, or what can be said of one that cannot be read.
#[derive(Debug)]
pub(crate) enum Found {
    /// It can be read.
    Run(Box<Log>),
    /// It cannot.
    Damaged { run_id: String, reason: String },
}

/// What became of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The database is ours.
    Over,
    /// Nothing was changed.
    Refused,
}

/// Takes a database over, and keeps a copy of the old one. `judge` is asked about every run, the oldest
/// first; `progress` hears how many runs are done, and of how many.
pub(crate) fn take_over(
    path: &Path,
    kept: &Path,
    judge: impl FnMut(Found) -> Verdict,
    progress: impl FnMut(u64, u64),
) -> Result<Taken, Error> {
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|error| Error::opening(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // From here on nobody else can write, so the copy holds everything that is taken over.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let layout = schema::layout(&transaction)?;
    layout.known(path)?;
    if layout != Layout::Python {
        return Err(Error::Ours(path.to_owned()));
    }
    copy(&reader(path, BUSY_TIMEOUT)?, kept, Purpose::Keep, |_, _| {})?;
    let moved = move_runs(&transaction, (path, kept), judge, progress);
    if let Ok(Taken::Over) = moved {
        // Whether a commit that fails has happened is not known, so the copy stays.
        transaction.commit()?;
    } else {
        // The database is as it was, and the copy would only be in the way of the next attempt.
        drop(std::fs::remove_file(kept));
    }
    moved
}

fn move_runs(
    transaction: &Transaction<'_>,
    (path, kept): (&Path, &Path),
    mut judge: impl FnMut(Found) -> Verdict,
    mut progress: impl FnMut(u64, u64),
) -> Result<Taken, Error> {
    let source = reader(kept, BUSY_TIMEOUT)?;
    transaction.execute_batch("DROP TABLE events; DROP TABLE runs;")?;
    schema::migrate(transaction, 0)?;
    identity::bind(transaction, path)?;
    let ids = python::all_ids(&source)?;
    let strays = python::stray_ids(&source)?;
    let total = (ids.len() + strays.len()) as u64;
    let mut counts = Counts::default();
    let mut refused = false;
    for (done, run_id) in ids.iter().enumerate() {
        match judge(read(&source, run_id)) {
            Verdict::Take(new) => {
                let owner = (new.progress.status == Status::Running).then_some(NOBODY);
                if !refused {
                    insert(transaction, &new, &mut counts, owner)?;
                }
            }
            Verdict::Leave => {}
            Verdict::Refuse => refused = true,
        }
        progress(done as u64 + 1, total);
    }
    for run_id in strays {
        let reason = "its events belong to no run".to_owned();
        refused |= matches!(judge(Found::Damaged { run_id, reason }), Verdict::Refuse);
    }
    counts.write(transaction)?;
    Ok(if refused { Taken::Refused } else { Taken::Over })
}

fn read(source: &Connection, run_id: &str) -> Found {
    let damaged = |reason: String| Found::Damaged { run_id: run_id.to_owned(), reason };
    match python::log(source, run_id) {
        Ok(Some(log)) if log.record.progress.events > MAX_EVENTS => {
            damaged(Error::TooManyEvents.to_string())
        }
        Ok(Some(log)) => Found::Run(Box::new(log)),
        Ok(None) => damaged("it cannot be found by its id".to_owned()),
        Err(error) => damaged(error.to_string()),
    }
}
