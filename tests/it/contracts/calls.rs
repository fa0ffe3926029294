//! Calls under a contract: what they may call, what they take and give, how long, and what is made again.

use serde_json::{Value, json};

use super::contract;
use crate::daemon::support::{Daemon, Stage, plan};

/// Adapters that answer as they are told, the first of which keeps a contract.
pub fn stage(contract: &Value, config: &str) -> Stage {
    let stage = Stage::new(&format!("data_dir = \"data\"\n{config}"));
    let directory = stage.path("data/interfaces");
    std::fs::create_dir_all(&directory).unwrap();
    let id = contract["adapter_id"].as_str().unwrap();
    let file = directory.join(format!("{id}.interface.json"));
    std::fs::write(&file, contract.to_string()).unwrap();
    let freeze = stage
        .program()
        .args(["interface", "freeze"])
        .arg(&file)
        .args(["--config", "router.toml"])
        .output();
    let freeze = freeze.unwrap();
    assert!(freeze.status.success(), "{}", String::from_utf8_lossy(&freeze.stderr));
    stage
}

const ECHO: &str =
    "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nisolation = \"inline\"\n";

fn result(daemon: &Daemon, adapter: &str, method: &str, args: Value) -> Value {
    let mut plan = plan(adapter, "greeter", method);
    plan["plan_override"][0]["call"]["args"] = args;
    daemon.post("/v1/runs", &plan).ok()["results"][0].clone()
}

#[test]
fn only_operations_of_the_contract_are_called_and_only_with_what_it_takes() {
    let daemon = stage(&contract("1.0.0"), ECHO).start(&[]);
    assert_eq!(result(&daemon, "echo", "hello", json!({ "name": "Ada" }))["status"], "ok");
    let error = result(&daemon, "echo", "shout", json!({}))["error"].clone();
    assert_eq!(error["code"], "OPERATION_NOT_IN_CONTRACT", "{error}");
    assert_eq!(error["details"]["contract_version"], "1.0.0");
    let error =
        result(&daemon, "echo", "hello", json!({ "name": "Ada", "more": 1 }))["error"].clone();
    assert_eq!(error["code"], "ARGUMENTS_INVALID", "{error}");
    let error = result(&daemon, "echo", "hello", json!({ "name": 7 }))["error"].clone();
    assert_eq!(error["details"]["pointer"], "/name", "{error}");
    // In a dry run too, where nothing is called.
    let mut dry = plan("echo", "greeter", "shout");
    dry["mode"] = json!("dry_run");
    let told = daemon.post("/v1/runs", &dry).ok()["results"][0]["error"]["code"].clone();
    assert_eq!(told, "OPERATION_NOT_IN_CONTRACT");
}

#[test]
fn an_output_that_breaks_the_contract_is_refused_or_told() {
    let mut strict = contract("1.0.0");
    strict["operations"]["hello"]["output_schema"]["properties"]["args"] =
        json!({ "type": "string" });
    strict["operations"]["hello"]["examples"] = json!([]);
    let daemon = stage(&strict, ECHO).start(&[]);
    let mut request = plan("echo", "greeter", "hello");
    request["plan_override"][0]["call"]["args"] = json!({ "name": "Ada" });
    let told = daemon.post("/v1/runs", &request).send().text();
    assert!(told.contains("OUTPUT_INVALID") && told.contains("/args"), "{told}");
    let warned = format!("{ECHO}[contracts]\noutputs = \"warn\"\n");
    let daemon = stage(&strict, &warned).start(&[]);
    assert_eq!(result(&daemon, "echo", "hello", json!({ "name": "Ada" }))["status"], "ok");
}

#[test]
fn adapters_without_a_contract_are_called_unless_one_is_required() {
    let two = format!(
        "{ECHO}[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"free\"\n\
        isolation = \"inline\"\n[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"bound\"\n\
        isolation = \"inline\"\ninterface = \"echo\"\n"
    );
    let daemon = stage(&contract("1.0.0"), &two).start(&[]);
    assert_eq!(result(&daemon, "free", "anything", json!({}))["status"], "ok");
    let error = result(&daemon, "bound", "anything", json!({}))["error"]["code"].clone();
    assert_eq!(error, "OPERATION_NOT_IN_CONTRACT");
    assert_eq!(result(&daemon, "bound", "hello", json!({ "name": "Ada" }))["status"], "ok");
    let required = format!("{two}[contracts]\nrequired = true\n");
    let daemon = stage(&contract("1.0.0"), &required).start(&[]);
    let error = result(&daemon, "free", "anything", json!({}))["error"]["code"].clone();
    assert_eq!(error, "CONTRACT_REQUIRED");
    assert_eq!(result(&daemon, "bound", "hello", json!({ "name": "Ada" }))["status"], "ok");
    let unknown = format!("{ECHO}interface = \"nothing\"\n");
    let refused = stage(&contract("1.0.0"), &unknown).refused(&[]);
    assert!(refused.stderr().contains("UNKNOWN_CONTRACT"), "{}", refused.stderr());
}

#[test]
fn a_call_takes_no_longer_than_its_contract_says() {
    let mut quick = contract("1.0.0");
    quick["adapter_id"] = json!("many");
    let mut hold = quick["operations"]["hello"].clone();
    hold["tool"] = json!("t");
    hold["method"] = json!("hold");
    hold["input_schema"] = json!({ "type": "object" });
    hold["output_schema"] = json!({ "type": "object" });
    hold["timeout_ms"] = json!(50);
    hold["examples"] = json!([]);
    quick["operations"] = json!({ "hold": hold });
    let many = "[[adapters]]\nref = \"probe_adapters:many_calls\"\nid = \"many\"\n";
    let daemon = stage(&quick, many).start(&[]);
    let run = daemon.post("/v1/runs", &plan("many", "t", "hold")).ok();
    assert_eq!(run["results"][0]["error"]["code"], "TIMEOUT", "{run}");
}

#[test]
fn contract_decides_annotation_rules_without_trust() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\nannotation = \"not_read_only\"\n";
    for (read_only, status) in [(true, "COMPLETED"), (false, "RUNNING")] {
        let mut contract = contract("1.0.0");
        contract["operations"]["hello"]["read_only"] = json!(read_only);
        let daemon = stage(&contract, &format!("{ECHO}{rule}")).start(&[]);
        let run = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).send().json();
        assert_eq!(run["status"], status, "{run}");
    }
}

#[test]
fn offer_patterns_hold_for_operations_of_a_contract() {
    let offer = format!("{ECHO}offer = {{ tools = [\"Greet*\"] }}\n");
    let code = |config: &str, method: &str| {
        let daemon = stage(&contract("1.0.0"), config).start(&[]);
        let run = daemon.post("/v1/runs", &plan("echo", "greeter", method)).by("apply").ok();
        run["results"][0]["error"]["code"].clone()
    };
    assert_eq!(code(&offer, "hello"), Value::Null);
    assert_eq!(code(&offer, "shout"), "OPERATION_NOT_IN_CONTRACT");
    assert_eq!(code(ECHO, "hello"), "NOT_OFFERED");
}
