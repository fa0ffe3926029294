//! Calls that a daemon recorded by every path, and records of other writers.

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage};
use crate::mcp::support::{answer, modern};
use crate::offers::{CONFIG, code, dry, step};
use crate::support::Run;

const RULES: &str = "
[[policy.rules]]
id = 'no-eve'
effect = 'deny'
when = \"args.name == 'Eve'\"
";

fn diff(stage: &Stage, new: &str, options: &[&str]) -> Run {
    std::fs::write(stage.path("new.toml"), new).unwrap();
    let mut command = stage.program();
    command.args(["policy", "diff", "new.toml", "--config", "router.toml"]);
    command.args(["--data-dir", "data", "--format", "json"]).args(options);
    Run(command.output().unwrap())
}

/// Lists changes as caller, operation and direction.
fn changes(answer: &Value) -> Vec<String> {
    let changes = answer["changes"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |change: &Value| {
        let member = |key: &str| change[key].as_str().unwrap_or("-").to_owned();
        let parts = ["caller", "adapter", "method", "mode", "change"].map(member);
        parts.join(" ")
    };
    let mut changes: Vec<String> = changes.iter().map(text).collect();
    changes.sort();
    changes
}

#[test]
fn calls_of_every_path_are_compared_while_the_daemon_runs() {
    let config = format!("{CONFIG}{RULES}");
    let daemon = Daemon::start(&config, &[]);
    let hello = |name: &str| step("echo", "greeter", "hello", json!({ "name": name }));
    assert_eq!(code(&daemon, "apply", &hello("Ada")), "ok");
    assert_eq!(code(&daemon, "admin", &hello("Eve")), "PERMISSION_DENIED");
    assert_eq!(code(&daemon, "run", &dry(hello("Ada"))), "ok");
    let other = step("echo", "greeter", "bye", json!({ "name": "Ada" }));
    assert_eq!(code(&daemon, "apply", &other), "NOT_OFFERED");
    let call = json!({ "args": { "name": "Ada" }, "mode": "apply" });
    daemon.post("/v1/tools/hello", &call).by("apply").ok();
    let params = json!({ "name": "hello", "arguments": { "name": "Ada" } });
    let called = answer(&modern(&daemon, "tools/call", params, &json!({})).by("admin"));
    assert!(called["result"].is_object(), "{called}");
    let same = diff(&daemon.stage, &config, &[]);
    let answer = same.json();
    assert_eq!((answer["verdict"].as_str(), same.code()), (Some("equal"), 0), "{answer}");
    assert_eq!(
        answer["calls"],
        json!({ "total": 6, "equal": 6, "narrowed": 0, "widened": 0, "unjudged": 0 })
    );
    let without = diff(&daemon.stage, CONFIG, &[]).json();
    assert_eq!(changes(&without), ["admin echo hello apply widens"], "{without}");
    let by_token = format!("{config}[[policy.rules]]\neffect = 'approve'\ntoken = 'a*'\n");
    let narrowed = diff(&daemon.stage, &by_token, &[]).json();
    let expected = [
        "admin echo hello apply narrows",
        "apply echo hello apply narrows",
        "apply echo hello apply narrows",
    ];
    assert_eq!(changes(&narrowed), expected, "{narrowed}");
    let offered = config.replacen(
        "[[adapters]]\nid = \"many\"",
        "offer = { tools = [\"greeter\"] }\n[[adapters]]\nid = \"many\"",
        1,
    );
    let widened = diff(&daemon.stage, &offered, &[]).json();
    assert_eq!(changes(&widened), ["apply echo bye apply widens"], "{widened}");
    let scouts = format!("{config}[[tokens]]\nname = 'apply'\nrole = 'envoy'\n");
    let narrowed = diff(&daemon.stage, &scouts, &[]).json();
    assert_eq!(changes(&narrowed).len(), 2, "an envoy does not look up data: {narrowed}");
    assert_eq!(code(&daemon, "apply", &hello("Ada")), "ok", "the daemon goes on");
}

#[test]
fn calls_that_wait_for_an_approval_count_once() {
    let asks = "[[policy.rules]]\nid = 'ask'\neffect = 'approve'\nmethod = 'hello'\n";
    let config = format!("{CONFIG}{asks}");
    let daemon = Daemon::start(&config, &[]);
    let plan = step("echo", "greeter", "hello", json!({ "name": "Ada" }));
    let waiting = daemon.post("/v1/runs", &plan).by("apply").send();
    let (run_id, approval) = (waiting.run_id(), waiting.json()["waiting"]["approval_id"].clone());
    let approval = approval.as_str().unwrap();
    let widened = diff(&daemon.stage, CONFIG, &[]).json();
    assert_eq!(changes(&widened), ["apply echo hello apply widens"], "{widened}");
    daemon.post(&format!("/v1/approvals/{approval}/approve"), &json!({})).ok();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
    let answer = diff(&daemon.stage, &config, &[]).json();
    assert_eq!(answer["calls"]["total"], 1, "{answer}");
}

#[test]
fn stores_of_other_versions_and_routers_are_compared() {
    let stage = Stage::bare("");
    let golden = crate::support::workspace().join("tests/golden");
    for name in ["store_v1.db", "store_v2.db", "store_v3.db", "store_v4.db", "nexus/runs.db"] {
        let copy = stage.path("copy.db");
        std::fs::copy(golden.join(name), &copy).unwrap();
        let options = ["--db", copy.to_str().unwrap()];
        let same = diff(&stage, "", &options).json();
        let total = same["calls"]["total"].as_u64().unwrap();
        assert!(total > 0 && same["calls"]["equal"] == total, "{name}: {same}");
        let none = "[[policy.rules]]\neffect = 'deny'\n";
        let narrowed = diff(&stage, none, &options).json();
        assert_eq!(narrowed["calls"]["narrowed"], total, "{name}: {narrowed}");
        let by_token = format!("{none}token = 'ci'\n");
        let by_token = diff(&stage, &by_token, &options).json();
        // Runs of the Python router do not say who called; the oldest store has one of them, imported.
        let unjudged = match name {
            "nexus/runs.db" => total,
            "store_v1.db" => 1,
            _ => 0,
        };
        assert_eq!(by_token["calls"]["unjudged"], unjudged, "{name}: {by_token}");
        let reasons = by_token["unjudged"]["missing"].as_object().unwrap();
        assert!(reasons.keys().all(|reason| reason == "unknown_caller"), "{name}: {by_token}");
    }
}
