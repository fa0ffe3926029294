//! What it is to wait: nothing stays in memory, everybody is told, and time does not count.

use std::time::Duration;

use nexus_router::policy::Law;
use nexus_router::router::Answer;
use nexus_router::store::{ApprovalFilter, Status};
use serde_json::json;

use super::{Office, asks, by, decide, ended, open, payloads, risky, run, step_error, waits};
use crate::engine::{plan, set};

#[test]
fn a_run_waits_and_goes_on_when_it_is_approved() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let outcome = run(&router, &set(plan(&["a", "risky", "b"]), "/goal", json!("buy")));
    let waiting = outcome.waiting.as_ref().unwrap();
    assert_eq!((outcome.status, outcome.results.len()), (Status::Running, 1));
    assert_eq!((waiting.step_id.as_str(), waiting.method.as_str()), ("s2", "risky"));
    assert_eq!(waiting.reason.as_deref(), Some("it is risky"));
    let told = outcome.to_json().to_serde();
    assert_eq!(told["waiting"]["approval_id"], json!(waiting.approval_id));
    assert_eq!((&told["status"], &told["outcome"]), (&json!("RUNNING"), &json!(null)));
    assert_eq!((router.runs_in_flight(), router.live()), (0, vec![]), "nothing of it is there");
    assert_eq!(router.store().orphans().unwrap(), [""; 0], "and nobody needs to see to it");
    assert_eq!(office.calls(), 1);
    assert_eq!(office.course(&outcome.run_id), "S Q + C S ask");

    let (approvals, total) = router.approvals(&ApprovalFilter::default()).unwrap();
    assert_eq!((approvals.len(), total), (1, 1));
    let approval = &approvals[0];
    assert_eq!((&approval.approval_id, &approval.run_id), (&waiting.approval_id, &outcome.run_id));
    assert_eq!(approval.caller.as_ref().unwrap().name, "agent");
    assert_eq!(
        (approval.state(), approval.tool(), approval.rule.as_str()),
        ("open", "t", "rule-1")
    );

    let outcome = decide(&router, &waiting.approval_id, Answer::Approve);
    assert_eq!(
        (outcome.status, outcome.waiting, outcome.results.len()),
        (Status::Completed, None, 3)
    );
    assert_eq!(office.calls(), 3);
    let course = "S Q + C S ask approved Q + C S Q + C provenance completed";
    assert_eq!(office.course(&outcome.run_id), course);
    assert_eq!(open(router.store()), [""; 0]);
    let decided = router.store().approval(&approval.approval_id).unwrap().unwrap();
    let ruling = decided.ruling.unwrap();
    assert_eq!((ruling.by.as_deref(), ruling.reason.as_deref()), (Some("ada"), Some("because")));
}

#[test]
fn a_refused_step_is_recorded_as_other_denials_are() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, approval_id) = waits(&router, &plan(&["risky", "b"]));
    let outcome = decide(&router, &approval_id, Answer::Deny);
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("step_failed")));
    let error = step_error(&outcome);
    assert_eq!(error.code, "APPROVAL_DENIED");
    assert_eq!(error.message, "ada did not approve the call: because");
    let details = serde_json::Value::from(error.details.to_serde());
    let expected = json!({ "approval_id": approval_id, "by": "ada", "reason": "because",
        "denied_by": "approval" });
    assert_eq!(details, expected);
    assert_eq!(office.course(&run_id), "S ask denied Q - C provenance failed");
    assert_eq!(office.calls(), 0);
}

#[test]
fn a_run_that_continues_on_errors_goes_on_after_a_no() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let request = set(plan(&["risky", "b", "risky"]), "/policy/on_error", json!("continue"));
    let (run_id, first) = waits(&router, &request);
    let outcome = decide(&router, &first, Answer::Deny);
    let second = outcome.waiting.unwrap().approval_id;
    let outcome = decide(&router, &second, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Failed, 2));
    let course = "S ask denied Q - C S Q + C S ask approved Q + C provenance failed";
    assert_eq!(office.course(&run_id), course);
}

#[test]
fn nobody_is_asked_in_a_dry_run_or_about_what_is_denied_anyway() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let outcome = run(&router, &set(plan(&["risky", "b"]), "/mode", json!("dry_run")));
    assert_eq!(outcome.status, Status::Completed);
    let output = |index: usize| outcome.results[index].output.get("approval_required").cloned();
    assert_eq!(output(0), Some(true.into()));
    assert_eq!(output(1), None);
    let denied = [
        set(risky(), "/policy/allow_apply", json!(false)),
        set(risky(), "/plan_override/0/call/args", json!({ "x": { "$secret": "NONE" } })),
    ];
    for (request, code) in denied.iter().zip(["PERMISSION_DENIED", "SECRET_UNKNOWN"]) {
        let outcome = run(&router, request);
        assert_eq!((outcome.waiting.as_ref(), step_error(&outcome).code.as_str()), (None, code));
    }
    let closed = office.router(Law { apply: false, ..asks("risky") });
    assert_eq!(step_error(&run(&closed, &risky())).code, "PERMISSION_DENIED");
    assert_eq!(open(router.store()), [""; 0]);
}

#[test]
fn plan_that_redaction_changes_waits() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let request =
        set(plan(&["a", "risky"]), "/plan_override/0/call/args", json!({ "password": "hunter2" }));
    let (run_id, approval_id) = waits(&router, &request);
    assert_eq!((office.calls(), open(router.store()).len()), (1, 1));
    let outcome = decide(&router, &approval_id, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Completed, 2));
    assert_eq!(office.course(&run_id), "S Q + C S ask approved Q + C provenance completed");
}

#[test]
fn waiting_takes_nothing_of_the_time_of_a_run() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let request = set(plan(&["sleeps", "risky"]), "/timeout_ms", json!(3000));
    let (run_id, approval_id) = waits(&router, &request);
    // Longer than the run may take: what is tested is that this time does not count.
    std::thread::sleep(Duration::from_millis(3100));
    let outcome = decide(&router, &approval_id, Answer::Approve);
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
    let events = payloads(&office.log(&run_id));
    let asked = &events.iter().find(|(kind, _)| kind == "APPROVAL_REQUESTED").unwrap().1;
    let under_way = asked["under_way_ms"].as_u64().unwrap();
    assert!((200..3000).contains(&under_way), "{under_way}: the time before counts");
}

#[test]
fn time_before_a_question_counts() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let request = set(plan(&["sleeps", "risky", "sleeps", "b"]), "/timeout_ms", json!(390));
    let outcome = run(&router, &request);
    let Some(waiting) = outcome.waiting else {
        // The machine was too slow for it to get that far.
        assert_eq!(outcome.reason.as_deref(), Some("timed_out"));
        return;
    };
    let outcome = decide(&router, &waiting.approval_id, Answer::Approve);
    assert_eq!(outcome.reason.as_deref(), Some("timed_out"), "{outcome:?}");
}

#[test]
fn a_key_leads_to_the_run_that_waits_and_to_what_came_of_it() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let request = set(risky(), "/idempotency_key", json!("k"));
    let (run_id, approval_id) = waits(&router, &request);
    assert_eq!(waits(&router, &request), (run_id.clone(), approval_id.clone()));
    let outcome = decide(&router, &approval_id, Answer::Approve);
    assert_eq!(outcome.status, Status::Completed);
    let again = run(&router, &request);
    assert_eq!((again.run_id, again.status, again.waiting), (run_id, Status::Completed, None));
    assert_eq!(office.calls(), 1);
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (run_id, approval_id) = waits(&router, &risky());
    let cancel = |may: bool| {
        runtime.block_on(router.cancel_waiting(&run_id, Some("ada"), |caller| {
            assert_eq!(caller.unwrap().name, "agent");
            may
        }))
    };
    assert_eq!(cancel(false).unwrap(), Some(false));
    assert_eq!(open(router.store()), [approval_id.as_str()]);
    assert_eq!(cancel(true).unwrap(), Some(true));
    assert_eq!(cancel(true).unwrap(), None);
    let outcome = ended(&router, &run_id);
    assert_eq!(outcome.reason.as_deref(), Some("cancelled"));
    assert_eq!(office.course(&run_id), "S ask void C provenance failed");
    let ruling = router.store().approval(&approval_id).unwrap().unwrap().ruling.unwrap();
    assert_eq!(ruling.by.as_deref(), Some("ada"));
    assert_eq!(office.calls(), 0);
}

#[test]
fn a_run_that_is_cancelled_before_it_waits_does_not_wait() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    // It is asked to end before it has begun, or while it comes to wait; it must end in every case.
    let submission = by("agent", &plan(&["sleeps", "risky"]));
    let (run_id, canceller) = (submission.run_id().to_owned(), submission.canceller());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| router.run_blocking(submission).unwrap());
        canceller.cancel();
        assert_ne!(run.join().unwrap().status, Status::Running);
    });
    assert_eq!(ended(&router, &run_id).reason.as_deref(), Some("cancelled"));
    assert_eq!(open(router.store()), [""; 0]);
}
