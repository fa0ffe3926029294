//! Adapters whose contract was removed or does not hold are not called, on any path; everything else goes on.

use serde_json::{Value, json};

use super::calls::stage;
use super::{Desk, ECHO, contract, greet};
use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::mcp::support::modern;

/// Two adapters, of which `echo` keeps a contract, with a tool of each.
const TWO: &str = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nisolation = \"inline\"\n\
    [[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"free\"\nisolation = \"inline\"\n\
    [[tools]]\nname = \"hi\"\ndescription = \"Greets.\"\nadapter = \"echo\"\ntool = \"greeter\"\nmethod = \"hello\"\n\
    [[tools]]\nname = \"free\"\ndescription = \"Greets.\"\nadapter = \"free\"\ntool = \"greeter\"\nmethod = \"hello\"\n";

const FILE: &str = "data/interfaces/echo.interface.json";

fn verb(stage: &Stage, line: &str) -> (i32, String) {
    let output = stage.program().args(line.split(' ')).output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code().unwrap(), said.concat())
}

fn yes(stage: &Stage, line: &str) -> String {
    let (code, said) = verb(stage, line);
    assert_eq!(code, 0, "{line}: {said}");
    said
}

/// Changes the contract in its file without another version.
fn drift(stage: &Stage) {
    let mut changed = contract("1.0.0");
    changed["operations"]["hello"]["timeout_ms"] = json!(1);
    std::fs::write(stage.path(FILE), changed.to_string()).unwrap();
}

/// Removes the contract for good: approved, and without its file.
fn remove(stage: &Stage, config: &str) {
    let [a, b] = ["a.pem", "b.pem"].map(|name| {
        let key = verb(stage, &format!("interface keygen {name}")).1;
        key.trim().to_owned()
    });
    let keys = format!("[contracts]\nauthors = [{a:?}]\nreviewers = [{b:?}]\n");
    stage.configure(&format!("data_dir = \"data\"\n{config}{keys}"));
    yes(stage, "interface freeze --remove echo");
    yes(stage, "interface approve echo --as author --key a.pem");
    yes(stage, "interface approve echo --as reviewer --key b.pem");
    std::fs::remove_file(stage.path(FILE)).unwrap();
    yes(stage, "interface verify");
}

/// Checks that no call reaches the adapter `echo`, and that `free` serves.
fn assert_closed(daemon: &Daemon, code: &str) {
    let error = |mode: &str, adapter: &str| {
        let mut plan = plan(adapter, "greeter", "hello");
        plan["mode"] = json!(mode);
        let run = daemon.post("/v1/runs", &plan).ok();
        (run["results"][0]["error"].clone(), run["run"]["run_id"].as_str().unwrap().to_owned())
    };
    for mode in ["apply", "dry_run"] {
        let (error, run_id) = error(mode, "echo");
        assert_eq!(error["code"], code, "{mode}: {error}");
        assert_eq!(error["details"]["contract"], "echo", "{error}");
        assert_eq!(error["details"]["denied_by"], "contract", "{error}");
        let shown = daemon.get(&format!("/v1/runs/{run_id}")).ok();
        assert!(shown.to_string().contains(code), "it is on record: {shown}");
    }
    assert_eq!(error("apply", "free").0, Value::Null);
    // Plans go on with other adapters.
    let mut both = plan("free", "greeter", "hello");
    both["policy"]["on_error"] = json!("continue");
    let mut second = both["plan_override"][0].clone();
    second["step_id"] = json!("s2");
    second["dispatch"] = json!({ "adapter_id": "echo" });
    both["plan_override"].as_array_mut().unwrap().insert(0, second);
    let run = daemon.post("/v1/runs", &both).ok();
    assert_eq!(run["results"][0]["error"]["code"], code, "{run}");
    assert_eq!(run["results"][1]["status"], "ok", "{run}");
    // Tools of HTTP and MCP, with and without tasks.
    let answer = daemon.post("/v1/tools/hi", &json!({ "args": { "name": "Ada" } })).send().text();
    assert!(answer.contains(code), "{answer}");
    let listed = daemon.get("/v1/tools").send().text();
    assert!(!listed.contains("\"hi\"") && listed.contains("\"free\""), "{listed}");
    for client in [json!({}), crate::mcp::support::able()] {
        let params = json!({ "name": "hi", "arguments": { "name": "Ada" } });
        let answer = modern(daemon, "tools/call", params, &client).send().text();
        assert!(answer.contains(code) || answer.contains("UNKNOWN_TOOL"), "{answer}");
    }
    // Who looks sees why.
    let status = daemon.get("/v1/status").ok();
    let disabled = &status["disabled_adapters"][0];
    assert_eq!((&disabled["adapter_id"], &disabled["reason"]), (&json!("echo"), &json!(code)));
    let listed = daemon.get("/v1/adapters").ok();
    let state = |id: &str| {
        let adapters = listed["adapters"].as_array().unwrap();
        adapters.iter().find(|it| it["adapter_id"] == id).unwrap()["state"].clone()
    };
    assert_eq!((state("echo"), state("free")), (json!("disabled"), json!("inline")));
    let audited = daemon.audited(|event| {
        event["kind"] == "contract.disabled" && event["payload"]["reason"] == code
    });
    assert_eq!(audited["payload"]["adapter"], "echo", "{audited}");
    assert!(daemon.stderr().contains("adapter is disabled by its contract"));
}

#[test]
fn drifted_contract_disables_its_adapter_alone() {
    let stage = stage(&contract("1.0.0"), TWO);
    drift(&stage);
    let daemon = stage.clone().start(&[]);
    assert_closed(&daemon, "CONTRACT_INVALID");
    let url = format!("http://{}", daemon.address);
    let mut list = stage.program();
    list.args(["adapter", "list", "--running", "--url", &url]);
    let list = list.env("NEXUS_ROUTER_TOKEN", daemon.token("admin")).output().unwrap();
    let running = String::from_utf8(list.stdout).unwrap();
    assert!(running.contains("disabled: CONTRACT_INVALID"), "{running}");
    assert!(running.contains("INTERFACE_CHANGED"), "{running}");
    // It serves again as soon as the contract is what is locked.
    std::fs::write(stage.path(FILE), contract("1.0.0").to_string()).unwrap();
    daemon.post("/v1/reload", &json!({})).ok();
    let run = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    daemon.audited(|event| event["kind"] == "contract.restored");
}

#[test]
fn reload_disables_the_adapter_of_a_drifted_contract() {
    let stage = stage(&contract("1.0.0"), TWO);
    let daemon = stage.clone().start(&[]);
    let run = daemon.post("/v1/runs", &plan("echo", "greeter", "hello")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    drift(&stage);
    daemon.post("/v1/reload", &json!({})).ok();
    assert_closed(&daemon, "CONTRACT_INVALID");
}

#[test]
fn watched_contract_disables_its_adapter_without_a_request() {
    let stage = stage(&contract("1.0.0"), TWO);
    let daemon = stage.clone().start(&[]);
    drift(&stage);
    until("the end of the adapter", || {
        daemon.get("/v1/status").ok()["disabled_adapters"].is_array().then_some(())
    });
    assert_closed(&daemon, "CONTRACT_INVALID");
}

#[test]
fn removed_contract_disables_its_adapter_although_it_is_approved() {
    let stage = stage(&contract("1.0.0"), TWO);
    remove(&stage, TWO);
    let daemon = stage.start(&[]);
    assert_closed(&daemon, "CONTRACT_REMOVED");
}

#[test]
fn removal_is_in_force_after_a_reload() {
    let stage = stage(&contract("1.0.0"), TWO);
    let daemon = stage.clone().start(&[]);
    remove(&stage, TWO);
    daemon.post("/v1/reload", &json!({})).ok();
    assert_closed(&daemon, "CONTRACT_REMOVED");
}

#[test]
fn adapter_that_names_a_removed_contract_is_not_called() {
    let bound = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"bound\"\n\
        isolation = \"inline\"\ninterface = \"echo\"\n";
    let stage = stage(&contract("1.0.0"), bound);
    remove(&stage, bound);
    let daemon = stage.start(&[]);
    let run = daemon.post("/v1/runs", &plan("bound", "greeter", "hello")).ok();
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "CONTRACT_REMOVED", "{run}");
    assert!(error["message"].as_str().unwrap().contains("adapter 'bound'"), "{run}");
}

#[test]
fn no_adapter_is_called_while_the_lock_is_unreadable() {
    let stage = stage(&contract("1.0.0"), TWO);
    std::fs::write(stage.path("data/interfaces/interfaces.lock"), "{").unwrap();
    let daemon = stage.start(&[]);
    for adapter in ["echo", "free"] {
        let run = daemon.post("/v1/runs", &plan(adapter, "greeter", "hello")).ok();
        assert_eq!(run["results"][0]["error"]["code"], "CONTRACT_INVALID", "{run}");
    }
}

#[test]
fn unreadable_file_disables_its_adapter_alone() {
    let stage = stage(&contract("1.0.0"), TWO);
    std::fs::remove_file(stage.path(FILE)).unwrap();
    std::fs::create_dir(stage.path(FILE)).unwrap();
    let daemon = stage.start(&[]);
    assert_closed(&daemon, "CONTRACT_INVALID");
}

#[test]
fn named_directory_that_is_missing_is_an_error() {
    let config = format!("data_dir = \"data\"\n{TWO}[contracts]\ninterfaces = \"elsewhere\"\n");
    let refused = Stage::new(&config).refused(&[]);
    assert!(refused.stderr().contains("CONTRACTS_UNREADABLE"), "{}", refused.stderr());
}

#[test]
fn tool_verbs_work_beside_a_drifted_contract() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    desk.write("greet.json", &greet());
    desk.yes("tool register greet.json");
    let mut other = greet();
    other["tool_id"] = json!("search");
    other["adapter_id"] = json!("meilisearch");
    other["adapter_operation"] = json!("search");
    desk.write("search.json", &other);
    let mut drifted = contract("1.0.0");
    drifted["description"] = json!("Other words.");
    desk.contract(&drifted);
    desk.yes("tool register search.json");
    let told = desk.no("tool check greet.json");
    assert!(told.contains("CONTRACT_NOT_FROZEN"), "{told}");
    let list = desk.yes("tool list");
    assert!(list.contains("disabled") && list.contains("does not hold"), "{list}");
    desk.yes("tool disable greet --reason because");
    desk.yes("tool unregister greet");
}

#[test]
fn run_of_the_command_line_calls_no_disabled_adapter() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    let mut drifted = contract("1.0.0");
    drifted["description"] = json!("Other words.");
    desk.contract(&drifted);
    desk.write("plan.json", &plan("echo", "greeter", "hello"));
    let run = desk.run(&format!("run plan.json --adapter {ECHO} --db runs.db --format json"));
    let error = run.json()["results"][0]["error"].clone();
    assert_eq!(error["code"], "CONTRACT_INVALID", "{error}");
}
