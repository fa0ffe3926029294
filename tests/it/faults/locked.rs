//! A store that another process keeps locked: before, during and after a call.

use std::path::Path;

use nexus_router::outcome::StepStatus;
use nexus_router::router::{Error, Resumable, Router};
use nexus_router::store::{self, Status, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Place, assert_sound, external, request, wait_for_run, wait_until};
use crate::engine::{assert_clean, payloads, plan, set};

/// Another connection that writes, and takes its time.
fn lock(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_new_run_is_refused_and_nothing_is_called() {
    let place = Place::new();
    let router = place.router();
    let lock = lock(&place.db());
    let dry = set(plan(&["a"]), "/mode", json!("dry_run"));
    for plan in [external(&["a"]), plan(&["a"]), dry] {
        let error = router.run_blocking(request(&plan)).unwrap_err();
        assert!(matches!(error, Error::Store(store::Error::Busy)), "{error}");
        assert_eq!((error.code(), error.run_id()), ("STORE_BUSY", None));
        assert!(error.to_string().starts_with("nothing was recorded"), "{error}");
        assert!(error.hint().contains("try again"), "{}", error.hint());
    }
    drop(lock);
    let counted = router.store().list(&Default::default()).unwrap().counted;
    assert_eq!((counted.total, place.calls()), (0, 0));
    router.run_blocking(request(&external(&["a"]))).unwrap();
    assert_eq!(place.calls(), 1);
    assert_sound(router.store());
}

#[test]
fn a_locked_store_is_not_opened_and_nobody_is_left_as_its_owner() {
    let place = Place::new();
    let path = place.db();
    drop(Store::open(&path).unwrap());
    let lock = lock(&path);
    let options =
        store::Options { busy: std::time::Duration::from_millis(20), ..store::Options::default() };
    let error = Store::open_with(&path, options.clone()).unwrap_err();
    assert_eq!(error.code(), "STORE_BUSY");
    // Whoever reads does not wait for whoever writes.
    assert_eq!(
        Store::open_read_only(&path).unwrap().list(&Default::default()).unwrap().runs.len(),
        0
    );
    drop(lock);
    assert!(!place.path("runs.db-owners").exists());
    Store::open_with(&path, options).unwrap();
}

/// Carries out a run whose first call is answered while the store is locked, and unlocks it again.
fn locked_during_the_first_call(router: &Router, place: &Place, plan: &Value) -> Error {
    std::thread::scope(|scope| {
        let mut held = place.hold_calls();
        let running = scope.spawn(|| router.run_blocking(request(plan)).unwrap_err());
        let run_id = wait_for_run(router.store(), Status::Running);
        let lock = lock(&place.db());
        held.release();
        let error = running.join().unwrap();
        assert_eq!((error.code(), error.run_id()), ("STORE_BUSY", Some(run_id.as_str())));
        // Others are refused as long as it lasts, and what is owed does not keep them from being told.
        let other = router.run_blocking(request(&crate::engine::plan(&["a"]))).unwrap_err();
        assert!(matches!(other, Error::Store(store::Error::Busy)), "{other}");
        assert_eq!(router.store().find(&run_id).unwrap().unwrap().progress.status, Status::Running);
        drop(lock);
        error
    })
}

#[test]
fn an_answer_that_cannot_be_recorded_is_owed_and_recorded_later() {
    let place = Place::new();
    let router = place.router();
    let error = locked_during_the_first_call(&router, &place, &external(&["a"]));
    let Error::Unrecorded { run_id, outcome, .. } = &error else { panic!("{error}") };
    assert_eq!((outcome.status, outcome.results[0].status), (Status::Completed, StepStatus::Ok));
    // Nobody asks for anything: it is written all the same.
    assert_eq!(&wait_for_run(router.store(), Status::Completed), run_id);
    let log = router.store().log(run_id).unwrap().unwrap();
    assert_eq!(log.record.progress.events, outcome.events);
    assert_clean(&log);
    router.run_blocking(request(&plan(&["a"]))).unwrap();
    assert_sound(router.store());
}

#[test]
fn a_run_that_cannot_go_on_is_ended_as_interrupted_later() {
    let place = Place::new();
    let router = place.router();
    let error = locked_during_the_first_call(&router, &place, &external(&["a", "b", "c"]));
    let Error::Unrecorded { run_id, outcome, .. } = &error else { panic!("{error}") };
    let statuses: Vec<StepStatus> = outcome.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [StepStatus::Ok, StepStatus::Error, StepStatus::Skipped]);
    assert_eq!(&wait_for_run(router.store(), Status::Failed), run_id);
    let log = router.store().log(run_id).unwrap().unwrap();
    assert_eq!(log.record.progress.last_failure_reason.as_deref(), Some("interrupted"));
    assert_clean(&log);
    let events = payloads(&log);
    let (_, answered) = events.iter().find(|(kind, _)| kind == "TOOL_CALL_SUCCEEDED").unwrap();
    assert_eq!(answered["step_id"], "s1");
    // The second call was requested, and not made: there is nothing to doubt.
    let (_, failed) = events.iter().find(|(kind, _)| kind == "TOOL_CALL_FAILED").unwrap();
    assert_eq!((&failed["step_id"], &failed["error_code"]), (&json!("s2"), &json!("INTERRUPTED")));
    assert_eq!(failed["details"], json!({ "in_doubt": false }));
    let (_, last) = events.last().unwrap();
    assert_eq!((&last["reason"], &last["in_doubt"]), (&json!("interrupted"), &json!(false)));
    router.run_blocking(request(&plan(&["a"]))).unwrap();
    assert_sound(router.store());
}

/// What is adopted and can then not be recorded must not be left to an owner that does nothing for it.
#[test]
fn a_run_that_is_locked_out_of_its_recovery_is_ended_later() {
    const NAME: &str = "faults::locked::a_run_that_is_locked_out_of_its_recovery_is_ended_later";
    if let Some(place) = Place::inside() {
        // The first step waits for ever, and so becomes visible; the second has effects.
        let second = json!({ "adapter_id": "external" });
        let plan = set(plan(&["waits", "b"]), "/plan_override/1/dispatch", second);
        panic!("{:?}", place.router().run_blocking(request(&plan)));
    }
    let place = Place::new();
    let router = place.router_with(&place.db(), &json!({ "return": {} }));
    let store = router.store();
    let mut process = place.again(NAME, "exec \"$@\"").spawn().unwrap();
    let run_id = wait_for_run(store, Status::Running);
    process.kill().unwrap();
    process.wait().unwrap();
    let events = || store.find(&run_id).unwrap().unwrap().progress.events;
    let before = events();
    let recovered = std::thread::scope(|scope| {
        let mut held = place.hold_calls();
        let recovering = scope.spawn(|| router.recover_blocking(Resumable::Resume).unwrap());
        // The request of the second call is on record: now it is made.
        wait_until(|| (events() > before).then_some(()));
        let lock = lock(&place.db());
        held.release();
        let recovered = recovering.join().unwrap();
        drop(lock);
        recovered
    });
    assert_eq!(recovered.len(), 1);
    assert_eq!(wait_for_run(store, Status::Completed), run_id);
    assert_sound(store);
}
