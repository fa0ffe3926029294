//! Runs with held arguments resume with their originals after the daemon is killed, in every state.

use serde_json::json;

use super::{
    args, assert_done, assert_no_original, called_with, config, db, decide, held, open_approval,
    request, stage, waits,
};
use crate::daemon::support::{Daemon, plan, until};

/// Kills the daemon, looks for the original in its files, and starts it again.
fn restart(mut daemon: Daemon) -> Daemon {
    daemon.kill();
    assert_no_original(&daemon.stage.path("data"));
    assert_eq!(held(&db(&daemon.stage)), 1);
    daemon.again()
}

#[test]
fn run_that_waits_for_approval_resumes_after_a_kill() {
    let daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk", "t"]));
    let daemon = restart(daemon);
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 2);
}

#[test]
fn denied_run_is_removed_after_a_kill() {
    let daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    let daemon = restart(daemon);
    decide(&daemon, &open_approval(&daemon), "deny");
    assert_eq!(daemon.ended(&run_id)["results"][0]["error"]["code"], "APPROVAL_DENIED");
    assert_eq!((held(&db(&daemon.stage)), called_with(&daemon.stage).len()), (0, 0));
}

#[test]
fn run_that_waits_for_a_slot_resumes_after_a_kill() {
    let daemon = stage("").start(&[]);
    let mut slow = plan("shop", "t", "slow");
    slow["plan_override"][0]["call"]["args"] = json!({});
    daemon.post("/v1/runs?wait=false", &slow).send();
    until("the slow call", || (called_with(&daemon.stage).len() == 1).then_some(()));
    let run_id = daemon.post("/v1/runs?wait=false", &request(&["t"])).by("apply").send().run_id();
    until("the queued call", || {
        (daemon.metric("nexus_router_calls_waiting{adapter=\"shop\"}") == 1.0).then_some(())
    });
    let daemon = restart(daemon);
    let run = daemon.ended(&run_id);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(called_with(&daemon.stage), [json!({}), args()]);
    assert_eq!(held(&db(&daemon.stage)), 0);
}

#[test]
fn run_between_steps_resumes_after_a_kill() {
    let daemon = stage("").start(&[]);
    // Two steps are done, and the third waits.
    let run_id = waits(&daemon, &request(&["risk", "t", "risk"]));
    decide(&daemon, &open_approval(&daemon), "approve");
    until("two calls", || (called_with(&daemon.stage).len() == 2).then_some(()));
    let second = open_approval(&daemon);
    let daemon = restart(daemon);
    assert_eq!(open_approval(&daemon), second);
    decide(&daemon, &second, "approve");
    assert_done(&daemon, &run_id, 3);
}

#[test]
fn repeats_safe_call_with_original_after_kill() {
    // Calls of an adapter without side effects are repeated.
    let stage = stage("");
    let text = config(&stage, "").replace("[\"apply\", \"external\"]", "[\"apply\"]");
    stage.configure(&text);
    let daemon = stage.start(&[]);
    let mut request = plan("shop", "t", "slow");
    request["plan_override"][0]["call"]["args"] = args();
    let run_id = daemon.post("/v1/runs?wait=false", &request).send().run_id();
    until("the call", || (called_with(&daemon.stage).len() == 1).then_some(()));
    let daemon = restart(daemon);
    until("the repeated call", || (called_with(&daemon.stage).len() == 2).then_some(()));
    assert_eq!(called_with(&daemon.stage), [args(), args()]);
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).send().status, 202);
    assert_eq!(daemon.ended(&run_id)["reason"], "cancelled");
    assert_eq!(held(&db(&daemon.stage)), 0);
}

#[test]
fn repeated_key_resumes_the_run_after_a_kill() {
    let daemon = stage("").start(&[]);
    let mut first = request(&["risk"]);
    first["idempotency_key"] = json!("once");
    let run_id = waits(&daemon, &first);
    let daemon = restart(daemon);
    assert_eq!(waits(&daemon, &first), run_id);
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
}
