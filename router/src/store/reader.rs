//! Questions to a store of ours.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::owner::WAITING;
use super::record::{Header, Log, Progress, RunRecord, Status, Tail};
use super::schema::POSITION_BITS;
use super::{Counted, Error, Filter, Listed, Listing, visible};
use crate::digest::Digest;

/// Selects the columns that `record` reads.
macro_rules! select_run {
    ($condition:literal) => {
        concat!(
            "SELECT run_no, run_id, mode, goal, status, created_at, steps_planned, steps_executed, ",
            "tools_used, outcome, last_failure_reason, events, head, origin, owner FROM runs WHERE ",
            $condition
        )
    };
}

const BY_ID: &str = select_run!("run_id = ?1");
pub(super) const BY_ID_AND_TOKEN: &str = select_run!("run_id = ?1 AND token_id = ?2");
const BY_NUMBER: &str = select_run!("run_no = ?1");
const EVENTS: &str =
    "SELECT body FROM segments WHERE segment_no >= ?1 AND segment_no < ?2 ORDER BY segment_no";
/// At most so much of a run is read at once, unless one event is larger.
const TAIL_BYTES: usize = 1024 * 1024;
const SOME_EVENTS: &str = "SELECT body FROM segments WHERE segment_no >= ?1 AND segment_no < ?2 \
    ORDER BY segment_no LIMIT 16";
const NEWEST: &str = "SELECT created_at, run_no FROM runs WHERE status = ?1 AND created_at >= ?2 \
    ORDER BY created_at DESC, run_no DESC LIMIT ?3";

/// Reads a number that is never less than nothing.
fn number(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(super) fn record(row: &Row<'_>) -> Result<(i64, RunRecord), rusqlite::Error> {
    let damaged = |column: usize, what: &str| {
        rusqlite::Error::InvalidColumnType(column, what.to_owned(), rusqlite::types::Type::Text)
    };
    let status: String = row.get(4)?;
    let tools_used: String = row.get(8)?;
    let header = Header {
        run_id: row.get(1)?,
        mode: row.get(2)?,
        goal: row.get(3)?,
        created_at: row.get(5)?,
    };
    let progress = Progress {
        status: Status::from_name(&status).ok_or_else(|| damaged(4, "status"))?,
        steps_planned: number(row, 6)?,
        steps_executed: number(row, 7)?,
        tools_used: serde_json::from_str(&tools_used).map_err(|_| damaged(8, "tools_used"))?,
        outcome: row.get(9)?,
        last_failure_reason: row.get(10)?,
        events: number(row, 11)?,
        head: Digest::from_bytes(row.get(12)?),
    };
    let owner = row.get::<_, Option<i64>>(14)?;
    let (owned, waits) = (owner.is_some(), owner == Some(WAITING));
    Ok((row.get(0)?, RunRecord { header, progress, origin: row.get(13)?, owned, waits }))
}

/// Finds a run and its number.
pub(super) fn find(
    connection: &Connection,
    run_id: &str,
) -> Result<Option<(i64, RunRecord)>, Error> {
    Ok(connection.prepare_cached(BY_ID)?.query_row([run_id], record).optional()?)
}

/// Finds a run by its number.
pub(super) fn by_number(connection: &Connection, run_no: i64) -> Result<Option<RunRecord>, Error> {
    let found = connection.prepare_cached(BY_NUMBER)?.query_row([run_no], record).optional()?;
    Ok(found.map(|(_, record)| record))
}

/// Reads the events of a run.
pub(super) fn bodies(connection: &Connection, run_no: i64) -> Result<Vec<String>, Error> {
    let mut query = connection.prepare_cached(EVENTS)?;
    let range = params![run_no << POSITION_BITS, run_no.wrapping_add(1) << POSITION_BITS];
    // A damaged text is shown as far as it can be; the chain tells that it is not what was written.
    let bodies = query.query_map(range, |row| {
        Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned())
    })?;
    Ok(bodies.collect::<Result<_, _>>()?)
}

/// Reads a run with its events.
pub(super) fn log(connection: &Connection, run_id: &str) -> Result<Option<Log>, Error> {
    let Some((run_no, record)) = find(connection, run_id)? else { return Ok(None) };
    Ok(Some(Log { record, bodies: bodies(connection, run_no)? }))
}

/// Reads some of the events of a run, from the one with number `from` on.
pub(super) fn tail(
    connection: &Connection,
    run_id: &str,
    from: u64,
) -> Result<Option<Tail>, Error> {
    let Some((run_no, record)) = find(connection, run_id)? else { return Ok(None) };
    let first = run_no << POSITION_BITS;
    let position = i64::try_from(from).unwrap_or(i64::MAX).min((1 << POSITION_BITS) - 1);
    let begins: Option<i64> = connection
        .prepare_cached(
            "SELECT max(segment_no) FROM segments WHERE segment_no >= ?1 AND segment_no <= ?2",
        )?
        .query_row([first, first | position], |row| row.get(0))?;
    let begins = begins.unwrap_or(first);
    let mut query = connection.prepare_cached(SOME_EVENTS)?;
    let range = params![begins, run_no.wrapping_add(1) << POSITION_BITS];
    let bodies = query.query_map(range, |row| {
        Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned())
    })?;
    let mut seq = (begins - first).cast_unsigned();
    let mut lines = Vec::new();
    let mut bytes = 0;
    'enough: for body in bodies {
        for line in body?.lines() {
            if seq >= from {
                // One at least, however large it is.
                if bytes > 0 && bytes + line.len() > TAIL_BYTES {
                    break 'enough;
                }
                bytes += line.len();
                lines.push((seq, line.to_owned()));
            }
            seq += 1;
        }
    }
    Ok(Some(Tail { record, lines }))
}

/// Lists runs, the newest first.
pub(super) fn list(connection: &Connection, filter: &Filter) -> Result<Listing, Error> {
    if let Some(token_id) = filter.visible.token_id() {
        return visible::list(connection, filter, token_id);
    }
    if let Some(run_id) = &filter.run_id {
        return Ok(list_one(find(connection, run_id)?.map(|(_, record)| record), filter));
    }
    let wanted: &[Status] = filter.status.as_ref().map_or(&Status::ALL, std::slice::from_ref);
    let mut counted = Counted::default();
    let mut newest: Vec<(String, i64)> = Vec::new();
    for status in wanted {
        counted.add(Some(*status), count(connection, *status, filter.since.as_deref())?);
        newest.extend(newest_of(connection, *status, filter)?);
    }
    newest.sort_by(|one, other| other.cmp(one));
    let mut query = connection.prepare_cached(BY_NUMBER)?;
    let page = newest.iter().skip(filter.offset).take(filter.limit);
    let runs = page
        .map(|(_, run_no)| query.query_row([run_no], record))
        .map(|found| found.map(|(_, record)| Listed::new(record)))
        .collect::<Result<_, _>>()?;
    Ok(Listing { runs, counted })
}

/// Lists a run, if there is one that fits.
pub(super) fn list_one(found: Option<RunRecord>, filter: &Filter) -> Listing {
    let found = found.filter(|record| filter.admits(record));
    let mut counted = Counted::default();
    counted.add(found.as_ref().map(|record| record.progress.status), 1);
    let runs = found.into_iter().skip(filter.offset).take(filter.limit);
    let runs = runs.map(Listed::new).collect();
    Listing { runs, counted }
}

fn newest_of(
    connection: &Connection,
    status: Status,
    filter: &Filter,
) -> Result<Vec<(String, i64)>, Error> {
    let mut query = connection.prepare_cached(NEWEST)?;
    let since = filter.since.as_deref().unwrap_or("");
    let enough = i64::try_from(filter.offset.saturating_add(filter.limit)).unwrap_or(i64::MAX);
    let rows = query
        .query_map(params![status.name(), since, enough], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn count(connection: &Connection, status: Status, since: Option<&str>) -> Result<u64, Error> {
    Ok(match since {
        None => connection
            .prepare_cached("SELECT runs FROM counts WHERE status = ?1")?
            .query_row([status.name()], |row| number(row, 0))?,
        Some(since) => connection
            .prepare_cached("SELECT count(*) FROM runs WHERE status = ?1 AND created_at >= ?2")?
            .query_row(params![status.name(), since], |row| number(row, 0))?,
    })
}

/// Reads the run that an idempotency key belongs to.
pub(super) fn by_key(
    connection: &Connection,
    key: &str,
) -> Result<Option<(String, Digest)>, Error> {
    Ok(connection
        .prepare_cached(
            "SELECT runs.run_id, idempotency.request_digest FROM idempotency \
             JOIN runs USING (run_no) WHERE key = ?1",
        )?
        .query_row([key], |row| Ok((row.get(0)?, Digest::from_bytes(row.get(1)?))))
        .optional()?)
}

/// Tells how the questions are answered: each line is a query and the indexes it uses.
pub(super) fn query_plans(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut plans = Vec::new();
    let questions = [
        ("newest", NEWEST),
        ("newest of a token", visible::NEWEST_OF_TOKEN),
        ("count of a token", visible::COUNT_OF_TOKEN),
        ("by id", BY_ID),
        ("by id and token", BY_ID_AND_TOKEN),
        ("events", EVENTS),
    ];
    for (name, sql) in questions {
        let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let parameters: Vec<String> =
            (0..query.parameter_count()).map(|_| "1".to_owned()).collect();
        let steps = query
            .query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3))?;
        plans.push(format!("{name}: {}", steps.collect::<Result<Vec<_>, _>>()?.join("; ")));
    }
    Ok(plans)
}
