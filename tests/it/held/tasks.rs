//! Tasks that ask their caller: the further run that answers has the original arguments.

use serde_json::{Value, json};

use super::{ORIGINAL, assert_no_original, held};
use crate::daemon::support::{Daemon, until};
use crate::mcp::support::{ADAPTERS, able, answer, modern, result};

/// Begins a task that asks its caller, with a file name that redaction changes.
fn begin(daemon: &Daemon) -> String {
    let file = format!("token={ORIGINAL}");
    let params = json!({ "name": "confirm_delete", "arguments": { "filename": file } });
    let task = result(daemon, "tools/call", params, &able());
    assert_eq!(task["resultType"], "task", "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

fn get(daemon: &Daemon, task_id: &str) -> Value {
    result(daemon, "tasks/get", json!({ "taskId": task_id }), &able())
}

fn key(daemon: &Daemon, task_id: &str) -> String {
    let asks = until("the question", || {
        Some(get(daemon, task_id)).filter(|task| task["status"] == "input_required")
    });
    asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone()
}

fn answer_with(task_id: &str, key: &str) -> Value {
    json!({ "taskId": task_id,
        "inputResponses": { key: { "action": "accept", "content": { "confirm": true } } } })
}

#[test]
fn answered_task_has_the_original_after_a_kill() {
    let mut daemon = Daemon::start(ADAPTERS, &[]);
    let db = daemon.stage.path("data/runs.db");
    let task_id = begin(&daemon);
    let key = key(&daemon, &task_id);
    assert_eq!(held(&db), 1, "the answer needs the original");
    daemon.kill();
    assert_no_original(&daemon.stage.path("data"));
    let daemon = daemon.again();
    result(&daemon, "tasks/update", answer_with(&task_id, &key), &able());
    let done = until("the end", || {
        Some(get(&daemon, &task_id)).filter(|task| task["status"] == "completed")
    });
    assert!(done.to_string().contains(ORIGINAL), "{done}");
    assert_eq!(held(&db), 0);
    let checked = daemon.stage.program().args(["store", "check", "--data-dir", "data"]).output();
    assert!(checked.unwrap().status.success());
    assert_no_original(&daemon.stage.path("data"));
}

#[test]
fn cancelled_task_that_asks_removes_the_original() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let task_id = begin(&daemon);
    key(&daemon, &task_id);
    result(&daemon, "tasks/cancel", json!({ "taskId": task_id }), &able());
    until("the end", || (get(&daemon, &task_id)["status"] == "cancelled").then_some(()));
    assert_eq!(held(&daemon.stage.path("data/runs.db")), 0);
}

#[test]
fn task_without_its_original_can_be_cancelled() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let task_id = begin(&daemon);
    let key = key(&daemon, &task_id);
    let connection = rusqlite::Connection::open(daemon.stage.path("data/runs.db")).unwrap();
    connection.execute("DELETE FROM held_arguments", []).unwrap();
    let answered = answer(&modern(&daemon, "tasks/update", answer_with(&task_id, &key), &able()));
    assert_eq!(answered["error"]["data"]["code"], "TASK_UNRESUMABLE", "{answered}");
    result(&daemon, "tasks/cancel", json!({ "taskId": task_id }), &able());
    until("the end", || (get(&daemon, &task_id)["status"] == "cancelled").then_some(()));
}

#[test]
fn repeated_call_keeps_the_original_of_its_task() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let file = format!("token={ORIGINAL}");
    let params = json!({ "name": "confirm_delete", "arguments": { "filename": file },
        "_meta": { "nexus-router/idempotencyKey": "once" } });
    let task = result(&daemon, "tools/call", params.clone(), &able());
    let task_id = task["taskId"].as_str().unwrap().to_owned();
    let question = key(&daemon, &task_id);
    let repeated = result(&daemon, "tools/call", params, &able());
    assert_eq!(repeated["resultType"], "input_required", "{repeated}");
    assert_eq!(held(&daemon.stage.path("data/runs.db")), 1);
    result(&daemon, "tasks/update", answer_with(&task_id, &question), &able());
    until("the end", || (get(&daemon, &task_id)["status"] == "completed").then_some(()));
}

#[test]
fn question_without_a_task_removes_the_original() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let file = format!("token={ORIGINAL}");
    let params = json!({ "name": "confirm_delete", "arguments": { "filename": file } });
    let client = json!({ "elicitation": {} });
    let asked = answer(&modern(&daemon, "tools/call", params, &client));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(held(&daemon.stage.path("data/runs.db")), 0);
}
