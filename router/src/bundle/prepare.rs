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

/// A bundle that can be stored.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    /// What it says, perhaps without its events.
    pub(super) frame: Bundle<'a>,
    /// The events in order.
    pub(super) lines: Lines,
    /// The digest of the run and the events as they were given.
    pub(super) digest: Digest,
}

/// What must be unique among the events of a run.
struct Key<'a> {
    seq: i64,
    event_id: Cow<'a, str>,
}

/// Prepares a bundle whose events are values.
pub(super) fn prepare(frame: Bundle<'_>, check: Check) -> Result<Prepared<'_>, Error> {
    let (texts, digest) = write(&frame);
    let keys = frame.events.iter();
    let keys = keys.map(|event| Key { seq: event.seq, event_id: event.event_id.into() });
    let order = order_of(&keys.collect::<Vec<_>>());
    finish(frame, order, texts, digest, check)
}

/// Prepares a bundle whose events are canonical lines; nothing if one of them is not an event of the run.
pub(super) fn prepare_lines(
    frame: Bundle<'_>,
    texts: String,
    check: Check,
) -> Option<Result<Prepared<'_>, Error>> {
    let mut hasher = Sha256::new();
    hasher.update("{\"events\":[");
    let mut keys = Vec::with_capacity(texts.len() / 256);
    for (index, text) in texts.lines().enumerate() {
        let line = Line::read(text).ok()?;
        if line.run_id != frame.header.run_id || !line.payload.starts_with('{') {
            return None;
        }
        if index > 0 {
            hasher.update(",");
        }
        hasher.update(text);
        keys.push(Key { seq: line.seq, event_id: line.event_id });
    }
    let digest = end_digest(hasher, &frame);
    let order = order_of(&keys);
    Some(finish(frame, order, texts, digest, check))
}

fn finish<'a>(
    frame: Bundle<'a>,
    order: Result<Order, Error>,
    texts: String,
    digest: Digest,
    check: Check,
) -> Result<Prepared<'a>, Error> {
    if check == Check::Verify {
        compare(frame.digest, &digest.to_string())?;
    }
    let lines = order?.of(texts);
    if check == Check::Verify
        && let Some(stated) = frame.head
        && stated != lines.head
    {
        let (stated, computed) = (stated.to_string(), lines.head.to_string());
        return Err(Error::ChainMismatch { stated, computed });
    }
    Ok(Prepared { frame, lines, digest })
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
    (texts, end_digest(hasher, bundle))
}

fn end_digest(mut hasher: Sha256, bundle: &Bundle<'_>) -> Digest {
    let mut run = String::new();
    json::write_canonical_object(&mut run, bundle.run);
    hasher.update("],\"run\":");
    hasher.update(&run);
    hasher.update("}");
    Digest::from_bytes(hasher.finalize().into())
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

/// In which order the listed events are stored.
enum Order {
    AsListed { events: u64 },
    Places(Vec<usize>),
}

/// Finds the order of events, none of which may be there twice.
fn order_of(keys: &[Key<'_>]) -> Result<Order, Error> {
    let mut seen = HashSet::with_capacity(keys.len());
    for (index, key) in keys.iter().enumerate() {
        if !seen.insert(key.event_id.as_ref()) {
            let message = format!("events[{index}].event_id '{}' was used before", key.event_id);
            return Err(Error::at(format!("/events/{index}/event_id"), message));
        }
    }
    if keys.is_sorted_by(|one, next| one.seq < next.seq) {
        return Ok(Order::AsListed { events: keys.len() as u64 });
    }
    let mut seen = HashSet::with_capacity(keys.len());
    if let Some(again) = keys.iter().find(|key| !seen.insert(key.seq)) {
        return Err(Error::SeqDuplicate(again.seq));
    }
    let mut places: Vec<usize> = (0..keys.len()).collect();
    places.sort_unstable_by_key(|place| keys[*place].seq);
    Ok(Order::Places(places))
}

impl Order {
    /// Puts lines in order, and chains them.
    fn of(&self, texts: String) -> Lines {
        match self {
            Self::AsListed { events } => {
                let head = texts.lines().fold(Digest::ZERO, |head, line| head.chain(line));
                Lines { body: texts, events: *events, head }
            }
            Self::Places(places) => {
                let listed: Vec<&str> = texts.lines().collect();
                let mut lines = Lines::with_capacity(texts.len());
                for place in places {
                    let start = lines.body.len();
                    lines.body.push_str(listed[*place]);
                    lines.end_line(start);
                }
                lines
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::transcode::{Transcoded, transcode};
    use crate::json::{Limits, parse};

    fn prepared(events: &str) -> Result<(Lines, Digest), Error> {
        let text = format!(
            r#"{{"bundle_version":"0.3","run":{{"run_id":"r","mode":"apply","goal":"g","status":"FAILED",
            "created_at":"t"}},"events":[{events}]}}"#
        );
        let value = parse(text.as_bytes(), Limits::BUNDLE).unwrap();
        let by_value = prepare(Bundle::read(&value)?, Check::Skip);
        let by_value = by_value.map(|prepared| (prepared.lines, prepared.digest));
        // Both ways must agree, where both can be gone.
        if let Some(Transcoded { frame, texts }) = transcode(text.as_bytes())
            && let Some(by_line) = prepare_lines(Bundle::read(&frame)?, texts, Check::Skip)
        {
            let by_line = by_line.map(|prepared| (prepared.lines, prepared.digest));
            assert_eq!(format!("{by_line:?}"), format!("{by_value:?}"));
        }
        by_value
    }

    fn event(id: &str, seq: i64, more: &str) -> String {
        format!(
            r#"{{"event_id":"{id}","run_id":"r","seq":{seq},"type":"T","payload":{{"b":1,"a":2}},"ts":"t"{more}}}"#
        )
    }

    #[test]
    fn events_are_stored_by_seq_and_without_what_is_unknown() {
        let one = prepared(&[event("a", 0, ""), event("b", 7, "")].join(",")).unwrap();
        for more in [r#","x":1"#, r#","q":{"run_id":"r"}"#, r#","a":1"#, r#","f":[]"#] {
            let other = [event("b", 7, more), event("a", 0, "")].join(",");
            let other = prepared(&other).unwrap();
            assert_eq!(one.0.body, other.0.body, "{more}");
            assert_eq!(one.0.head, other.0.head, "{more}");
            assert_ne!(one.1, other.1, "{more}");
        }
        let first =
            r#"{"event_id":"a","payload":{"a":2,"b":1},"run_id":"r","seq":0,"ts":"t","type":"T"}"#;
        assert_eq!(one.0.body.lines().next(), Some(first));
    }

    #[test]
    fn nothing_is_stored_twice() {
        let same_seq = prepared(&[event("a", 3, ""), event("b", 3, "")].join(","));
        assert!(matches!(same_seq, Err(Error::SeqDuplicate(3))), "{same_seq:?}");
        let same_id = prepared(&[event("a", 0, ""), event("a", 1, "")].join(","));
        assert_eq!(same_id.unwrap_err().code(), "INVALID_BUNDLE");
    }
}
