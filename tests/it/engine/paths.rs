//! Every way a run can go, with the exact sequence of its events.

use nexus_router::json;
use nexus_router::outcome::{Outcome, StepStatus};
use nexus_router::router::Error;
use nexus_router::store::Status;
use serde_json::{Value, json};

use super::{Bench, answers, plan, set};

fn failing() -> Value {
    json!({ "responses": [
        answers("bad", json!({ "operational_error": { "error_code": "TOOL_ERROR", "message": "no",
            "details": { "returncode": 3, "password": "hunter2" } } })),
        answers("bug", json!({ "bug_error": { "error_code": "ADAPTER_BUG", "message": "invariant" } })),
        answers("boom", json!({ "unknown_exception": "as was asked for" })),
    ] })
}

fn statuses(outcome: &Outcome) -> Vec<StepStatus> {
    outcome.results.iter().map(|result| result.status).collect()
}

#[test]
fn a_dry_run_calls_nobody() {
    let bench = Bench::new(&[("fake", json!({ "traces": "/nonexistent/traces" }))]);
    let request = set(plan(&["a", "b"]), "/mode", json!("dry_run"));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(
        bench.course(&outcome.run_id),
        "started plan selected S Q + C S Q + C provenance completed"
    );
    assert_eq!(outcome.status, Status::Completed);
    let response = outcome.to_json().to_serde();
    let output = json!({ "simulated": true, "adapter_id": "fake", "tool": "t", "method": "a" });
    assert_eq!(response["results"][0]["output"], output);
    assert_eq!(response["summary"]["outputs_applied"], 0);
    assert_eq!((&response["status"], &response["outcome"]), (&json!("COMPLETED"), &json!("ok")));
}

#[test]
fn a_plan_without_steps_completes() {
    let bench = Bench::new(&[("fake", json!({}))]);
    let outcome = bench.run(&json!({ "goal": "nothing" })).unwrap();
    assert_eq!(bench.course(&outcome.run_id), "started plan selected provenance completed");
}

#[test]
fn apply_calls_each_step_in_order() {
    let bench = Bench::new(&[("fake", json!({}))]);
    let outcome = bench.run(&plan(&["a", "b", "a"])).unwrap();
    assert_eq!(
        bench.course(&outcome.run_id),
        "started plan selected S Q + C S Q + C S Q + C provenance completed"
    );
    let response = outcome.to_json().to_serde();
    assert_eq!(response["summary"]["tools_used"], json!(["a", "b"]));
    assert_eq!(response["results"][1]["output"].get("adapter_id"), None);
    assert_eq!(response["run"]["events_committed"], 17);
}

#[test]
fn an_operational_error_ends_the_run_gracefully() {
    let bench = Bench::new(&[("fake", failing())]);
    let outcome = bench.run(&plan(&["ok", "bad", "ok"])).unwrap();
    assert_eq!(
        bench.course(&outcome.run_id),
        "started plan selected S Q + C S Q - C provenance failed"
    );
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(statuses(&outcome), [StepStatus::Ok, StepStatus::Error, StepStatus::Skipped]);
    let response = outcome.to_json().to_serde();
    assert_eq!(response["reason"], "step_failed");
    let error = &response["results"][1]["error"];
    assert_eq!(error["code"], "TOOL_ERROR");
    assert_eq!(error["details"], json!({ "returncode": 3, "password": "[REDACTED]" }));
    let events = bench.events(&outcome.run_id);
    let (_, failed) = events.iter().find(|(kind, _)| kind == "TOOL_CALL_FAILED").unwrap();
    assert_eq!(failed["details"], error["details"]);
    let (_, last) = events.last().unwrap();
    assert_eq!(last["reason"], "step_failed");
    assert_eq!((&last["step_id"], &last["error_code"]), (&json!("s2"), &json!("TOOL_ERROR")));
}

#[test]
fn on_error_continue_goes_on_and_still_fails() {
    let bench = Bench::new(&[("fake", failing())]);
    let request = set(plan(&["bad", "ok"]), "/policy/on_error", json!("continue"));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(
        bench.course(&outcome.run_id),
        "started plan selected S Q - C S Q + C provenance failed"
    );
    assert_eq!(statuses(&outcome), [StepStatus::Error, StepStatus::Ok]);
    assert_eq!(outcome.status, Status::Failed);
}

#[test]
fn a_bug_or_a_panic_is_recorded_and_told_with_the_run() {
    let bench = Bench::new(&[("fake", failing())]);
    for (method, code) in [("bug", "ADAPTER_BUG"), ("boom", "ADAPTER_PANICKED")] {
        let request = set(plan(&["ok", method, "ok"]), "/policy/on_error", json!("continue"));
        let error = bench.run(&request).unwrap_err();
        let run_id = error.run_id().unwrap().to_owned();
        assert!(
            matches!(&error, Error::Bug { code: found, step_id, .. } if found == code && step_id == "s2")
        );
        assert_eq!(
            bench.course(&run_id),
            "started plan selected S Q + C S Q - C provenance failed",
            "{method}"
        );
        let (_, last) = bench.events(&run_id).pop().unwrap();
        assert_eq!((&last["reason"], &last["step_id"]), (&json!("bug_error"), &json!("s2")));
        assert_eq!(bench.log(&run_id).record.progress.status, Status::Failed);
    }
    // The adapter is usable as before.
    bench.run(&plan(&["ok"])).unwrap();
}

#[test]
fn policy_denies_before_the_call() {
    let bench = Bench::new(&[("fake", json!({ "traces": "/nonexistent/traces" }))]);
    let request = set(plan(&["a", "b"]), "/policy/allow_apply", json!(false));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(bench.course(&outcome.run_id), "started plan selected S Q - C provenance failed");
    let error = outcome.results[0].error.as_ref().unwrap();
    assert_eq!(error.code, "PERMISSION_DENIED");
    assert_eq!(error.message, "Policy does not allow apply (allow_apply=false).");
}

#[test]
fn an_adapter_without_apply_is_not_called() {
    let bench = Bench::new(&[("fake", json!({ "capabilities": ["dry_run"] }))]);
    // The missing capability is told rather than the policy.
    let outcome = bench.run(&set(plan(&["a"]), "/policy/allow_apply", json!(false))).unwrap();
    assert_eq!(bench.course(&outcome.run_id), "started plan selected S Q - C provenance failed");
    let error = outcome.results[0].error.as_ref().unwrap();
    assert_eq!(error.code, "CAPABILITY_MISSING");
    assert_eq!(error.message, "Adapter 'fake' lacks required capability 'apply' for apply mode");
}

#[test]
fn too_many_steps_execute_nothing() {
    let bench = Bench::new(&[("fake", json!({ "traces": "/nonexistent/traces" }))]);
    let outcome = bench.run(&set(plan(&["a", "b"]), "/policy/max_steps", json!(1))).unwrap();
    assert_eq!(bench.course(&outcome.run_id), "started plan selected failed");
    let (_, last) = bench.events(&outcome.run_id).pop().unwrap();
    let expected = json!({ "error_code": "MAX_STEPS_EXCEEDED", "max_steps": 1,
        "message": "the plan has 2 steps, and the policy allows 1", "outcome": "error",
        "plan_steps": 2, "reason": "max_steps_exceeded" });
    assert_eq!(last, expected);
    let response = outcome.to_json().to_serde();
    assert_eq!(response["error"]["code"], "MAX_STEPS_EXCEEDED");
    assert_eq!(statuses(&outcome), [StepStatus::Skipped, StepStatus::Skipped]);
}

#[test]
fn a_failed_selection_replays_cleanly() {
    let bench = Bench::new(&[("fake", json!({})), ("other", json!({}))]);
    let base = plan(&["a"]);
    for (request, code) in [
        (set(base.clone(), "/dispatch", json!({ "adapter_id": "nope" })), "UNKNOWN_ADAPTER"),
        (
            set(base.clone(), "/dispatch", json!({ "require_capabilities": ["timeout"] })),
            "CAPABILITY_MISSING",
        ),
        (
            set(base, "/plan_override/0/dispatch", json!({ "adapter_id": "nope" })),
            "UNKNOWN_ADAPTER",
        ),
    ] {
        let outcome = bench.run(&request).unwrap();
        assert_eq!(bench.course(&outcome.run_id), "started plan failed");
        let response = outcome.to_json().to_serde();
        assert_eq!(response["error"]["code"], code);
        assert_eq!(response["dispatch"]["selection_source"], "failed");
    }
}

#[test]
fn each_step_may_choose_its_adapter() {
    let bench = Bench::new(&[("fake", json!({})), ("other", json!({}))]);
    let request =
        set(plan(&["a", "b", "c"]), "/plan_override/1/dispatch", json!({ "adapter_id": "other" }));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(
        bench.course(&outcome.run_id),
        "started plan selected selected S Q + C S Q + C S Q + C provenance completed"
    );
    let response = outcome.to_json().to_serde();
    assert_eq!(response["summary"]["adapter_id"], "fake");
    let called: Vec<Value> = bench
        .events(&outcome.run_id)
        .into_iter()
        .filter(|(kind, _)| kind == "TOOL_CALL_SUCCEEDED")
        .map(|(_, payload)| payload["adapter_id"].clone())
        .collect();
    assert_eq!(called, ["fake", "other", "fake"]);
    let sources: Vec<Value> = bench
        .events(&outcome.run_id)
        .into_iter()
        .filter(|(kind, _)| kind == "DISPATCH_SELECTED")
        .map(|(_, payload)| payload["selection_source"].clone())
        .collect();
    assert_eq!(sources, ["default", "step"]);
}

#[test]
fn a_call_that_takes_too_long_is_given_up() {
    let slow = json!({ "responses": [
        answers("listens", json!({ "sleep_ms": 600_000 })),
        answers("deaf", json!({ "deaf_ms": 2_000 })),
    ] });
    let bench = Bench::new(&[("fake", slow)]);
    // One that listens gives up by itself; one that does not is left alone, and keeps its slot.
    for (method, stopped) in [("listens", None), ("deaf", Some(false))] {
        let request = set(plan(&[method, "ok"]), "/plan_override/0/timeout_ms", json!(30));
        let outcome = bench.run(&request).unwrap();
        assert_eq!(
            bench.course(&outcome.run_id),
            "started plan selected S Q - C provenance failed"
        );
        let error = outcome.results[0].error.as_ref().unwrap();
        assert_eq!(error.code, "TIMEOUT");
        let told = error.details.get("stopped").and_then(json::Value::as_bool);
        assert!(told == stopped || told == Some(true) && stopped.is_none(), "{method}: {told:?}");
    }
    let request = set(plan(&["listens", "ok"]), "/timeout_ms", json!(30));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(outcome.results[0].error.as_ref().unwrap().code, "TIMEOUT");
    assert_eq!(outcome.reason.as_deref(), Some("timed_out"));
}

#[test]
fn a_run_can_be_cancelled() {
    let slow = json!({ "responses": [answers("listens", json!({ "sleep_ms": 600_000 }))] });
    let bench = Bench::new(&[("fake", slow)]);
    let router = bench.router.clone();
    let canceller = std::thread::spawn(move || {
        loop {
            if let Some(run_id) = router.live().pop() {
                return router.cancel(&run_id);
            }
            std::thread::yield_now();
        }
    });
    let outcome = bench.run(&plan(&["listens", "ok"])).unwrap();
    assert!(canceller.join().unwrap());
    assert_eq!(outcome.status, Status::Failed);
    let course = bench.course(&outcome.run_id);
    // Cancelled before the first step, or during its call.
    let courses =
        ["started plan selected failed", "started plan selected S Q - C provenance failed"];
    assert!(courses.contains(&course.as_str()), "{course}");
    assert_eq!(outcome.reason.as_deref(), Some("cancelled"));
    assert!(!bench.router.cancel(&outcome.run_id), "it is over");
}

#[test]
fn the_same_key_is_carried_out_once() {
    let bench = Bench::new(&[("fake", json!({}))]);
    let request = set(plan(&["a"]), "/idempotency_key", json!("k1"));
    let first = bench.run(&request).unwrap();
    let again = bench.run(&request).unwrap();
    assert_eq!(first.run_id, again.run_id);
    assert_eq!(first.to_json(), again.to_json());
    let other = set(request, "/goal", json!("another"));
    let error = bench.run(&other).unwrap_err();
    assert_eq!(error.code(), "IDEMPOTENCY_KEY_TAKEN");
    assert_eq!(error.run_id(), Some(first.run_id.as_str()));
}

#[test]
fn an_answer_from_the_record_is_the_answer_of_the_run() {
    let bench = Bench::new(&[("fake", failing())]);
    let base = plan(&["ok", "bad", "ok"]);
    for request in [
        base.clone(),
        set(base.clone(), "/policy/on_error", json!("continue")),
        set(base.clone(), "/policy/max_steps", json!(1)),
        set(base.clone(), "/mode", json!("dry_run")),
        set(base, "/dispatch", json!({ "adapter_id": "nope" })),
        json!({ "goal": "nothing" }),
    ] {
        let outcome = bench.run(&request).unwrap();
        let recorded = Outcome::of_log(&bench.log(&outcome.run_id));
        assert_eq!(outcome.to_json(), recorded.to_json());
    }
}

#[test]
fn secrets_are_in_no_event_and_the_answer_is_whole() {
    let bench = Bench::new(&[("fake", failing())]);
    let args = json!({ "user": "ada", "password": "hunter2", "note": "token=hunter2" });
    let request = set(plan(&["echo", "bad"]), "/plan_override/0/call/args", args);
    let request = set(request, "/goal", json!("login with password=hunter2"));
    let outcome = bench.run(&request).unwrap();
    let log = bench.log(&outcome.run_id);
    super::assert_clean(&log);
    let text = log.bodies.concat();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!log.record.header.goal.contains("hunter2"));
    assert!(text.contains("\"redacted\":true"));
    let recorded = Outcome::of_log(&log).to_json().to_serde();
    assert!(!recorded.to_string().contains("hunter2"), "{recorded}");
    let pointers = json!(["/args_echo/note", "/args_echo/password"]);
    assert_eq!(recorded["results"][0]["redacted"], pointers, "{recorded}");
    let mut response = outcome.to_json().to_serde();
    let echo = json!({ "user": "ada", "password": "hunter2", "note": "token=hunter2" });
    assert_eq!(response["results"][0]["output"]["args_echo"], echo);
    assert_eq!(response["results"][0].get("redacted"), None);
    response["results"][0]["output"].take();
    assert!(!response.to_string().contains("hunter2"), "{response}");
}

#[test]
fn waiting_for_a_slot_ends_with_the_time_of_the_step() {
    use nexus_router::router::{CallLimits, Options, Router};
    use nexus_router::store::Store;
    let world = std::sync::Arc::new(crate::support::World::new());
    let deaf = json!({ "responses": [answers("deaf", json!({ "deaf_ms": 3_000 }))] });
    let registry = super::registry(&world, &[("fake", deaf)]);
    let calls = CallLimits { calls: Some(1), ..CallLimits::default() };
    let options = Options { calls, ..Options::default() };
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let request = set(plan(&["deaf", "ok"]), "/policy/on_error", json!("continue"));
    let request = set(request, "/plan_override/0/timeout_ms", json!(30));
    let request = set(request, "/plan_override/1/timeout_ms", json!(30));
    let request = nexus_router::request::Request::parse(request.to_string().as_bytes()).unwrap();
    let outcome = router.run_blocking(request).unwrap();
    let codes: Vec<&str> =
        outcome.results.iter().map(|result| result.error.as_ref().unwrap().code.as_str()).collect();
    assert_eq!(codes, ["TIMEOUT", "TIMEOUT"]);
    let called = outcome.results[1].error.as_ref().unwrap().details.get("called");
    assert_eq!(called.and_then(json::Value::as_bool), Some(false));
}

#[test]
fn what_is_no_code_and_what_is_secret_stands_nowhere_in_clear() {
    // Of a form that is well known, as no secret is configured here.
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let odd = json!({ "responses": [answers("odd", json!({
        "operational_error": { "error_code": secret, "message": "no" } }))] });
    let bench = Bench::new(&[("fake", odd)]);
    let outcome = bench.run(&plan(&["odd"])).unwrap();
    assert_eq!(outcome.results[0].error.as_ref().unwrap().code, "OPERATIONAL_ERROR");
    let dispatch = json!({ "adapter_id": secret });
    let other = bench.run(&set(plan(&["a"]), "/plan_override/0/dispatch", dispatch)).unwrap();
    for outcome in [outcome, other] {
        let answered = json::to_compact(&outcome.to_json());
        assert!(!answered.contains(&secret), "{answered}");
        assert!(!bench.log(&outcome.run_id).bodies.concat().contains(&secret));
    }
}

#[test]
fn an_idempotency_key_is_not_stored_as_it_is() {
    use nexus_router::router::{Options, Router};
    use nexus_router::store::Store;
    let world = crate::support::World::new();
    let path = world.path("runs.db");
    let registry = super::registry(&world, &[("fake", json!({}))]);
    let router = Router::new(Store::open(&path).unwrap(), registry, Options::default()).unwrap();
    let request = set(plan(&["a"]), "/idempotency_key", json!("hunter2-key"));
    let request = nexus_router::request::Request::parse(request.to_string().as_bytes()).unwrap();
    router.run_blocking(request).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let stored = connection.query_row("SELECT key FROM idempotency", [], |row| row.get(0));
    let stored: String = stored.unwrap();
    assert_eq!(stored, nexus_router::Digest::of(b"hunter2-key").to_string());
}

#[test]
fn a_host_that_must_not_block_is_told_so() {
    let bench = Bench::new(&[("fake", json!({}))]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(async { bench.run(&plan(&["a"])) }).unwrap_err();
    assert_eq!(error.code(), "ROUTER_FAILED");
    assert!(error.to_string().contains("asynchronous"), "{error}");
    assert_eq!(bench.router.runs_in_flight(), 0);
}
