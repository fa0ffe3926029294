//! Many runs at once: without a thread each, within limits, and in turn.

use nexus_router::request::Request;
use nexus_router::router::{CallLimits, Error, Options, Router};
use nexus_router::store::{Status, Store};
use nexus_router::{LoadRequest, Registry};
use serde_json::{Value, json};

use super::{answers, assert_clean, plan, registry};
use crate::support::World;

fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    line.trim().parse().unwrap()
}

fn request(request: &Value) -> Request {
    Request::parse(request.to_string().as_bytes()).unwrap()
}

#[test]
fn ten_thousand_runs_wait_without_ten_thousand_threads() {
    const RUNS: usize = 10_000;
    let world = World::new();
    let adapter = world
        .loader()
        .load(&LoadRequest {
            factory_ref: "probe_adapters:many_calls",
            adapter_id: Some("many"),
            config: &json!({}),
            pin: None,
        })
        .unwrap();
    let mut registry = Registry::new("many");
    registry.register(adapter).unwrap();
    let store = Store::open(&world.path("runs.db")).unwrap();
    let router = Router::new(store.clone(), registry, Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let before = threads();
    let (most, completed) = runtime.block_on(async {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let held: Vec<_> = (0..RUNS)
                    .map(|_| {
                        let router = router.clone();
                        tokio::task::spawn_local(async move {
                            router.run(request(&plan(&["hold"]))).await
                        })
                    })
                    .collect();
                while router.runs_in_flight() < RUNS {
                    tokio::task::yield_now().await;
                }
                let most = threads();
                // Calls are held until another call releases them; a later one may just have arrived.
                let mut completed = 0;
                for run in held {
                    while !run.is_finished() {
                        router.run(request(&plan(&["release"]))).await.unwrap();
                    }
                    completed += usize::from(run.await.unwrap().is_ok());
                }
                (most, completed)
            })
            .await
    });
    assert_eq!(completed, RUNS);
    assert!(most < before + 100, "{before} threads before, {most} with {RUNS} runs under way");
    let counted = store.list(&Default::default()).unwrap().counted;
    assert!(counted.completed >= RUNS as u64 && counted.running == 0, "{counted:?}");
}

#[test]
fn an_adapter_has_so_many_calls_at_once_and_no_more() {
    let world = World::new();
    let traces = world.path("traces");
    let slow = json!({ "traces": traces, "trace_ends": true,
        "responses": [answers("slow", json!({ "sleep_ms": 20 }))] });
    let registry = registry(&world, &[("fake", slow)]);
    let calls = CallLimits { calls: Some(2), ..CallLimits::default() };
    let options = Options { calls, ..Options::default() };
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let runs: Vec<_> = (0..12)
        .map(|_| {
            let router = router.clone();
            std::thread::spawn(move || router.run_blocking(request(&plan(&["slow"]))).unwrap())
        })
        .collect();
    for run in runs {
        assert_clean(&router.store().log(&run.join().unwrap().run_id).unwrap().unwrap());
    }
    let (mut now, mut most) = (0, 0);
    for line in std::fs::read_to_string(&traces).unwrap().lines() {
        now = if line == "end" { now - 1 } else { now + 1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 2));
}

#[test]
fn one_run_too_many_is_refused_and_leaves_nothing() {
    let world = World::new();
    let slow = json!({ "responses": [answers("slow", json!({ "sleep_ms": 600_000 }))] });
    let registry = registry(&world, &[("fake", slow)]);
    let options = Options { runs_in_flight: 1, ..Options::default() };
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let first = {
        let router = router.clone();
        std::thread::spawn(move || router.run_blocking(request(&plan(&["slow"]))))
    };
    while router.live().is_empty() {
        std::thread::yield_now();
    }
    let error = router.run_blocking(request(&plan(&["a"]))).unwrap_err();
    assert!(matches!(error, Error::Busy { limit: 1 }), "{error}");
    let run_id = router.live().pop().unwrap();
    assert!(router.cancel(&run_id));
    first.join().unwrap().unwrap();
    assert_eq!(router.store().list(&Default::default()).unwrap().counted.total, 1);
}

#[test]
fn runs_from_many_threads_share_commits_and_stay_whole() {
    let world = World::new();
    let registry = registry(&world, &[("fake", json!({ "capabilities": ["apply", "external"] }))]);
    let store = Store::open(&world.path("runs.db")).unwrap();
    let router = Router::new(store.clone(), registry, Options::default()).unwrap();
    let runs: Vec<_> = (0..16)
        .map(|_| {
            let router = router.clone();
            std::thread::spawn(move || {
                (0..10)
                    .map(|_| router.run_blocking(request(&plan(&["a", "b"]))).unwrap().run_id)
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    for run_id in runs.into_iter().flat_map(|run| run.join().unwrap()) {
        let log = store.log(&run_id).unwrap().unwrap();
        assert_eq!(log.lines().count(), 13);
        assert_clean(&log);
    }
    let work = store.work();
    assert!(work.appends == 480 && work.commits < work.appends, "{work:?}");
    assert!(store.check(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn two_stores_on_one_file_write_side_by_side() {
    let world = World::new();
    let path = world.path("runs.db");
    let registry = registry(&world, &[("fake", json!({}))]);
    let routers: Vec<Router> = (0..2)
        .map(|_| Router::new(Store::open(&path).unwrap(), registry.clone(), Options::default()))
        .map(Result::unwrap)
        .collect();
    let runs: Vec<_> = routers
        .iter()
        .cloned()
        .map(|router| {
            std::thread::spawn(move || {
                for _ in 0..50 {
                    router.run_blocking(request(&plan(&["a"]))).unwrap();
                }
            })
        })
        .collect();
    runs.into_iter().for_each(|run| run.join().unwrap());
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.list(&Default::default()).unwrap().counted.completed, 100);
    assert!(store.check(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn whoever_reads_a_store_in_memory_sees_every_run_that_was_answered() {
    let world = World::new();
    let registry = registry(&world, &[("fake", json!({}))]);
    let router = Router::new(Store::in_memory().unwrap(), registry, Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let run = |number: u64| {
        let router = router.clone();
        async move {
            let outcome = router.run(request(&plan(&["ok"]))).await.unwrap();
            // Nothing was waited for, and yet it is there: for one, and for all.
            let log = router.store().log(&outcome.run_id).unwrap();
            assert_eq!(log.unwrap().record.progress.status, Status::Completed, "{number}");
            assert!(router.store().list(&Default::default()).unwrap().counted.completed > 0);
        }
    };
    let runs: Vec<_> = (0..500).map(|number| runtime.spawn(run(number))).collect();
    for run in runs {
        runtime.block_on(run).unwrap();
    }
    let counted = router.store().list(&Default::default()).unwrap().counted;
    assert_eq!((counted.completed, counted.running), (500, 0));
    assert!(router.store().check(|_, _| ()).unwrap().findings.is_empty());
}

#[test]
fn a_run_goes_on_when_nobody_waits_for_its_answer() {
    let world = World::new();
    let slow = json!({ "responses": [answers("slow", json!({ "sleep_ms": 100 }))] });
    let registry = registry(&world, &[("fake", slow)]);
    let router = Router::new(Store::in_memory().unwrap(), registry, Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = router.run(request(&plan(&["slow", "ok"]))) => panic!("it is not that quick"),
            () = tokio::task::yield_now() => {}
        }
    });
    assert_eq!(router.runs_in_flight(), 1);
    while router.runs_in_flight() > 0 {
        std::thread::yield_now();
    }
    let counted = router.store().list(&Default::default()).unwrap().counted;
    assert_eq!((counted.completed, counted.total), (1, 1));
}
