//! Waiting lasts: whoever carried the run out may be gone, and comes back, or not.

use nexus_router::config::Effect;
use nexus_router::digest::Digest;
use nexus_router::event::{Fact, Kind, Line};
use nexus_router::outcome::Outcome;
use nexus_router::policy::Law;
use nexus_router::router::{Answer, How, Options, Resumable, Router};
use nexus_router::run::Run;
use nexus_router::store::{Append, Log, Progress, Status, Store, StoreKey, Ticket};
use nexus_router::{LoadRequest, Registry};
use serde_json::json;

use super::{
    Office, ada, asks, assert_clean, decide, open, payloads, plan, refused, risky, rule, set,
    step_error, waits,
};

#[test]
fn a_run_waits_across_restarts_whatever_becomes_of_others() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, approval_id) = waits(&router, &plan(&["a", "risky"]));
    drop(router);
    for resumable in [Resumable::Resume, Resumable::End, Resumable::Leave] {
        let router = office.router(asks("risky"));
        router.watch_approvals();
        assert!(router.recover_blocking(resumable).unwrap().is_empty());
        assert_eq!(open(router.store()), [approval_id.as_str()]);
        assert!(router.store().find(&run_id).unwrap().unwrap().waits);
    }
    let router = office.router(asks("risky"));
    let outcome = decide(&router, &approval_id, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Completed, 2));
}

#[test]
fn missing_adapter_does_not_use_up_an_approval() {
    let office = Office::new();
    let (run_id, approval_id) = waits(&office.router(asks("risky")), &risky());
    let null = office.world.loader().load(&LoadRequest {
        factory_ref: "builtin:null",
        adapter_id: None,
        config: &json!({}),
        pin: None,
    });
    let mut registry = Registry::new("null");
    registry.register(null.unwrap()).unwrap();
    let options = Options { law: asks("risky"), ..Options::default() };
    let router = Router::new(Store::open(&office.db()).unwrap(), registry, options).unwrap();
    let error = router.decide_blocking(&approval_id, Answer::Approve, &ada(), None).unwrap_err();
    assert_eq!(error.code(), "APPROVAL_NOT_EXECUTABLE", "{error}");
    assert!(error.to_string().contains("there is no adapter 'external'"), "{error}");
    assert_eq!((office.calls(), office.course(&run_id)), (0, "S ask".to_owned()));
    drop(router);
    let outcome = decide(&office.router(asks("risky")), &approval_id, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Completed, 1));
}

#[test]
fn lost_store_key_does_not_use_up_an_approval() {
    let office = Office::new();
    let (_, approval_id) = waits(&office.router(asks("risky")), &risky());
    let key = StoreKey::path(&office.db());
    std::fs::rename(&key, office.world.path("kept.key")).unwrap();
    let error =
        office.router(asks("risky")).decide_blocking(&approval_id, Answer::Approve, &ada(), None);
    let error = error.unwrap_err();
    assert_eq!(error.code(), "APPROVAL_NOT_EXECUTABLE", "{error}");
    assert!(error.to_string().contains("the key of the store may be missing"), "{error}");
    std::fs::rename(office.world.path("kept.key"), &key).unwrap();
    let outcome = decide(&office.router(asks("risky")), &approval_id, Answer::Approve);
    assert_eq!((outcome.status, office.calls()), (Status::Completed, 1));
}

/// Puts the first `count` events of a log into a new store, as a process would that dies then.
fn cut(log: &Log, count: usize, path: &std::path::Path) {
    let (mut run, mut head, mut body) = (Run::new(), Digest::ZERO, String::new());
    for line in log.lines().take(count) {
        let event = Line::read(line).unwrap();
        let kind = Kind::from_name(&event.kind).unwrap();
        run.apply(event.seq, &Fact::read(kind, event.payload).unwrap()).unwrap();
        head = head.chain(line);
        body.push_str(line);
        body.push('\n');
    }
    let progress = Progress {
        status: Status::Running,
        steps_planned: run.plan().len() as u64,
        steps_executed: run.steps_started() as u64,
        tools_used: run.tools_used().to_vec(),
        outcome: None,
        last_failure_reason: None,
        events: run.events(),
        head,
    };
    let append = Append {
        ticket: Ticket::default(),
        header: log.record.header.clone().into(),
        progress,
        body,
        count: count as u64,
        claim: None,
        caller: None,
        approvals: Vec::new(),
        held: Vec::new(),
        arguments: None,
        waits: false,
    };
    // The digests of approvals are keyed.
    let key = StoreKey::path(&path.with_file_name("runs.db"));
    if key.exists() {
        std::fs::copy(key, StoreKey::path(path)).unwrap();
    }
    let store = Store::open(path).unwrap();
    let receipt = store.append(append).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(receipt.durable()).unwrap();
}

#[test]
fn a_decision_that_is_on_disk_is_not_lost_wherever_the_process_dies() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (approved, id) = waits(&router, &risky());
    decide(&router, &id, Answer::Approve);
    let (denied, id) = waits(&router, &risky());
    decide(&router, &id, Answer::Deny);
    let after = |log: &Log, kind: &str| {
        1 + payloads(log).iter().position(|(found, _)| found == kind).unwrap()
    };
    for (name, run_id) in [("approved", &approved), ("denied", &denied)] {
        let whole = office.log(run_id);
        let (from, called) =
            (after(&whole, "APPROVAL_DECIDED"), after(&whole, "TOOL_CALL_REQUESTED"));
        for count in from..whole.lines().count() {
            let case = format!("{name}, cut off after {count} events");
            let path = office.world.path(&format!("{name}{count}.db"));
            cut(&whole, count, &path);
            std::fs::write(office.world.path("traces"), "").unwrap();
            let options = Options { law: asks("risky"), ..Options::default() };
            let store = Store::open(&path).unwrap();
            let router = Router::new(store.clone(), office.registry.clone(), options).unwrap();
            let recovered = router.recover_blocking(Resumable::Resume).unwrap();
            let log = store.log(run_id).unwrap().unwrap();
            assert_clean(&log);
            assert_eq!(log.record.progress.status, recovered[0].status, "{case}");
            let in_doubt = count == called;
            let calls = usize::from(name == "approved" && count == from);
            assert_eq!(office.calls(), calls, "{case}");
            match &recovered[0].how {
                How::Resumed => assert!(!in_doubt, "{case}"),
                How::Ended { in_doubt: told, .. } => assert!(in_doubt && *told, "{case}"),
                how => panic!("{case}: {how:?}"),
            }
            if !in_doubt {
                let kinds =
                    |log: &Log| payloads(log).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
                assert_eq!(kinds(&log), kinds(&whole), "{case}");
            }
        }
    }
}

#[test]
fn an_approval_that_is_used_too_late_is_asked_for_again() {
    use nexus_router::clock::{Clock, Timestamp};
    let office = Office::new();
    let moment = Timestamp::parse("2026-11-16T00:00:00.000Z").unwrap();
    let router = office.router_at(asks("risky"), Clock::Fixed(moment));
    let (run_id, id) = waits(&router, &risky());
    decide(&router, &id, Answer::Approve);
    let whole = office.log(&run_id);
    // The process dies before it makes the call, and two days go by.
    let path = office.world.path("later.db");
    cut(&whole, 6, &path);
    let later = Timestamp::from_millis(moment.as_millis() + 2 * 86_400_000);
    let options = Options { law: asks("risky"), clock: Clock::Fixed(later), ..Options::default() };
    let store = Store::open(&path).unwrap();
    let router = Router::new(store.clone(), office.registry.clone(), options).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    assert_eq!(recovered[0].how, How::Waits);
    assert_eq!(office.calls(), 1, "that of the first store");
    let outcome = Outcome::of_log(&store.log(&run_id).unwrap().unwrap());
    assert!(outcome.waiting.is_some_and(|waiting| waiting.approval_id != id));
}

#[test]
fn a_call_without_effects_that_was_begun_is_not_asked_about() {
    let office = Office::new();
    let quiet = set(plan(&["risky"]), "/dispatch", json!({ "adapter_id": "quiet" }));
    let router = office.router(Law::default());
    let outcome = super::run(&router, &quiet);
    let whole = office.log(&outcome.run_id);
    let path = office.world.path("begun.db");
    cut(&whole, 5, &path);
    let options = Options { law: asks("risky"), ..Options::default() };
    let store = Store::open(&path).unwrap();
    let router = Router::new(store.clone(), office.registry, options).unwrap();
    router.recover_blocking(Resumable::Resume).unwrap();
    let log = store.log(&outcome.run_id).unwrap().unwrap();
    assert_clean(&log);
    assert_eq!(step_error(&Outcome::of_log(&log)).code, "APPROVAL_TOO_LATE");
}

#[test]
fn what_was_not_taken_up_is_ended_where_that_is_wished() {
    let office = Office::new();
    let router = office.router(asks("risky"));
    let (run_id, id) = waits(&router, &risky());
    decide(&router, &id, Answer::Approve);
    let path = office.world.path("ended.db");
    cut(&office.log(&run_id), 6, &path);
    let options = Options {
        law: Law { rules: vec![rule(Effect::Deny, "*")], ..Law::default() },
        ..Options::default()
    };
    let store = Store::open(&path).unwrap();
    let router = Router::new(store, office.registry, options).unwrap();
    let recovered = router.recover_blocking(Resumable::End).unwrap();
    assert!(matches!(recovered[0].how, How::Ended { in_doubt: false, .. }));
    assert_eq!(refused(&router, &id, Answer::Approve, &ada()), "APPROVAL_UNKNOWN");
}
