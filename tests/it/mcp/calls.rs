//! Calls: what comes back, what is heard on the way, what is recorded, and how they are cancelled.

use serde_json::{Value, json};

use super::support::{ADAPTERS, Session, answer, call, messages, modern, result, runs};
use crate::daemon::support::{Daemon, until};

#[test]
fn a_call_is_a_run() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let result = call(&daemon, "greet", &json!({ "name": "Ada" }));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["structuredContent"]["args"], json!({ "name": "Ada" }));
    assert!(result["structuredContent"]["adapter_id"].is_null(), "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    let run_id = result["_meta"]["nexus-router/runId"].as_str().unwrap();
    let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
    assert_eq!((&run["status"], &run["goal"]), (&json!("COMPLETED"), &json!("call greet")));
}

#[test]
fn arguments_that_do_not_fit_are_recorded_and_nothing_is_called() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    for arguments in [json!({}), json!({ "name": 1 })] {
        let result = call(&daemon, "greet", &arguments);
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("ARGUMENTS_INVALID"));
        let run_id = result["_meta"]["nexus-router/runId"].as_str().unwrap();
        let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
        assert_eq!(run["status"], "FAILED");
        assert_eq!(run["results"][0]["error"]["code"], "ARGUMENTS_INVALID", "{run}");
    }
    // The same holds for plans, and is told before they are carried out.
    let plan = json!({ "goal": "try", "mode": "dry_run", "plan_override": [{ "step_id": "s", "intent": "",
        "call": { "tool": "greet", "method": "hello", "args": {} },
        "dispatch": { "adapter_id": "echo" } }] });
    let run = daemon.post("/v1/runs", &plan).ok();
    assert_eq!(run["results"][0]["error"]["code"], "ARGUMENTS_INVALID", "{run}");
}

#[test]
fn an_output_is_held_to_its_schema() {
    let config = format!(
        "{ADAPTERS}\n[[tools]]\nname = 'liar'\ndescription = 'Promises a number.'\nadapter = 'echo'\n\
         method = 'lie'\noutput_schema = {{ type = 'object', required = ['number'] }}\n"
    );
    let daemon = Daemon::start(&config, &[]);
    let params = json!({ "name": "liar", "arguments": {} });
    let broken = answer(&modern(&daemon, "tools/call", params, &json!({})));
    assert_eq!(broken["error"]["code"], -32603, "{broken}");
    assert_eq!(broken["error"]["data"]["code"], "OUTPUT_INVALID");
    assert_eq!(runs(&daemon)[0]["status"], "FAILED");
}

#[test]
fn progress_is_heard_before_the_answer() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let params = json!({ "name": "test_tool_with_progress", "arguments": {},
        "_meta": { "progressToken": "p" } });
    let heard = messages(&modern(&daemon, "tools/call", params, &json!({})));
    let (last, told) = heard.split_last().unwrap();
    assert!(last["result"].is_object(), "{last}");
    let progress: Vec<f64> = told
        .iter()
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| message["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(progress.len() >= 3 && progress.is_sorted(), "{heard:?}");
}

#[test]
fn a_key_makes_a_call_once() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let once = |name: &str| {
        let params = json!({ "name": "greet", "arguments": { "name": name },
            "_meta": { "nexus-router/idempotencyKey": "k1" } });
        answer(&modern(&daemon, "tools/call", params, &json!({})))
    };
    let run_id = |answer: &Value| answer["result"]["_meta"]["nexus-router/runId"].clone();
    let (first, second) = (once("Ada"), once("Ada"));
    assert!(run_id(&first).is_string() && run_id(&first) == run_id(&second), "{first} {second}");
    assert_eq!(once("Eve")["error"]["data"]["code"], "IDEMPOTENCY_KEY_TAKEN");
    assert_eq!(runs(&daemon).iter().filter(|run| run["goal"] == "call greet").count(), 1);
}

/// Waits until the only run that is held is over, and returns how it ended.
fn cancelled(daemon: &Daemon) {
    let run = until("the end of the held call", || {
        runs(daemon)
            .into_iter()
            .find(|run| run["goal"] == "call hold" && run["status"] != "RUNNING")
    });
    let run = daemon.get(&format!("/v1/runs/{}", run["run_id"].as_str().unwrap())).ok();
    assert_eq!(run["error"]["code"], "RUN_CANCELLED", "{run}");
    until("the call to be gone", || (daemon.calls_in_flight("many") == 0).then_some(()));
    daemon.audited(|event| event["kind"] == "run.cancelled");
}

#[test]
fn a_closed_stream_cancels() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let params = json!({ "name": "hold", "arguments": {} });
    let wire = modern(&daemon, "tools/call", params, &json!({})).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    drop(wire);
    cancelled(&daemon);
}

#[test]
fn a_notification_cancels_in_a_session() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let params = json!({ "name": "hold", "arguments": {} });
    let wire = session.ask("tools/call", &params).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7, "reason": "enough" } });
    assert_eq!(session.send(&cancel).begin().response().status, 202);
    cancelled(&daemon);
    drop(wire);
}

#[test]
fn questions_are_sent_back_with_a_state_of_one_caller() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let tool = "test_input_required_result_request_state";
    let client = json!({ "elicitation": {} });
    let first = result(&daemon, "tools/call", json!({ "name": tool }), &client);
    assert_eq!(first["resultType"], "input_required", "{first}");
    let key = first["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let state = first["requestState"].as_str().unwrap();
    let again = |state: &str, token: &str| {
        let params = json!({ "name": tool, "requestState": state,
            "inputResponses": { &key: { "action": "accept", "content": { "ok": true } } } });
        answer(&modern(&daemon, "tools/call", params, &client).by(token))
    };
    let stolen = again(state, "apply");
    assert_eq!(stolen["error"]["data"]["code"], "REQUEST_STATE_INVALID", "{stolen}");
    let changed = again(&format!("{state}x"), "admin");
    assert_eq!(changed["error"]["code"], -32602, "{changed}");
    assert_eq!(again(state, "admin")["result"]["resultType"], "complete");
}
