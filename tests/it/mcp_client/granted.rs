//! Servers that are granted, and those that are not.

use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::server::ROLE;
use crate::daemon::support::{Daemon, plan, until};

/// An adapter whose server is this program. The mark is found among its arguments, and means nothing.
fn program(id: &str, role: &str, mark: &str, more: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "[[adapters]]\nid = \"{id}\"\nref = \"nexus_router_adapter_mcp:create_adapter\"\n{more}\n\
         [adapters.config]\n\
         command = [{program:?}, \"--exact\", \"mcp_client::serve\", \"--nocapture\", \"{mark}\"]\n\
         env = {{ {ROLE} = \"{role}\", RUST_TEST_THREADS = \"1\" }}\n"
    )
}

fn run_granted() -> String {
    format!("grants = {{ run = [{:?}] }}", std::env::current_exe().unwrap())
}

fn endpoint(id: &str, config: &Value, more: &str) -> String {
    let (url, token) = (&config["url"], &config["headers"]["Authorization"]);
    format!(
        "[[adapters]]\nid = \"{id}\"\nref = \"nexus_router_adapter_mcp:create_adapter\"\n{more}\n\
         config = {{ url = {url}, headers = {{ Authorization = {token} }} }}\n"
    )
}

fn request(id: &str, tool: &str) -> Value {
    let mut plan = plan(id, tool, "call");
    plan["plan_override"][0]["call"]["args"] = json!({ "a": 1 });
    plan
}

fn result(daemon: &Daemon, id: &str, tool: &str) -> Value {
    daemon.post("/v1/runs", &request(id, tool)).ok()["results"][0].clone()
}

#[test]
fn servers_are_reached_where_they_are_granted_and_errors_elsewhere_tell_why() {
    let (legacy, modern) = (Endpoint::new(false), Endpoint::new(true));
    let connect =
        |endpoint: &Endpoint| format!("grants = {{ connect = [\"{}\"] }}", endpoint.address);
    let daemon = Daemon::start(
        &[
            program("old program", "legacy", "m1", &run_granted()),
            program("new program", "modern", "m1", &run_granted()),
            program("inline program", "modern", "m1", "isolation = \"inline\""),
            program("no program", "modern", "m1", ""),
            endpoint("old endpoint", &legacy.config(), &connect(&legacy)),
            endpoint("new endpoint", &modern.config(), &connect(&modern)),
            endpoint("no endpoint", &modern.config(), &connect(&legacy)),
            endpoint("nothing", &modern.config(), ""),
        ]
        .concat(),
        &[],
    );
    for id in ["old program", "new program", "inline program", "old endpoint", "new endpoint"] {
        let result = result(&daemon, id, "echo");
        assert_eq!(
            result["output"]["structuredContent"]["arguments"],
            json!({ "a": 1 }),
            "{id}: {result}"
        );
        assert_eq!(result["output"]["content"][1], json!({ "type": "hologram", "of": "tea" }));
    }
    for (id, grant) in [("no program", "run"), ("no endpoint", "connect"), ("nothing", "connect")] {
        let error = result(&daemon, id, "echo")["error"].clone();
        assert_eq!(error["code"], "CONNECTION_FAILED", "{id}: {error}");
        let told = error["message"].as_str().unwrap();
        assert!(told.contains(&format!("its grants name under '{grant}'")), "{id}: {error}");
    }
}

#[test]
fn rules_hold_before_a_server_has_told_what_it_offers() {
    let slow = "[[adapters]]\nid = \"slow\"\nref = \"nexus_router_adapter_mcp:create_adapter\"\n\
         isolation = \"inline\"\nconfig = { command = [\"/bin/sleep\", \"60\"] }\n\
         offer = { tools = [\"*\"], prefix = \"slow.\" }\n";
    let rules = "[[policy.rules]]\neffect = \"deny\"\ntool = \"other.*\"\n";
    let quick = program(
        "quick",
        "modern",
        "m4",
        &format!("{}\noffer = {{ prefix = \"other.\" }}", run_granted()),
    );
    let daemon = Daemon::start(&[slow, &quick, rules].concat(), &[]);
    let error = result(&daemon, "slow", "echo")["error"].clone();
    assert_eq!(error["code"], "CATALOGUE_UNKNOWN", "{error}");
    // It is not offered, and would have that name if it were.
    let error = result(&daemon, "quick", "echo")["error"].clone();
    assert_eq!(
        (&error["code"], &error["details"]["denied_by"]),
        (&json!("PERMISSION_DENIED"), &json!("rule"))
    );
}

#[test]
fn a_tool_error_of_a_server_fails_the_step() {
    for era in ["legacy", "modern"] {
        let daemon = Daemon::start(&program("p", era, "m5", &run_granted()), &[]);
        // Nothing is offered, so no definition says what the output is; the kind of the adapter does.
        let failed = result(&daemon, "p", "sulk");
        assert_eq!(failed["error"]["code"], "TOOL_ERROR", "{failed}");
        let output = &failed["output"];
        assert_eq!(output["content"][0]["text"], "not today; password: hunter2", "{failed}");
        assert_eq!(output["content"][1], json!({ "type": "hologram", "of": "tea" }));
        assert_eq!((&output["isError"], &output["x-own"]), (&json!(true), &json!([1.5, null])));
        let mut any = request("p", "sulk");
        any["plan_override"][0]["expect"] = json!("any");
        assert_eq!(daemon.post("/v1/runs", &any).ok()["status"], "COMPLETED");
    }
}

#[test]
fn a_server_that_crashes_costs_its_calls_and_not_its_worker() {
    for era in ["legacy", "modern"] {
        let daemon = Daemon::start(&program("p", era, "m2", &run_granted()), &[]);
        result(&daemon, "p", "echo");
        let workers = daemon.get("/v1/adapters/p").ok()["workers"].clone();
        let error = result(&daemon, "p", "crash")["error"].clone();
        assert_eq!(error["code"], "CONNECTION_FAILED", "{error}");
        assert_eq!(error["details"]["may_have_been_carried_out"], true);
        assert_eq!(result(&daemon, "p", "echo")["status"], "ok");
        assert_eq!(daemon.get("/v1/adapters/p").ok()["workers"]["crashes"], workers["crashes"]);
    }
}

#[test]
fn a_run_that_is_cancelled_is_cancelled_at_the_server() {
    let daemon = Daemon::start(&program("p", "modern", "m3", &run_granted()), &[]);
    let counts = || {
        let output = result(&daemon, "p", "cancelled")["output"]["structuredContent"].clone();
        (output["waiting"].as_u64().unwrap(), output["cancelled"].as_u64().unwrap())
    };
    let held = daemon.post("/v1/runs?wait=false", &request("p", "wait")).send().run_id();
    until("the call at the server", || (counts().0 == 1).then_some(()));
    daemon.post(&format!("/v1/runs/{held}/cancel"), &json!({})).send();
    assert_ne!(daemon.ended(&held)["status"], "COMPLETED");
    until("the cancellation at the server", || (counts().1 == 1).then_some(()));
}

#[test]
fn nothing_of_a_server_outlives_the_daemon() {
    let mark = "mark-of-the-outlived";
    let entries = [
        program("confined", "modern", mark, &run_granted()),
        program("inline", "legacy", mark, "isolation = \"inline\""),
    ];
    let mut daemon = Daemon::start(&entries.concat(), &[]);
    for id in ["confined", "inline"] {
        assert_eq!(result(&daemon, id, "echo")["status"], "ok");
    }
    assert_eq!(marked(mark), 2);
    daemon.stop();
    until("the end of the servers", || (marked(mark) == 0).then_some(()));
}

/// Counts the processes with this among their arguments.
fn marked(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    commands
        .filter(|line| line.split(|&byte| byte == 0).any(|word| word == mark.as_bytes()))
        .count()
}
