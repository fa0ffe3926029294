//! The published schemas, judged by a validator that is not ours, against the readers and the golden data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use boon::{Compiler, SchemaIndex, Schemas};
use proptest::prelude::*;

use super::*;
use crate::event::Kind;
use crate::json::{self, Limits, Object, Value};
use crate::request::{self, ExportRequest, ImportRequest, InspectRequest, ReplayRequest, Request};

/// Bundles that no strict reader of JSON takes, or that are made to be refused.
const REFUSED_BUNDLES: &[(&str, &str)] = &[
    ("21-nan", "NaN is no JSON"),
    ("22-surrogates", "a lone surrogate is no text"),
    ("26-respelled-floats", "a key that stands twice"),
    ("27-respelled-unicode", "a key that stands twice"),
    ("28-respelled-bigints", "a key that stands twice"),
    ("38-tampered-missing-ts", "an event without ts"),
    ("39-tampered-missing-goal", "a run without goal"),
    ("40-tampered-no-sha256", "no digest"),
    ("41-tampered-digest-upper", "a digest in upper case"),
    ("42-tampered-uncovered", "another version, and a provenance that is none"),
];

/// Bundles with events that nobody wrote.
const FORGED_EVENTS: &[(&str, &str)] =
    &[("37-tampered-step-order", "a STEP_COMPLETED without status, made by hand")];

struct Judge {
    schemas: Schemas,
    compiled: BTreeMap<&'static str, SchemaIndex>,
}

impl Judge {
    fn new() -> Self {
        let mut compiler = Compiler::new();
        let mut schemas = Schemas::new();
        let mut compiled = BTreeMap::new();
        for schema in SCHEMAS {
            let value = serde_json::from_str(schema.text).unwrap();
            let place = format!("https://schemas.invalid/{}", schema.name);
            compiler.add_resource(&place, value).unwrap();
            compiled.insert(schema.name, compiler.compile(&place, &mut schemas).unwrap());
        }
        Self { schemas, compiled }
    }

    fn accepts(&self, schema: &str, value: &Value) -> bool {
        self.schemas.validate(&value.to_serde(), self.compiled[schema]).is_ok()
    }

    #[track_caller]
    fn must_accept(&self, schema: &str, value: &Value) {
        let value = value.to_serde();
        if let Err(error) = self.schemas.validate(&value, self.compiled[schema]) {
            panic!("{schema} refuses {value}: {error}");
        }
    }
}

fn golden(file: &str) -> String {
    std::fs::read_to_string(golden_path(file)).unwrap()
}

fn golden_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nexus").join(file)
}

fn read(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::BUNDLE).unwrap()
}

fn reader_says(schema: &str, value: Value) -> Result<(), request::Error> {
    match schema {
        "nexus-router.run.request.v0.7" => Request::read(value).map(drop),
        "nexus-router.inspect.request.v0.2" => InspectRequest::read(value).map(drop),
        "nexus-router.replay.request.v0.2" => ReplayRequest::read(value).map(drop),
        "nexus-router.export.request.v0.3" => ExportRequest::read(value).map(drop),
        "nexus-router.import.request.v0.3" => ImportRequest::read(value).map(drop),
        other => panic!("{other} has no reader"),
    }
}

#[test]
fn schemas_are_what_they_are_called() {
    let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for schema in SCHEMAS {
        let value = read(schema.text);
        let member = |key: &str| value.get(key).and_then(Value::as_str).unwrap();
        assert_eq!(member("title"), schema.about, "{}", schema.name);
        assert_eq!(member("$id"), schema.name.replacen("nexus-router.", "urn:nexus-router:", 1));
        assert_eq!(member("$schema"), "http://json-schema.org/draft-07/schema#");
        let file = format!("{}.json", schema.name);
        files.retain(|other| *other != file);
        let short = schema.name.strip_prefix("nexus-router.").unwrap();
        assert_eq!(find(short).map(|it| it.name), find(schema.name).map(|it| it.name));
    }
    assert_eq!(files, Vec::<String>::new(), "schemas that are not published");
    assert!(find("run.request").is_none() && find("").is_none());
    assert_eq!(near("run.reqest.v0.7").first(), Some(&"nexus-router.run.request.v0.7"));
}

#[test]
fn requests_are_judged_as_by_the_python_router() {
    let judge = Judge::new();
    let mut count = 0;
    for line in golden("schema.jsonl").lines() {
        let case = read(line);
        let schema = case.get("schema").and_then(Value::as_str).unwrap();
        let instance = case.get("instance").unwrap();
        let valid = case.get("valid").and_then(Value::as_bool).unwrap();
        assert_eq!(reader_says(schema, instance.clone()).is_ok(), valid, "reader: {line}");
        assert_eq!(judge.accepts(schema, instance), valid, "schema: {line}");
        count += 1;
    }
    assert_eq!(count, 66);
}

#[test]
fn golden_responses_fit_their_schemas() {
    let judge = Judge::new();
    let list = |file: &str| match read(&golden(file)) {
        Value::Array(items) => items,
        other => panic!("{other:?}"),
    };
    for case in list("inspect.json") {
        judge.must_accept("nexus-router.inspect.response.v0.2", case.get("response").unwrap());
    }
    for case in list("replay.json") {
        for strictness in ["strict", "lenient"] {
            let response = case.get(strictness).unwrap();
            judge.must_accept("nexus-router.replay.response.v0.2", response);
        }
    }
    for case in list("import_sequences.json") {
        for step in case.get("steps").and_then(Value::as_array).unwrap() {
            let response = step.get("result").unwrap();
            judge.must_accept("nexus-router.import.response.v0.3", response);
        }
    }
}

#[test]
fn golden_bundles_and_their_events_fit_their_schemas() {
    let judge = Judge::new();
    let (mut refused, mut forged) = (Vec::new(), Vec::new());
    let mut count = 0;
    for entry in std::fs::read_dir(golden_path("bundles")).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap().to_owned();
        let text = std::fs::read_to_string(directory.join("bundle.json")).unwrap();
        let bundle = json::parse(text.as_bytes(), Limits::BUNDLE).ok();
        let fits = |bundle: &Value| judge.accepts("nexus-router.bundle.v0.3", bundle);
        let Some(bundle) = bundle.filter(fits) else {
            refused.push(name);
            continue;
        };
        let events = bundle.get("events").and_then(Value::as_array).unwrap();
        count += events.len();
        if !events.iter().all(|event| judge.accepts("nexus-router.event.v1", event)) {
            forged.push(name);
        }
        let mut response = Object::new();
        response.insert("ok", true);
        response.insert("artifact", bundle.clone());
        judge.must_accept("nexus-router.export.response.v0.3", &response.into());
        let mut request = Object::new();
        request.insert("db_path", "x");
        request.insert("bundle", bundle);
        judge.must_accept("nexus-router.import.request.v0.3", &request.into());
    }
    refused.sort();
    let names = |list: &[(&'static str, &str)]| -> Vec<&str> {
        list.iter().map(|(name, _)| *name).collect()
    };
    assert_eq!(refused, names(REFUSED_BUNDLES));
    assert_eq!(forged, names(FORGED_EVENTS));
    assert!(count > 1000, "{count} events");
}

#[test]
fn the_schema_of_events_knows_every_kind() {
    let schema = read(find("event.v1").unwrap().text);
    let types = schema.pointer("/properties/type/enum").and_then(Value::as_array).unwrap();
    let mut types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
    let mut kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    types.sort_unstable();
    kinds.sort_unstable();
    assert_eq!(types, kinds);
    let judge = Judge::new();
    for kind in kinds {
        let mut event = read(
            r#"{"event_id": "e", "payload": {}, "run_id": "r", "seq": 0, "ts": "t", "type": ""}"#,
        )
        .into_object()
        .unwrap();
        event.insert("type", kind);
        assert!(!judge.accepts("nexus-router.event.v1", &event.into()), "{kind} needs no payload");
    }
}

/// Flaw R5: the Python router's answer to a failed selection does not fit its own schema.
#[test]
fn responses_of_every_end_fit_the_schema() {
    let judge = Judge::new();
    let response = |status: &str, outcome: &str, source: &str, more: &str| {
        read(&format!(
            r#"{{"status": "{status}", "outcome": {outcome}, {more}
            "summary": {{"mode": "apply", "steps": 1, "tools_used": ["m"], "outputs_total": 1,
                "outputs_applied": 0, "outputs_failed": 1, "outputs_skipped": 0, "adapter_id": "a"}},
            "dispatch": {{"adapter_id": "a", "adapter_kind": "k", "selection_source": "{source}"}},
            "run": {{"run_id": "r", "events_committed": 3}}, "plan": [],
            "results": [{{"step_id": "s", "status": "error", "simulated": false, "output": {{}},
                "evidence": [], "error": {{"kind": "operational", "code": "C", "message": "",
                "details": {{}}}}}}, {{"step_id": "t", "status": "skipped", "simulated": false,
                "output": {{}}, "evidence": []}}],
            "provenance": {{"artifacts": [], "records": []}}}}"#
        ))
    };
    let name = "nexus-router.run.response.v0.7";
    let error = r#""reason": "r", "error": {"code": "C", "message": "m"},"#;
    judge.must_accept(name, &response("COMPLETED", r#""ok""#, "default", ""));
    judge.must_accept(name, &response("FAILED", r#""error""#, "failed", error));
    judge.must_accept(name, &response("RUNNING", "null", "step", ""));
    let waiting = r#""waiting": {"approval_id": "a", "step_id": "s", "adapter_id": "x", "tool": "t",
        "method": "m", "reason": null, "expires_at": "2026-11-16T00:00:00.000Z"},"#;
    judge.must_accept(name, &response("RUNNING", "null", "step", waiting));
    for wrong in [
        response("COMPLETED", r#""error""#, "default", ""),
        response("FAILED", "null", "default", ""),
        response("FAILED", r#""error""#, "nobody", error),
        response("DONE", r#""ok""#, "default", ""),
    ] {
        assert!(!judge.accepts(name, &wrong), "{wrong:?}");
    }
}

/// Requests that use every key, to be spoiled.
const FULL: &[(&str, &str)] = &[
    (
        "nexus-router.run.request.v0.7",
        r#"{"goal": "g", "mode": "apply", "timeout_ms": 5, "idempotency_key": "k",
        "dispatch": {"adapter_id": "a", "require_capabilities": ["apply", "timeout"]},
        "context": {"artifacts": [{"artifact_id": "i", "media_type": "m", "locator": "l",
            "digest": {"alg": "sha256", "value": "v"}}]},
        "policy": {"allow_apply": true, "max_steps": 2, "on_error": "continue", "simulate": false},
        "plan_override": [{"step_id": "s", "intent": "i", "timeout_ms": 20,
            "grants": [{"grant": "shell_exec"}, {"grant": "network", "targets": ["a:1", "b:2"]}],
            "expected_output_pointer": "/x", "dispatch": {"adapter_id": "b"},
            "call": {"tool": "t", "method": "m", "args": {"any": [{"thing": null}]}}},
            {"step_id": "t", "intent": "", "call": {"tool": "t", "method": "m", "args": {}}}]}"#,
    ),
    (
        "nexus-router.inspect.request.v0.2",
        r#"{"db_path": "x", "run_id": "r", "status": "FAILED", "limit": 1, "offset": 0, "since": "t"}"#,
    ),
    ("nexus-router.replay.request.v0.2", r#"{"db_path": "x", "run_id": "r", "strict": false}"#),
    (
        "nexus-router.export.request.v0.3",
        r#"{"db_path": "x", "run_id": "r", "include_provenance": true, "format": "bundle_v0_3"}"#,
    ),
    (
        "nexus-router.import.request.v0.3",
        r#"{"db_path": "x", "mode": "overwrite", "new_run_id": "n", "verify_digest": true,
        "replay_after_import": false, "bundle": {"bundle_version": "0.3", "run": {"a": 1},
            "events": [1], "digests": {}, "more": [true]}}"#,
    ),
];

/// What is put in the place of something else.
const SPOILERS: &str = r#"[null, true, false, 0, 1, -1, 2.0, 1.5, -0.0, 1e300, 1000, 1001,
    100000000000000000000, -100000000000000000000, "", "s", "t", "apply", "APPLY", "stop", "RUNNING",
    "sha256", "bundle_v0_3", "new_run_id", [], {}, ["a", "a"], ["a", "b"], [""], [1], [{}], {"x": 1}]"#;

/// Returns every value that comes of one change to one part of a value: a part replaced, a member taken
/// away or added, an item doubled.
fn spoiled(value: &Value, spoilers: &[Value]) -> Vec<Value> {
    let mut found = spoilers.to_vec();
    match value {
        Value::String(_) => found.extend([256, 257].map(|length| "é".repeat(length).into())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let with =
                    |part: Vec<Value>| [&items[..index], &part, &items[index + 1..]].concat();
                found.push(with(vec![item.clone(), item.clone()]).into());
                let parts = spoiled(item, spoilers).into_iter();
                found.extend(parts.map(|part| with(vec![part]).into()));
            }
        }
        Value::Object(object) => {
            let changed = |change: &dyn Fn(&mut Object)| {
                let mut object = object.clone();
                change(&mut object);
                Value::from(object)
            };
            found.push(changed(&|object| object.insert("unknown", true)));
            for (key, member) in object.iter() {
                found.push(changed(&|object| drop(object.remove(key))));
                for part in spoiled(member, spoilers) {
                    found.push(changed(&|object| object.insert(key, part.clone())));
                }
            }
        }
        _ => {}
    }
    found
}

fn spoilers() -> Vec<Value> {
    let Value::Array(spoilers) = read(SPOILERS) else { unreachable!() };
    spoilers
}

/// Says whether reader and schema say the same, or what each says.
fn agree(judge: &Judge, schema: &str, instance: &Value) -> Result<(), String> {
    let told = reader_says(schema, instance.clone()).err().map(|error| error.to_string());
    // A schema cannot say that step ids differ.
    let repeated = |told: &String| told.starts_with("step_id") && told.contains("stands already");
    let accepted = told.as_ref().is_none_or(repeated);
    if accepted == judge.accepts(schema, instance) {
        return Ok(());
    }
    Err(format!("{schema} does not agree with {told:?} about {}", json::to_compact(instance)))
}

#[test]
fn readers_and_schemas_agree_about_every_mistake() {
    let (judge, spoilers) = (Judge::new(), spoilers());
    let mut count = 0;
    for (schema, full) in FULL {
        let full = read(full);
        assert!(reader_says(schema, full.clone()).is_ok(), "{schema}");
        for instance in spoiled(&full, &spoilers) {
            agree(&judge, schema, &instance).unwrap();
            count += 1;
        }
    }
    assert!(count > 2500, "{count} mistakes");
}

proptest! {
    #[test]
    fn readers_and_schemas_agree_about_two_mistakes(
        which in 0..FULL.len(),
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
    ) {
        thread_local!(static JUDGE: (Judge, Vec<Value>) = (Judge::new(), spoilers()));
        let (schema, full) = FULL[which];
        let agreed = JUDGE.with(|(judge, spoilers)| {
            let once = first.get(&spoiled(&read(full), spoilers)).clone();
            agree(judge, schema, second.get(&spoiled(&once, spoilers)))
        });
        prop_assert_eq!(agreed, Ok(()));
    }
}
