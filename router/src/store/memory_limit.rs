//! Limit of a store in memory: the oldest runs that ended make room for new ones. If none is left, no run begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Transaction};

use super::Error;
use super::record::Status;
use super::rows::Counts;

/// Most bytes written between two checks of the size.
const STRIDE: usize = 1024 * 1024;
/// Assumed bytes that a job writes.
const JOB: usize = 256;
/// Runs that are removed together, at most.
const BATCH: i64 = 64;
/// Lines of the audit log, and of the run records, that are kept in any case.
const LINES: i64 = 1024;

/// Limit of a store in memory.
#[derive(Clone, Debug)]
pub(super) struct MemoryLimit {
    bytes: usize,
    /// Bytes that were written since the last look.
    unchecked: usize,
    /// Whether the store exceeds its limit and no ended run is left to remove.
    is_full: Arc<AtomicBool>,
}

impl MemoryLimit {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, unchecked: 0, is_full: Arc::default() }
    }

    /// Returns the sign that there is no room for new runs.
    pub(super) fn is_full(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_full)
    }

    /// Notes a job on the connection.
    pub(super) fn note_job(&mut self, connection: &mut Connection) {
        self.note(connection, JOB);
    }

    /// Notes bytes that were written, and removes old runs if the store is too large.
    pub(super) fn note(&mut self, connection: &mut Connection, bytes: usize) {
        self.unchecked = self.unchecked.saturating_add(bytes);
        // A store that is full is checked after every write, so that it accepts runs again at once.
        if self.unchecked < STRIDE.min(self.bytes / 8) && !self.is_full.load(Ordering::Relaxed) {
            return;
        }
        self.unchecked = 0;
        if let Err(error) = self.enforce(connection) {
            tracing::error!(%error, "cannot remove old runs of the store in memory");
        }
    }

    fn enforce(&self, connection: &mut Connection) -> Result<(), Error> {
        if size(connection)? <= self.bytes {
            self.is_full.store(false, Ordering::Relaxed);
            return Ok(());
        }
        // Some more than needed, so that not every commit has to; not so much that others wait for long.
        let enough = self.bytes - self.bytes / 32;
        let mut removed = 0;
        while size(connection)? > enough {
            let transaction = connection.transaction()?;
            let runs = remove_oldest(&transaction, enough)?;
            let lines = if runs == 0 { remove_lines(&transaction)? } else { 0 };
            transaction.commit()?;
            removed += runs;
            if runs + lines == 0 {
                break;
            }
        }
        let is_full = size(connection)? > self.bytes;
        if is_full && !self.is_full.swap(is_full, Ordering::Relaxed) {
            let limit = self.bytes;
            tracing::warn!(
                limit,
                "the store in memory accepts no runs: no ended run is left to remove"
            );
        }
        self.is_full.store(is_full, Ordering::Relaxed);
        // Once for all of them, because it reads every key.
        let keys = "DELETE FROM idempotency WHERE run_no NOT IN (SELECT run_no FROM runs)";
        connection.prepare_cached(keys)?.execute([])?;
        tracing::debug!(removed, "removed the oldest runs of the store in memory");
        Ok(())
    }
}

/// Reads a number.
fn number(connection: &Connection, sql: &str) -> Result<usize, Error> {
    let value: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(usize::try_from(value).unwrap_or(0))
}

fn free_pages(connection: &Connection) -> Result<usize, Error> {
    number(connection, "PRAGMA freelist_count")
}

/// Returns the bytes in use.
fn size(connection: &Connection) -> Result<usize, Error> {
    let pages = number(connection, "PRAGMA page_count")?.saturating_sub(free_pages(connection)?);
    Ok(pages.saturating_mul(number(connection, "PRAGMA page_size")?))
}

/// Returns whether a table has rows.
fn has_rows(connection: &Connection, table: &str) -> Result<bool, Error> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
    Ok(connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

/// Number, id and status of a run.
type EndedRun = (i64, String, String);

/// Removes the oldest runs that ended, except the newest run, until the store has no more than `enough` bytes. Returns
/// how many.
fn remove_oldest(transaction: &Transaction<'_>, enough: usize) -> Result<usize, Error> {
    let mut query = transaction.prepare_cached(
        "SELECT run_no, run_id, status FROM runs WHERE status != 'RUNNING' \
         AND run_no < (SELECT max(run_no) FROM runs) ORDER BY run_no LIMIT ?1",
    )?;
    let rows = query.query_map([BATCH], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let runs: Vec<EndedRun> = rows.collect::<Result<_, _>>()?;
    // Most stores have no rows in the other tables.
    let mut deletes = vec![
        "DELETE FROM segments WHERE segment_no >= ?1 << 24 AND segment_no < (?2 + 1) << 24",
        "DELETE FROM runs WHERE run_no BETWEEN ?1 AND ?2",
    ];
    for (table, delete) in [
        ("approvals", "DELETE FROM approvals WHERE run_no BETWEEN ?1 AND ?2"),
        ("seals", "DELETE FROM seals WHERE run_no BETWEEN ?1 AND ?2"),
    ] {
        if has_rows(transaction, table)? {
            deletes.push(delete);
        }
    }
    let has_answers = has_rows(transaction, "held_answers")?;
    let has_arguments = has_rows(transaction, "held_arguments")?;
    let wanted = enough / number(transaction, "PRAGMA page_size")?.max(1);
    let pages = number(transaction, "PRAGMA page_count")?;
    let free_enough = pages.saturating_sub(wanted);
    // Two queries that read one row each; together they would read every row.
    let numbers =
        "SELECT coalesce((SELECT max(run_no) FROM runs) - (SELECT min(run_no) FROM runs), 0) + 1";
    let pages_per_run = pages.div_ceil(number(transaction, numbers)?.max(1)).max(1);
    let (mut counts, mut removed) = (Counts::default(), 0);
    while removed < runs.len() {
        let free = free_pages(transaction)?;
        if free >= free_enough {
            break;
        }
        // So few that runs of average size free no more than what is missing.
        let most = (free_enough - free) / pages_per_run;
        let chunk = &runs[removed..chunk_end(&runs, removed, most)];
        let (first, last) = (chunk[0].0, chunk[chunk.len() - 1].0);
        for delete in &deletes {
            transaction.prepare_cached(delete)?.execute([first, last])?;
        }
        for (run_no, run_id, status) in chunk {
            if has_answers {
                super::held_answer::remove(transaction, run_id)?;
            }
            if has_arguments {
                super::held_arguments::remove(transaction, *run_no)?;
            }
            if let Some(status) = Status::from_name(status) {
                counts.remove(status);
            }
        }
        removed += chunk.len();
    }
    counts.write(transaction)?;
    Ok(removed)
}

/// Returns the end of the next runs to remove together: at most `most`, whose numbers follow each other.
fn chunk_end(runs: &[EndedRun], start: usize, most: usize) -> usize {
    let end = runs.len().min(start + most.max(1));
    let follows = |index: &usize| runs[*index].0 == runs[*index - 1].0 + 1;
    (start + 1..end).take_while(follows).last().map_or(start + 1, |last| last + 1)
}

/// Removes the older half of the audit log and of the run records. Returns how many lines.
fn remove_lines(transaction: &Transaction<'_>) -> Result<usize, Error> {
    let mut removed = 0;
    for table in ["audit", "run_records"] {
        let sql = format!(
            "DELETE FROM {table} WHERE seq <= (SELECT min(max(seq) - ?1, (min(seq) + max(seq)) / 2) \
             FROM {table})"
        );
        removed += transaction.execute(&sql, [LINES])?;
    }
    Ok(removed)
}

/// Makes an append with one event of so many bytes.
#[cfg(test)]
pub(super) fn sized_append(
    ticket: super::Ticket,
    run_id: &str,
    status: Status,
    bytes: usize,
) -> super::Append {
    super::Append {
        ticket,
        header: std::sync::Arc::new(super::Header {
            run_id: run_id.to_owned(),
            mode: "apply".to_owned(),
            goal: "g".to_owned(),
            created_at: "2026-11-16T00:02:44.060Z".to_owned(),
        }),
        progress: super::Progress {
            status,
            steps_planned: 0,
            steps_executed: 0,
            tools_used: Vec::new(),
            outcome: None,
            last_failure_reason: None,
            events: 1,
            head: crate::digest::Digest::ZERO,
        },
        body: format!("{}\n", "x".repeat(bytes - 1)),
        count: 1,
        claim: None,
        caller: None,
        approvals: Vec::new(),
        held: Vec::new(),
        arguments: None,
        waits: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Filter, Options, Store, Ticket};

    fn append(store: &Store, run_id: &str, status: Status, text: usize) {
        drop(store.append(sized_append(Ticket::default(), run_id, status, text + 1)).unwrap());
    }

    #[test]
    fn oldest_ended_runs_make_room() {
        let options = Options { memory_bytes: 4 * 1024 * 1024, ..Options::default() };
        let store = Store::in_memory_with(options).unwrap();
        append(&store, "running", Status::Running, 10);
        let runs: Vec<String> = (0..400).map(|number| format!("run-{number}")).collect();
        for run_id in &runs {
            append(&store, run_id, Status::Completed, 64 * 1024);
        }
        let there: Vec<bool> =
            runs.iter().map(|run_id| store.find(run_id).unwrap().is_some()).collect();
        let first = there.iter().position(|is_there| *is_there).unwrap();
        assert!((300..399).contains(&first), "{first}");
        assert!(there[first..].iter().all(|is_there| *is_there), "only the oldest are removed");
        assert!(store.find("running").unwrap().is_some());
        let listing = store.list(&Filter::default()).unwrap();
        assert_eq!(listing.counted.completed, 400 - first as u64);
        assert_eq!(listing.counted.running, 1);
        assert!(store.log(&runs[0]).unwrap().is_none());
        let bytes = store.writer().unwrap().job(|connection| size(connection).unwrap()).unwrap();
        assert!(bytes <= 5 * 1024 * 1024, "{bytes}");
    }

    #[test]
    fn store_without_ended_runs_is_full_until_one_ends() {
        let options = Options { memory_bytes: 4 * 1024 * 1024, ..Options::default() };
        let store = Store::in_memory_with(options).unwrap();
        let tickets = [(); 6].map(|()| Ticket::default());
        let write = |number: usize, status: Status, bytes: usize| {
            let run_id = format!("run-{number}");
            let ticket = tickets[number].clone();
            let mut append = sized_append(ticket, &run_id, status, bytes);
            append.progress.events = if status == Status::Running { 1 } else { 2 };
            drop(store.append(append).unwrap());
            store.writer().unwrap().job(|_| ()).unwrap();
        };
        for number in 0..5 {
            assert!(number > 3 || !store.is_full(), "{number}");
            write(number, Status::Running, 1024 * 1024);
        }
        assert!(store.is_full());
        write(1, Status::Completed, 10);
        write(0, Status::Completed, 10);
        assert!(!store.is_full(), "the run that ended was removed");
    }

    #[test]
    fn large_runs_make_no_more_room_than_needed() {
        let options = Options { memory_bytes: 4 * 1024 * 1024, ..Options::default() };
        let store = Store::in_memory_with(options).unwrap();
        let is_there = |run_id: &str| store.find(run_id).unwrap().is_some();
        for (run_id, bytes) in [("a", 1_500_000), ("b", 1_500_000), ("c", 1_500_000)] {
            append(&store, run_id, Status::Completed, bytes);
        }
        assert_eq!(["a", "b", "c"].map(is_there), [false, true, true]);
        append(&store, "huge", Status::Completed, 8_000_000);
        assert_eq!(["b", "c", "huge"].map(is_there), [false, false, true], "the newest stays");
    }
}
