//! Callers of runs under way: checked before each step by the host's own check.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nexus_router::access::Scope;
use nexus_router::caller::{Caller, CallerCheck, Revocation, ValidCaller};
use nexus_router::policy::Law;
use nexus_router::request::Request;
use nexus_router::router::{CallLimits, Options, Submission};
use nexus_router::store::{Status, Store};
use serde_json::{Value, json};

use super::{Bench, answers, plan, registry, set};
use crate::support::World;

fn caller() -> Arc<Caller> {
    let token_id = Some("t1".to_owned());
    Arc::new(Caller { name: "ci".to_owned(), token_id, scope: Scope::Apply, ..Caller::local() })
}

fn submission(request: &Value) -> Submission {
    let request = Request::parse(request.to_string().as_bytes()).unwrap();
    Submission::from(request).by(caller())
}

fn bench(options: Options) -> Bench {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("fake", json!({}))]);
    Bench::with(world, Store::in_memory().unwrap(), registry, options)
}

/// A check that passes `count` times, and then returns `then`.
fn check_after(count: usize, then: Result<ValidCaller, Revocation>) -> CallerCheck {
    let (check, calls) = (CallerCheck::default(), AtomicUsize::new(0));
    let changes = check.clone();
    check.set(move |_| {
        // Every step is checked anew.
        changes.mark_changed();
        let before = calls.fetch_add(1, Ordering::Relaxed);
        if before < count { Ok(ValidCaller::default()) } else { then.clone() }
    });
    check
}

fn revoked() -> Revocation {
    Revocation { message: "the token of 'ci' was revoked".to_owned() }
}

#[test]
fn revoked_caller_ends_the_run_once() {
    for on_error in ["stop", "continue"] {
        let request = set(plan(&["a", "b", "c"]), "/policy/on_error", json!(on_error));
        // The loop and the step both check; the fourth check is that of the second step.
        for (count, expected) in [
            (0, "started plan selected failed"),
            (1, "started plan selected S Q - C provenance failed"),
            (2, "started plan selected S Q + C provenance failed"),
            (3, "started plan selected S Q + C S Q - C provenance failed"),
        ] {
            let caller_check = check_after(count, Err(revoked()));
            let bench = bench(Options { caller_check, ..Options::default() });
            let outcome = bench.router.run_blocking(submission(&request)).unwrap();
            assert_eq!(bench.course(&outcome.run_id), expected, "{count} {on_error}");
            assert_eq!(
                (outcome.status, outcome.reason.as_deref()),
                (Status::Failed, Some("revoked"))
            );
            let error = outcome.error.as_ref().map(|(code, _)| code.as_str());
            assert_eq!(error, Some("REVOKED"));
            let read = nexus_router::outcome::Outcome::of_log(&bench.log(&outcome.run_id));
            assert_eq!((read.error, read.reason), (outcome.error, outcome.reason));
        }
    }
}

#[test]
fn a_narrowed_scope_revokes_what_needs_more() {
    for (mode, scope, ends) in [
        ("apply", Scope::Apply, false),
        ("apply", Scope::Run, true),
        ("dry_run", Scope::Run, false),
        ("dry_run", Scope::Read, true),
    ] {
        let changed = Some(Caller { scope, ..(*caller()).clone() });
        let caller_check = check_after(2, Ok(ValidCaller { changed, valid_until: None }));
        let bench = bench(Options { caller_check, ..Options::default() });
        let request = set(plan(&["a", "b"]), "/mode", json!(mode));
        let outcome = bench.router.run_blocking(submission(&request)).unwrap();
        assert_eq!(outcome.status == Status::Failed, ends, "{mode} {scope}");
    }
}

#[test]
fn runs_without_a_check_or_a_caller_continue() {
    let bench = bench(Options::default());
    let outcome = bench.router.run_blocking(submission(&plan(&["a"]))).unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let caller_check = check_after(0, Err(revoked()));
    let bench = self::bench(Options { caller_check, ..Options::default() });
    assert_eq!(bench.run(&plan(&["a"])).unwrap().status, Status::Completed);
}

#[test]
fn a_call_is_recorded_when_it_gets_its_slot() {
    let world = Arc::new(World::new());
    let config = json!({ "capabilities": ["apply", "external"],
        "responses": [answers("slow", json!({ "sleep_ms": 600_000 }))] });
    let registry = registry(&world, &[("fake", config)]);
    let calls = CallLimits { calls: Some(1), ..CallLimits::default() };
    let options = Options { calls, ..Options::default() };
    let store = Store::open(&world.path("runs.db")).unwrap();
    let bench = Bench::with(world, store, registry.clone(), options.clone());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let submit = |method: &str| {
        let (router, request) = (bench.router.clone(), submission(&plan(&[method])));
        let run_id = request.run_id().to_owned();
        (run_id, runtime.spawn(async move { router.run(request).await }))
    };
    let last = |run_id: &str| {
        let log = bench.router.store().log(run_id).unwrap();
        log.and_then(|log| super::payloads(&log).pop()).map(|(kind, _)| kind)
    };
    let until = |run_id: &str, kind: &str| {
        while last(run_id).as_deref() != Some(kind) {
            std::thread::yield_now();
        }
    };
    let (slow, first) = submit("slow");
    until(&slow, "TOOL_CALL_REQUESTED");
    let (queued, second) = submit("a");
    until(&queued, "STEP_STARTED");
    // The rules of the moment in which it gets its slot decide.
    let law = Law { apply: false, ..Law::default() };
    bench.router.replace(registry, Options { law, ..options }).unwrap();
    assert_eq!(last(&queued).as_deref(), Some("STEP_STARTED"));
    assert!(bench.router.cancel(&slow));
    let denied = runtime.block_on(second).unwrap().unwrap();
    assert_eq!(denied.results[0].error.as_ref().unwrap().code, "PERMISSION_DENIED");
    assert_eq!(runtime.block_on(first).unwrap().unwrap().status, Status::Failed);
    let expected = "started plan selected S Q - C provenance failed";
    assert_eq!(bench.course(&queued), expected);
}
