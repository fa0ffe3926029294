//! The lines of a run written anew: canonical, or under another id.

use std::borrow::Cow;

use crate::digest::Digest;
use crate::event::Line;
use crate::id::EventIds;
use crate::json::{self, Limits, Value};
use crate::store::Log;

/// The events of a run, one line each, and their chain.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub(crate) body: String,
    pub(crate) events: u64,
    pub(crate) head: Digest,
}

/// Why a run cannot be written as JSON.
#[derive(Clone, Debug, thiserror::Error)]
#[error("event {place}: {reason}")]
pub(crate) struct Unreadable {
    place: u64,
    reason: String,
}

impl Lines {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { body: String::with_capacity(bytes), events: 0, head: Digest::ZERO }
    }

    pub(super) fn push(&mut self, line: &Line<'_>) {
        let start = self.body.len();
        line.write_foreign(&mut self.body);
        self.end_line(start);
    }

    /// Ends the line that was written from a position on.
    pub(super) fn end_line(&mut self, start: usize) {
        self.head = self.head.chain(&self.body[start..]);
        self.body.push('\n');
        self.events += 1;
    }
}

/// In a bundle a payload stands within three others.
const PAYLOAD: Limits = Limits { depth: Limits::BUNDLE.depth - 3, ..Limits::BUNDLE };

/// Writes the lines of a log anew with payloads in canonical form. The Python router stores some that are
/// not, and some that are no JSON.
pub(crate) fn canonical(log: &Log) -> Result<Lines, Unreadable> {
    let mut lines = Lines::with_capacity(log.bodies.iter().map(String::len).sum());
    let mut payload = String::new();
    for line in log.lines() {
        let unreadable = |reason: String| Unreadable { place: lines.events, reason };
        let mut line = Line::read(line).map_err(|error| unreadable(error.to_string()))?;
        let value = json::parse(line.payload.as_bytes(), PAYLOAD)
            .map_err(|error| unreadable(format!("the payload is not JSON: {error}")))?;
        let Value::Object(object) = value else {
            let found = value.type_name();
            return Err(unreadable(format!("the payload is of type {found}, not an object")));
        };
        payload.clear();
        json::write_canonical_object(&mut payload, &object);
        line.payload = &payload;
        lines.push(&line);
    }
    Ok(lines)
}

/// Writes lines anew under another run's id, with event ids of that run. Payloads stay as they are: what a
/// caller wrote is not ours to change.
pub(super) fn renamed(body: &str, run_id: &str) -> Lines {
    let ids = EventIds::of(run_id);
    let mut lines = Lines::with_capacity(body.len());
    // Every line was written by us, so none is left out.
    for mut line in body.lines().filter_map(|line| Line::read(line).ok()) {
        // By place, not by seq: a foreign log may have any seq.
        line.event_id = Cow::Owned(ids.at(lines.events).to_string());
        line.run_id = Cow::Borrowed(run_id);
        lines.push(&line);
    }
    lines
}
