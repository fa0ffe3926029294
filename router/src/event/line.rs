//! The line in which an event is stored: written from a payload, and taken apart again.

use std::borrow::Cow;
use std::fmt::Write as _;

use uuid::Uuid;

use super::payload::Payload;
use crate::json;

/// A stored event, taken apart without copying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The event's id.
    pub event_id: Cow<'a, str>,
    /// The payload's text, canonical.
    pub payload: &'a str,
    /// The run's id.
    pub run_id: Cow<'a, str>,
    /// The place in the run's sequence.
    pub seq: i64,
    /// When it was recorded.
    pub ts: Cow<'a, str>,
    /// The name of its kind.
    pub kind: Cow<'a, str>,
}

/// The line is not that of an event.
#[derive(Debug, thiserror::Error)]
#[error("the line is not an event: {0}")]
pub struct LineError(&'static str);

/// What follows the payload.
struct Tail<'a> {
    run_id: Cow<'a, str>,
    seq: i64,
    ts: Cow<'a, str>,
    kind: Cow<'a, str>,
}

impl<'a> Line<'a> {
    const HEAD: &'static str = "{\"event_id\":";
    const PAYLOAD: &'static str = ",\"payload\":";
    const RUN_ID: &'static str = ",\"run_id\":";

    /// Takes a line apart. It is canonical, so its members stand in a known order.
    ///
    /// # Errors
    /// When the line is not of that form.
    pub fn read(line: &'a str) -> Result<Self, LineError> {
        let rest = line.strip_prefix(Self::HEAD).ok_or(LineError("event_id is not first"))?;
        let (event_id, rest) = take_string(rest).ok_or(LineError("event_id is not a string"))?;
        let rest = rest.strip_prefix(Self::PAYLOAD).ok_or(LineError("payload is not second"))?;
        if let Some((payload, Tail { run_id, seq, ts, kind })) = plain_tail(rest) {
            return Ok(Self { event_id, payload, run_id, seq, ts, kind });
        }
        // A payload may hold the same text; after the last one come only short members.
        let end = rest.rfind(Self::RUN_ID).ok_or(LineError("run_id is missing"))?;
        let payload = &rest[..end];
        let tail = &rest[end + 1..];
        let tail: Tail<'a> = read_tail(tail).ok_or(LineError("its last members are damaged"))?;
        let Tail { run_id, seq, ts, kind } = tail;
        Ok(Self { event_id, payload, run_id, seq, ts, kind })
    }

    /// Appends a line for a payload, without its newline.
    pub fn write(
        out: &mut String,
        event_id: &uuid::fmt::Hyphenated,
        run_id: &str,
        seq: u64,
        ts: &str,
        payload: &Payload<'_>,
    ) {
        out.push_str(Self::HEAD);
        out.push('"');
        out.push_str(event_id.encode_lower(&mut Uuid::encode_buffer()));
        out.push('"');
        out.push_str(Self::PAYLOAD);
        payload.write(out);
        Self::write_tail(out, run_id, seq, ts, payload.kind().name());
    }

    /// Appends a line for a payload that is canonical text already.
    pub fn write_foreign(&self, out: &mut String) {
        out.push_str(Self::HEAD);
        json::write_canonical_str(out, &self.event_id);
        out.push_str(Self::PAYLOAD);
        out.push_str(self.payload);
        Self::write_tail(out, &self.run_id, self.seq, &self.ts, &self.kind);
    }

    fn write_tail(
        out: &mut String,
        run_id: &str,
        seq: impl std::fmt::Display,
        ts: &str,
        kind: &str,
    ) {
        out.push_str(Self::RUN_ID);
        json::write_canonical_str(out, run_id);
        // Writing to a string does not fail.
        let _ = write!(out, ",\"seq\":{seq}");
        out.push_str(",\"ts\":");
        json::write_canonical_str(out, ts);
        out.push_str(",\"type\":");
        json::write_canonical_str(out, kind);
        out.push('}');
    }
}

/// Reads a tail without escapes from its end, and returns what stands before it; several times faster than
/// to look for its beginning.
fn plain_tail(text: &str) -> Option<(&str, Tail<'_>)> {
    let (text, kind) = last_string(text.strip_suffix('}')?)?;
    let (text, ts) = last_string(text.strip_suffix(",\"type\":")?)?;
    let text = text.strip_suffix(",\"ts\":")?;
    let digits = text.bytes().rev().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-')).count();
    let (text, seq) = text.split_at(text.len() - digits);
    let (text, run_id) = last_string(text.strip_suffix(",\"seq\":")?)?;
    let payload = text.strip_suffix(Line::RUN_ID)?;
    Some((payload, Tail { run_id, seq: seq.parse().ok()?, ts, kind }))
}

/// Takes a JSON string without escapes off the end of a text.
fn last_string(text: &str) -> Option<(&str, Cow<'_, str>)> {
    let text = text.strip_suffix('"')?;
    let at = text.bytes().rposition(|byte| matches!(byte, b'"' | b'\\'))?;
    let (before, string) = (&text[..at], &text[at + 1..]);
    (text.as_bytes()[at] == b'"').then_some((before, Cow::Borrowed(string)))
}

/// Reads `"run_id":…,"seq":…,"ts":…,"type":…}`.
fn read_tail(text: &str) -> Option<Tail<'_>> {
    let (run_id, rest) = take_string(text.strip_prefix("\"run_id\":")?)?;
    let rest = rest.strip_prefix(",\"seq\":")?;
    let digits = rest.find(',')?;
    let seq = rest[..digits].parse().ok()?;
    let (ts, rest) = take_string(rest[digits..].strip_prefix(",\"ts\":")?)?;
    let (kind, rest) = take_string(rest.strip_prefix(",\"type\":")?)?;
    (rest == "}").then_some(Tail { run_id, seq, ts, kind })
}

/// Takes a JSON string off the front of a text.
fn take_string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('"')?;
    let plain = inner.bytes().position(|byte| matches!(byte, b'"' | b'\\'))?;
    if inner.as_bytes()[plain] == b'"' {
        return Some((Cow::Borrowed(&inner[..plain]), &inner[plain + 1..]));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let string = values.next()?.ok()?;
    Some((Cow::Owned(string), &text[values.byte_offset()..]))
}
