//! How much of a foreign bundle its signed tree head covers.
//!
//! A tree head covers the anchored event and those before it, which are chained to it. A foreign bundle may go on after
//! that event, or have no tree head at all. That is reported, and refused only where `--strict` asks for full coverage.

use super::anchor::{self, Binding};
use super::{event, python};
use crate::clock::Timestamp;
use crate::json::{Object, Value};
use crate::signal::Finding;

/// The part of a bundle's events that its tree head covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Every event.
    Full,
    /// The first `covered` events; `uncovered` ones follow.
    Partial { covered: usize, uncovered: usize },
    /// No event: there is no tree head, or no event that is a leaf of its log.
    Missing,
}

impl Coverage {
    /// Returns the coverage of a bundle whose anchor no step has found wrong.
    pub(super) fn of(bundle: &Value) -> Self {
        let has = |key: &str| python::truthy(bundle.get(key));
        match anchor::binding(bundle) {
            Binding::Bound(index) if has("signed_tree_head") => {
                let covered = index + 1;
                match event::all(bundle).len() - covered {
                    0 => Self::Full,
                    uncovered => Self::Partial { covered, uncovered },
                }
            }
            _ => Self::Missing,
        }
    }

    /// Returns the member of a report; none if there is nothing to report.
    pub(super) fn to_json(self, events: usize) -> Option<Object> {
        let (status, covered) = match self {
            Self::Full => return None,
            Self::Partial { covered, .. } => ("anchored_in_part", covered),
            Self::Missing => ("not_anchored", 0),
        };
        let mut member = Object::with_capacity(4);
        member.insert("status", status);
        member.insert("covered_events", covered);
        member.insert("uncovered_events", events - covered);
        member.insert("message", self.message());
        Some(member)
    }

    /// Returns the coverage in words.
    pub(super) fn message(self) -> String {
        match self {
            Self::Full => "the tree head covers every event".to_owned(),
            Self::Partial { uncovered, .. } => format!(
                "no tree head covers the {uncovered} events after the anchored one: anyone can have added them"
            ),
            Self::Missing => {
                "no signed tree head covers an event: anyone can have made the bundle".to_owned()
            }
        }
    }
}

/// Finds events after the anchored one that are dated later than the tree head. The maker of the head cannot have known
/// them, so they were added to the finished bundle.
pub(super) fn late_events(bundle: &Value) -> Option<Finding> {
    let Coverage::Partial { covered, .. } = Coverage::of(bundle) else { return None };
    let date = |value: Option<&Value>| Timestamp::parse(value?.as_str()?);
    let signed_at = date(bundle.get("signed_tree_head")?.get("timestamp"))?;
    let events = event::all(bundle).iter().enumerate().skip(covered);
    let is_late = |event: &Value| date(event.get("timestamp")).is_some_and(|it| it > signed_at);
    let mut late = events.filter(|(_, event)| is_late(event));
    let (first, _) = late.next()?;
    let count = 1 + late.count();
    let message = format!(
        "events later than the tree head of {signed_at}: {count}, the first here; they were added afterwards"
    );
    Some(Finding::error(format!("/events/{first}/timestamp"), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Limits, parse};

    /// Returns a bundle of so many events whose head covers the one with this index.
    fn bundle(anchored: Option<usize>, times: &[&str], head: &str) -> Value {
        let events: Vec<String> = (times.iter().enumerate())
            .map(|(index, time)| {
                format!(
                    r#"{{"deal_id": "d", "event_type": "t", "event_id": "e{index}", "hash": "h", "timestamp": "{time}"}}"#
                )
            })
            .collect();
        let text = format!(r#"{{"events": [{}], "signed_tree_head": {head}}}"#, events.join(","));
        let mut bundle = parse(text.as_bytes(), Limits::BUNDLE).unwrap().into_object().unwrap();
        let whole = Value::from(bundle.clone());
        let leaf = anchored.and_then(|index| event::leaf(&event::all(&whole)[index]));
        let mut block = Object::new();
        block.insert("leaf_hash", leaf.map(|leaf| leaf.to_string()));
        bundle.insert("merkle_inclusion", block);
        bundle.into()
    }

    const HEAD: &str = r#"{"timestamp": "2026-06-10T11:00:00Z"}"#;
    const EARLY: &str = "2026-06-10T10:00:00.123456+00:00";
    const LATE: &str = "2026-06-10T11:00:01Z";

    #[test]
    fn tree_head_covers_events_up_to_the_anchored_one() {
        for (anchored, head, expected) in [
            (Some(2), HEAD, Coverage::Full),
            (Some(0), HEAD, Coverage::Partial { covered: 1, uncovered: 2 }),
            (Some(1), HEAD, Coverage::Partial { covered: 2, uncovered: 1 }),
            (Some(2), "null", Coverage::Missing),
            (Some(2), "{}", Coverage::Missing),
            (None, HEAD, Coverage::Missing),
        ] {
            let coverage = Coverage::of(&bundle(anchored, &[EARLY; 3], head));
            assert_eq!(coverage, expected, "{anchored:?} {head}");
            let member = coverage.to_json(3).map(Value::from);
            let count = |key: &str| member.as_ref()?.get(key)?.as_i64();
            let sum = count("covered_events").zip(count("uncovered_events"));
            let expected = (coverage != Coverage::Full).then_some(3);
            assert_eq!(sum.map(|(covered, rest)| covered + rest), expected, "{coverage:?}");
        }
    }

    #[test]
    fn only_uncovered_events_later_than_the_head_are_found() {
        for (anchored, times, head, expected) in [
            (0, [EARLY, EARLY, LATE], HEAD, Some((2, "head of 2026-06-10T11:00:00.000Z: 1,"))),
            (0, [EARLY, LATE, LATE], HEAD, Some((1, ": 2,"))),
            (0, [EARLY, EARLY, "2026-06-10T11:00:00Z"], HEAD, None),
            (0, [EARLY, EARLY, "2026-06-10T13:00:00+02:00"], HEAD, None),
            (1, [EARLY, LATE, EARLY], HEAD, None),
            (2, [LATE, LATE, LATE], HEAD, None),
            (0, [EARLY, EARLY, "yesterday"], HEAD, None),
            (0, [EARLY, EARLY, LATE], r#"{"timestamp": 5}"#, None),
        ] {
            let found = late_events(&bundle(Some(anchored), &times, head));
            let Some((index, words)) = expected else {
                assert_eq!(found, None, "{times:?}");
                continue;
            };
            let found = found.unwrap();
            assert_eq!(found.pointer, format!("/events/{index}/timestamp"), "{times:?}");
            assert!(found.message.contains(words), "{}", found.message);
        }
    }
}
