//! What a provider refuses ends a step and changes nothing: not the document, not its digest, not the record.

use std::sync::Arc;

use nexus_router::digest::Digest;
use nexus_router::outcome::Outcome;
use nexus_router::{LoadRequest, Registry};
use serde_json::{Value, json};

use super::{TARGETS, binding, document_of};
use crate::engine::Bench;
use crate::support::World;

/// A router with a translator in a confined worker, and one with an adapter that only echoes.
fn bench(world: &Arc<World>, target: &str, module: &str) -> Bench {
    let load = |factory_ref: &str, config: &Value| {
        let request = LoadRequest { factory_ref, adapter_id: None, config, pin: None };
        world.loader().load(&request).unwrap()
    };
    let mut registry = Registry::new(target);
    registry.register(load(&format!("{module}:create_adapter"), &binding(target))).unwrap();
    registry.register(load("nexus_router_adapter_echo:create_adapter", &json!({}))).unwrap();
    Bench::among(world, registry)
}

fn plan(adapter: &str, calls: &[(&str, Value)]) -> Value {
    let step = |(index, (method, args)): (usize, &(&str, Value))| {
        json!({ "step_id": format!("s{index}"), "intent": "translate",
            "call": { "tool": "translate", "method": method, "args": args } })
    };
    let steps: Vec<Value> = calls.iter().enumerate().map(step).collect();
    json!({ "goal": "translate", "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": adapter }, "plan_override": steps })
}

/// The documents that the record of a run holds: what was asked, not what came of it.
fn recorded_documents(bench: &Bench, outcome: &Outcome) -> Vec<String> {
    let events = bench.events(&outcome.run_id);
    let asked = events.iter().filter(|(kind, _)| kind == "PLAN_CREATED");
    let steps = asked.flat_map(|(_, payload)| payload["plan"].as_array().unwrap().clone());
    steps.filter_map(|step| Some(step["call"]["args"]["document"].as_str()?.to_owned())).collect()
}

/// The digest of all that a run was asked and answered.
fn provenance(outcome: &Outcome) -> Value {
    let record: Value = serde_json::from_str(&outcome.provenance).unwrap();
    let digest = &record["records"][0]["digests"][0]["value"];
    assert!(digest.is_string(), "{record}");
    digest.clone()
}

#[test]
fn rejection_of_a_provider_is_an_error_event_and_nothing_else() {
    for (target, module) in TARGETS {
        let world = Arc::new(World::new());
        let bench = bench(&world, target, module);
        let (document, payload) = document_of(target);
        let digest = Digest::of(document.as_bytes()).to_string();

        let rendered =
            bench.run(&plan(target, &[("render", json!({ "document": document }))])).unwrap();
        let output = rendered.results[0].output.get("payload").unwrap().as_str().unwrap();
        assert_eq!(output, payload, "{target}");
        let of = |name: &str| rendered.results[0].output.get(name).unwrap().as_str().unwrap();
        assert_eq!(of("canonical_sha256"), digest);
        assert_eq!(of("sha256"), Digest::of(payload.as_bytes()).to_string());

        // The provider does not want it.
        let refused = json!({ "canonical_sha256": digest, "sha256": of("sha256"),
            "response": { "status": 400, "body": { "error": { "message": "tools: too many" } } } });
        let render = ("render", json!({ "document": document }));
        let calls = [render.clone(), ("rejected", refused), render];
        let outcome = bench.run(&plan(target, &calls)).unwrap();
        assert_eq!(
            bench.course(&outcome.run_id),
            "started plan selected S Q + C S Q - C provenance failed"
        );
        let error = outcome.results[1].error.as_ref().unwrap();
        assert_eq!(
            (error.code.as_str(), error.kind_name()),
            ("X.nexus.PROVIDER_REJECTED", "operational")
        );
        let told = error.details.get("response").unwrap().to_serde();
        assert_eq!(told["body"]["error"]["message"], "tools: too many");
        assert_eq!(error.details.get("canonical_sha256").unwrap().as_str(), Some(digest.as_str()));

        // The document is what it was, wherever it stands, and renders to the same bytes.
        for kept in recorded_documents(&bench, &outcome) {
            assert_eq!(Digest::of(kept.as_bytes()).to_string(), digest);
        }
        let again =
            bench.run(&plan(target, &[("render", json!({ "document": document }))])).unwrap();
        assert_eq!(again.results[0].output, rendered.results[0].output);
        assert_eq!(provenance(&again), provenance(&rendered));
    }
}

#[test]
fn refused_document_gives_no_part_of_a_payload() {
    let world = Arc::new(World::new());
    let bench = bench(&world, "gemini", "nexus_router_adapter_gemini");
    let (document, _) = document_of("gemini");
    let broken = document.replace("\"role\":\"user\"", "\"role\":\"assistant\"");
    let outcome = bench.run(&plan("gemini", &[("render", json!({ "document": broken }))])).unwrap();
    let result = &outcome.results[0];
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.code, "X.nexus.ENDS_WITH_ASSISTANT");
    assert_eq!(error.details.get("pointer").unwrap().as_str(), Some("/messages/1"));
    assert!(result.output.get("payload").is_none());
    assert_eq!(bench.course(&outcome.run_id), "started plan selected S Q - C provenance failed");
}

#[test]
fn replay_has_the_same_digests_with_and_without_a_translator() {
    let world = Arc::new(World::new());
    let bench = bench(&world, "anthropic", "nexus_router_adapter_anthropic");
    let (document, _) = document_of("anthropic");
    let call = [("render", json!({ "document": document }))];
    let with = bench.run(&plan("anthropic", &call)).unwrap();
    let without = bench.run(&plan("echo", &call)).unwrap();
    // `events` replays, and a run that does not replay cleanly fails the test.
    let (one, other) = (recorded_documents(&bench, &with), recorded_documents(&bench, &without));
    assert_eq!(one, other);
    assert_eq!(Digest::of(one[0].as_bytes()), Digest::of(document.as_bytes()));
}

#[test]
fn wrong_calls_are_refused() {
    let world = Arc::new(World::new());
    let bench = bench(&world, "openai", "nexus_router_adapter_openai");
    let (document, _) = document_of("openai");
    for (method, args) in [
        ("render", json!({})),
        ("render", json!({ "document": { "messages": [] } })),
        ("render", json!({ "document": document, "model": "other" })),
        ("rejected", json!({ "response": {} })),
        ("rejected", json!({ "response": {}, "sha256": "x", "canonical_sha256": "x" })),
        ("repair", json!({ "document": document })),
    ] {
        let outcome = bench.run(&plan("openai", &[(method, args)])).unwrap();
        assert_eq!(outcome.results[0].error.as_ref().unwrap().code, "INVALID_ARGUMENT", "{method}");
    }
}
