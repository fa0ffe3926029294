//! One pass over the events of all runs, for questions about the whole record.

use std::borrow::Cow;

use rusqlite::Connection;

use super::{Error, Store, python};
use crate::event::Line;

/// All segments, run by run.
const SEGMENTS: &str = "SELECT body FROM segments ORDER BY segment_no";
/// All events of a database of the Python router, run by run.
const PYTHON_EVENTS: &str = "SELECT event_id, CAST(seq AS INTEGER), type, payload_json, ts, run_id \
    FROM events ORDER BY run_id, seq";

/// Counts of a scan: events that the visitor got, and lines that are not events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Events that the visitor got.
    pub events: u64,
    /// Lines that are not events.
    pub damaged: u64,
}

impl Store {
    /// Passes the events of all runs to a visitor: run by run, each run in its order, all of one moment.
    ///
    /// One query reads them. Memory holds one segment at a time. Returns the visitor with a report.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn scan_events<V>(&self, mut visitor: V) -> Result<(V, ScanReport), Error>
    where
        V: EventVisitor + Send + 'static,
    {
        let is_python = self.is_python();
        self.read(move |connection| {
            let mut report = ScanReport::default();
            if is_python {
                scan_python(connection, &mut visitor, &mut report)?;
            } else {
                scan_segments(connection, &mut visitor, &mut report)?;
            }
            Ok((visitor, report))
        })
    }
}

/// Receiver of the events of a scan.
pub trait EventVisitor {
    /// Takes one event.
    fn visit(&mut self, line: &Line<'_>);
}

fn scan_segments(
    connection: &Connection,
    visitor: &mut impl EventVisitor,
    report: &mut ScanReport,
) -> Result<(), Error> {
    let mut query = connection.prepare(SEGMENTS)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
        let body = String::from_utf8_lossy(bytes);
        for line in body.lines() {
            match Line::read(line) {
                Ok(line) => {
                    report.events += 1;
                    visitor.visit(&line);
                }
                Err(_) => report.damaged += 1,
            }
        }
    }
    Ok(())
}

fn scan_python(
    connection: &Connection,
    visitor: &mut impl EventVisitor,
    report: &mut ScanReport,
) -> Result<(), Error> {
    let mut query = connection.prepare(PYTHON_EVENTS)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let payload = python::text(row, 3)?;
        let line = Line {
            event_id: Cow::Owned(python::text(row, 0)?),
            payload: &payload,
            run_id: Cow::Owned(python::text(row, 5)?),
            seq: row.get(1)?,
            ts: Cow::Owned(python::text(row, 4)?),
            kind: Cow::Owned(python::text(row, 2)?),
        };
        report.events += 1;
        visitor.visit(&line);
    }
    Ok(())
}
