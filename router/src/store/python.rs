//! Questions to a database of the Python router, which is read as it is.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::record::{Header, Log, Progress, RunRecord, Status};
use super::{Counted, Error, Filter, Listed, Listing};
use crate::digest::Digest;
use crate::event::Line;

fn header(row: &Row<'_>) -> Result<(Header, String), rusqlite::Error> {
    let header = Header {
        run_id: row.get(0)?,
        mode: row.get(1)?,
        goal: row.get(2)?,
        created_at: row.get(4)?,
    };
    Ok((header, row.get(3)?))
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
        "SELECT coalesce(event_id, ''), CAST(seq AS INTEGER), type, payload_json, ts FROM events \
         WHERE run_id = ?1 ORDER BY seq",
    )?;
    let mut rows = query.query([run_id])?;
    let (mut body, mut events, mut head) = (String::new(), 0, Digest::ZERO);
    while let Some(row) = rows.next()? {
        let payload: String = row.get(3)?;
        // Canonical text has no newline; a damaged one must not look like two events.
        let payload = payload.replace('\n', " ");
        let line = Line {
            event_id: Cow::Owned(row.get(0)?),
            payload: &payload,
            run_id: Cow::Borrowed(run_id),
            seq: row.get(1)?,
            ts: Cow::Owned(row.get(4)?),
            kind: Cow::Owned(row.get(2)?),
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
    let record = RunRecord { header, progress, origin: None, owned: false };
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
        let status: String = row.get(0)?;
        counted.add(Status::from_name(&status), row.get::<_, i64>(1)?.cast_unsigned());
    }
    let sql = format!(
        "SELECT run_id FROM runs WHERE {condition} ORDER BY created_at DESC, rowid DESC \
         LIMIT {} OFFSET {}",
        filter.limit, filter.offset
    );
    let mut query = connection.prepare(&sql)?;
    let ids = query.query_map(params_from_iter(&values), |row| row.get::<_, String>(0))?;
    let mut runs = Vec::new();
    for run_id in ids {
        if let Some(log) = log(connection, &run_id?)? {
            runs.push(Listed { record: log.record.clone(), log: Some(log) });
        }
    }
    Ok(Listing { runs, counted })
}

/// Lists the ids of all runs, the oldest first.
pub(super) fn all_ids(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut query = connection.prepare("SELECT run_id FROM runs ORDER BY created_at, rowid")?;
    let ids = query.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}
