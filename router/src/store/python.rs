//! Questions to a database of the Python router, which is read as it is.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::record::{Header, Log, Progress, RunRecord, Status};
use super::{Counted, Error, Filter, Listed, Listing};
use crate::digest::Digest;
use crate::event::Line;

fn header(row: &Row<'_>) -> Result<(Header, String), rusqlite::Error> {
    let header = Header {
        run_id: text(row, 0)?,
        mode: text(row, 1)?,
        goal: text(row, 2)?,
        created_at: text(row, 4)?,
    };
    Ok((header, text(row, 3)?))
}

/// Reads a column as text whatever it holds, since its table does not enforce types. What is odd about
/// it is for replay to say.
pub(super) fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => String::new(),
        ValueRef::Integer(integer) => integer.to_string(),
        ValueRef::Real(real) => real.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    })
}

/// Reads a run with its events, as lines.
pub(super) fn log(connection: &Connection, run_id: &str) -> Result<Option<Log>, Error> {
    let found = connection
        .prepare_cached(
            "SELECT run_id, mode, goal, status, created_at FROM runs WHERE run_id = ?1",
        )?
        .query_row([run_id], header)
        .optional()?;
    let Some((header, status)) = found else { return Ok(None) };
    let status = Status::from_name(&status)
        .ok_or_else(|| Error::Damaged(format!("run {run_id} has the status '{status}'")))?;
    let mut query = connection.prepare_cached(
        "SELECT event_id, CAST(seq AS INTEGER), type, payload_json, ts FROM events \
         WHERE run_id = ?1 ORDER BY seq",
    )?;
    let mut rows = query.query([run_id])?;
    let (mut body, mut events, mut head) = (String::new(), 0, Digest::ZERO);
    while let Some(row) = rows.next()? {
        let payload = text(row, 3)?;
        // Canonical text has no newline; a damaged one must not look like two events.
        let payload = payload.replace('\n', " ");
        let line = Line {
            event_id: Cow::Owned(text(row, 0)?),
            payload: &payload,
            run_id: Cow::Borrowed(run_id),
            seq: row.get(1)?,
            ts: Cow::Owned(text(row, 4)?),
            kind: Cow::Owned(text(row, 2)?),
        };
        let start = body.len();
        line.write_foreign(&mut body);
        head = head.chain(&body[start..]);
        body.push('\n');
        events += 1;
    }
    let progress = Progress {
        status,
        steps_planned: 0,
        steps_executed: 0,
        tools_used: Vec::new(),
        outcome: None,
        last_failure_reason: None,
        events,
        head,
    };
    let record = RunRecord { header, progress, origin: None, owned: false, waits: false };
    Ok(Some(Log { record, bodies: vec![body] }))
}

/// Lists runs, the newest first, each with its events: this layout keeps no summary.
pub(super) fn list(connection: &Connection, filter: &Filter) -> Result<Listing, Error> {
    let mut conditions = Vec::new();
    let mut values: Vec<&str> = Vec::new();
    if let Some(run_id) = &filter.run_id {
        conditions.push("run_id = ?");
        values.push(run_id);
    }
    if let Some(status) = filter.status {
        conditions.push("status = ?");
        values.push(status.name());
    }
    if let Some(since) = &filter.since {
        conditions.push("created_at >= ?");
        values.push(since);
    }
    let condition =
        if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let mut counted = Counted::default();
    let sql = format!("SELECT status, count(*) FROM runs WHERE {condition} GROUP BY status");
    let mut query = connection.prepare(&sql)?;
    let mut rows = query.query(params_from_iter(&values))?;
    while let Some(row) = rows.next()? {
        let status = text(row, 0)?;
        counted.add(Status::from_name(&status), row.get::<_, i64>(1)?.cast_unsigned());
    }
    let sql = format!(
        "SELECT run_id FROM runs WHERE {condition} ORDER BY created_at DESC, rowid DESC \
         LIMIT {} OFFSET {}",
        filter.limit, filter.offset
    );
    let mut query = connection.prepare(&sql)?;
    let ids = query.query_map(params_from_iter(&values), |row| text(row, 0))?;
    let mut runs = Vec::new();
    for run_id in ids {
        match log(connection, &run_id?) {
            Ok(Some(log)) => runs.push(Listed { record: log.record.clone(), log: Some(log) }),
            // One run that cannot be told is not counted either, and does not hide the others.
            Ok(None) | Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Listing { runs, counted })
}

/// Lists the ids of all runs, the oldest first.
pub(super) fn all_ids(connection: &Connection) -> Result<Vec<String>, Error> {
    ids(connection, "SELECT run_id FROM runs ORDER BY created_at, rowid")
}

/// Lists the ids under which there are events but no run.
pub(super) fn stray_ids(connection: &Connection) -> Result<Vec<String>, Error> {
    ids(
        connection,
        "SELECT DISTINCT run_id FROM events WHERE run_id NOT IN (SELECT run_id FROM runs)",
    )
}

fn ids(connection: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut query = connection.prepare(sql)?;
    let ids = query.query_map([], |row| text(row, 0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
