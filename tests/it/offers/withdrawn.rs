//! Offers that are withdrawn while a run waits, is recovered, or is a task.

use serde_json::{Value, json};

use super::{CONFIG, step, step_code};
use crate::daemon::support::{Daemon, until};
use crate::mcp::support::{able, answer, modern};

/// The configuration without an offer.
fn without(offer: &str) -> String {
    assert!(CONFIG.contains(offer));
    CONFIG.replace(offer, "")
}

fn reload(daemon: &Daemon, config: &str) {
    daemon.stage.configure(config);
    daemon.post("/v1/reload", &json!({})).ok();
}

#[test]
fn approved_step_needs_its_offer_still() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\nadapter = \"many\"\n";
    let daemon = Daemon::start(&format!("{CONFIG}{rule}"), &[]);
    let run =
        daemon.post("/v1/runs", &step("many", "get_all", "any", json!({}))).by("apply").send();
    let run_id = run.run_id();
    let approval_id = run.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    reload(&daemon, &format!("{}{rule}", without("offer = { tools = [\"GET_*\"] }")));
    let approve = daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    let refused = approve.refused(409, "APPROVAL_NOT_EXECUTABLE");
    assert!(refused["detail"].as_str().unwrap().contains("is not offered"), "{refused}");
    // The refusal did not use up the approval.
    reload(&daemon, &format!("{CONFIG}{rule}"));
    approve.ok();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
}

#[test]
fn recovered_step_needs_its_offer_still() {
    let mut daemon = Daemon::start(CONFIG, &[]);
    let hold = step("many", "get_all", "hold", json!({}));
    let run_id = daemon.post("/v1/runs?wait=false", &hold).by("apply").send().run_id();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    daemon.kill();
    daemon.stage.configure(&without("offer = { tools = [\"GET_*\"] }"));
    // The call has no effects, so that the daemon makes it again.
    let daemon = daemon.again();
    assert_eq!(step_code(&daemon.ended(&run_id)), "NOT_OFFERED");
}

#[test]
fn answered_task_needs_its_offer_still() {
    let daemon = Daemon::start(CONFIG, &[]);
    let ask = |method: &str, params: Value| -> Value {
        answer(&modern(&daemon, method, params, &able()).by("apply"))["result"].clone()
    };
    let begin = json!({ "name": "c.confirm_delete", "arguments": { "filename": "a.txt" } });
    let task = ask("tools/call", begin);
    let task_id = task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let get = || ask("tasks/get", json!({ "taskId": task_id }));
    let asks =
        until("the question", || Some(get()).filter(|task| task["status"] == "input_required"));
    let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    reload(&daemon, &without(", \"confirm_delete\""));
    let responses = json!({ key: { "action": "accept", "content": { "confirm": true } } });
    ask("tasks/update", json!({ "taskId": task_id, "inputResponses": responses }));
    let ended = until("the end", || {
        Some(get()).filter(|task| {
            !["working", "input_required"].contains(&task["status"].as_str().unwrap())
        })
    });
    assert_eq!(ended["status"], "failed", "{ended}");
    daemon.audited(|event| event["payload"]["reason"] == "NOT_OFFERED");
}
