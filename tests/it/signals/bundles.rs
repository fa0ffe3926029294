//! Proof bundles: made, verified, and tampered with.

mod exported;
mod hostile;
mod logs;
mod mutations;
mod recorded;
mod weak_points;

use std::path::Path;

use nexus_router::Digest;
use nexus_router::json::{Limits, Object, Value, parse, to_canonical, to_indented};
use nexus_router::key::{PublicKey, SigningKey};
use nexus_router::signal::bundle::{self, Draft, Event, Log, Options, Report};
use nexus_router::signal::{contract_hash, input_schema_hash};

use super::transcript::{Exception, golden, play};

/// Reads a value.
fn value(text: &str) -> Value {
    parse(text.as_bytes(), Limits::BUNDLE).unwrap()
}

/// Makes a key.
fn make_key() -> SigningKey {
    let directory = tempfile::tempdir().unwrap();
    SigningKey::create(&directory.path().join("key.pem")).unwrap()
}

/// Writes the public part of a key as the AiGentsy tools read it.
fn write_public(path: &Path, key: &PublicKey) {
    let text = key.to_string().replace("ed25519:", "");
    std::fs::write(path, format!(r#"{{"public_key_base64": "{text}"}}"#)).unwrap();
}

fn write(path: &Path, bundle: &Value) {
    std::fs::write(path, to_indented(bundle)).unwrap();
}

/// Returns a declaration with its hashes.
fn declaration() -> Object {
    let text = r#"{
        "adapter_contract_version": "1.0.0", "adapter_id": "acme.eval_suite.v0", "adapter_version": "1.0.0",
        "input_schema_version": "1.0.0", "output_fields": ["all_tests_passed", "coverage_met"],
        "allowed_policy_fields": ["all_tests_passed", "coverage_met"],
        "validator_name": "starter_boolean_validator", "validator_version": "1.0.0"}"#;
    let mut declaration = value(text).into_object().unwrap();
    let hashes = [contract_hash(&declaration), input_schema_hash(&declaration)];
    for (key, hash) in ["contract_hash", "input_schema_hash"].into_iter().zip(hashes) {
        declaration.insert(key, hash.unwrap());
    }
    declaration
}

/// Returns an evaluation that passed.
fn evaluation() -> Object {
    let declaration = declaration();
    let mut evaluation = Object::new();
    for key in ["adapter_id", "adapter_version", "contract_hash", "input_schema_hash"] {
        evaluation.insert(key, declaration.get(key).unwrap().clone());
    }
    let inputs = value(r#"{"all_tests_passed": true, "coverage_met": false}"#);
    for key in ["input_hash", "output_hash"] {
        evaluation.insert(key, Digest::of(to_canonical(&inputs).as_bytes()).to_string());
    }
    evaluation.insert("validation_result", "passed");
    evaluation.insert("normalized_policy_inputs", inputs);
    evaluation.insert("rejected_fields", Vec::new());
    evaluation.insert("lifecycle_warnings", Vec::new());
    evaluation.insert("evaluated_at", "2026-06-10T00:00:00Z");
    evaluation.insert("adapter_contract", declaration);
    evaluation
}

/// Returns what a bundle of a run with so many evaluations is made of.
fn draft(run: &str, evaluations: usize) -> Draft {
    let snapshot = value(
        r#"{"matched_rule": {"conditions": [{"field": "coverage_met", "op": "==", "value": false}],
            "action": "auto_reject"}, "rule_index": 1,
            "evaluated_inputs": {"coverage_met": {"value": false, "source": "adapter"}}}"#,
    );
    let (mut proofs, mut events) = (Vec::new(), Vec::new());
    for number in 0..evaluations {
        let mut evidence = Object::new();
        evidence.insert("adapter_evaluation", evaluation());
        let mut proof = Object::new();
        proof.insert("id", format!("p{number}"));
        proof.insert("evidence", evidence);
        proofs.push(Value::from(proof));
        let mut payload = Object::new();
        payload.insert("step_id", format!("s{number}"));
        payload.insert("policy_snapshot", snapshot.clone());
        events.push(Event {
            id: format!("{run}/{number}"),
            kind: "SIGNALS_EVALUATED".to_owned(),
            actor: "nexus-router".to_owned(),
            timestamp: format!("2026-06-10T10:0{number}:00.000Z"),
            payload,
        });
    }
    Draft {
        deal_id: run.to_owned(),
        proofs,
        events,
        sealer: "nexus-router".to_owned(),
        sealed_at: "2026-06-10T11:00:00.000Z".to_owned(),
    }
}

/// Makes bundles of so many evaluations each, in one log.
fn bundles(key: &SigningKey, evaluations: &[usize]) -> Vec<Value> {
    let mut log = Log::in_memory();
    let make = |(number, evaluations): (usize, &usize)| {
        let draft = draft(&format!("run_{number}"), *evaluations);
        bundle::build(draft, &mut log, key).unwrap().into()
    };
    evaluations.iter().enumerate().map(make).collect()
}

/// Makes one bundle, which is the third of its log.
fn one(key: &SigningKey) -> Value {
    bundles(key, &[1, 0, 2]).pop().unwrap()
}

/// Computes the hash of a bundle anew, as anyone can who changed it.
fn rehashed(mut bundle: Value) -> Value {
    let hash = bundle::hash(&bundle);
    if let Value::Object(object) = &mut bundle {
        object.insert("bundle_hash", hash);
    }
    bundle
}

fn verify(bundle: &Value, key: Option<&PublicKey>) -> Report {
    bundle::verify(bundle, &Options { key, ..Options::default() })
}

/// Returns the findings of a step.
fn findings(report: &Report, step: &str) -> Vec<String> {
    let value = Value::from(report.value.clone());
    let found = value.pointer(&format!("/steps/{step}/findings")).and_then(Value::as_array);
    let text = |finding: &Value| {
        let part = |key: &str| finding.get(key).unwrap().as_str().unwrap();
        format!("{}: {}", part("pointer"), part("message"))
    };
    found.unwrap_or_default().iter().map(text).collect()
}

/// Puts a value where a pointer leads.
fn set(bundle: &mut Value, pointer: &str, value: impl Into<Value>) {
    *at(bundle, pointer) = value.into();
}

/// Returns the value to which a pointer leads, to be changed.
fn at<'a>(bundle: &'a mut Value, pointer: &str) -> &'a mut Value {
    let mut value = bundle;
    for token in pointer.split('/').skip(1) {
        value = match value {
            Value::Object(object) => object.get_mut(token).unwrap(),
            Value::Array(items) => &mut items[token.parse::<usize>().unwrap()],
            _ => panic!("{pointer} leads nowhere"),
        };
    }
    value
}
