//! Makes of a bundle what the store takes, and checks its digests on the way.

use std::borrow::Cow;
use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

use super::Error;
use super::import::Check;
use super::lines::Lines;
use super::read::{Bundle, Event};
use crate::digest::Digest;
use crate::event::Line;
use crate::json;

/// The events of a bundle in order, and the digest of what was given.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) lines: Lines,
    pub(super) digest: Digest,
}

/// Writes the lines of a bundle.
pub(super) fn prepare(bundle: &Bundle<'_>, check: Check) -> Result<Prepared, Error> {
    let (texts, digest) = write(bundle);
    if check == Check::Verify {
        compare(bundle.digest, &digest.to_string())?;
    }
    unique_ids(&bundle.events)?;
    let lines = order(&bundle.events, texts)?;
    if check == Check::Verify
        && let Some(stated) = bundle.head
        && stated != lines.head
    {
        let (stated, computed) = (stated.to_string(), lines.head.to_string());
        return Err(Error::ChainMismatch { stated, computed });
    }
    Ok(Prepared { lines, digest })
}

/// Writes a line for every event as they are listed, and takes the digest of the text that was given.
fn write(bundle: &Bundle<'_>) -> (String, Digest) {
    let mut hasher = Sha256::new();
    hasher.update("{\"events\":[");
    let (mut texts, mut other) = (String::new(), String::new());
    for (index, event) in bundle.events.iter().enumerate() {
        if index > 0 {
            hasher.update(",");
        }
        let start = texts.len();
        if event.is_plain() {
            json::write_canonical_object(&mut texts, event.given);
            hasher.update(&texts[start..]);
        } else {
            other.clear();
            json::write_canonical_object(&mut other, event.given);
            hasher.update(&other);
            other.clear();
            json::write_canonical_object(&mut other, event.payload);
            line(event, &bundle.header.run_id, &other).write_foreign(&mut texts);
        }
        texts.push('\n');
    }
    hasher.update("],\"run\":");
    other.clear();
    json::write_canonical_object(&mut other, bundle.run);
    hasher.update(&other);
    hasher.update("}");
    (texts, Digest::from_bytes(hasher.finalize().into()))
}

fn line<'a>(event: &Event<'a>, run_id: &'a str, payload: &'a str) -> Line<'a> {
    Line {
        event_id: Cow::Borrowed(event.event_id),
        payload,
        run_id: Cow::Borrowed(run_id),
        seq: event.seq,
        ts: Cow::Borrowed(event.ts),
        kind: Cow::Borrowed(event.kind),
    }
}

fn compare(stated: Option<&str>, computed: &str) -> Result<(), Error> {
    match stated {
        None => Err(Error::DigestMismatch("Bundle missing digests.sha256".to_owned())),
        Some(stated) if stated == computed => Ok(()),
        Some(stated) => Err(Error::DigestMismatch(format!(
            "Digest mismatch: expected {stated}, got {computed}"
        ))),
    }
}

fn unique_ids(events: &[Event<'_>]) -> Result<(), Error> {
    let mut seen = HashSet::with_capacity(events.len());
    for (index, event) in events.iter().enumerate() {
        if !seen.insert(event.event_id) {
            let message = format!("events[{index}].event_id '{}' was used before", event.event_id);
            return Err(Error::at(format!("/events/{index}/event_id"), message));
        }
    }
    Ok(())
}

/// Puts the lines into the order of their seq, and chains them.
fn order(events: &[Event<'_>], texts: String) -> Result<Lines, Error> {
    if events.is_sorted_by(|one, next| one.seq < next.seq) {
        let head = texts.lines().fold(Digest::ZERO, |head, line| head.chain(line));
        return Ok(Lines { body: texts, events: events.len() as u64, head });
    }
    let mut seen = HashSet::with_capacity(events.len());
    if let Some(again) = events.iter().find(|event| !seen.insert(event.seq)) {
        return Err(Error::SeqDuplicate(again.seq));
    }
    let mut ordered: Vec<(i64, &str)> =
        events.iter().map(|event| event.seq).zip(texts.lines()).collect();
    ordered.sort_unstable_by_key(|(seq, _)| *seq);
    let mut lines = Lines::with_capacity(texts.len());
    for (_, text) in ordered {
        let start = lines.body.len();
        lines.body.push_str(text);
        lines.end_line(start);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    fn prepared(events: &str) -> Result<Prepared, Error> {
        let text = format!(
            r#"{{"bundle_version":"0.3","run":{{"run_id":"r","mode":"apply","goal":"g","status":"FAILED",
            "created_at":"t"}},"events":[{events}]}}"#
        );
        let value = parse(text.as_bytes(), Limits::BUNDLE).unwrap();
        prepare(&Bundle::read(&value)?, Check::Skip)
    }

    fn event(id: &str, seq: i64, more: &str) -> String {
        format!(
            r#"{{"event_id":"{id}","run_id":"r","seq":{seq},"type":"T","payload":{{"b":1,"a":2}},"ts":"t"{more}}}"#
        )
    }

    #[test]
    fn events_are_stored_by_seq_and_without_what_is_unknown() {
        let one = prepared(&[event("a", 0, ""), event("b", 7, "")].join(",")).unwrap();
        let other = prepared(&[event("b", 7, r#","x":1"#), event("a", 0, "")].join(",")).unwrap();
        assert_eq!(one.lines.body, other.lines.body);
        assert_eq!(one.lines.head, other.lines.head);
        assert_ne!(one.digest, other.digest);
        let first =
            r#"{"event_id":"a","payload":{"a":2,"b":1},"run_id":"r","seq":0,"ts":"t","type":"T"}"#;
        assert_eq!(one.lines.body.lines().next(), Some(first));
    }

    #[test]
    fn nothing_is_stored_twice() {
        let same_seq = prepared(&[event("a", 3, ""), event("b", 3, "")].join(","));
        assert!(matches!(same_seq, Err(Error::SeqDuplicate(3))), "{same_seq:?}");
        let same_id = prepared(&[event("a", 0, ""), event("a", 1, "")].join(","));
        assert_eq!(same_id.unwrap_err().code(), "INVALID_BUNDLE");
    }
}
