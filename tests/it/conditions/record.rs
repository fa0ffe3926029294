//! Decisions in the record, and conditions of runs that wait or are resumed.

use serde_json::json;

use super::{assert_decided, config, decisions, payment};
use crate::daemon::support::{Daemon, until};

/// A rule that allows every call.
const ALLOW: &str = "[[policy.rules]]\nid = 'open'\neffect = 'allow'\n";

/// Submits a payment that waits, and returns the run's id and the approval's.
fn waits(daemon: &Daemon) -> (String, String) {
    let answer = daemon.post("/v1/runs", &payment(&json!({ "amount": 500 }))).by("apply").send();
    assert_eq!(answer.status, 202, "{answer:?}");
    let approval_id = answer.json()["waiting"]["approval_id"].as_str().unwrap().to_owned();
    (answer.run_id(), approval_id)
}

#[test]
fn approval_names_the_rule_by_its_id() {
    let config = config().replace("effect = \"approve\"", "id = \"ask-ada\"\neffect = \"approve\"");
    let daemon = Daemon::start(&config, &[]);
    let (run_id, approval_id) = waits(&daemon);
    let approval = daemon.get(&format!("/v1/approvals/{approval_id}")).ok();
    assert_eq!(approval["rule"], "ask-ada", "{approval}");
    let asked = decisions(&daemon, &run_id);
    let [(kind, decision)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(kind, "APPROVAL_REQUESTED");
    assert_eq!(
        *decision,
        json!({ "effect": "approve", "rule": "ask-ada", "policy": approval["policy_version"] })
    );
}

#[test]
fn waiting_run_is_decided_again_after_a_restart() {
    let mut daemon = Daemon::start(&config(), &[]);
    let (run_id, approval_id) = waits(&daemon);
    daemon.kill();
    let daemon = daemon.again();
    daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({})).ok();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
    assert_decided(&daemon, &run_id, "approve", Some("rule-2"));
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
}

#[test]
fn recovered_run_meets_the_conditions_in_force() {
    let hold = "[[adapters]]\nref = \"probe_adapters:many_calls\"\nid = \"many\"\n";
    let rule = "[[policy.rules]]\nid = \"no-second\"\neffect = \"deny\"\nadapter = \"echo\"\nwhen = \"args.amount == 2\"\n";
    let mut daemon = Daemon::start(&format!("{}{hold}", super::TOOLS), &[]);
    // The first step holds until the daemon is gone; without effects outside, it is made again.
    let mut plan = payment(&json!({ "amount": 1 }));
    plan["plan_override"][0]["dispatch"] = json!({ "adapter_id": "many" });
    plan["plan_override"][0]["call"]["method"] = json!("hold");
    let mut second = payment(&json!({ "amount": 2 }))["plan_override"][0].clone();
    second["step_id"] = json!("s2");
    plan["plan_override"].as_array_mut().unwrap().push(second);
    let run_id = daemon.post("/v1/runs?wait=false", &plan).send().run_id();
    until("the call", || (daemon.calls_in_flight("many") > 0).then_some(()));
    daemon.kill();
    daemon.stage.configure(&format!("{}{hold}{rule}", super::TOOLS));
    let daemon = daemon.again();
    until("the repeated call", || (daemon.calls_in_flight("many") > 0).then_some(()));
    // A call is counted before it reaches its adapter, and a release ends only calls that are there.
    let run = until("the end of the run", || {
        daemon.release();
        let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
        (run["status"] != "RUNNING").then_some(run)
    });
    assert_eq!(run["results"][1]["error"]["code"], "PERMISSION_DENIED", "{run}");
    assert_decided(&daemon, &run_id, "deny", Some("no-second"));
}

#[test]
fn denied_call_never_records_that_it_is_allowed() {
    let apply = format!("{}[policy]\napply = false\n{}", super::TOOLS, ALLOW);
    let daemon = Daemon::start(&apply, &[]);
    let run = daemon.post("/v1/runs", &payment(&json!({ "amount": 1 }))).by("apply").ok();
    assert_eq!(run["results"][0]["error"]["code"], "PERMISSION_DENIED", "{run}");
    let decided = decisions(&daemon, run["run"]["run_id"].as_str().unwrap());
    let [(_, decision)] = &decided[..] else { panic!("{decided:?}") };
    assert_eq!(decision["effect"], "deny", "{decision}");
    assert_eq!((&decision["by"], &decision["rule"]), (&json!("operator"), &json!("open")));
}

#[test]
fn denied_approval_records_a_denial() {
    let daemon = Daemon::start(&config(), &[]);
    let (run_id, approval_id) = waits(&daemon);
    daemon.post(&format!("/v1/approvals/{approval_id}/deny"), &json!({})).ok();
    daemon.ended(&run_id);
    let decided = decisions(&daemon, &run_id);
    let (_, decision) = decided.last().unwrap();
    assert_eq!(
        (&decision["effect"], &decision["by"], &decision["rule"]),
        (&json!("deny"), &json!("approval"), &json!("rule-2")),
        "{decided:?}"
    );
}
