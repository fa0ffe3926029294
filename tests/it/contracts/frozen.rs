//! The frozen contracts, run: `interface test` on each, and calls through the daemon.

use serde_json::{Value, json};

use super::Desk;
use crate::daemon::support::{Stage, plan};
use crate::mcp::support::{answer, modern};

/// Every adapter of the specification.
const IDS: [&str; 8] = [
    "cloudflare-r2",
    "grafana",
    "livekit",
    "loki",
    "meilisearch",
    "prometheus",
    "qdrant-vector",
    "supabase-postgres",
];

fn contract(desk: &Desk, id: &str) -> Value {
    serde_json::from_str(&desk.yes(&format!("interface show {id} --format json"))).unwrap()
}

/// Writes the configuration of an adapter that answers as the examples say, with `instead` in every output, and
/// returns the command that tests it.
fn command(desk: &Desk, id: &str, instead: &Value) -> String {
    let config = json!({ "contract": contract(desk, id).to_string(), "instead": instead });
    desk.write("replays.json", &config);
    format!(
        "interface test {id} --adapter probe_adapters:replays --adapter-id {id} --adapter-config @replays.json"
    )
}

#[test]
fn test_runs_every_frozen_contract_and_records_nothing() {
    let desk = Desk::new();
    for id in IDS {
        let operations = contract(&desk, id)["operations"].as_object().unwrap().len();
        let said = desk.yes(&command(&desk, id, &json!({ "added_by_the_service": 1 })));
        let expected = format!(
            "ok: {id} 1.0.0, the examples of {operations} operations passed; nothing is recorded: it is frozen"
        );
        assert_eq!(said.trim(), expected);
    }
    assert!(!desk.world.path("data/interfaces").exists());
    assert!(desk.yes("interface verify").contains("ok: 8 contracts hold"));
}

#[test]
fn test_fails_on_differing_output() {
    let desk = Desk::new();
    let said = desk.no(&command(&desk, "loki", &json!({ "result": [] })));
    assert!(said.contains("✗ query_logs: example 0: the output is"), "{said}");
    assert!(said.contains("nothing is recorded"), "{said}");
    // The password of the TURN server breaks the schema itself.
    let said = desk.no(&command(&desk, "livekit", &json!({ "turn_password": "hunter2" })));
    assert!(said.contains("✗ create_room: example 0: the output does not fit"), "{said}");
}

#[test]
fn test_names_versions_of_frozen_contracts() {
    let desk = Desk::new();
    let command = command(&desk, "prometheus", &json!({}));
    let at = |version: &str| command.replacen("prometheus", &format!("prometheus@{version}"), 1);
    assert!(desk.yes(&at("1.0.0")).contains("it is frozen"));
    assert!(desk.no(&at("2.0.0")).contains("has no revision in the lock"));
}

#[test]
fn test_of_a_later_revision_is_recorded() {
    let desk = Desk::new();
    let mut loki = contract(&desk, "loki");
    loki["version"] = json!("1.1.0");
    loki["operations"]["query_logs"]["timeout_ms"] = json!(60_000);
    desk.write("data/interfaces/loki.interface.json", &loki);
    desk.yes("interface freeze data/interfaces/loki.interface.json");
    let command = command(&desk, "loki", &json!({}));
    let said = desk.yes(&command);
    assert_eq!(said.trim(), "ok: loki 1.1.0, the examples of 1 operations passed");
    let lock = std::fs::read_to_string(desk.world.path("data/interfaces/interfaces.lock")).unwrap();
    assert!(lock.contains("\"tested\""), "{lock}");
    // The frozen one can still be named.
    let frozen = command.replacen("loki", "loki@1.0.0", 1);
    assert!(desk.yes(&frozen).contains("loki 1.0.0") && desk.yes(&frozen).contains("frozen"));
}

#[test]
fn show_has_meanings_and_faults() {
    let desk = Desk::new();
    let shown = desk.yes("interface show qdrant-vector");
    for text in
        ["**Faults**", "When the collection exists:", "| Meaning |", "There is no such collection."]
    {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

/// A daemon whose adapter answers as the examples of a frozen contract say.
fn stage(id: &str) -> Stage {
    let desk = Desk::new();
    Stage::new(&format!(
        "data_dir = \"data\"\n[[adapters]]\nref = \"probe_adapters:replays\"\nid = \"{id}\"\n\
        isolation = \"inline\"\n[adapters.config]\ncontract = '''{}'''\n",
        contract(&desk, id)
    ))
}

#[test]
fn daemon_holds_calls_to_a_frozen_contract() {
    let daemon = stage("qdrant-vector").start(&[]);
    let result = |method: &str, args: Value| {
        let mut plan = plan("qdrant-vector", "qdrant-vector", method);
        plan["plan_override"][0]["call"]["args"] = args;
        daemon.post("/v1/runs", &plan).ok()["results"][0].clone()
    };
    let search = |more: Value| {
        let mut args = json!({ "collection": "docs", "vector": [1, 0, 0, 0], "limit": 2 });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result("search", args)
    };
    let found = search(json!({}));
    assert_eq!(found["status"], "ok", "{found}");
    assert_eq!(found["output"]["results"][0]["score"], 1, "{found}");
    let refused = |result: Value| result["error"]["code"].as_str().unwrap_or_default().to_owned();
    assert_eq!(refused(search(json!({ "score": 1 }))), "ARGUMENTS_INVALID");
    assert_eq!(refused(search(json!({ "limit": 1_000_000 }))), "ARGUMENTS_INVALID");
    assert_eq!(
        refused(search(json!({ "collection": "none", "limit": 10 }))),
        "COLLECTION_NOT_FOUND"
    );
    assert_eq!(refused(result("delete", json!({}))), "OPERATION_NOT_IN_CONTRACT");
}

#[test]
fn frozen_contract_tool_works_over_http_and_mcp() {
    let stage = stage("qdrant-vector");
    let mut spec = super::greet();
    spec["tool_id"] = json!("vector-search");
    spec["adapter_id"] = json!("qdrant-vector");
    spec["adapter_operation"] = json!("search");
    spec["execution_target"]["service"] = json!("qdrant");
    std::fs::write(stage.path("search.json"), spec.to_string()).unwrap();
    let registered = stage.program().args(["tool", "register", "search.json"]).output().unwrap();
    assert!(registered.status.success(), "{}", String::from_utf8_lossy(&registered.stderr));
    let daemon = stage.start(&[]);
    let search = |collection: &str| json!({ "collection": collection, "vector": [1, 0, 0, 0], "limit": if collection == "docs" { 2 } else { 10 } });
    let over_http =
        |args: Value| daemon.post("/v1/tools/vector-search", &json!({ "args": args })).ok();
    let found = over_http(search("docs"));
    assert_eq!(found["output"]["results"][0]["id"], 1, "{found}");
    let missing = over_http(search("none"));
    assert_eq!(missing["error"]["code"], "COLLECTION_NOT_FOUND", "{missing}");
    let over_mcp = |args: Value| {
        let params = json!({ "name": "vector-search", "arguments": args });
        answer(&modern(&daemon, "tools/call", params, &json!({})))
    };
    let found = over_mcp(search("docs"));
    assert_eq!(found["result"]["structuredContent"]["results"][0]["score"], 1, "{found}");
    let mut wrong = search("docs");
    wrong["vector"] = json!("near");
    let refused = over_mcp(wrong);
    assert!(refused.to_string().contains("ARGUMENTS_INVALID"), "{refused}");
}
