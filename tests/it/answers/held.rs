//! Callers that fetch their answer later: it is held for them, encrypted, and for nobody else.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use super::{approve, assert_recorded, assert_whole, daemon, expected, leak};
use crate::daemon::support::{Daemon, until};
use crate::mcp::support::{able, answer, modern};

/// A rule that asks a person about `leak`.
const APPROVE: &str = "[[policy.rules]]\neffect = 'approve'\ntool = 'leak'\n";

fn get(daemon: &Daemon, run_id: &str, token: &str) -> Value {
    daemon.get(&format!("/v1/runs/{run_id}")).by(token).ok()["results"][0].clone()
}

#[test]
fn later_fetch_returns_the_answer_once_to_its_caller() {
    let daemon = daemon("");
    let run_id = daemon.post("/v1/runs?wait=false", &leak()).by("apply").send().run_id();
    daemon.ended(&run_id);
    // An administrator reads the recorded form, and leaves the answer to its caller.
    assert_recorded(&get(&daemon, &run_id, "admin"));
    assert_whole(&get(&daemon, &run_id, "apply"));
    assert_recorded(&get(&daemon, &run_id, "apply"));
}

#[test]
fn head_request_leaves_the_answer() {
    let daemon = daemon("");
    let run_id = daemon.post("/v1/runs?wait=false", &leak()).by("apply").send().run_id();
    daemon.ended(&run_id);
    let head = daemon.ask("HEAD", &format!("/v1/runs/{run_id}")).by("apply");
    let mut stream = std::net::TcpStream::connect(daemon.address).unwrap();
    let last = head.header("Connection", "close").bytes();
    stream.write_all(&last).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("\r\n\r\n"), "{response}");
    assert_whole(&get(&daemon, &run_id, "apply"));
}

#[test]
fn keys_tell_requests_apart_that_redaction_makes_equal() {
    let daemon = daemon("");
    let request = |password: &str| {
        let mut request = leak();
        request["idempotency_key"] = json!("once");
        request["plan_override"][0]["call"]["args"] = json!({ "password": password });
        request
    };
    let first = daemon.post("/v1/runs", &request("first11")).by("apply").ok();
    assert_eq!(daemon.post("/v1/runs", &request("first11")).by("apply").ok(), first);
    let other = daemon.post("/v1/runs", &request("second2")).by("apply");
    other.refused(422, "IDEMPOTENCY_KEY_TAKEN");
}

#[test]
fn schema_errors_of_outputs_show_no_property_of_a_secret() {
    let strict = "[[tools]]\nname = 'strict'\ndescription = 'Answers.'\nadapter = 'fake'\ntool = 't'\n\
                  method = 'leak'\noutput_schema = { type = 'object', properties = { known = { maxLength = 3 } } }\n";
    let daemon = daemon(strict);
    let answer = daemon.post("/v1/tools/strict", &json!({})).by("apply").send();
    let text = answer.text();
    assert!(text.contains("OUTPUT_INVALID") && text.contains("/known"), "{text}");
    assert!(!text.contains("length"), "{text}");
}

#[test]
fn held_answers_outlast_the_daemon() {
    let mut daemon = daemon("");
    let run_id = daemon.post("/v1/runs", &leak()).by("apply").send().run_id();
    daemon.kill();
    let daemon = daemon.again();
    assert_recorded(&get(&daemon, &run_id, "admin"));
    assert_whole(&get(&daemon, &run_id, "apply"));
}

#[test]
fn repeats_with_the_same_key_return_the_answer() {
    let mut daemon = daemon("");
    let mut request = leak();
    request["idempotency_key"] = json!("once");
    let first = daemon.post("/v1/runs", &request).by("apply").ok();
    for _ in 0..2 {
        let again = daemon.post("/v1/runs", &request).by("apply").ok();
        assert_eq!(again, first);
        assert_whole(&again["results"][0]);
    }
    let tool = || {
        let call = daemon.post("/v1/tools/leak", &json!({})).by("apply");
        call.header("Idempotency-Key", "twice").ok()
    };
    assert_eq!(tool(), tool());
    assert_whole(&tool());
    let params = json!({ "name": "leak", "arguments": {},
        "_meta": { "nexus-router/idempotencyKey": "thrice" } });
    let call = || answer(&modern(&daemon, "tools/call", params.clone(), &json!({})).by("apply"));
    assert_eq!(call(), call());
    assert_eq!(call()["result"]["structuredContent"].to_string(), expected().to_string());
    daemon.kill();
    let daemon = daemon.again();
    assert_eq!(daemon.post("/v1/runs", &request).by("apply").ok(), first);
}

#[test]
fn approved_calls_return_the_answer() {
    let daemon = daemon(APPROVE);
    let mut request = leak();
    request["idempotency_key"] = json!("approved");
    let accepted = daemon.post("/v1/runs", &request).by("apply").send();
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let run_id = accepted.run_id();
    approve(&daemon);
    daemon.ended(&run_id);
    assert_recorded(&get(&daemon, &run_id, "admin"));
    assert_whole(&daemon.post("/v1/runs", &request).by("apply").ok()["results"][0]);
    assert_whole(&get(&daemon, &run_id, "apply"));
    assert_recorded(&get(&daemon, &run_id, "apply"));
}

#[test]
fn tasks_return_the_answer_to_their_caller() {
    let daemon = daemon(APPROVE);
    let params = json!({ "name": "leak", "arguments": {} });
    let task = answer(&modern(&daemon, "tools/call", params, &able()).by("apply"));
    let task_id = task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let read = |token: &str| {
        let params = json!({ "taskId": task_id });
        answer(&modern(&daemon, "tasks/get", params, &able()).by(token))["result"].clone()
    };
    approve(&daemon);
    daemon.ended(&task_id);
    let others = read("admin");
    assert_eq!(others["status"], "completed", "{others}");
    assert_eq!(others["result"]["structuredContent"]["token"], "[REDACTED]", "{others}");
    assert_eq!(read("apply")["result"]["structuredContent"], expected());
    assert_eq!(read("apply")["result"]["structuredContent"]["token"], "[REDACTED]");
}

#[test]
fn clients_without_tasks_get_the_answer_after_approval() {
    let daemon = daemon(APPROVE);
    let params = json!({ "name": "leak", "arguments": {} });
    let mut wire = modern(&daemon, "tools/call", params, &json!({})).by("apply").begin();
    approve(&daemon);
    let answer = crate::mcp::support::read(&wire.response()).pop().unwrap();
    assert_eq!(answer["result"]["structuredContent"], expected(), "{answer}");
}

#[test]
fn earlier_steps_keep_their_answer_through_a_restart() {
    let mut daemon = daemon("");
    let mut request = leak();
    request["plan_override"].as_array_mut().unwrap().push(json!({ "step_id": "s2", "intent": "",
        "dispatch": { "adapter_id": "many" },
        "call": { "tool": "t", "method": "hold", "args": {} } }));
    let run_id = daemon.post("/v1/runs?wait=false", &request).by("apply").send().run_id();
    until("the second call", || (daemon.calls_in_flight("many") > 0).then_some(()));
    until("the first result", || (!get(&daemon, &run_id, "admin").is_null()).then_some(()));
    // A run that is under way keeps its answers, however often it is read.
    for _ in 0..2 {
        assert_whole(&get(&daemon, &run_id, "apply"));
    }
    daemon.kill();
    let daemon = daemon.again();
    until("the second call again, or the end", || {
        let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
        (daemon.calls_in_flight("many") > 0 || run["status"] != "RUNNING").then_some(())
    });
    daemon.release();
    daemon.ended(&run_id);
    assert_recorded(&get(&daemon, &run_id, "admin"));
    assert_whole(&get(&daemon, &run_id, "apply"));
}
