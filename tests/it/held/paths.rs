//! Every path on which a call comes to wait: HTTP, tools, both MCP eras, plans, the command line.

use serde_json::{Value, json};

use super::{
    ORIGINAL, args, assert_done, assert_hidden, assert_no_original, called_with, config, db,
    decide, held, open_approval, request, stage, waits,
};
use crate::daemon::support::until;
use crate::mcp::support::{Session, able, answer, modern};
use crate::run_cli::{run_id, write};
use crate::support::World;

#[test]
fn run_waits_and_calls_with_the_original() {
    let daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    assert_eq!(held(&db(&daemon.stage)), 1);
    assert_hidden(&daemon, &run_id);
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
}

#[test]
fn accepted_run_waits_and_calls_with_the_original() {
    let daemon = stage("").start(&[]);
    let accepted = daemon.post("/v1/runs?wait=false", &request(&["risk"])).by("apply").send();
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &accepted.run_id(), 1);
}

#[test]
fn tool_call_waits_and_calls_with_the_original() {
    let daemon = stage("").start(&[]);
    let called = daemon.post("/v1/tools/buy", &json!({ "args": args() })).by("apply").send();
    assert_eq!(called.status, 202, "{called:?}");
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, called.json()["run_id"].as_str().unwrap(), 1);
}

fn call() -> Value {
    json!({ "name": "buy", "arguments": args() })
}

fn only_run(daemon: &crate::daemon::support::Daemon) -> String {
    let runs = daemon.get("/v1/runs").ok();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    runs["runs"][0]["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn mcp_call_of_either_era_waits() {
    for era in ["stateless", "session"] {
        let daemon = stage("").start(&[]);
        let answer = std::thread::scope(|scope| {
            let call = scope.spawn(|| match era {
                "stateless" => {
                    answer(&modern(&daemon, "tools/call", call(), &json!({})).by("apply"))
                }
                _ => answer(&Session::open(&daemon, "apply").ask("tools/call", &call())),
            });
            decide(&daemon, &open_approval(&daemon), "approve");
            call.join().unwrap()
        });
        assert_eq!(answer["result"]["isError"], false, "{era}: {answer}");
        assert_done(&daemon, &only_run(&daemon), 1);
    }
}

#[test]
fn mcp_call_becomes_a_task() {
    let daemon = stage("").start(&[]);
    let task = answer(&modern(&daemon, "tools/call", call(), &able()).by("apply"));
    assert_eq!(task["result"]["resultType"], "task", "{task}");
    let task_id = task["result"]["taskId"].as_str().unwrap();
    decide(&daemon, &open_approval(&daemon), "approve");
    until("the task", || {
        let params = json!({ "taskId": task_id });
        let task = answer(&modern(&daemon, "tasks/get", params, &able()).by("apply"));
        assert!(!task.to_string().contains("failed"), "{task}");
        (task["result"]["status"] == "completed").then_some(())
    });
    assert_done(&daemon, task_id, 1);
}

#[test]
fn every_step_of_a_plan_waits() {
    let daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk", "t", "risk"]));
    for calls in [0, 2] {
        until("the calls", || (called_with(&daemon.stage).len() == calls).then_some(()));
        decide(&daemon, &open_approval(&daemon), "approve");
    }
    assert_done(&daemon, &run_id, 3);
}

#[test]
fn reload_keeps_the_original() {
    let daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    let approval_id = open_approval(&daemon);
    daemon.stage.configure(&config(&daemon.stage, "[log]\nlevel = \"debug\"\n"));
    daemon.ask("POST", "/v1/reload").ok();
    decide(&daemon, &approval_id, "approve");
    assert_done(&daemon, &run_id, 1);
}

#[test]
fn repeated_key_finds_the_run_of_the_same_original() {
    let daemon = stage("").start(&[]);
    let mut first = request(&["risk"]);
    first["idempotency_key"] = json!("once");
    let run_id = waits(&daemon, &first);
    assert_eq!(waits(&daemon, &first), run_id);
    let mut other = first.clone();
    other["plan_override"][0]["call"]["args"]["password"] = json!("another-value");
    daemon.post("/v1/runs", &other).by("apply").refused(422, "IDEMPOTENCY_KEY_TAKEN");
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
    assert_eq!(daemon.post("/v1/runs", &first).by("apply").ok()["status"], "COMPLETED");
    assert_eq!(called_with(&daemon.stage).len(), 1);
}

#[test]
fn denial_expiry_and_cancellation_remove_the_original() {
    for end in ["deny", "cancel", "expire"] {
        let more = if end == "expire" { "[policy.approvals]\nexpire_s = 1\n" } else { "" };
        let daemon = stage(more).start(&[]);
        let run_id = waits(&daemon, &request(&["risk"]));
        match end {
            "deny" => decide(&daemon, &open_approval(&daemon), "deny"),
            "cancel" => {
                let cancel = daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).send();
                assert!(cancel.status < 300, "{cancel:?}");
            }
            _ => {}
        }
        assert_eq!(daemon.ended(&run_id)["status"], "FAILED", "{end}");
        assert_eq!((held(&db(&daemon.stage)), called_with(&daemon.stage).len()), (0, 0), "{end}");
        assert_hidden(&daemon, &run_id);
    }
}

#[test]
fn run_without_approval_leaves_nothing_behind() {
    let daemon = stage("").start(&[]);
    let run = daemon.post("/v1/runs", &request(&["t", "t"])).by("apply").ok();
    assert_done(&daemon, run["run"]["run_id"].as_str().unwrap(), 2);
    let request = json!({ "mode": "dry_run", "args": args() });
    assert_eq!(daemon.post("/v1/tools/buy", &request).ok()["output"]["approval_required"], true);
    assert_eq!(held(&db(&daemon.stage)), 0);
}

#[test]
fn command_line_approves_a_run_that_waits() {
    let world = World::new();
    std::fs::create_dir(world.path("data")).unwrap();
    let config = format!(
        "db = \"data/runs.db\"\n[[listeners]]\naddress = \"127.0.0.1:1\"\n[[adapters]]\n\
         ref = \"probe_adapters:fake\"\nid = \"shop\"\nisolation = \"inline\"\n[adapters.config]\n\
         trace_args = true\ntraces = \"{}\"\n[[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n",
        world.path("traces").display()
    );
    std::fs::write(world.path("router.toml"), config).unwrap();
    let file = write(&world, "request.json", &request(&["risk"]));
    let run = world.run(&["run", &file, "--format", "json"]);
    assert_eq!(run.code(), 3, "{}", run.stderr());
    let response = run.json();
    let approval_id = response["waiting"]["approval_id"].as_str().unwrap();
    assert_eq!(held(&world.path("data/runs.db")), 1);
    let listed = world.run(&["approvals", "list", "--format", "json"]);
    assert!(listed.stdout().contains("[REDACTED]"), "{}", listed.stdout());
    let shown = world.run(&["runs", "show", &run_id(&response), "--format", "json"]);
    let approved = world.run(&["approvals", "approve", approval_id, "--format", "json"]);
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    for run in [&run, &listed, &shown, &approved] {
        assert!(!run.stdout().contains(ORIGINAL) && !run.stderr().contains(ORIGINAL));
    }
    let traces = std::fs::read_to_string(world.path("traces")).unwrap();
    assert_eq!(traces.matches(ORIGINAL).count(), 2, "{traces}");
    assert_eq!(held(&world.path("data/runs.db")), 0);
    assert_no_original(&world.path("data"));
}
