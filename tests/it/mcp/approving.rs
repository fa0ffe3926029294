//! Calls that wait for a person, seen through MCP.

use serde_json::{Value, json};

use super::support::{ADAPTERS, able, answer, modern, result};
use crate::daemon::support::{Daemon, until};

pub fn config(by_caller: bool) -> String {
    format!(
        "{ADAPTERS}\n[policy.approvals]\nby_caller = {by_caller}\n\
         [[policy.rules]]\neffect = 'approve'\ntool = 'greet'\nreason = 'greetings are final'\n"
    )
}

fn task(daemon: &Daemon) -> String {
    let params = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let task = answer(&modern(daemon, "tools/call", params, &able()).by("apply"))["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

fn get(daemon: &Daemon, task_id: &str) -> Value {
    let params = json!({ "taskId": task_id });
    answer(&modern(daemon, "tasks/get", params, &able()).by("apply"))["result"].clone()
}

fn say(daemon: &Daemon, task_id: &str, key: &str, response: &Value) -> Value {
    let params = json!({ "taskId": task_id, "inputResponses": { key: response } });
    answer(&modern(daemon, "tasks/update", params, &able()).by("apply"))
}

fn key(task: &Value) -> String {
    assert_eq!(task["status"], "input_required", "{task}");
    let requests = task["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert!(request["params"]["message"].as_str().unwrap().contains("greetings are final"));
    key.clone()
}

fn calls_made(daemon: &Daemon, run_id: &str) -> usize {
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let events = bundle["events"].as_array().unwrap();
    events.iter().filter(|event| event["type"] == "TOOL_CALL_SUCCEEDED").count()
}

#[test]
fn the_person_at_the_client_is_asked() {
    let mut daemon = Daemon::start(&config(true), &[]);
    let task_id = task(&daemon);
    let asked = key(&get(&daemon, &task_id));
    // Neither a restart nor an answer that is none changes anything.
    daemon.kill();
    let daemon = daemon.again();
    let nothing = say(&daemon, &task_id, &asked, &json!({ "action": "cancel" }));
    assert!(nothing["error"].is_null(), "{nothing}");
    assert_eq!(key(&get(&daemon, &task_id)), asked);
    let yes = json!({ "action": "accept", "content": { "approve": true, "reason": "fine" } });
    assert!(say(&daemon, &task_id, &asked, &yes)["error"].is_null());
    let done =
        until("the end", || Some(get(&daemon, &task_id)).filter(|it| it["status"] == "completed"));
    assert_eq!(done["result"]["structuredContent"]["args"]["name"], "Ada", "{done}");
    // A second yes does nothing a second time.
    assert!(say(&daemon, &task_id, &asked, &yes)["error"].is_null());
    assert_eq!(calls_made(&daemon, &task_id), 1);
}

#[test]
fn a_no_ends_the_call() {
    let daemon = Daemon::start(&config(true), &[]);
    let task_id = task(&daemon);
    let asked = key(&get(&daemon, &task_id));
    say(&daemon, &task_id, &asked, &json!({ "action": "decline" }));
    let done =
        until("the end", || Some(get(&daemon, &task_id)).filter(|it| it["status"] != "working"));
    assert_eq!(done["result"]["isError"], true, "{done}");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("APPROVAL_DENIED"));
    assert_eq!(calls_made(&daemon, &task_id), 0);
}

#[test]
fn who_asked_is_not_asked_unless_the_operator_says_so() {
    let daemon = Daemon::start(&config(false), &[]);
    let task_id = task(&daemon);
    let waits = get(&daemon, &task_id);
    assert_eq!(waits["status"], "working");
    let message = waits["statusMessage"].as_str().unwrap();
    assert!(message.contains("waits for a person's approval"), "{message}");
    let open = daemon.get("/v1/approvals").ok();
    let approval_id = open["approvals"][0]["approval_id"].as_str().unwrap();
    let guess = format!("approval-{approval_id}");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    say(&daemon, &task_id, &guess, &yes);
    assert_eq!(calls_made(&daemon, &task_id), 0);
    daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({})).send();
    until("the end", || (get(&daemon, &task_id)["status"] == "completed").then_some(()));
    assert_eq!(calls_made(&daemon, &task_id), 1);
}

#[test]
fn an_administrator_answers_for_others() {
    let daemon = Daemon::start(&config(false), &[]);
    let task_id = task(&daemon);
    let seen = result(&daemon, "tasks/get", json!({ "taskId": task_id }), &able());
    let asked = key(&seen);
    let params = json!({ "taskId": task_id,
        "inputResponses": { asked: { "action": "accept", "content": { "approve": true } } } });
    result(&daemon, "tasks/update", params, &able());
    until("the end", || (get(&daemon, &task_id)["status"] == "completed").then_some(()));
}

#[test]
fn task_update_under_another_policy_keeps_the_approval() {
    let daemon = Daemon::start(&config(true), &[]);
    let task_id = task(&daemon);
    let asked = key(&get(&daemon, &task_id));
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    daemon.stage.configure(&config(true).replace("are final", "are very final"));
    daemon.ask("POST", "/v1/reload").ok();
    for _ in 0..2 {
        let refused = say(&daemon, &task_id, &asked, &yes);
        assert_eq!(refused["error"]["data"]["code"], "APPROVAL_NOT_EXECUTABLE", "{refused}");
        let hint = refused["error"]["data"]["hint"].as_str().unwrap();
        assert!(hint.contains("`--config`"), "{hint}");
    }
    assert_eq!(calls_made(&daemon, &task_id), 0);
    daemon.stage.configure(&config(true));
    daemon.ask("POST", "/v1/reload").ok();
    assert!(say(&daemon, &task_id, &asked, &yes)["error"].is_null());
    until("the end", || (get(&daemon, &task_id)["status"] == "completed").then_some(()));
    assert_eq!(calls_made(&daemon, &task_id), 1);
}

#[test]
fn a_call_of_a_token_that_is_gone_is_not_approved() {
    let daemon = Daemon::start(&config(false), &[]);
    let task_id = task(&daemon);
    nexus_router::access::revoke(&daemon.stage.path("data/tokens.json"), "apply").unwrap();
    until("the token to be gone", || {
        (daemon.get("/v1/runs").by("apply").begin().response().status == 401).then_some(())
    });
    let open = daemon.get("/v1/approvals").ok();
    let approval_id = open["approvals"][0]["approval_id"].as_str().unwrap();
    let approve = format!("/v1/approvals/{approval_id}/approve");
    daemon.post(&approve, &json!({})).refused(409, "APPROVAL_CALLER_GONE");
    assert_eq!(calls_made(&daemon, &task_id), 0);
    daemon.post(&format!("/v1/approvals/{approval_id}/deny"), &json!({})).ok();
}

#[test]
fn nothing_is_decided_while_the_router_stops() {
    use rustix::process::{Pid, Signal, kill_process};
    let daemon = Daemon::start(&config(true), &[]);
    let task_id = task(&daemon);
    let asked = key(&get(&daemon, &task_id));
    daemon.hold();
    let process_id = i32::try_from(daemon.process_id()).unwrap();
    kill_process(Pid::from_raw(process_id).unwrap(), Signal::TERM).unwrap();
    until("the drain", || (daemon.get("/readyz").send().status == 503).then_some(()));
    for response in [
        json!({ "action": "accept", "content": { "approve": true } }),
        json!({ "action": "decline" }),
    ] {
        let refused = say(&daemon, &task_id, &asked, &response);
        assert_eq!(refused["error"]["data"]["code"], "DRAINING", "{refused}");
    }
    assert_eq!(key(&get(&daemon, &task_id)), asked);
}

#[test]
fn arguments_that_are_not_shown_in_full_are_told_to_be_cut() {
    let daemon = Daemon::start(&config(true), &[]);
    let params = json!({ "name": "greet", "arguments": { "name": "x".repeat(5000) } });
    let task = answer(&modern(&daemon, "tools/call", params, &able()).by("apply"));
    let task_id = task["result"]["taskId"].as_str().unwrap();
    let seen = get(&daemon, task_id);
    let message = &seen["inputRequests"][key(&seen)]["params"]["message"];
    let message = message.as_str().unwrap();
    let open = daemon.get("/v1/approvals").ok();
    let digest = open["approvals"][0]["args_digest"].as_str().unwrap();
    for part in ["the first 1000 of 5011 characters", digest] {
        assert!(message.contains(part), "{message}");
    }
}
