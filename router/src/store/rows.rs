//! Writes the rows of runs and their events.

use rusqlite::{CachedStatement, Transaction, params};

use super::Error;
use super::record::{Header, Progress, Status};
use super::schema::POSITION_BITS;

/// Changes to the numbers of runs by status, summed up over a transaction.
#[derive(Debug, Default)]
pub(super) struct Counts([i64; 3]);

impl Counts {
    pub(super) fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    pub(super) fn remove(&mut self, status: Status) {
        self.0[status as usize] -= 1;
    }

    pub(super) fn write(&self, transaction: &Transaction<'_>) -> Result<(), Error> {
        let mut update =
            transaction.prepare_cached("UPDATE counts SET runs = runs + ?2 WHERE status = ?1")?;
        for status in Status::ALL {
            if self.0[status as usize] != 0 {
                update.execute(params![status.name(), self.0[status as usize]])?;
            }
        }
        Ok(())
    }
}

/// A run to be inserted.
pub(super) struct Row<'a> {
    /// Its number; the next one if absent.
    pub(super) run_no: Option<i64>,
    pub(super) header: &'a Header,
    pub(super) progress: &'a Progress,
    pub(super) origin: Option<&'a str>,
    pub(super) owner: Option<i64>,
    /// The token with which it was started.
    pub(super) token_id: Option<&'a str>,
}

/// The statements that insert, looked up once for all the rows of a transaction.
pub(super) struct Inserts<'t> {
    run: CachedStatement<'t>,
    segment: CachedStatement<'t>,
}

impl<'t> Inserts<'t> {
    pub(super) fn new(transaction: &'t Transaction<'_>) -> Result<Self, Error> {
        let run = transaction.prepare_cached(
            "INSERT INTO runs (run_no, run_id, mode, goal, status, created_at, steps_planned, \
             steps_executed, tools_used, outcome, last_failure_reason, events, head, origin, owner, \
             token_id) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?;
        let segment = transaction.prepare_cached("INSERT INTO segments VALUES (?1, ?2, ?3)")?;
        Ok(Self { run, segment })
    }

    /// Inserts a run, and returns its number.
    pub(super) fn run(&mut self, row: &Row<'_>) -> Result<i64, Error> {
        let Row { run_no, header, progress, origin, owner, token_id } = row;
        Ok(self.run.insert(params![
            run_no,
            header.run_id,
            header.mode,
            header.goal,
            progress.status.name(),
            header.created_at,
            progress.steps_planned.cast_signed(),
            progress.steps_executed.cast_signed(),
            tools_text(&progress.tools_used),
            progress.outcome,
            progress.last_failure_reason,
            progress.events.cast_signed(),
            &progress.head.as_bytes()[..],
            origin,
            owner,
            token_id,
        ])?)
    }

    /// Inserts the events of a run from a position on.
    pub(super) fn segment(
        &mut self,
        run_no: i64,
        first: u64,
        count: u64,
        body: &str,
    ) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        self.segment.execute(params![
            (run_no << POSITION_BITS) | first.cast_signed(),
            count.cast_signed(),
            body
        ])?;
        Ok(())
    }
}

/// Brings a run to where it is now. Says whether it was where it should be, and under way.
pub(super) fn update_run(
    transaction: &Transaction<'_>,
    run_no: i64,
    first: u64,
    progress: &Progress,
    owner: Option<i64>,
) -> Result<bool, Error> {
    let changed = transaction
        .prepare_cached(
            "UPDATE runs SET status = ?2, steps_planned = ?3, steps_executed = ?4, \
             tools_used = ?5, outcome = ?6, last_failure_reason = ?7, events = ?8, head = ?9, \
             owner = ?10 WHERE run_no = ?1 AND events = ?11 AND status = 'RUNNING'",
        )?
        .execute(params![
            run_no,
            progress.status.name(),
            progress.steps_planned.cast_signed(),
            progress.steps_executed.cast_signed(),
            tools_text(&progress.tools_used),
            progress.outcome,
            progress.last_failure_reason,
            progress.events.cast_signed(),
            &progress.head.as_bytes()[..],
            owner,
            first.cast_signed(),
        ])?;
    Ok(changed == 1)
}

fn tools_text(tools: &[String]) -> String {
    serde_json::to_string(tools).unwrap_or_default()
}
