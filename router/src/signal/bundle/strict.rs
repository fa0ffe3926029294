//! What can be judged of any bundle and the AiGentsy verifier passes over: evaluations that do not fit the declarations
//! that they embed, and parts of the bundle that do not belong together.

use super::coverage::late_events;
use super::{event, policy, python, replay};
use crate::json::{Object, Value, to_compact};
use crate::signal::{Finding, ValidationResult, Validator, contract_hash, input_schema_hash};

/// Says whether the inputs of a policy are what the validator of a declaration gives; none if it is not known here.
#[must_use]
pub fn values_fit(declaration: &Object, inputs: &Object) -> Option<bool> {
    let validator = Validator::of(declaration).ok()?;
    Some(inputs.iter().all(|(field, value)| validator.check_value(field, value).is_none()))
}

/// What other steps have told already, so that it is not told again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// That the chain of events is broken.
    pub chain: bool,
    /// That the anchor does not hold.
    pub anchor: bool,
    /// That evaluations or decisions do not replay.
    pub replay: bool,
}

/// Returns what is wrong with a bundle, whoever made it.
pub(super) fn findings(bundle: &Value, told: Told) -> Vec<Finding> {
    let mut findings = Vec::new();
    if bundle.as_object().is_none() {
        let message = format!("the bundle is {}, and no object", bundle.type_name());
        findings.push(Finding::error("", message));
        return findings;
    }
    if let Some(proofs) = bundle.get("proofs").filter(|proofs| proofs.as_array().is_none()) {
        let message = format!("the proofs are {}, and no array", proofs.type_name());
        findings.push(Finding::error("/proofs", message));
    }
    if !told.chain {
        deals(bundle, &mut findings);
    }
    if !told.anchor {
        anchored(bundle, &mut findings);
    }
    for (index, proof) in replay::proofs(bundle).iter().enumerate() {
        if proof.as_object().is_none() {
            let message = format!("the proof is {}, and no object", proof.type_name());
            findings.push(Finding::error(format!("/proofs/{index}"), message));
        }
        if let Some(evaluation) = replay::of_proof(proof) {
            let pointer = format!("/proofs/{index}/evidence/adapter_evaluation");
            evaluated(evaluation, &pointer, &mut findings);
        }
    }
    for (index, event) in event::all(bundle).iter().enumerate() {
        let Some(payload) = event::payload(event) else { continue };
        if let Some(evaluation) = payload.get("adapter_evaluation") {
            let pointer = format!("/events/{index}/payload/adapter_evaluation");
            evaluated(evaluation, &pointer, &mut findings);
        }
        if let Some(snapshot) = payload.get("policy_snapshot")
            && !snapshot.is_null()
            && !told.replay
        {
            decided(snapshot, &format!("/events/{index}/payload/policy_snapshot"), &mut findings);
        }
    }
    findings
}

/// Holds each event to the deal of the bundle.
fn deals(bundle: &Value, findings: &mut Vec<Finding>) {
    let deal = bundle.get("deal_id");
    let shown = |value: Option<&Value>| {
        let text = value.map_or_else(|| "none".to_owned(), to_compact);
        text.chars().take(80).collect::<String>()
    };
    for (index, event) in event::all(bundle).iter().enumerate() {
        let other = event.get("deal_id");
        if event.as_object().is_some() && other != deal {
            let message =
                format!("the event is of deal {}, and the bundle of {}", shown(other), shown(deal));
            findings.push(Finding::error(format!("/events/{index}/deal_id"), message));
        }
    }
}

/// Holds the anchor to the events and to the head.
fn anchored(bundle: &Value, findings: &mut Vec<Finding>) {
    let block = bundle.get("merkle_inclusion").filter(|it| python::truthy(Some(it)));
    let head = bundle.get("signed_tree_head").filter(|it| python::truthy(Some(it)));
    let Some((block, head)) = block.zip(head) else { return };
    let (of_proof, of_head) = (block.get("tree_size"), head.get("tree_size"));
    if of_proof.is_some() && of_proof != of_head {
        let shown = |size: Option<&Value>| size.map_or_else(|| "none".to_owned(), to_compact);
        let message = format!(
            "the tree head is of {} leaves, and the proof of inclusion for {}",
            shown(of_head),
            shown(of_proof)
        );
        findings.push(Finding::error("/signed_tree_head/tree_size", message));
    }
    findings.extend(late_events(bundle));
}

/// Holds an evaluation to the declaration that it embeds.
fn evaluated(evaluation: &Value, pointer: &str, findings: &mut Vec<Finding>) {
    let mut find = |key: &str, message: String| {
        let pointer = if key.is_empty() { pointer.to_owned() } else { format!("{pointer}/{key}") };
        findings.push(Finding::error(pointer, message));
    };
    if evaluation.is_null() {
        return;
    }
    let Some(object) = evaluation.as_object() else {
        return find("", format!("the evaluation is {}, and no object", evaluation.type_name()));
    };
    if replay::fails(&replay::evaluation(evaluation)) {
        return;
    }
    let result = object.get("validation_result").and_then(Value::as_str);
    let results = ValidationResult::ALL.map(ValidationResult::name);
    if !result.is_some_and(|result| results.contains(&result)) {
        let words = results.join(", ");
        find("validation_result", format!("the result is none of {words}"));
    }
    let inputs = object.get("normalized_policy_inputs");
    let Some(declaration) = object.get("adapter_contract").and_then(Value::as_object) else {
        // An adapter that nobody knows has no declaration, and nothing of it enters a policy.
        if result != Some("unknown_adapter") || python::truthy(inputs) {
            let message =
                "no declaration is embedded, so nothing shows what the evaluation was held to";
            find("adapter_contract", message.to_owned());
        }
        return;
    };
    for key in ["adapter_id", "adapter_version"] {
        let (stated, declared) = (object.get(key), declaration.get(key));
        if stated != declared {
            let shown = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), to_compact);
            let (stated, declared) = (shown(stated), shown(declared));
            find(key, format!("{key} is {stated}, and {declared} in the embedded declaration"));
        }
    }
    let hashes = [contract_hash(declaration), input_schema_hash(declaration)];
    for (key, hash) in ["contract_hash", "input_schema_hash"].into_iter().zip(hashes) {
        let declared = declaration.get(key).and_then(Value::as_str);
        if hash.as_deref().ok() != declared {
            let message = format!("the embedded declaration does not have the {key} that it says");
            find(&format!("adapter_contract/{key}"), message);
        }
    }
    if let Some(inputs) = inputs.and_then(Value::as_object)
        && values_fit(declaration, inputs) == Some(false)
    {
        let message = "values are not what the validator of the declaration gives".to_owned();
        find("normalized_policy_inputs", message);
    }
}

/// Makes a policy decision again, also where there is no evaluation.
fn decided(snapshot: &Value, pointer: &str, findings: &mut Vec<Finding>) {
    let replayed = policy::replay(snapshot);
    let status = replayed.get("status").and_then(Value::as_str).unwrap_or_default();
    if !matches!(status, "ok" | policy::UNAVAILABLE) {
        findings.push(Finding::error(pointer, format!("the decision does not replay: {status}")));
    }
}
