//! Evaluations of adapters, checked again from the declarations that a bundle embeds.

use std::collections::HashSet;

use super::{event, policy, python};
use crate::json::{Object, Value};
use crate::signal::{Wording, contract_hash, input_schema_hash, shape};

/// The five checks of an evaluation, in the order in which the first that fails is told.
pub(super) const CHECKS: [&str; 5] = [
    "adapter_contract_schema_status",
    "contract_hash_status",
    "input_schema_hash_status",
    "normalized_policy_inputs_status",
    "adapter_validator_status",
];

const LEGACY: &str = "legacy_no_adapter";
const MALFORMED: &str = "adapter_evaluation_shape_invalid";

/// Returns what is wrong with the form of a declaration, in the words of the verifier.
#[must_use]
pub fn schema(declaration: &Value) -> Vec<String> {
    match declaration.as_object() {
        None => vec!["declaration is not a JSON object".to_owned()],
        Some(declaration) => {
            let findings = shape(declaration, Wording::Verifier);
            findings.into_iter().map(|finding| finding.message).collect()
        }
    }
}

/// Checks an evaluation against the declaration that it embeds.
#[must_use]
pub fn evaluation(evaluation: &Value) -> Object {
    let mut checked = Object::with_capacity(9);
    for check in CHECKS {
        checked.insert(check, LEGACY);
    }
    let (mut errors, mut details) = (Vec::new(), Object::new());
    if !python::truthy(evaluation.get("adapter_id")) {
        checked.insert(CHECKS[0], MALFORMED);
    } else if let Some(whole) = evaluation.get("adapter_contract")
        && let Some(declaration) = whole.as_object()
    {
        errors = schema(whole);
        if errors.is_empty() {
            hashes(evaluation, declaration, &mut checked, &mut details);
            inputs(evaluation, declaration, &mut checked, &mut details);
        } else {
            let statuses = [
                "schema_fail",
                "contract_hash_mismatch",
                "input_schema_hash_mismatch",
                MALFORMED,
                MALFORMED,
            ];
            for (check, status) in CHECKS.into_iter().zip(statuses) {
                checked.insert(check, status);
            }
        }
    }
    checked.insert("schema_errors", errors.into_iter().map(Value::from).collect::<Vec<Value>>());
    checked.insert("details", details);
    checked
}

fn hashes(evaluation: &Value, declaration: &Object, checked: &mut Object, details: &mut Object) {
    checked.insert(CHECKS[0], "ok");
    let recomputed = [contract_hash(declaration), input_schema_hash(declaration)];
    for ((key, check), recomputed) in ["contract_hash", "input_schema_hash"]
        .into_iter()
        .zip([CHECKS[1], CHECKS[2]])
        .zip(recomputed)
    {
        let expected = evaluation.get(key).cloned().unwrap_or(Value::Null);
        let recomputed: Value = recomputed.ok().into();
        if expected == recomputed {
            checked.insert(check, "ok");
        } else {
            checked.insert(check, format!("{key}_mismatch"));
            details.insert(format!("expected_{key}"), expected);
            details.insert(format!("recomputed_{key}"), recomputed);
        }
    }
}

fn inputs(evaluation: &Value, declaration: &Object, checked: &mut Object, details: &mut Object) {
    let given = evaluation.get("normalized_policy_inputs");
    let names: Vec<&str> = match given {
        Some(Value::Object(inputs)) => inputs.keys().collect(),
        other if !python::truthy(other) => Vec::new(),
        _ => {
            // Inputs without names are in no list of those that may enter a policy.
            checked.insert(CHECKS[3], MALFORMED);
            checked.insert(CHECKS[4], MALFORMED);
            return;
        }
    };
    let allowed: HashSet<&str> = declaration
        .get("allowed_policy_fields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut leaked: Vec<&str> =
        names.iter().copied().filter(|name| !allowed.contains(name)).collect();
    if leaked.is_empty() {
        checked.insert(CHECKS[3], "ok");
    } else {
        leaked.sort_unstable();
        checked.insert(CHECKS[3], "normalized_inputs_not_in_allowed_policy_fields");
        details
            .insert("leaked_fields", leaked.into_iter().map(Value::from).collect::<Vec<Value>>());
    }
    let result = evaluation.get("validation_result").and_then(Value::as_str);
    let refused = matches!(result, Some("rejected" | "unknown_adapter"));
    let status = if refused && !names.is_empty() { "validator_result_inconsistent" } else { "ok" };
    checked.insert(CHECKS[4], status);
}

/// Says whether a check of an evaluation failed.
pub(super) fn fails(checked: &Object) -> bool {
    first_failure(checked, &CHECKS).is_some()
}

/// Returns the first status that is a failure.
fn first_failure<'a>(checked: &'a Object, keys: &[&str]) -> Option<&'a str> {
    let statuses = keys.iter().filter_map(|key| checked.get(key)?.as_str());
    statuses.into_iter().find(|status| !matches!(*status, "ok" | LEGACY | policy::UNAVAILABLE))
}

/// Returns the evaluation of a proof, whatever it is.
pub(super) fn of_proof(proof: &Value) -> Option<&Value> {
    proof.get("evidence")?.get("adapter_evaluation")
}

/// Returns the proofs of a bundle; what is no list has none.
pub(super) fn proofs(bundle: &Value) -> &[Value] {
    bundle.get("proofs").and_then(Value::as_array).unwrap_or_default()
}

/// Checks every evaluation of a bundle, and makes every policy decision again.
#[must_use]
pub fn bundle(bundle: &Value) -> Object {
    let mut failed: Option<String> = None;
    let mut note = |status: &Object, keys: &[&str]| {
        if failed.is_none() {
            failed = first_failure(status, keys).map(str::to_owned);
        }
    };
    let mut per_proof = Vec::new();
    for (index, proof) in proofs(bundle).iter().enumerate() {
        let Some(given) = of_proof(proof).filter(|it| it.as_object().is_some()) else { continue };
        let mut checked = evaluation(given);
        note(&checked, &CHECKS);
        checked.insert("proof_index", index);
        checked.insert("adapter_id", given.get("adapter_id").cloned().unwrap_or_else(|| "".into()));
        per_proof.push(Value::from(checked));
    }
    let (mut per_event, mut snapshots, mut evaluations) = (Vec::new(), 0_usize, per_proof.len());
    for (index, event) in event::all(bundle).iter().enumerate() {
        let part =
            |key: &str| event::payload(event)?.get(key).filter(|value| value.as_object().is_some());
        let (given, snapshot) = (part("adapter_evaluation"), part("policy_snapshot"));
        if given.is_none() && snapshot.is_none() {
            continue;
        }
        let mut told = Object::with_capacity(4);
        told.insert("event_index", index);
        told.insert("event_type", event.get("event_type").cloned().unwrap_or_else(|| "".into()));
        let checked = given.map(evaluation);
        let replayed = snapshot.map(policy::replay);
        snapshots += usize::from(replayed.is_some());
        evaluations += usize::from(checked.is_some());
        if let Some(replayed) = &replayed {
            note(replayed, &["status"]);
        }
        if let Some(checked) = checked {
            note(&checked, &CHECKS);
            told.insert("adapter_evaluation", checked);
        }
        if let Some(replayed) = replayed {
            told.insert("policy_replay", replayed);
        }
        per_event.push(Value::from(told));
    }
    let legacy = evaluations == 0;
    let failed = failed.filter(|_| !legacy);
    let mut rolled = Object::with_capacity(7);
    rolled.insert(
        "adapter_replay_status",
        failed.clone().unwrap_or_else(|| if legacy { LEGACY } else { "ok" }.to_owned()),
    );
    rolled.insert("proofs_with_adapter", per_proof.len());
    rolled.insert("events_with_policy_snapshot", snapshots);
    rolled.insert("per_proof", per_proof);
    rolled.insert("per_event", per_event);
    rolled.insert("passed", failed.is_none());
    rolled.insert("skipped", legacy);
    rolled
}

/// Returns the step that a report has of this; none if there is nothing to tell.
pub(super) fn step(whole: &Value) -> Option<Object> {
    let mut rolled = bundle(whole);
    let told = ["per_proof", "per_event"]
        .into_iter()
        .any(|key| rolled.get(key).and_then(Value::as_array).is_some_and(|it| !it.is_empty()));
    if !told {
        return None;
    }
    let mut step = Object::with_capacity(7);
    for (to, from) in [
        ("passed", "passed"),
        ("skipped", "skipped"),
        ("status", "adapter_replay_status"),
        ("proofs_with_adapter", "proofs_with_adapter"),
        ("events_with_policy_snapshot", "events_with_policy_snapshot"),
        ("per_proof", "per_proof"),
        ("per_event", "per_event"),
    ] {
        step.insert(to, rolled.remove(from).unwrap_or(Value::Null));
    }
    Some(step)
}
