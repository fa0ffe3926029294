//! Translators as adapters: judged by the gate, called by the verb, confined, and contained when a provider refuses.

mod containment;
mod verb;

use std::path::PathBuf;

use nexus_router::loader::library_name;
use serde_json::{Value, json};

use crate::support::{World, workspace};

/// The targets, and the names of their libraries.
pub const TARGETS: [(&str, &str); 7] = [
    ("openai", "nexus_router_adapter_openai"),
    ("openai.responses", "nexus_router_adapter_openai_responses"),
    ("anthropic", "nexus_router_adapter_anthropic"),
    ("gemini", "nexus_router_adapter_gemini"),
    ("gemini.interactions", "nexus_router_adapter_gemini_interactions"),
    ("ollama", "nexus_router_adapter_ollama"),
    ("llama.cpp", "nexus_router_adapter_llama_cpp"),
];

pub fn golden() -> PathBuf {
    workspace().join("tests/golden/facet")
}

/// The binding of the golden payloads.
pub fn binding(target: &str) -> Value {
    let text = std::fs::read(golden().join("bindings.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()[target].clone()
}

/// The document that was compiled for a target, and its payload.
pub fn document_of(target: &str) -> (String, String) {
    let id = format!("t_a01_target_{}", target.replace('.', "_"));
    let read = |path: String| std::fs::read_to_string(golden().join(path)).unwrap();
    (read(format!("canonical/{id}.json")), read(format!("payloads/{target}/{id}.json")))
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap()
}

#[test]
fn every_translator_passes_the_gate_and_is_pure() {
    let world = World::new();
    for (target, module) in TARGETS {
        let factory_ref = format!("{module}:create_adapter");
        let config = binding(target).to_string();
        let run = world.run(&[
            "adapter",
            "validate",
            &factory_ref,
            "--config",
            &config,
            "--format",
            "json",
        ]);
        let report = run.json();
        assert_eq!(run.code(), 0, "{report:#}");
        let check = check(&report, "PASSIVE_PURE");
        assert_eq!(check["status"], "pass", "{check}");
        let told = "2 examples rendered and 2 refused, alike in two processes";
        assert_eq!(check["message"], told, "{target}");
        assert_eq!(report["metadata"]["capabilities"], json!(["apply", "dry_run"]));
    }
}

#[test]
fn whatever_an_adapter_notices_shows() {
    let world = World::new();
    for notices in ["environment", "directory", "time", "process", "refuses"] {
        let config = json!({ "notices": notices }).to_string();
        let run = world.run(&[
            "adapter",
            "validate",
            "probe_adapters:noticing",
            "--config",
            &config,
            "--format",
            "json",
        ]);
        let report = run.json();
        assert_eq!(run.code(), 1, "{notices}: {report:#}");
        let check = check(&report, "PASSIVE_PURE");
        assert_eq!(check["status"], "fail", "{notices}");
        let message = check["message"].as_str().unwrap();
        assert!(message.contains("two answers in two processes"), "{message}");
    }
    let run = world.run(&["adapter", "validate", "probe_adapters:noticing"]);
    assert_eq!(run.code(), 0, "{}", run.stdout());
}

#[test]
fn inspection_lists_versions_binding_and_tables() {
    let world = World::new();
    for (target, module) in TARGETS {
        let factory_ref = format!("{module}:create_adapter");
        let config = binding(target).to_string();
        let inspect = |format: &str| {
            let words =
                ["adapter", "inspect", &factory_ref, "--config", &config, "--format", format];
            world.run(&words)
        };
        let declares = &inspect("json").json()["passive"];
        assert_eq!(declares["target"], target);
        assert_eq!(declares["canonical_versions"], json!(["2.1.3"]));
        assert_eq!(declares["binding"], binding(target));
        assert!(declares["settings"]["model"].is_string() && declares["relations"].is_array());
        assert_eq!(declares["binding_sha256"].as_str().map(str::len), Some(64));
        assert_eq!(declares["unmapped"], json!(["/metadata"]));
        let tables = declares["tables"].as_array().unwrap();
        assert!(tables.iter().any(|table| table["id"] == declares["in_force"]), "{declares}");
        for table in tables {
            assert!(table["tools"]["name"].is_string() && table["content"]["system"].is_string());
        }
        let shown = inspect("human").stdout();
        for part in
            ["canonical_versions:", "tables[0].tools.name:", "tables[0].messages.no_system:"]
        {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
    }
}

#[test]
fn binding_without_what_the_provider_needs_does_not_load() {
    let world = World::new();
    for (target, module) in TARGETS {
        let factory_ref = format!("{module}:create_adapter");
        let validate = |config: &Value| {
            let config = config.to_string();
            world.run(&[
                "adapter",
                "validate",
                &factory_ref,
                "--config",
                &config,
                "--format",
                "json",
            ])
        };
        let mut without = binding(target);
        without.as_object_mut().unwrap().remove("model").unwrap();
        assert_eq!(validate(&without).code(), 1);
        let mut other = binding(target);
        other["api_version"] = json!("v0");
        let run = validate(&other);
        assert_eq!(run.code(), 1);
        let told = run.stdout();
        assert!(told.contains("X.nexus.API_VERSION_UNSUPPORTED"), "{told}");
    }
    assert_eq!(
        library_name("nexus_router_adapter_llama_cpp"),
        "libnexus_router_adapter_llama_cpp.so"
    );
}
