//! Fields held to signal contracts, acceptance policies, and runs that carry both.

mod daemon;
mod proved;
mod recovery;
mod runs;
mod verb;

use std::fs;
use std::path::Path;

use nexus_router::json::{Limits, Object, Value as Json, parse, to_pretty};
use nexus_router::signal::{contract_hash, input_schema_hash, types};
use serde_json::{Value, json};

use crate::support::{Run, World};

/// Returns a contract with its hashes; one with types gets the validator that is bound to them.
fn contract(id: &str, version: &str, fields: &Value, more: &Value) -> String {
    let mut whole = json!({ "adapter_contract_version": "1.0.0", "adapter_id": id, "adapter_version": version,
        "input_schema_version": "1.0.0", "validator_name": "starter_boolean_validator", "validator_version": "1.0.0" });
    let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
    let typed = fields.as_object().unwrap().values().any(|it| it["type"] != "boolean");
    whole["output_fields"] = json!(names);
    whole["allowed_policy_fields"] = json!(names);
    for (key, value) in more.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let text = whole.to_string();
    let mut declaration: Object =
        parse(text.as_bytes(), Limits::REQUEST).unwrap().into_object().unwrap();
    if typed {
        let fields = parse(fields.to_string().as_bytes(), Limits::REQUEST).unwrap();
        declaration.insert("validator_name", types::validator_name(&fields));
        declaration.insert("field_types", fields);
    }
    let hashes = (input_schema_hash(&declaration).unwrap(), contract_hash(&declaration).unwrap());
    declaration.insert("input_schema_hash", hashes.0);
    declaration.insert("contract_hash", hashes.1);
    to_pretty(&Json::Object(declaration))
}

/// Returns the fields of a contract all of which are booleans.
fn booleans(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!({ "type": "boolean" }))).collect()
}

/// A policy that accepts what is green, and rejects what is red.
fn policy() -> Value {
    json!({ "policy_id": "ci", "rules": [
        { "name": "red", "conditions": [{ "field": "all_tests_passed", "op": "==", "value": false }],
            "action": "auto_reject" },
        { "name": "green", "conditions": [
            { "field": "all_tests_passed", "op": "==", "value": true },
            { "field": "lint_clean", "op": "==", "value": true }], "action": "auto_accept" }] })
}

/// The contract that most tests use, which is part of the program.
const CI_GATE: &str = "nexus_router.examples.ci_gate";

fn green() -> Value {
    json!({ "all_tests_passed": true, "coverage_met": true, "lint_clean": true })
}

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs a line of words.
fn line(world: &World, line: &str) -> Run {
    world.run(&line.split(' ').collect::<Vec<_>>())
}
