//! What a contract promises of an operation decides what is on disk before it is called, and what is called again.

use serde_json::{Value, json};

use super::calls::stage;
use super::contract;
use crate::daemon::support::plan;
use crate::run_cli::interrupted::Held;

/// Returns a contract of some methods of one tool, whatever they take and give.
fn promising(id: &str, tool: &str, methods: &[&str], read_only: bool, idempotent: bool) -> Value {
    let mut promising = contract("1.0.0");
    let mut operation = promising["operations"]["hello"].clone();
    operation["tool"] = json!(tool);
    operation["input_schema"] = json!({ "type": "object" });
    operation["output_schema"] = json!({ "type": "object" });
    operation["examples"] = json!([]);
    operation["read_only"] = json!(read_only);
    operation["idempotent"] = json!(idempotent);
    promising["adapter_id"] = json!(id);
    promising["operations"] = json!({});
    for method in methods {
        operation["method"] = json!(method);
        promising["operations"][*method] = operation.clone();
    }
    promising
}

#[test]
fn a_call_that_was_under_way_is_made_again_only_if_its_contract_lets_it() {
    for (idempotent, how, status) in [(true, "resumed", "COMPLETED"), (false, "ended", "FAILED")] {
        let mut held = Held::new();
        let left = held.run_id();
        held.kill();
        let world = &held.world;
        let shown =
            world.run(&["runs", "show", &left, "--db", "runs.db", "--format", "json"]).json();
        let id = &shown["timeline"][0]["adapter_id"];
        // The same adapter, of which a contract now says what its operations are.
        let config = format!(
            "[contracts]\ninterfaces = \"interfaces\"\n[[adapters]]\nref = {:?}\nid = {id}\ninterface = \"sub\"\n\
             isolation = \"inline\"\nconfig = {{ base_cmd = [\"/bin/sh\", \"-c\", \"echo '{{\\\"n\\\": 1}}'\", \"sh\"] }}\n",
            crate::run_cli::SUBPROCESS
        );
        std::fs::write(world.path("router.toml"), config).unwrap();
        let contract = promising("sub", "greeter", &["hello", "bye"], false, idempotent);
        std::fs::write(world.path("sub.json"), contract.to_string()).unwrap();
        let frozen = world.run(&["interface", "freeze", "sub.json"]);
        assert_eq!(frozen.code(), 0, "{}", frozen.stderr());
        let recovered = world.run(&["runs", "recover", "--db", "runs.db", "--format", "json"]);
        assert_eq!(recovered.code(), 0, "{}", recovered.stderr());
        let run = recovered.json()["recovered"][0].clone();
        assert_eq!((&run["how"], &run["status"]), (&json!(how), &json!(status)), "{run}");
        assert_eq!(world.run(&["runs", "replay", &left, "--db", "runs.db"]).code(), 0);
    }
}

#[test]
fn recovery_does_not_call_adapter_with_invalid_contract() {
    let mut held = Held::new();
    let left = held.run_id();
    held.kill();
    let world = &held.world;
    let shown = world.run(&["runs", "show", &left, "--db", "runs.db", "--format", "json"]).json();
    let id = &shown["timeline"][0]["adapter_id"];
    let config = format!(
        "[contracts]\ninterfaces = \"interfaces\"\n[[adapters]]\nref = {:?}\nid = {id}\ninterface = \"sub\"\n\
         isolation = \"inline\"\nconfig = {{ base_cmd = [\"/bin/sh\", \"-c\", \"echo called >> calls; echo '{{}}'\", \"sh\"] }}\n",
        crate::run_cli::SUBPROCESS
    );
    std::fs::write(world.path("router.toml"), config).unwrap();
    let contract = promising("sub", "greeter", &["hello", "bye"], false, true);
    std::fs::write(world.path("sub.json"), contract.to_string()).unwrap();
    let frozen = world.run(&["interface", "freeze", "sub.json"]);
    assert_eq!(frozen.code(), 0, "{}", frozen.stderr());
    let drifted = promising("sub", "greeter", &["hello"], false, true);
    std::fs::write(world.path("interfaces/sub.interface.json"), drifted.to_string()).unwrap();
    let recovered = world.run(&["runs", "recover", "--db", "runs.db", "--format", "json"]);
    let run = recovered.json()["recovered"][0].clone();
    assert_eq!(run["status"], "FAILED", "{run}");
    assert!(!world.path("calls").exists(), "nothing was called");
}

#[test]
fn what_only_reads_is_called_without_being_on_disk_before() {
    let adapter = "[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"fake\"\nisolation = \"inline\"\n\
        config = { capabilities = [\"apply\", \"external\"] }\n";
    let commits = |read_only: bool| {
        let contract = promising("fake", "t", &["echo"], read_only, false);
        let daemon = stage(&contract, adapter).start(&[]);
        let count = || daemon.metric("nexus_router_store_commit_duration_seconds_count");
        let before = count();
        for _ in 0..10 {
            let run = daemon.post("/v1/runs", &plan("fake", "t", "echo")).ok();
            assert_eq!(run["status"], "COMPLETED", "{run}");
        }
        count() - before
    };
    let (reads, writes) = (commits(true), commits(false));
    assert!(reads < writes && writes >= 20.0, "{reads} and {writes} commits of ten runs");
}
