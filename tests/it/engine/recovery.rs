//! Runs whose process is gone: the log is cut off after every single event, and must come to a legal end.

use std::sync::Arc;

use nexus_router::digest::Digest;
use nexus_router::event::{Fact, Kind, Line};
use nexus_router::router::{How, Options, Resumable, Router};
use nexus_router::run::Run;
use nexus_router::store::{Append, Log, Progress, Status, Store, Ticket};
use serde_json::{Value, json};

use super::{Bench, answers, assert_clean, payloads, plan, registry, set};
use crate::support::World;

/// Puts the first `count` events of a log into a new store, as a process would that dies then.
pub fn cut(log: &Log, count: usize, path: &std::path::Path) {
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
        header: Arc::new(log.record.header.clone()),
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
    let store = Store::open(path).unwrap();
    let receipt = store.append(append).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(receipt.durable()).unwrap();
}

fn adapters(traces: &std::path::Path) -> Vec<(&'static str, Value)> {
    let responses = json!([
        answers(
            "bad",
            json!({ "operational_error": { "error_code": "TOOL_ERROR", "message": "no" } })
        ),
        answers("bug", json!({ "bug_error": { "error_code": "ADAPTER_BUG", "message": "no" } })),
    ]);
    let external = json!({ "capabilities": ["apply", "external"], "responses": responses,
        "traces": traces });
    vec![("quiet", json!({ "responses": responses })), ("external", external)]
}

fn requests() -> Vec<(&'static str, Value)> {
    let external = json!({ "adapter_id": "external" });
    let base = plan(&["a", "b", "c"]);
    let mixed = set(base.clone(), "/plan_override/1/dispatch", external.clone());
    vec![
        ("quiet", base.clone()),
        ("dry", set(base.clone(), "/mode", json!("dry_run"))),
        ("external", set(base.clone(), "/dispatch", external)),
        ("mixed", mixed),
        ("denied", set(base.clone(), "/policy/allow_apply", json!(false))),
        ("too many", set(base.clone(), "/policy/max_steps", json!(1))),
        ("no adapter", set(base, "/dispatch", json!({ "adapter_id": "nope" }))),
        ("operational", plan(&["a", "bad", "c"])),
        ("continues", set(plan(&["bad", "b"]), "/policy/on_error", json!("continue"))),
        ("bug", plan(&["a", "bug", "c"])),
        ("secret", {
            let args = json!({ "password": "hunter2" });
            set(plan(&["a", "b"]), "/plan_override/0/call/args", args)
        }),
        ("no steps", json!({ "goal": "nothing" })),
    ]
}

/// The calls that a log says were requested of the external adapter.
fn requested(log: &Log) -> usize {
    let external = |(kind, payload): &&(String, Value)| {
        kind == "TOOL_CALL_REQUESTED" && payload["adapter_id"] == "external"
    };
    payloads(log).iter().filter(external).count()
}

#[test]
fn a_log_that_is_cut_off_anywhere_comes_to_a_legal_end() {
    let world = Arc::new(World::new());
    let traces = world.path("traces");
    let registry = registry(&world, &adapters(&traces));
    let bench = Bench::among(&world, registry.clone());
    let (mut cuts, mut resumed, mut in_doubt, mut ended) = (0, 0, 0, 0);
    for (name, request) in requests() {
        let run_id = match bench.run(&request) {
            Ok(outcome) => outcome.run_id,
            Err(error) => error.run_id().unwrap().to_owned(),
        };
        let whole = bench.log(&run_id);
        for count in 1..whole.lines().count() {
            let case = format!("{name}, cut off after {count} events");
            let path = world.path(&format!("{cuts}.db"));
            cut(&whole, count, &path);
            std::fs::write(&traces, "").unwrap();
            let store = Store::open(&path).unwrap();
            assert_eq!(store.orphans().unwrap(), [run_id.as_str()], "{case}");
            let before = requested(&store.log(&run_id).unwrap().unwrap());
            let router = Router::new(store.clone(), registry.clone(), Options::default()).unwrap();
            let recovered = router.recover_blocking(Resumable::Resume).unwrap();
            assert_eq!(recovered.len(), 1, "{case}");
            let log = store.log(&run_id).unwrap().unwrap();
            assert_ne!(log.record.progress.status, Status::Running, "{case}");
            assert_eq!(log.record.progress.status, recovered[0].status, "{case}");
            assert_clean(&log);
            // What was recorded before is still there, and what has effects was done once, if at all.
            assert!(log.lines().zip(whole.lines()).take(count).all(|(one, other)| one == other));
            let done = std::fs::read_to_string(&traces).unwrap().lines().count();
            assert_eq!(done, requested(&log) - before, "{case}");
            match &recovered[0].how {
                How::Resumed => {
                    resumed += 1;
                    let kinds = |log: &Log| {
                        payloads(log).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
                    };
                    let mut expected = kinds(&whole);
                    // A call without effects of which nobody knows what it did is made again.
                    if expected[count - 1] == "TOOL_CALL_REQUESTED" {
                        expected.insert(count, "TOOL_CALL_REQUESTED".to_owned());
                    }
                    assert_eq!(kinds(&log), expected, "{case}");
                }
                How::Ended { in_doubt: true, .. } => in_doubt += 1,
                How::Ended { .. } => ended += 1,
                how => panic!("{case}: {how:?}"),
            }
            assert!(router.recover_blocking(Resumable::Resume).unwrap().is_empty(), "{case}");
            assert!(store.check(|_, _| ()).unwrap().findings.is_empty(), "{case}");
            cuts += 1;
        }
    }
    assert!(
        cuts > 100 && resumed > 50 && in_doubt >= 4 && ended > 10,
        "{cuts} {resumed} {in_doubt} {ended}"
    );
}

#[test]
fn a_run_whose_adapter_is_missing_is_ended() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({})), ("two", json!({}))]);
    let bench = Bench::among(&world, registry);
    let request = set(plan(&["a", "b"]), "/dispatch", json!({ "adapter_id": "two" }));
    let outcome = bench.run(&request).unwrap();
    let path = world.path("runs.db");
    cut(&bench.log(&outcome.run_id), 7, &path);
    let store = Store::open(&path).unwrap();
    let fewer = super::registry(&world, &[("one", json!({}))]);
    let router = Router::new(store.clone(), fewer, Options::default()).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    let How::Ended { why, in_doubt: false } = &recovered[0].how else {
        panic!("{recovered:?}");
    };
    assert_eq!(why, "there is no adapter 'two' of kind fake here");
    let log = store.log(&outcome.run_id).unwrap().unwrap();
    assert_eq!(log.record.progress.last_failure_reason.as_deref(), Some("interrupted"));
    assert_clean(&log);
}

#[test]
fn a_run_keeps_its_adapter_when_the_default_is_another() {
    let world = Arc::new(World::new());
    let adapters = [("one", json!({})), ("two", json!({}))];
    let first = registry(&world, &adapters);
    let bench = Bench::among(&world, first);
    let outcome = bench.run(&plan(&["a", "b"])).unwrap();
    let whole = bench.log(&outcome.run_id);
    // Between two calls, and during one.
    for count in [7, 9] {
        let path = world.path(&format!("{count}.db"));
        cut(&whole, count, &path);
        let store = Store::open(&path).unwrap();
        let reversed: Vec<(&str, Value)> = adapters.iter().rev().cloned().collect();
        let other = registry(&world, &reversed);
        let router = Router::new(store.clone(), other, Options::default()).unwrap();
        let recovered = router.recover_blocking(Resumable::Resume).unwrap();
        assert_eq!(recovered[0].how, How::Resumed);
        let log = store.log(&outcome.run_id).unwrap().unwrap();
        assert_clean(&log);
        let used = |(_, payload): (String, Value)| payload.get("adapter_id").cloned();
        assert!(payloads(&log).into_iter().filter_map(used).all(|used| used == "one"));
    }
}

#[test]
fn a_call_in_doubt_stays_so_when_its_adapter_is_missing() {
    let world = Arc::new(World::new());
    let external = json!({ "capabilities": ["apply", "external"] });
    let bench = Bench::among(&world, registry(&world, &[("one", external)]));
    let outcome = bench.run(&plan(&["a"])).unwrap();
    let path = world.path("runs.db");
    cut(&bench.log(&outcome.run_id), 5, &path);
    let store = Store::open(&path).unwrap();
    let fewer = registry(&world, &[("two", json!({}))]);
    let router = Router::new(store.clone(), fewer, Options::default()).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    assert!(matches!(recovered[0].how, How::Ended { in_doubt: true, .. }), "{recovered:?}");
    assert_clean(&store.log(&outcome.run_id).unwrap().unwrap());
}

#[test]
fn the_runs_of_a_living_owner_are_left_alone() {
    let world = Arc::new(World::new());
    let slow = json!({ "capabilities": ["apply", "external"],
        "responses": [answers("slow", json!({ "sleep_ms": 600_000 }))] });
    let registry = registry(&world, &[("fake", slow)]);
    let path = world.path("runs.db");
    let store = Store::open(&path).unwrap();
    let bench = Bench::with(Arc::clone(&world), store, registry.clone(), Options::default());
    let router = bench.router.clone();
    let running = std::thread::spawn(move || bench.run(&plan(&["slow"])).unwrap());
    let run_id = loop {
        if let Some(listed) = router.store().list(&Default::default()).unwrap().runs.pop() {
            break listed.record.header.run_id;
        }
        std::thread::yield_now();
    };
    let second = Store::open(&path).unwrap();
    assert_eq!(second.orphans().unwrap(), Vec::<String>::new());
    let other = Router::new(second.clone(), registry, Options::default()).unwrap();
    assert!(other.recover_blocking(Resumable::Resume).unwrap().is_empty());
    assert_eq!(second.find(&run_id).unwrap().unwrap().progress.status, Status::Running);
    assert!(router.cancel(&run_id));
    assert_eq!(running.join().unwrap().run_id, run_id);
    assert_eq!(second.find(&run_id).unwrap().unwrap().progress.status, Status::Failed);
}

#[test]
fn a_log_that_was_changed_is_not_carried_on() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({}))]);
    let bench = Bench::among(&world, registry.clone());
    let request = set(plan(&["a", "b"]), "/plan_override/1/call/args", json!({ "amount": 10 }));
    let outcome = bench.run(&request).unwrap();
    let path = world.path("runs.db");
    cut(&bench.log(&outcome.run_id), 7, &path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "DROP TRIGGER segments_are_not_changed; \
             UPDATE segments SET body = replace(body, '\"amount\":10', '\"amount\":99')",
        )
        .unwrap();
    drop(connection);
    let store = Store::open(&path).unwrap();
    let router = Router::new(store.clone(), registry, Options::default()).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    assert!(
        matches!(&recovered[0].how, How::Left { why } if why.contains("not what was recorded"))
    );
    assert!(!store.check(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn a_run_that_was_under_way_when_its_store_was_copied_is_not_carried_on_in_the_copy() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({}))]);
    let bench = Bench::among(&world, registry.clone());
    let outcome = bench.run(&plan(&["a", "b"])).unwrap();
    let (path, copy) = (world.path("runs.db"), world.path("copy.db"));
    cut(&bench.log(&outcome.run_id), 7, &path);
    nexus_router::store::backup(&path, &copy, |_, _| ()).unwrap();
    nexus_router::store::adopt(&copy).unwrap();
    let store = Store::open(&copy).unwrap();
    let router = Router::new(store.clone(), registry, Options::default()).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    assert!(matches!(recovered[0].how, How::Ended { in_doubt: true, .. }), "{recovered:?}");
    assert_clean(&store.log(&outcome.run_id).unwrap().unwrap());
}

#[test]
fn a_foreign_run_is_ended_and_never_taken_for_a_dry_run() {
    let world = Arc::new(World::new());
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nexus/runs.db");
    let path = world.path("python.db");
    std::fs::copy(directory, &path).unwrap();
    let now = nexus_router::clock::Clock::System.now();
    let leave = nexus_router::takeover::Unreadable::Leave;
    nexus_router::takeover::take_over(&path, leave, now, |_, _| ()).unwrap();
    let store = Store::open(&path).unwrap();
    let registry = registry(&world, &[("fake", json!({}))]);
    let router = Router::new(store.clone(), registry, Options::default()).unwrap();
    let recovered = router.recover_blocking(Resumable::Resume).unwrap();
    assert_eq!(recovered.len(), 1);
    assert!(matches!(&recovered[0].how, How::Ended { why, .. } if why.contains("another router")));
    let log = store.log(&recovered[0].run_id).unwrap().unwrap();
    assert_eq!(log.record.progress.status, Status::Failed);
    assert!(payloads(&log).iter().all(|(kind, _)| kind != "PROVENANCE_EMITTED"));
    assert!(store.check(|_, _| ()).unwrap().findings.is_empty());
}
