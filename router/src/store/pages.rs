//! Pages of a run's record, for readers that must not hold all of it.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::record::RunRecord;
use super::schema::POSITION_BITS;
use super::{Error, Store, VisibleRuns, held_answer, reader, visible};

/// Size of a run's record.
#[derive(Clone, Debug)]
pub struct RecordSize {
    /// The run.
    pub record: RunRecord,
    /// Bytes of all events.
    pub bytes: usize,
    /// Bytes of its largest page.
    pub largest: usize,
    /// Bytes of all answers that are held for its caller.
    pub held: usize,
    /// Bytes of the largest one.
    pub largest_held: usize,
    /// The number of the run in the store.
    run_no: i64,
}

/// Position in the pages of a run's record.
#[derive(Clone, Copy, Debug)]
pub struct PageCursor {
    run_no: i64,
    /// The first segment that was not read.
    next: i64,
    /// Events that were not read.
    left: u64,
}

impl RecordSize {
    /// Returns the bytes of all events and held answers.
    #[must_use]
    pub const fn with_held(&self) -> usize {
        self.bytes.saturating_add(self.held)
    }

    /// Returns the position of the first page. The pages hold the events that there are now.
    #[must_use]
    pub fn cursor(&self) -> PageCursor {
        let next = self.run_no << POSITION_BITS;
        PageCursor { run_no: self.run_no, next, left: self.record.progress.events }
    }
}

impl Store {
    /// Measures the record of a run, if a caller sees the run.
    ///
    /// # Errors
    /// When the store cannot be read, or is one of the Python router.
    pub fn record_size(
        &self,
        run_id: &str,
        visible: &VisibleRuns,
    ) -> Result<Option<RecordSize>, Error> {
        let (run_id, token_id) = (run_id.to_owned(), visible.token_id().map(str::to_owned));
        self.read(move |connection| {
            let found = match &token_id {
                Some(token_id) => visible::find(connection, &run_id, token_id)?,
                None => reader::find(connection, &run_id)?,
            };
            let Some((run_no, record)) = found else { return Ok(None) };
            let (bytes, largest) = sizes(connection, run_no)?;
            let (held, largest_held) = held_answer::sizes(connection, &run_id)?;
            Ok(Some(RecordSize { record, bytes, largest, held, largest_held, run_no }))
        })
    }

    /// Returns the bytes of the largest page with events of a run from the one with number `from` on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn largest_page_from(&self, run_id: &str, from: u64) -> Result<usize, Error> {
        let run_id = run_id.to_owned();
        self.read(move |connection| {
            let Some((run_no, record)) = reader::find(connection, &run_id)? else { return Ok(0) };
            if from >= record.progress.events {
                return Ok(0);
            }
            let first = run_no << POSITION_BITS;
            let position = i64::try_from(from).unwrap_or(i64::MAX).min((1 << POSITION_BITS) - 1);
            let range = params![first, first | position, run_no.wrapping_add(1) << POSITION_BITS];
            let largest: Option<i64> = connection
                .prepare_cached(
                    "SELECT max(octet_length(body)) FROM segments WHERE segment_no < ?3 AND segment_no >= \
                     (SELECT coalesce(max(segment_no), ?1) FROM segments WHERE segment_no BETWEEN ?1 AND ?2)",
                )?
                .query_row(range, |row| row.get(0))?;
            Ok(usize::try_from(largest.unwrap_or(0)).unwrap_or(usize::MAX))
        })
    }

    /// Reads a page: the text of events that were committed together, each on a line. Returns none after the last page.
    ///
    /// # Errors
    /// When the store cannot be read, or the run was removed.
    pub fn page(&self, cursor: &mut PageCursor) -> Result<Option<String>, Error> {
        let PageCursor { run_no, next, left } = *cursor;
        if left == 0 {
            return Ok(None);
        }
        let (segment, events, body) = self.read(move |connection| {
            let end = run_no.wrapping_add(1) << POSITION_BITS;
            let found = connection
                .prepare_cached(
                    "SELECT segment_no, events, body FROM segments \
                     WHERE segment_no >= ?1 AND segment_no < ?2 ORDER BY segment_no LIMIT 1",
                )?
                .query_row(params![next, end], |row| {
                    let body = String::from_utf8_lossy(row.get_ref(2)?.as_bytes()?).into_owned();
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, body))
                })
                .optional()?;
            found.ok_or_else(|| Error::Refused("the run was removed while it was read".to_owned()))
        })?;
        cursor.next = segment + 1;
        cursor.left = left.saturating_sub(events.cast_unsigned());
        Ok(Some(body))
    }
}

/// Returns the bytes of all segments of a run, and of the largest.
fn sizes(connection: &Connection, run_no: i64) -> Result<(usize, usize), Error> {
    let range = params![run_no << POSITION_BITS, run_no.wrapping_add(1) << POSITION_BITS];
    Ok(connection
        .prepare_cached(
            "SELECT sum(octet_length(body)), max(octet_length(body)) FROM segments \
             WHERE segment_no >= ?1 AND segment_no < ?2",
        )?
        .query_row(range, sum_and_largest)?)
}

/// Reads a row with a sum of sizes and the largest size.
pub(super) fn sum_and_largest(row: &rusqlite::Row<'_>) -> rusqlite::Result<(usize, usize)> {
    let number = |bytes: Option<i64>| usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX);
    Ok((number(row.get(0)?), number(row.get(1)?)))
}
