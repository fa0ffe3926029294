//! Decisions of swarms: whether each record agrees with itself, and how strongly it is proven.

use std::collections::HashMap;

use super::super::{anchor, event, python};
use super::{designation, same_types};
use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical, to_repr};

/// The version of a decision's context that is known.
const VERSION: &str = "swarm_decision/v1";

/// How much of the bundle holds.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Proven {
    /// The hash of the bundle and the chain of its events.
    pub whole: bool,
    /// The anchor: its proof, its head's signature, and what it refers to.
    pub anchored: bool,
}

/// Holds the records of decisions.
pub(in super::super) fn decisions(bundle: &Value, proven: Proven) -> Object {
    let bound = anchor::binding(bundle);
    let events = event::all(bundle);
    let mut policies = Policies::of(bundle);
    let mut records = Vec::new();
    let (mut errors, mut weakest): (Vec<Value>, usize) = (Vec::new(), STRENGTHS.len() - 1);
    for (index, event) in events.iter().enumerate() {
        if event.get("event_type").and_then(Value::as_str) != Some(anchor::AUTHORIZED) {
            continue;
        }
        let Some(payload) = event::payload(event) else { continue };
        let Some(context) = payload.get("swarm_decision") else { continue };
        let wrong = problems(&mut policies, event, payload, context);
        let valid = wrong.is_empty();
        let relationship = match bound {
            anchor::Binding::Bound(at) if valid && proven.whole && proven.anchored => {
                Some(match at.cmp(&index) {
                    std::cmp::Ordering::Equal => "direct",
                    std::cmp::Ordering::Greater => "later_anchor_commits_to_this_prefix",
                    std::cmp::Ordering::Less => "anchor_precedes_this_record",
                })
            }
            _ => None,
        };
        let strength = match (valid, proven.whole, relationship) {
            (false, ..) => 0,
            (true, false, _) => 1,
            (true, true, Some("direct" | "later_anchor_commits_to_this_prefix")) => 3,
            (true, true, _) => 2,
        };
        weakest = weakest.min(strength);
        let mut record = Object::with_capacity(13);
        let or_empty = |value: Option<&Value>| value.cloned().unwrap_or_else(|| "".into());
        record.insert("event_id", or_empty(event.get("event_id")));
        record.insert("event_index", index);
        for key in ["identity_hash", "decision"] {
            record.insert(key, or_empty(payload.get(key)));
        }
        for key in ["enforcement", "evaluated", "applicable", "satisfied"] {
            record.insert(key, context.get(key).cloned().unwrap_or(Value::Null));
        }
        record.insert("reason", or_empty(context.get("reason")));
        let wrong: Vec<Value> = wrong.into_iter().map(Value::from).collect();
        errors.extend(wrong.iter().cloned());
        record.insert("errors", wrong);
        record.insert("valid", valid);
        record.insert("strength", STRENGTHS[strength]);
        if let Some(relationship) = relationship {
            record.insert("anchor_relationship", relationship);
        }
        records.push(Value::from(record));
    }
    let present = !records.is_empty();
    let mut step = Object::with_capacity(8);
    step.insert("passed", present && errors.is_empty());
    step.insert("skipped", !present);
    step.insert("present", present);
    step.insert("records", records);
    step.insert("strength", if present { STRENGTHS[weakest] } else { "none" });
    step.insert("errors", errors);
    if present {
        step.insert("anchor_binding", bound.name());
        let id = match bound {
            anchor::Binding::Bound(at) => events[at].get("event_id").cloned(),
            _ => None,
        };
        step.insert("anchor_event_id", id.unwrap_or_else(|| "".into()));
    }
    step
}

/// The policies of a bundle, found once for all records.
struct Policies<'a> {
    /// The first event of each id.
    events: HashMap<&'a str, &'a Value>,
    /// The types that the latest policy lists, or null.
    required: Option<&'a Value>,
    deal: Option<&'a Value>,
    /// The hashes of policies that were asked for.
    hashes: HashMap<*const Value, String>,
}

impl<'a> Policies<'a> {
    fn of(bundle: &'a Value) -> Self {
        let mut events = HashMap::new();
        for event in event::all(bundle) {
            if let Some(id) = event.get("event_id").and_then(Value::as_str) {
                events.entry(id).or_insert(event);
            }
        }
        let latest = designation(bundle);
        let required = latest
            .map(|(_, policy)| policy.get("required_signed_event_types").unwrap_or(&Value::Null));
        Self { events, required, deal: bundle.get("deal_id"), hashes: HashMap::new() }
    }
}

/// How strongly a record is proven, the weakest first.
const STRENGTHS: [&str; 4] = ["invalid", "unproven", "integrity_bound", "authenticated"];

/// Returns what is wrong with the context of a decision.
fn problems(
    policies: &mut Policies<'_>,
    event: &Value,
    payload: &Object,
    context: &Value,
) -> Vec<String> {
    let mut errors = Vec::new();
    let empty = Object::new();
    let object = context.as_object();
    if object.is_none() {
        errors.push(format!(
            "swarm_decision present but not an object ({}) — malformed, not absent",
            python::type_name(context)
        ));
    }
    let stated = object.unwrap_or(&empty);
    let version = stated.get("context_version").unwrap_or(&Value::Null);
    if version.as_str() != Some(VERSION) {
        let shown =
            if python::truthy(Some(version)) { python::text(version) } else { "none".to_owned() };
        errors.push(format!("unsupported swarm_decision context_version: {shown}"));
    }
    let enforcement = stated.get("enforcement").and_then(Value::as_str);
    if !matches!(enforcement, Some("on" | "off")) {
        errors.push("enforcement must be 'on' or 'off'".to_owned());
    }
    let evaluated = stated.get("evaluated").and_then(Value::as_bool);
    if evaluated.is_none() {
        errors.push("evaluated must be boolean".to_owned());
    }
    if object.is_some() {
        form(stated, &mut errors);
        contradictions(stated, enforcement, evaluated, &mut errors);
    }
    match payload.get("swarm_decision_digest").filter(|it| python::truthy(Some(it))) {
        None => errors.push("swarm_decision_digest missing".to_owned()),
        Some(claimed) => {
            let mut covered = Object::with_capacity(stated.len());
            covered.extend(
                stated
                    .iter()
                    .filter(|(name, _)| !matches!(*name, "recorded_at" | "event_id"))
                    .map(|(name, value)| (name.to_owned(), value.clone())),
            );
            let digest = Digest::of(to_canonical(&covered.into()).as_bytes()).to_string();
            if claimed.as_str() != Some(&digest) {
                errors.push("swarm_decision_digest mismatch".to_owned());
            }
        }
    }
    let differ = |one: Option<&Value>, two: Option<&Value>| {
        python::truthy(one) && python::truthy(two) && one != two
    };
    if differ(stated.get("identity_hash"), payload.get("identity_hash")) {
        errors.push("context identity_hash does not match its own event".to_owned());
    }
    if differ(event.get("deal_id"), policies.deal) {
        errors.push("event deal_id does not match the bundle".to_owned());
    }
    policy(policies, stated, &mut errors);
    errors
}

/// Finds what has not the form of the version.
fn form(stated: &Object, errors: &mut Vec<String>) {
    for key in ["applicable", "satisfied"] {
        match stated.get(key) {
            None => errors
                .push(format!("{key} missing — v1 requires the key (null when not evaluated)")),
            Some(Value::Null | Value::Bool(_)) => {}
            Some(_) => errors.push(format!("{key} must be boolean or null")),
        }
    }
    for key in ["reason", "checks_passed", "checks_failed"] {
        match stated.get(key) {
            None => errors.push(format!("{key} missing — required by v1")),
            Some(value) if key != "reason" && value.as_array().is_none() => {
                errors.push(format!("{key} must be a list"));
            }
            Some(_) => {}
        }
    }
}

/// Finds where a decision contradicts itself.
fn contradictions(
    stated: &Object,
    enforcement: Option<&str>,
    evaluated: Option<bool>,
    errors: &mut Vec<String>,
) {
    let null = |key: &str| stated.get(key).is_none_or(Value::is_null);
    let applicable = stated.get("applicable").and_then(Value::as_bool);
    let mut contradiction = |holds: bool, text: &str| {
        if holds {
            errors.push(format!("contradiction: {text}"));
        }
    };
    contradiction(
        enforcement == Some("off") && evaluated == Some(true),
        "enforcement off but evaluated true",
    );
    contradiction(
        evaluated == Some(true) && null("applicable"),
        "evaluated true but applicable is null",
    );
    contradiction(
        evaluated == Some(false) && !(null("applicable") && null("satisfied")),
        "not evaluated but applicable/satisfied stated",
    );
    contradiction(
        applicable == Some(false) && !null("satisfied"),
        "not applicable but satisfied stated",
    );
    contradiction(
        applicable == Some(true) && null("satisfied"),
        "applicable but satisfied is null",
    );
}

/// Holds what a decision says of its policy to that policy.
fn policy(policies: &mut Policies<'_>, stated: &Object, errors: &mut Vec<String>) {
    let types = stated.get("required_signed_event_types").filter(|it| it.as_array().is_some());
    let Some(id) = stated.get("policy_event_id").filter(|it| python::truthy(Some(it))) else {
        if stated.get("policy_hash").is_some_and(|it| python::truthy(Some(it))) {
            errors.push(
                "context policy_hash stated without policy_event_id — the policy it describes cannot be identified"
                    .to_owned(),
            );
        }
        if types.is_some_and(|types| policies.required.is_some_and(|it| !same_types(it, types))) {
            errors.push("context designation differs from signed designation".to_owned());
        }
        return;
    };
    let Some(named) = id.as_str().and_then(|id| policies.events.get(id).copied()) else {
        let id = to_repr(id);
        errors.push(format!("context policy_event_id {id} names no event in this bundle"));
        return;
    };
    let Some(policy) = event::payload(named)
        .and_then(|payload| payload.get("swarm_policy"))
        .filter(|policy| policy.as_object().is_some())
    else {
        errors.push("context policy_event_id names an event carrying no swarm_policy".to_owned());
        return;
    };
    let signed = policy.get("required_signed_event_types").unwrap_or(&Value::Null);
    if types.is_some_and(|types| !same_types(signed, types)) {
        errors.push("context designation differs from the designation it names".to_owned());
    }
    let version = stated.get("policy_version").filter(|it| python::truthy(Some(it)));
    if version.is_some() && version != policy.get("policy_version") {
        errors.push("context policy_version differs from the designation it names".to_owned());
    }
    let hash = stated.get("policy_hash").filter(|it| python::truthy(Some(it)));
    let Some(hash) = hash else { return };
    let real = policies
        .hashes
        .entry(std::ptr::from_ref(policy))
        .or_insert_with(|| Digest::of(to_canonical(policy).as_bytes()).to_string());
    if hash.as_str() != Some(real) {
        errors.push("context policy_hash does not match the swarm policy it names".to_owned());
    }
}
