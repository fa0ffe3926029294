//! Tasks: in the store before anybody hears of them, followed, answered, cancelled, and nobody else's.

use serde_json::{Value, json};

use super::support::{ADAPTERS, able, answer, call, modern, result};
use crate::daemon::support::{Daemon, until};

fn begin(daemon: &Daemon, tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    let task = result(daemon, "tools/call", params, &able());
    assert_eq!(task["resultType"], "task", "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

fn get(daemon: &Daemon, task_id: &str) -> Value {
    result(daemon, "tasks/get", json!({ "taskId": task_id }), &able())
}

fn status(daemon: &Daemon, task_id: &str, wanted: &str) -> Value {
    until(wanted, || Some(get(daemon, task_id)).filter(|task| task["status"] == wanted))
}

#[test]
fn a_long_call_is_a_task_for_those_who_can_follow() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let args = json!({ "seconds": 1, "label": "x" });
    let task_id = begin(&daemon, "slow_compute", &args);
    let done = status(&daemon, &task_id, "completed");
    assert!(done["result"]["content"][0]["text"].is_string(), "{done}");
    assert!(call(&daemon, "slow_compute", &args)["content"].is_array());
    // It is a run like any other.
    assert_eq!(daemon.get(&format!("/v1/runs/{task_id}")).ok()["status"], "COMPLETED");
}

#[test]
fn a_task_outlives_the_daemon() {
    let mut daemon = Daemon::start(ADAPTERS, &[]);
    let task_id = begin(&daemon, "slow_compute", &json!({ "seconds": 60, "label": "x" }));
    daemon.kill();
    let daemon = daemon.again();
    // Its call had no effects outside, so it is made again.
    let task = get(&daemon, &task_id);
    assert!(
        ["working", "completed", "failed"].contains(&task["status"].as_str().unwrap()),
        "{task}"
    );
    result(&daemon, "tasks/cancel", json!({ "taskId": task_id }), &able());
    until("the end of the task", || (get(&daemon, &task_id)["status"] != "working").then_some(()));
}

#[test]
fn a_task_is_nobody_elses() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let task_id = begin(&daemon, "slow_compute", &json!({ "seconds": 60, "label": "x" }));
    for (method, id) in
        [("tasks/get", task_id.as_str()), ("tasks/cancel", &task_id), ("tasks/get", "none")]
    {
        let params = json!({ "taskId": id });
        let refused = answer(&modern(&daemon, method, params, &able()).by("apply"));
        assert_eq!(refused["error"]["data"]["code"], "UNKNOWN_TASK", "{refused}");
    }
    let lacking = answer(&modern(&daemon, "tasks/get", json!({ "taskId": task_id }), &json!({})));
    assert_eq!(lacking["error"]["code"], -32021);
    result(&daemon, "tasks/cancel", json!({ "taskId": task_id }), &able());
    status(&daemon, &task_id, "cancelled");
}

#[test]
fn a_task_that_asks_goes_on_with_the_answer() {
    let mut daemon = Daemon::start(ADAPTERS, &[]);
    let task_id = begin(&daemon, "confirm_delete", &json!({ "filename": "a.txt" }));
    let asks = status(&daemon, &task_id, "input_required");
    let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    // The question is in the store, and is asked after a restart too.
    daemon.kill();
    let daemon = daemon.again();
    assert_eq!(get(&daemon, &task_id)["status"], "input_required");
    let update = |key: &str| {
        let params = json!({ "taskId": task_id,
            "inputResponses": { key: { "action": "accept", "content": { "confirm": true } } } });
        result(&daemon, "tasks/update", params, &able());
    };
    update("nobody-asked");
    assert_eq!(get(&daemon, &task_id)["status"], "input_required");
    update(&key);
    status(&daemon, &task_id, "completed");
    update(&key);
}

#[test]
fn a_plan_is_a_task_too() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let step = |n: usize| {
        json!({ "step_id": format!("s{n}"), "intent": "", "dispatch": { "adapter_id": "conformance" },
            "call": { "tool": "slow_compute", "method": "call", "args": { "seconds": 1, "label": "x" } } })
    };
    let plan = json!({ "goal": "two", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [step(0), step(1)] });
    let task_id = begin(&daemon, "nexus-router.run", &plan);
    let done = status(&daemon, &task_id, "completed");
    let whole = &done["result"]["structuredContent"];
    assert_eq!(
        (&whole["status"], whole["results"].as_array().unwrap().len()),
        (&json!("COMPLETED"), 2)
    );
}
