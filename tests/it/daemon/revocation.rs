//! Revocation: token, role and rules are checked again before each step of a run under way.

use nexus_router::access::{self, NewToken, Scope, Visibility};
use nexus_router::clock::{Clock, Timestamp};
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::mcp::support::{Session, able, answer, modern, result};

/// One slot for calls that are held, and tools of it.
const TOOLS: &str = r#"
[[adapters]]
ref = "probe_adapters:many_calls"
id = "single"
offer = { tools = ["*"] }
calls = 1
[[tools]]
name = "quick"
description = "Answers."
adapter = "single"
tool = "t"
method = "quick"
[[tools]]
name = "write"
description = "Writes."
adapter = "echo"
tool = "files"
method = "write"
action_class = "file_write"
"#;

fn config(more: &str) -> String {
    format!("{ADAPTERS}{TOOLS}{more}\n")
}

/// Starts a daemon with the token `worker`.
fn daemon(more: &str) -> Daemon {
    let mut stage = Stage::new(&config(more));
    stage.token("worker", Scope::Apply);
    stage.start(&[])
}

/// A plan whose first step is held, and whose second is another call.
fn two_steps(adapter_id: &str, tool: &str, method: &str) -> Value {
    let mut request = plan("many", "t", "hold");
    let mut second = request["plan_override"][0].clone();
    second["step_id"] = json!("s2");
    second["call"] = json!({ "tool": tool, "method": method, "args": {} });
    second["dispatch"] = json!({ "adapter_id": adapter_id });
    request["plan_override"].as_array_mut().unwrap().push(second);
    request
}

/// Submits a run of `worker` that is held in its first step.
fn held(daemon: &Daemon, request: &Value) -> String {
    let answer = daemon.post("/v1/runs?wait=false", request).by("worker").send();
    assert_eq!(answer.status, 202, "{answer:?}");
    until("the held call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    answer.run_id()
}

fn refused(daemon: &Daemon) {
    until("the token to be refused", || {
        (daemon.get("/v1/runs").by("worker").begin().response().status == 401).then_some(())
    });
}

fn revoke(daemon: &Daemon) {
    access::revoke(&daemon.stage.path("data/tokens.json"), "worker").unwrap();
    refused(daemon);
}

/// Takes the only slot of `single`, and returns the run that has it.
fn occupy(daemon: &Daemon) -> String {
    let run_id = daemon.post("/v1/runs?wait=false", &plan("single", "t", "hold")).send().run_id();
    until("the slot", || (daemon.calls_in_flight("single") == 1).then_some(()));
    run_id
}

fn free(daemon: &Daemon, run_id: &str) {
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).send().status, 202);
}

fn queued(daemon: &Daemon) {
    let waits = || daemon.metric("nexus_router_calls_waiting{adapter=\"single\"}");
    until("the queued call", || (waits() == 1.0).then_some(()));
}

fn events(daemon: &Daemon, run_id: &str) -> Vec<String> {
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let events = bundle["events"].as_array().unwrap().iter();
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// Waits for the end of a run, which must be that of a revoked caller, and returns it.
fn assert_revoked(daemon: &Daemon, run_id: &str) -> Value {
    let run = daemon.ended(run_id);
    assert_eq!((&run["status"], &run["reason"]), (&json!("FAILED"), &json!("revoked")), "{run}");
    assert_eq!(run["error"]["code"], "REVOKED", "{run}");
    let events = events(daemon, run_id);
    let ends = events.iter().filter(|kind| kind.starts_with("RUN_") && *kind != "RUN_STARTED");
    assert_eq!((ends.count(), events.last().unwrap().as_str()), (1, "RUN_FAILED"));
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!(replay["violations"], json!([]));
    run
}

#[test]
fn runs_of_a_revoked_token_end_before_their_next_step() {
    let daemon = daemon("");
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    revoke(&daemon);
    assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["status"], "RUNNING");
    daemon.release();
    let run = assert_revoked(&daemon, &run_id);
    assert_eq!(run["results"][0]["status"], "ok", "{run}");
    assert_eq!(run["results"][1]["status"], "skipped", "{run}");
    let calls = events(&daemon, &run_id);
    assert_eq!(calls.iter().filter(|kind| *kind == "TOOL_CALL_REQUESTED").count(), 1);
}

/// Runs a command on the store of a daemon that is gone.
fn command(daemon: &Daemon, args: &[&str]) -> std::process::Output {
    let mut command = daemon.stage.program();
    command.args(args).args(["--config", "router.toml", "--data-dir", "data"]).output().unwrap()
}

#[test]
fn commands_do_not_continue_runs_of_revoked_tokens() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\nadapter = \"single\"\n";
    let mut daemon = daemon(rule);
    let waiting = daemon.post("/v1/runs", &plan("single", "t", "quick")).by("worker").send();
    let approval_id = waiting.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    daemon.kill();
    access::revoke(&daemon.stage.path("data/tokens.json"), "worker").unwrap();
    let approved = command(&daemon, &["approvals", "approve", &approval_id]);
    let text = String::from_utf8_lossy(&approved.stderr);
    assert_eq!(approved.status.code(), Some(2), "{text}");
    assert!(text.contains("APPROVAL_NOT_EXECUTABLE") && text.contains("was revoked"), "{text}");
    command(&daemon, &["runs", "recover"]);
    let daemon = daemon.again();
    assert_revoked(&daemon, &run_id);
    let open = daemon.get(&format!("/v1/approvals/{approval_id}")).ok();
    assert_eq!(open["state"], "open", "{open}");
}

#[test]
fn changed_role_refuses_the_approval_and_keeps_it() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\nadapter = \"single\"\n";
    let daemon = daemon(rule);
    let waiting = daemon.post("/v1/runs", &plan("single", "t", "quick")).by("worker").send();
    let approval_id = waiting.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    let role = "[[tokens]]\nname = \"worker\"\nrole = \"scout\"\n";
    daemon.stage.configure(&config(&format!("{rule}{role}")));
    daemon.post("/v1/reload", &json!({})).ok();
    let approve = daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    let refused = approve.refused(409, "APPROVAL_NOT_EXECUTABLE");
    assert!(refused["detail"].as_str().unwrap().contains("ROLE_REFUSED"), "{refused}");
    daemon.stage.configure(&config(rule));
    daemon.post("/v1/reload", &json!({})).ok();
    approve.ok();
    assert_eq!(daemon.ended(&waiting.run_id())["status"], "COMPLETED");
}

#[test]
fn a_run_whose_last_step_was_made_completes() {
    let daemon = daemon("");
    let run_id = held(&daemon, &plan("many", "t", "hold"));
    revoke(&daemon);
    daemon.release();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
}

#[test]
fn runs_of_an_expired_token_end_before_their_next_step() {
    let mut stage = Stage::new(&config(""));
    let expires_at = Some(Timestamp::from_millis(Clock::System.now().as_millis() + 8000));
    let (name, scope) = ("worker".to_owned(), Scope::Apply);
    stage.token_as(NewToken { name, scope, role: None, sees: Visibility::Own, expires_at });
    let daemon = stage.start(&[]);
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    refused(&daemon);
    daemon.release();
    let run = assert_revoked(&daemon, &run_id);
    assert!(run["error"]["message"].as_str().unwrap().contains("expired at"), "{run}");
}

#[test]
fn a_narrowed_scope_ends_runs_that_need_more() {
    let daemon = daemon("");
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    let file = daemon.stage.path("data/tokens.json");
    let tokens = std::fs::read_to_string(&file).unwrap();
    let mut tokens: Value = serde_json::from_str(&tokens).unwrap();
    let list = tokens["tokens"].as_array_mut().unwrap();
    list.iter_mut().find(|token| token["name"] == "worker").unwrap()["scope"] = json!("run");
    std::fs::write(&file, tokens.to_string()).unwrap();
    until("the new scope", || {
        (daemon.get("/v1/status").by("worker").ok()["you"]["scope"] == "run").then_some(())
    });
    daemon.release();
    let run = assert_revoked(&daemon, &run_id);
    assert!(run["error"]["message"].as_str().unwrap().contains("has scope run"), "{run}");
}

#[test]
fn a_changed_role_applies_from_the_next_step() {
    let daemon = daemon("");
    let run_id = held(&daemon, &two_steps("echo", "files", "write"));
    daemon.stage.configure(&config("[[tokens]]\nname = \"worker\"\nrole = \"scout\"\n"));
    daemon.ask("POST", "/v1/reload").ok();
    daemon.release();
    let run = daemon.ended(&run_id);
    assert_eq!(run["results"][1]["error"]["code"], "ROLE_REFUSED", "{run}");
}

#[test]
fn new_deny_rule_applies_to_next_and_queued_steps() {
    let daemon = daemon("");
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    let slot = occupy(&daemon);
    let waits = daemon.post("/v1/runs?wait=false", &plan("single", "t", "m")).by("worker").send();
    queued(&daemon);
    daemon.stage.configure(&config("[[policy.rules]]\neffect = \"deny\"\nmethod = \"m\"\n"));
    daemon.ask("POST", "/v1/reload").ok();
    daemon.release();
    free(&daemon, &slot);
    for (run_id, step) in [(run_id, 1), (waits.run_id(), 0)] {
        let run = daemon.ended(&run_id);
        assert_eq!(run["results"][step]["error"]["code"], "PERMISSION_DENIED", "{run}");
        assert_eq!(run["reason"], "step_failed");
    }
}

#[test]
fn queued_calls_of_a_revoked_token_are_not_made() {
    let daemon = daemon("");
    let slot = occupy(&daemon);
    let mut wire = daemon.post("/v1/tools/quick", &json!({})).by("worker").begin();
    queued(&daemon);
    revoke(&daemon);
    free(&daemon, &slot);
    // The caller waits on a connection from before; it learns why nothing was called.
    let answered = wire.response().json();
    assert_eq!(answered["error"]["code"], "REVOKED", "{answered}");
    assert_eq!(answered["error"]["details"]["called"], false);
    let run = assert_revoked(&daemon, answered["run_id"].as_str().unwrap());
    assert_eq!(run["results"][0]["error"]["code"], "REVOKED", "{run}");
    let recorded = daemon.audited(|event| event["payload"]["reason"] == "REVOKED");
    assert_eq!(recorded["payload"]["adapter"], "single", "{recorded}");
}

#[test]
fn calls_over_mcp_of_a_revoked_token_are_not_made() {
    let params = json!({ "name": "quick", "arguments": {} });
    // A call of the older era, and one of the newer.
    for era in ["session", "request"] {
        let daemon = daemon("");
        let slot = occupy(&daemon);
        let mut wire = match era {
            "session" => Session::open(&daemon, "worker").ask("tools/call", &params).begin(),
            _ => modern(&daemon, "tools/call", params.clone(), &json!({})).by("worker").begin(),
        };
        queued(&daemon);
        revoke(&daemon);
        free(&daemon, &slot);
        let run_id = until("the run", || {
            let listed = daemon.get("/v1/runs?status=FAILED").ok();
            let runs = listed["runs"].as_array().unwrap().iter();
            let mut ids = runs.map(|run| run["run_id"].as_str().unwrap().to_owned());
            ids.find(|id| *id != slot)
        });
        assert_revoked(&daemon, &run_id);
        let answered = wire.response().text();
        assert!(answered.contains("REVOKED"), "{era}: {answered}");
    }
}

#[test]
fn an_approved_call_of_a_revoked_token_is_not_made() {
    let approve = "[[policy.rules]]\neffect = \"approve\"\nmethod = \"quick\"\n";
    let daemon = daemon(approve);
    let slot = occupy(&daemon);
    let answer = daemon.post("/v1/runs", &plan("single", "t", "quick")).by("worker").send();
    let waiting = answer.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    daemon.ask("POST", &format!("/v1/approvals/{waiting}/approve")).ok();
    queued(&daemon);
    revoke(&daemon);
    free(&daemon, &slot);
    let run = assert_revoked(&daemon, &answer.run_id());
    assert_eq!(run["results"][0]["error"]["code"], "REVOKED", "{run}");
}

#[test]
fn a_denied_call_of_a_revoked_token_ends_as_revoked() {
    let daemon = daemon("[[policy.rules]]\neffect = \"approve\"\nmethod = \"quick\"\n");
    let answer = daemon.post("/v1/runs", &plan("single", "t", "quick")).by("worker").send();
    let waiting = answer.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    revoke(&daemon);
    let path = |verb: &str| format!("/v1/approvals/{waiting}/{verb}");
    daemon.ask("POST", &path("approve")).refused(409, "APPROVAL_CALLER_GONE");
    daemon.ask("POST", &path("deny")).ok();
    assert_revoked(&daemon, &answer.run_id());
}

#[test]
fn a_run_is_not_resumed_after_its_token_was_revoked() {
    let mut daemon = daemon("");
    // The call has no effects, so that a new process would make it again.
    let run_id = held(&daemon, &two_steps("echo", "t", "m"));
    until("the record of the call", || {
        events(&daemon, &run_id).contains(&"TOOL_CALL_REQUESTED".to_owned()).then_some(())
    });
    daemon.kill();
    access::revoke(&daemon.stage.path("data/tokens.json"), "worker").unwrap();
    let daemon = daemon.again();
    let run = assert_revoked(&daemon, &run_id);
    assert_eq!(run["results"][0]["error"]["code"], "REVOKED", "{run}");
    assert_eq!(run["results"][1]["status"], "skipped", "{run}");
    assert_eq!(daemon.calls_in_flight("many"), 0);
}

#[test]
fn a_task_of_a_revoked_token_ends() {
    let daemon = daemon("[[policy.rules]]\neffect = \"approve\"\nmethod = \"quick\"\n");
    let slot = occupy(&daemon);
    let params = json!({ "name": "quick", "arguments": {} });
    let task = answer(&modern(&daemon, "tools/call", params, &able()).by("worker"));
    let task_id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}"));
    let open = daemon.get("/v1/approvals").ok()["approvals"][0]["approval_id"].clone();
    daemon.ask("POST", &format!("/v1/approvals/{}/approve", open.as_str().unwrap())).ok();
    queued(&daemon);
    revoke(&daemon);
    let params = json!({ "taskId": task_id });
    let own = modern(&daemon, "tasks/get", params.clone(), &able()).by("worker");
    assert_eq!(own.begin().response().status, 401);
    free(&daemon, &slot);
    assert_revoked(&daemon, task_id);
    let answered = result(&daemon, "tasks/get", params, &able()).to_string();
    assert!(answered.contains("REVOKED"), "{answered}");
}
