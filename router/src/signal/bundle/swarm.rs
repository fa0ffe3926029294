//! What swarms ask: that events of certain types are signed, and that decisions and snapshots agree with that.

mod decision;

use std::collections::{HashMap, HashSet};

use super::{actor, event, python};
use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical, to_repr};

pub(super) use decision::{Proven, decisions};

/// The version of the policy that is known.
const VERSION: &str = "swarm_enforcement/v1";

/// Returns the event that lays down which events are signed: the latest with a policy.
fn designation(bundle: &Value) -> Option<(&Value, &Object)> {
    event::all(bundle).iter().rev().find_map(|event| {
        let policy = event::payload(event)?.get("swarm_policy")?.as_object()?;
        Some((event, policy))
    })
}

/// Holds the events to the latest policy.
pub(super) fn coverage(bundle: &Value) -> Object {
    let directory = actor::Directory::nested(bundle);
    let mut errors: Vec<String> = Vec::new();
    let mut per_type = Object::new();
    let (mut id, mut required) = (Value::Null, Vec::new());
    if let Some((event, policy)) = designation(bundle) {
        id = event.get("event_id").cloned().unwrap_or(Value::Null);
        let signed = actor::check(event, &directory, true);
        if signed.passed != Some(true) {
            errors.push(format!("designation event signature: {}", signed.reason));
        }
        let version = policy.get("policy_version").unwrap_or(&Value::Null);
        if version.as_str() != Some(VERSION) {
            errors.push(format!("unsupported policy_version: {}", to_repr(version)));
        }
        match policy.get("required_signed_event_types").and_then(Value::as_array) {
            Some(types) => required = types.to_vec(),
            None => {
                errors
                    .push("designation malformed: required_signed_event_types missing".to_owned());
            }
        }
        per_type = covered(bundle, &required, &directory, &mut errors);
    } else {
        errors.push("no swarm designation event in bundle events".to_owned());
    }
    let mut step = Object::with_capacity(6);
    step.insert("passed", errors.is_empty());
    step.insert("skipped", false);
    step.insert("designation_event_id", id);
    step.insert("required_signed_event_types", required);
    step.insert("per_type", per_type);
    step.insert("errors", errors.into_iter().map(Value::from).collect::<Vec<Value>>());
    step
}

/// Counts the events of each required type, and those of them that are signed.
fn covered(
    bundle: &Value,
    required: &[Value],
    directory: &actor::Directory<'_>,
    errors: &mut Vec<String>,
) -> Object {
    let mut by_type: HashMap<&str, Vec<&Value>> = HashMap::new();
    for event in event::all(bundle) {
        if let Some(kind) = event.get("event_type").and_then(Value::as_str) {
            by_type.entry(kind).or_default().push(event);
        }
    }
    let (mut seen, mut per_type) = (HashSet::new(), Vec::new());
    for wanted in required {
        let name = python::text(wanted);
        if !seen.insert(name.clone()) {
            continue;
        }
        let events = wanted.as_str().and_then(|it| by_type.get(it)).map_or(&[][..], Vec::as_slice);
        let mut passed = 0_usize;
        for event in events {
            let signed = actor::check(event, directory, true);
            if signed.passed == Some(true) {
                passed += 1;
            } else {
                let id = event::shown(event, "event_id");
                errors.push(format!("coverage incomplete for {name} ({id}): {}", signed.reason));
            }
        }
        if events.is_empty() {
            errors.push(format!("required event type absent: {name}"));
        }
        let mut count = Object::with_capacity(2);
        count.insert("present", events.len());
        count.insert("passed", passed);
        per_type.push((name, count.into()));
    }
    per_type.into_iter().collect()
}

/// Says whether two lists of types are the same in any order; what is no list is empty.
fn same_types(one: &Value, two: &Value) -> bool {
    let sorted = |list: &Value| {
        let mut types: Vec<String> =
            list.as_array().unwrap_or_default().iter().map(to_canonical).collect();
        types.sort_unstable();
        types
    };
    // Lists of other lengths are not looked at: many small ones may be held to one that is large.
    let length = |list: &Value| list.as_array().map_or(0, <[Value]>::len);
    length(one) == length(two) && sorted(one) == sorted(two)
}

/// Holds the snapshot of a swarm to its hash and to the latest policy.
pub(super) fn snapshot(bundle: &Value) -> Object {
    let section = bundle.get("swarm_enforcement");
    let snapshot = section
        .and_then(|section| section.get("snapshot"))
        .filter(|snapshot| snapshot.as_object().is_some());
    let mut errors: Vec<Value> = Vec::new();
    if let Some(snapshot) = snapshot {
        let hash = Digest::of(to_canonical(snapshot).as_bytes()).to_string();
        let claimed = section.and_then(|section| section.get("snapshot_hash"));
        if claimed.and_then(Value::as_str) != Some(&hash) {
            errors.push("snapshot_hash mismatch".into());
        }
        let stated = snapshot
            .get("summary")
            .and_then(|summary| summary.get("required_signed_event_types"))
            .filter(|stated| stated.as_array().is_some());
        if let (Some(stated), Some((_, policy))) = (stated, designation(bundle)) {
            let signed = policy.get("required_signed_event_types").unwrap_or(&Value::Null);
            if !same_types(signed, stated) {
                errors.push("snapshot designation differs from signed designation".into());
            }
        }
    }
    let mut step = Object::with_capacity(4);
    step.insert("passed", snapshot.is_some() && errors.is_empty());
    step.insert("skipped", snapshot.is_none());
    step.insert("present", snapshot.is_some());
    step.insert("errors", errors);
    step
}
