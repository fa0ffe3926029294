//! The recorded scenarios of the Python router, run again: what is not decided otherwise is the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_router::digest::Digest;
use nexus_router::json;
use nexus_router::request::Request;
use nexus_router::{Adapter, Registry};
use serde_json::{Value, json as literal};

use super::{Bench, fake};
use crate::support::World;

/// Scenarios that come out differently, as decided, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("05-policy-denied", "a denial ends the run; the second step is skipped"),
    ("06-max-steps-dry", "a plan with too many steps executes nothing"),
    ("07-max-steps-apply", "a plan with too many steps executes nothing"),
    ("08-unknown-adapter", "the plan is recorded before the selection"),
    ("09-cap-missing-select", "the plan is recorded before the selection"),
    ("10-cap-missing-dispatch", "a denial ends the run; the second step is skipped"),
    ("11-op-error", "an operational error ends the run; the third step is skipped"),
    ("12-bug-error", "the step of a bug is completed, and the provenance recorded"),
    ("13-unknown-exception", "a panic has its own code, and no Python text"),
    ("14-permission-error", "an operational error ends the run; the second step is skipped"),
    ("18-bigints", "an adapter's JSON has no integers beyond 64 bits, so its echo has floats"),
    ("24-dup-steps", "a step id stands once in a plan"),
];

/// Scenarios that cannot be run here.
const NOT_RUN: &[(&str, &str)] = &[
    ("21-nan", "NaN and infinity are no JSON"),
    ("22-surrogates", "lone surrogates are no text"),
    ("23-interrupted", "the adapter ends the process; see the tests with kill -9"),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nexus/bundles")
}

fn bench(world: &Arc<World>, registry: &Value) -> Bench {
    let mut made = Registry::new(registry["default_adapter_id"].as_str().unwrap());
    for adapter in registry["adapters"].as_array().unwrap() {
        let kind = adapter["type"].as_str().unwrap();
        let adapter_id = adapter["adapter_id"].as_str().unwrap_or(kind);
        made.register(match kind {
            "null" => Adapter::null(),
            _ => {
                let mut config = adapter.clone();
                config["type"].take();
                fake(world, adapter_id, &config)
            }
        })
        .unwrap();
    }
    Bench::among(world, made)
}

/// Hides what is different in every run.
fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match key.as_str() {
                    "prov_id" | "duration_ms" => *member = literal!("masked"),
                    "artifact_id" if member.as_str().is_some_and(|id| id.starts_with("run:")) => {
                        *member = literal!("run:masked");
                    }
                    _ => mask(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// Says where `ours` lacks something of `theirs`. Payloads only ever gain members.
fn lacking(theirs: &Value, ours: &Value, place: &str) -> Option<String> {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => theirs.iter().find_map(|(key, value)| {
            let place = format!("{place}/{key}");
            match ours.get(key) {
                Some(ours) => lacking(value, ours, &place),
                None => Some(format!("{place} is missing")),
            }
        }),
        (theirs, ours) if theirs == ours => None,
        (theirs, ours) => Some(format!("{place}: {theirs} there, {ours} here")),
    }
}

/// Decided: the router does not put `adapter_id` into the output of an adapter. Puts the output of the adapter back
/// into a result or an event of the Python router: without the member, or with the adapter's own.
fn restore_output(scenario: &Value, result: &mut Value) {
    let output = result["output"].as_object_mut().unwrap();
    assert!(output.remove("adapter_id").is_some(), "{output:?}");
    let mut given = scenario["registry"].clone();
    while let Some(own) = take_own(&mut given) {
        let mut rest = own.clone();
        let adapter_id = rest.remove("adapter_id").unwrap();
        if rest == *output {
            output.insert("adapter_id".to_owned(), adapter_id);
            return;
        }
    }
}

/// Takes out an output with an `adapter_id` of its own that a scenario tells an adapter to return.
fn take_own(value: &mut Value) -> Option<serde_json::Map<String, Value>> {
    match value {
        Value::Object(members) => {
            let own = members.get("return").and_then(Value::as_object).cloned();
            match own.filter(|own| own.contains_key("adapter_id")) {
                Some(own) => members.remove("return").map(|_| own),
                None => members.values_mut().find_map(take_own),
            }
        }
        Value::Array(items) => items.iter_mut().find_map(take_own),
        _ => None,
    }
}

fn replace(value: &mut Value, before: &str, after: &str) {
    match value {
        Value::String(text) if text == before => after.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, before, after)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| replace(member, before, after));
        }
        _ => {}
    }
}

/// Restores the outputs in the response and the events of the Python router. Its digest of request and results covers
/// them, so the digest is checked as recorded and then replaced.
fn restore_outputs(scenario: &json::Value, expected: &mut Value, bundle: &mut Value) {
    let digest = |results: &Value| {
        let mut covered = json::Object::new();
        covered.insert("request", scenario.get("request").unwrap().clone());
        covered.insert("results", json::Value::from(results));
        Digest::of(json::to_canonical(&covered.into()).as_bytes()).to_string()
    };
    let given = scenario.to_serde();
    let before = expected["response"]["results"].clone();
    let results = expected["response"]["results"].as_array_mut().into_iter().flatten();
    for result in results.filter(|it| it["status"] == "ok" && it["simulated"] != true) {
        restore_output(&given, result);
    }
    for event in bundle["events"].as_array_mut().into_iter().flatten() {
        if event["type"] == "TOOL_CALL_SUCCEEDED" && event["payload"]["simulated"] != true {
            restore_output(&given, &mut event["payload"]);
        }
    }
    let after = expected["response"]["results"].clone();
    if before == after {
        return;
    }
    let (before, after) = (digest(&before), digest(&after));
    for document in [expected, bundle] {
        // A digest that is not theirs stays as it is, and then differs from ours.
        replace(document, &before, &after);
    }
}

/// Compares a scenario's events with ours; the first difference is returned.
fn difference(case: &Path, world: &Arc<World>) -> Option<String> {
    let read = |name: &str| {
        let text = std::fs::read(case.join(name)).unwrap();
        json::parse(&text, json::Limits::BUNDLE).unwrap()
    };
    let scenario = read("scenario.json");
    let (mut expected, mut bundle) =
        (read("expected.json").to_serde(), read("bundle.json").to_serde());
    restore_outputs(&scenario, &mut expected, &mut bundle);
    let request = scenario.get("request").unwrap().clone();
    let scenario = scenario.to_serde();
    let request = match Request::read(request) {
        Ok(request) => request,
        Err(error) => return Some(error.to_string()),
    };
    let bench = bench(world, &scenario["registry"]);
    let answer = bench.router.run_blocking(request);
    let run_id = match &answer {
        Ok(outcome) => outcome.run_id.clone(),
        Err(error) => error.run_id().unwrap().to_owned(),
    };
    let mut theirs: Vec<(String, Value)> = bundle["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["type"].as_str().unwrap().to_owned(), event["payload"].clone()))
        .collect();
    // Decided: the plan is recorded before the selection.
    if theirs.len() > 2 {
        theirs.swap(1, 2);
    }
    let ours = bench.events(&run_id);
    let kinds = |events: &[(String, Value)]| {
        events.iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>().join(" ")
    };
    if kinds(&theirs) != kinds(&ours) {
        return Some(format!("{} there, {} here", kinds(&theirs), kinds(&ours)));
    }
    for ((kind, mut theirs), (_, mut ours)) in theirs.into_iter().zip(ours) {
        mask(&mut theirs);
        mask(&mut ours);
        if kind == "TOOL_CALL_SUCCEEDED" && theirs["output"] != ours["output"] {
            return Some(format!("{} there, {} here", theirs["output"], ours["output"]));
        }
        if let Some(difference) = lacking(&theirs, &ours, &kind) {
            return Some(difference);
        }
    }
    let (mut theirs, mut ours) =
        (expected["response"].clone(), nexus_router::router::response(&answer).to_serde());
    for response in [&mut theirs, &mut ours] {
        mask(response);
        response["run"]["run_id"].take();
    }
    lacking(&theirs, &ours, "response")
}

#[test]
fn scenarios_come_out_as_recorded_or_as_decided() {
    let world = Arc::new(World::new());
    let (mut same, mut different) = (0, 0);
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for case in cases.iter().filter(|case| case.join("scenario.json").exists()) {
        let name = case.file_name().unwrap().to_str().unwrap();
        if NOT_RUN.iter().any(|(listed, _)| *listed == name) {
            continue;
        }
        let listed = DIFFERENT.iter().find(|(listed, _)| *listed == name);
        match (difference(case, &world), listed) {
            (None, None) => same += 1,
            (Some(_), Some(_)) => different += 1,
            (Some(difference), None) => panic!("{name}: {difference}"),
            (None, Some((_, why))) => panic!("{name} is no longer different: {why}"),
        }
    }
    assert_eq!((same, different), (10, DIFFERENT.len()));
}
