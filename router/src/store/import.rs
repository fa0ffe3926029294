//! Putting a whole run into the store, and the one operation that may remove one.

use rusqlite::{Transaction, TransactionBehavior, params};

use super::record::{Header, Log, Progress, Status};
use super::rows::{Counts, Inserts, Row};
use super::{Error, Store, held_answer, held_arguments, reader};
use crate::clock::Clock;
use crate::store::schema::{MAX_EVENTS, POSITION_BITS};

/// A segment of an imported run holds about so much.
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// A run that was recorded elsewhere.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// What it is.
    pub header: Header,
    /// How far it got there.
    pub progress: Progress,
    /// Where it comes from, as JSON text.
    pub origin: String,
    /// Its events, one line each.
    pub body: String,
}

/// What to do when the store has a run of the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Leave it as it is.
    Refuse,
    /// Put the old one into the attic, and the new one in its place.
    Overwrite,
}

/// What became of an import.
#[derive(Clone, Debug)]
pub enum Imported {
    /// The run is stored.
    Stored(Replaced),
    /// Nothing was changed, for there is a run of the same id.
    Exists(Box<Log>),
}

/// Whether a run was put into the attic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// There was none of the same id.
    Nothing,
    /// The old one is in the attic.
    Archived,
}

impl Store {
    /// Stores a run in one transaction: all of it, or nothing. `archive` turns the run that it replaces
    /// into the text that the attic keeps.
    ///
    /// # Errors
    /// When the store cannot be written, or the run to be replaced is being carried out.
    pub fn import(
        &self,
        new: NewRun,
        conflict: Conflict,
        archive: impl FnOnce(&Log) -> String + Send + 'static,
    ) -> Result<Imported, Error> {
        if new.progress.events > MAX_EVENTS {
            return Err(Error::TooManyEvents);
        }
        self.writer()?.write(move |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut counts = Counts::default();
            let mut replaced = Replaced::Nothing;
            if let Some((run_no, record)) = reader::find(&transaction, &new.header.run_id)? {
                let bodies = reader::bodies(&transaction, run_no)?;
                let old = Log { record, bodies };
                if conflict == Conflict::Refuse {
                    return Ok(Imported::Exists(Box::new(old)));
                }
                remove(&transaction, run_no, &old, archive, &mut counts)?;
                replaced = Replaced::Archived;
            }
            insert(&transaction, &new, &mut counts, None)?;
            counts.write(&transaction)?;
            transaction.commit()?;
            Ok(Imported::Stored(replaced))
        })
    }
}

/// Moves a run to the attic. The triggers allow its removal only after that.
fn remove(
    transaction: &Transaction<'_>,
    run_no: i64,
    old: &Log,
    archive: impl FnOnce(&Log) -> String,
    counts: &mut Counts,
) -> Result<(), Error> {
    let run_id = &old.record.header.run_id;
    if old.record.waits {
        return Err(Error::Refused(format!(
            "run {run_id} waits for an approval; decide about it, or cancel the run"
        )));
    }
    if old.record.owned && old.record.progress.status == Status::Running {
        return Err(Error::Refused(format!("run {run_id} is being carried out")));
    }
    transaction.execute(
        "INSERT INTO attic (run_no, run_id, removed_at, bundle) VALUES (?1, ?2, ?3, ?4)",
        params![run_no, run_id, Clock::System.now().to_string(), archive(old)],
    )?;
    let range = params![run_no << POSITION_BITS, (run_no + 1) << POSITION_BITS];
    transaction
        .execute("DELETE FROM segments WHERE segment_no >= ?1 AND segment_no < ?2", range)?;
    transaction.execute("DELETE FROM idempotency WHERE run_no = ?1", [run_no])?;
    transaction.execute("DELETE FROM approvals WHERE run_no = ?1", [run_no])?;
    held_answer::remove(transaction, run_id)?;
    held_arguments::remove(transaction, run_no)?;
    transaction.execute("DELETE FROM runs WHERE run_no = ?1", [run_no])?;
    counts.remove(old.record.progress.status);
    Ok(())
}

/// Inserts a whole run.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    new: &NewRun,
    counts: &mut Counts,
    owner: Option<i64>,
) -> Result<(), Error> {
    let NewRun { header, progress, origin, body } = new;
    // A number that is in the attic is not given again: what it stood for may be removed.
    let run_no = transaction.query_row(
        "SELECT 1 + max(coalesce((SELECT max(run_no) FROM runs), 0), \
         coalesce((SELECT max(run_no) FROM attic), 0))",
        [],
        |row| row.get(0),
    )?;
    let origin = Some(origin.as_str());
    let mut inserts = Inserts::new(transaction)?;
    inserts.run(&Row { run_no: Some(run_no), header, progress, origin, owner, token_id: None })?;
    counts.add(progress.status);
    let (mut first, mut start, mut count) = (0, 0, 0);
    let mut end = 0;
    for line in body.split_inclusive('\n') {
        end += line.len();
        count += 1;
        if end - start >= SEGMENT_BYTES {
            inserts.segment(run_no, first, count, &body[start..end])?;
            (first, start, count) = (first + count, end, 0);
        }
    }
    inserts.segment(run_no, first, count, &body[start..end])
}
