//! Tool specs: the gates, the register, and what callers of a daemon see of it.

use serde_json::{Value, json};

use super::{Desk, contract, greet};
use crate::daemon::support::{Daemon, Stage, plan, until};

const ADAPTERS: &str = "data_dir = \"data\"\n[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
    isolation = \"inline\"\n[server]\nrequests_per_second = 0\n";

/// A daemon whose echo adapter keeps a contract, with a tool that is registered.
fn serving(config: &str) -> (Stage, Daemon) {
    let stage = Stage::new(&format!("{ADAPTERS}{config}"));
    write(&stage, "data/interfaces/echo.interface.json", &contract("1.0.0"));
    yes(&stage, "interface freeze data/interfaces/echo.interface.json");
    write(&stage, "greet.json", &greet());
    yes(&stage, "tool register greet.json");
    let daemon = stage.clone().start(&[]);
    (stage, daemon)
}

fn write(stage: &Stage, name: &str, value: &Value) {
    let path = stage.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value.to_string()).unwrap();
}

fn yes(stage: &Stage, line: &str) -> String {
    let output = stage.program().args(line.split(' ')).output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn listed(daemon: &Daemon) -> Vec<Value> {
    daemon.get("/v1/tools").ok()["tools"].as_array().unwrap().clone()
}

fn has(daemon: &Daemon, name: &str) -> bool {
    listed(daemon).iter().any(|tool| tool["name"] == name)
}

#[test]
fn a_tool_is_registered_when_it_passes_and_all_or_none_are() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    let mut other = greet();
    other["tool_id"] = json!("other");
    other["adapter_operation"] = json!("shout");
    desk.write("good.json", &greet());
    desk.write("bad.json", &other);
    let told = desk.no("tool register good.json bad.json");
    assert!(told.contains("rule 9") && told.contains("nothing was registered"), "{told}");
    assert_eq!(desk.yes("tool list").lines().count(), 1);
    desk.yes("tool register good.json");
    let list = desk.yes("tool list");
    assert!(list.contains("greet  1.0.0    echo.hello      enabled"), "{list}");
    let shown: Value = serde_json::from_str(&desk.yes("tool show greet")).unwrap();
    assert_eq!((&shown["enabled"], &shown["spec"]["tool_id"]), (&json!(true), &json!("greet")));
    assert!(desk.no("tool show nothing").contains("there is no registered tool nothing"));
    desk.yes("tool disable greet --reason because");
    assert!(desk.yes("tool list").contains("disabled: it was disabled"));
    assert!(desk.no("tool disable nothing --reason because").contains("no registered tool"));
    desk.yes("tool register good.json");
    assert!(desk.yes("tool list").contains("enabled"));
}

#[test]
fn what_does_not_hold_any_more_is_disabled_with_its_reason() {
    let desk = Desk::new();
    desk.two_people();
    desk.frozen(&contract("1.0.0"));
    desk.write("greet.json", &greet());
    desk.yes("tool register greet.json");
    // A file that was changed by hand is not what was let through.
    let path = "data/tools/greet.tool.json";
    let mut changed = greet();
    changed["timeout_seconds"] = json!(3600);
    desk.write(path, &changed);
    assert!(desk.yes("tool list").contains("disabled: its file was changed"));
    desk.write(path, &greet());
    assert!(!desk.yes("tool list").contains("disabled"));
    // A minor revision leaves it as it is.
    let mut wider = contract("1.1.0");
    wider["operations"]["bye"] = wider["operations"]["hello"].clone();
    wider["operations"]["bye"]["method"] = json!("bye");
    wider["operations"]["bye"]["examples"] = json!([]);
    desk.frozen(&wider);
    assert!(!desk.yes("tool list").contains("disabled"));
    // One that breaks it does not.
    let mut without = wider.clone();
    without["version"] = json!("2.0.0");
    without["operations"].as_object_mut().unwrap().remove("hello");
    without["operations"]["bye"]["examples"] = json!([{ "input": { "name": "Ada" },
        "output": { "echo": true, "tool": "greeter", "method": "bye", "args": { "name": "Ada" } } }]);
    desk.write("next.json", &without);
    let diff = desk.yes("interface diff echo next.json");
    assert!(diff.contains("breaks the tools greet"), "{diff}");
    desk.frozen(&without);
    desk.yes(&format!("interface test echo --adapter {}", super::ECHO));
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    let told = desk.no("interface verify");
    assert!(told.contains("the tool greet") && told.contains("OPERATION_REMOVED"), "{told}");
    let list = desk.yes("tool list");
    assert!(list.contains("disabled") && list.contains("hello"), "{list}");
    // A removed adapter fails all its tools.
    desk.yes("interface freeze --remove echo");
    desk.yes("interface approve echo --as author --key a.pem");
    desk.yes("interface approve echo --as reviewer --key b.pem");
    std::fs::remove_file(desk.world.path("data/interfaces/echo.interface.json")).unwrap();
    let shown: Value = serde_json::from_str(&desk.yes("tool show greet")).unwrap();
    assert_eq!(shown["check_id"], "unknown_adapter", "{shown}");
}

#[test]
fn callers_see_registered_tools_with_the_schemas_of_their_contracts() {
    let (_, daemon) = serving("");
    let tools = listed(&daemon);
    let tool = tools.iter().find(|tool| tool["name"] == "greet").unwrap();
    assert_eq!(tool["input_schema"], contract("1.0.0")["operations"]["hello"]["input_schema"]);
    assert_eq!((&tool["read_only"], &tool["action_class"]), (&json!(true), &json!("data_lookup")));
    let answer = daemon.post("/v1/tools/greet", &json!({ "args": { "name": "Ada" } })).ok();
    assert_eq!(answer["output"]["args"], json!({ "name": "Ada" }), "{answer}");
    let answer = daemon.post("/v1/tools/greet", &json!({ "args": { "name": "" } })).ok();
    assert_eq!(answer["error"]["code"], "ARGUMENTS_INVALID", "{answer}");
    assert_eq!(answer["error"]["details"]["pointer"], "/name");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let list = crate::mcp::support::modern(&daemon, "tools/list", json!({}), &json!({})).ok();
    let seen = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{call} {list}"));
    let tool = seen.iter().find(|tool| tool["name"] == "greet").unwrap();
    assert_eq!(tool["inputSchema"]["required"], json!(["name"]));
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
}

#[test]
fn a_running_daemon_takes_up_what_is_registered_and_disabled() {
    let (stage, daemon) = serving("");
    assert!(has(&daemon, "greet"));
    let mut again = greet();
    again["tool_id"] = json!("greet-again");
    write(&stage, "again.json", &again);
    yes(&stage, "tool register again.json");
    until("the tool that was registered", || has(&daemon, "greet-again").then_some(()));
    yes(&stage, "tool disable greet --reason enough");
    until("the end of the tool that was disabled", || (!has(&daemon, "greet")).then_some(()));
    let answer = daemon.post("/v1/tools/greet", &json!({ "args": { "name": "Ada" } })).send();
    assert_eq!(answer.status, 404);
}

#[test]
fn a_tool_is_disabled_also_while_contracts_do_not_hold() {
    let (stage, daemon) = serving("");
    let file = "data/interfaces/echo.interface.json";
    let mut unlocked = contract("1.1.0");
    unlocked["description"] = json!("Not locked yet.");
    write(&stage, file, &unlocked);
    yes(&stage, "tool disable greet --reason now");
    until("the end of the tool", || (!has(&daemon, "greet")).then_some(()));
    // And when they hold again, what is registered counts at once.
    write(&stage, file, &contract("1.0.0"));
    yes(&stage, "tool register greet.json");
    until("the tool again", || has(&daemon, "greet").then_some(()));
}

#[test]
fn new_lock_disables_its_adapter_and_what_was_registered_before() {
    let (stage, daemon) = serving("");
    std::fs::remove_file(stage.path("data/interfaces/interfaces.lock")).unwrap();
    let mut other = contract("1.0.0");
    other["operations"]["hello"]["method"] = json!("drop_all");
    other["operations"]["hello"]["examples"] = json!([]);
    write(&stage, "data/interfaces/echo.interface.json", &other);
    yes(&stage, "interface freeze data/interfaces/echo.interface.json");
    for _ in 0..2 {
        daemon.post("/v1/reload", &json!({})).ok();
        let run = daemon.post("/v1/runs", &plan("echo", "greeter", "drop_all")).ok();
        let error = &run["results"][0]["error"];
        assert_eq!(error["code"], "CONTRACT_INVALID", "{run}");
        assert!(error["message"].to_string().contains("not those that are in force"), "{run}");
    }
    let list = yes(&stage, "tool list");
    assert!(list.contains("disabled: it was registered for a contract echo 1.0.0"), "{list}");
}

#[test]
fn a_registered_name_is_nobody_elses_and_a_changed_file_says_nothing() {
    let other = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"free\"\n\
        isolation = \"inline\"\n[[tools]]\nname = \"greet\"\ndescription = \"d\"\nadapter = \"free\"\nmethod = \"x\"\n";
    let (stage, daemon) = serving(other);
    let answer = daemon.post("/v1/tools/greet", &json!({ "args": { "name": "Ada" } })).ok();
    assert_eq!(answer["output"]["method"], "hello", "{answer}");
    drop(daemon);
    let mut changed = greet();
    changed["metadata"]["action_class"] = json!("shell_exec");
    write(&stage, "data/tools/greet.tool.json", &changed);
    let daemon = stage.start(&[]);
    let tools = listed(&daemon);
    assert!(tools.iter().all(|tool| tool["action_class"] != "shell_exec"), "{tools:?}");
}

#[test]
fn a_local_tool_is_an_operation_of_the_router_itself() {
    let (stage, daemon) = serving("");
    let mut local = greet();
    for name in ["adapter_id", "adapter_operation", "adapter_contract_version"] {
        local.as_object_mut().unwrap().remove(name);
    }
    local["tool_id"] = json!("which-adapters");
    local["execution_mode"] = json!("local");
    local["resource_class"] = json!("control");
    local["execution_target"] =
        json!({ "mode": "local", "provider": "nexus-router", "service": "nexus-router.adapters" });
    write(&stage, "local.json", &local);
    yes(&stage, "tool register local.json");
    until("the local tool", || has(&daemon, "which-adapters").then_some(()));
    let answer = daemon.post("/v1/tools/which-adapters", &json!({})).ok();
    assert!(answer["output"].to_string().contains("echo"), "{answer}");
    let refused = daemon.post("/v1/tools/which-adapters", &json!({})).by("run").send();
    assert_eq!(refused.status, 403, "it needs what the operation needs");
}

#[test]
fn tool_without_a_loaded_adapter_is_unavailable() {
    let (stage, daemon) = serving("");
    let mut other = greet();
    other["tool_id"] = json!("search");
    other["adapter_id"] = json!("meilisearch");
    other["adapter_operation"] = json!("search");
    write(&stage, "search.json", &other);
    let output = stage.program().args(["tool", "register", "search.json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("search is unavailable: no adapter"), "{told}");
    let list = yes(&stage, "tool list");
    let line = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("search").contains("unavailable: no adapter"), "{list}");
    assert!(line("greet").contains("enabled"), "{list}");
    let shown: Value = serde_json::from_str(&yes(&stage, "tool show search")).unwrap();
    assert_eq!((&shown["enabled"], &shown["available"]), (&json!(true), &json!(false)));
    let answer = until("the tool that was registered", || {
        let answer = daemon.post("/v1/tools/search", &json!({})).send();
        answer.text().contains("unavailable: no adapter").then_some(answer)
    });
    assert_eq!(answer.status, 404);
    let problem = answer.json();
    assert_eq!(problem["code"], "UNKNOWN_TOOL");
    assert!(problem["hint"].as_str().unwrap().contains("keeps the contract meilisearch"));
    let params = json!({ "name": "search", "arguments": {} });
    let answer = crate::mcp::support::modern(&daemon, "tools/call", params, &json!({})).send();
    assert!(answer.text().contains("unavailable: no adapter"), "{}", answer.text());
}

#[test]
fn unregistered_tool_is_gone() {
    let (stage, daemon) = serving("");
    yes(&stage, "tool unregister greet");
    assert!(!stage.path("data/tools/greet.tool.json").exists());
    assert_eq!(yes(&stage, "tool list").lines().count(), 1);
    until("the end of the tool", || (!has(&daemon, "greet")).then_some(()));
    let again = stage.program().args(["tool", "unregister", "greet"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    yes(&stage, "tool register greet.json");
    until("the tool again", || has(&daemon, "greet").then_some(()));
}

#[test]
fn register_reads_staged_spec() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    desk.write("greet.json", &greet());
    desk.yes("tool register greet.json");
    let place = desk.world.path("data/tools/greet.tool.json");
    let staged = desk.world.path("data/tools/.staged-greet.tool.json");
    // Killed after the register was written.
    std::fs::rename(&place, &staged).unwrap();
    assert!(desk.yes("tool list").contains("enabled"));
    // Killed before it was written: another spec is staged, which nobody registered.
    std::fs::rename(&staged, &place).unwrap();
    let mut changed = greet();
    changed["timeout_seconds"] = json!(6);
    desk.write("data/tools/.staged-greet.tool.json", &changed);
    assert!(desk.yes("tool list").contains("enabled"));
    desk.yes("tool disable greet --reason because");
    assert!(!staged.exists(), "the next change removes it");
    assert!(place.exists());
}

#[test]
fn a_gate_whose_record_cannot_be_written_has_no_answer() {
    let desk = Desk::new();
    desk.write("bad.json", &json!({ "tool_id": "x" }));
    let run = desk.run("tool check bad.json --db /dev/null/runs.db");
    assert_eq!(run.code(), 2, "{}{}", run.stdout(), run.stderr());
    std::fs::create_dir_all(desk.world.path("full.db")).unwrap();
    assert_eq!(desk.run("tool check bad.json --db full.db").code(), 2);
}
