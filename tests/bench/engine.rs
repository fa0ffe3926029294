//! What runs and their record cost, beside what the disk and SQLite cost in the same run.
//!
//! `cargo bench --bench engine` prints one line per figure with its goal; `-- --smoke` only shows that
//! everything runs. `NEXUS_ROUTER_BENCH_DIR` names the directory whose disk is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a benchmark prints, and fails loudly"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_router::bundle;
use nexus_router::config::Environment;
use nexus_router::replay;
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::{Filter, Log, Store};
use nexus_router::{LoadRequest, Loader, Registry};
use serde_json::{Value, json};

/// What the Python router does on a machine like this, as was measured: steps per second of a 100-step
/// plan, runs per second of a 1-step plan, each with an open store; seconds for a run of 10,001 events.
const PEER_STEPS: f64 = 532.0;
const PEER_RUNS: f64 = 168.0;
const PEER_EXPORT: f64 = 0.232;
const PEER_IMPORT: f64 = 0.484;

struct Scale {
    rounds: usize,
    runs: usize,
    stored: usize,
}

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let scale = if smoke {
        Scale { rounds: 5, runs: 200, stored: 2_000 }
    } else {
        Scale { rounds: 400, runs: 60_000, stored: 1_000_000 }
    };
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let directory = match std::env::var_os("NEXUS_ROUTER_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let place = directory.path();
    if wanted("single") {
        single(place, &scale);
    }
    if wanted("steps") {
        hundred_steps(place, &scale);
    }
    if wanted("crowd") {
        crowd(place, &scale);
    }
    if wanted("memory") {
        memory(place, &scale);
    }
    if wanted("bundles") {
        bundles(place, &scale);
    }
    if wanted("growth") {
        growth(place, &scale);
    }
    if wanted("lists") {
        lists(place, &scale);
    }
}

fn registry(place: &Path, config: &Value) -> Registry {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let loader = Loader::from_environment(&Environment {
        adapter_path: vec![built],
        cache_dir: place.join("cache"),
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_nexus-router"))),
        ..Environment::default()
    });
    let factory_ref = "probe_adapters:fake";
    let request = LoadRequest { factory_ref, adapter_id: Some("fake"), config, pin: None };
    let mut registry = Registry::new("fake");
    registry.register(loader.load(&request).unwrap()).unwrap();
    registry
}

fn quiet() -> Value {
    json!({})
}

fn external() -> Value {
    json!({ "capabilities": ["apply", "external"] })
}

fn plan(mode: &str, steps: usize) -> Vec<u8> {
    let step = |index: usize| {
        json!({ "step_id": format!("s{index}"), "intent": "do",
            "call": { "tool": "files", "method": "read", "args": { "path": "/tmp/a.txt" } } })
    };
    let steps: Vec<Value> = (0..steps).map(step).collect();
    json!({ "goal": "bench", "mode": mode, "policy": { "allow_apply": true },
        "plan_override": steps })
    .to_string()
    .into_bytes()
}

fn router(place: &Path, name: &str, config: &Value) -> Router {
    let store = Store::open(&place.join(name)).unwrap();
    Router::new(store, registry(place, config), Options::default()).unwrap()
}

fn run(router: &Router, request: &[u8]) {
    router.run_blocking(Request::parse(request).unwrap()).unwrap();
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Appends to a file and makes it durable, as often as it is asked.
struct Disk(std::fs::File);

impl Disk {
    fn new(place: &Path) -> Self {
        Self(std::fs::File::create(place.join("raw")).unwrap())
    }

    fn append(&mut self) -> Duration {
        timed(|| {
            self.0.write_all(&[7; 4096]).unwrap();
            self.0.sync_data().unwrap();
        })
    }
}

/// Commits one row at a time, as SQLite does it by itself.
struct Rows(rusqlite::Connection);

impl Rows {
    fn new(place: &Path) -> Self {
        let rows = rusqlite::Connection::open(place.join("rows.db")).unwrap();
        rows.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT);",
        )
        .unwrap();
        Self(rows)
    }

    fn commit(&self) -> Duration {
        let body = "x".repeat(300);
        timed(|| {
            self.0.execute("INSERT INTO rows (body) VALUES (?1)", [&body]).unwrap();
        })
    }
}

fn single(place: &Path, scale: &Scale) {
    println!("one client, one step, every answer durable:");
    let dry = router(place, "dry.db", &quiet());
    let apply = router(place, "apply.db", &external());
    let (dry_request, apply_request) = (plan("dry_run", 1), plan("apply", 1));
    let (mut disk, rows) = (Disk::new(place), Rows::new(place));
    warm_up(&dry, scale);
    warm_up(&apply, scale);
    for _ in 0..3 * scale.rounds {
        rows.commit();
    }
    let before = [&dry, &apply].map(|router| router.store().work().commits);
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..scale.rounds {
        times[0].push(disk.append());
        times[1].push(rows.commit());
        times[2].push(timed(|| run(&dry, &dry_request)));
        times[3].push(timed(|| run(&apply, &apply_request)));
    }
    let [disk, rows, dry_run, applied] = times.each_mut().map(|times| median(times));
    println!("  append 4 KiB + fdatasync       {:8.1} us", micros(disk));
    println!("  SQLite, one row per commit     {:8.1} us", micros(rows));
    let against = |time: Duration| time.as_secs_f64() / disk.as_secs_f64();
    println!(
        "  dry run                        {:8.1} us  {:.2} fdatasync (goal <= 1.30), {:.2} commits",
        micros(dry_run),
        against(dry_run),
        (dry.store().work().commits - before[0]) as f64 / scale.rounds as f64
    );
    println!(
        "  apply with effects             {:8.1} us  {:.2} fdatasync (goal <= 2.50), {:.2} commits",
        micros(applied),
        against(applied),
        (apply.store().work().commits - before[1]) as f64 / scale.rounds as f64
    );
}

/// Fills the write-ahead log once. From then on it is written over and does not grow, as in any store
/// that is in use; SQLite's own figure is taken in the same state.
fn warm_up(router: &Router, scale: &Scale) {
    clients(router, &plan("dry_run", 1), 64, 8 * scale.rounds);
}

fn hundred_steps(place: &Path, scale: &Scale) {
    println!("one client, 100 steps:");
    let at_once = json!({ "at_once": true });
    let kinds = [
        ("external", external(), 5.0),
        ("quiet, a thread per call", quiet(), 50.0),
        ("quiet, at once", at_once, 50.0),
    ];
    for (name, config, goal) in kinds {
        let router = router(place, &format!("{}-100.db", name.len()), &config);
        let request = plan("apply", 100);
        warm_up(&router, scale);
        let before = router.store().work().commits;
        let runs = (scale.rounds / 20).max(2);
        let mut times: Vec<Duration> =
            (0..runs).map(|_| timed(|| run(&router, &request))).collect();
        let steps = 100.0 / median(&mut times).as_secs_f64();
        println!(
            "  {name:<25} {steps:10.0} steps/s  {:6.1} x the peer (goal >= {goal:.0}), {:.2} commits per step",
            steps / PEER_STEPS,
            (router.store().work().commits - before) as f64 / runs as f64 / 100.0
        );
    }
}

/// Runs from 64 clients at once; each waits for its answer before it asks again.
fn clients(router: &Router, request: &[u8], clients: usize, runs: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let time = timed(|| {
        runtime.block_on(async {
            let each = runs.div_ceil(clients);
            let tasks: Vec<_> = (0..clients)
                .map(|_| {
                    let (router, request) = (router.clone(), request.to_vec());
                    tokio::spawn(async move {
                        for _ in 0..each {
                            router.run(Request::parse(&request).unwrap()).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    runs as f64 / time.as_secs_f64()
}

fn crowd(place: &Path, scale: &Scale) {
    println!("64 clients, one step each, every answer durable:");
    for (name, mode, config) in
        [("dry run", "dry_run", quiet()), ("apply with effects", "apply", external())]
    {
        let router = router(place, &format!("crowd-{mode}.db"), &config);
        let rate = clients(&router, &plan(mode, 1), 64, scale.runs);
        let work = router.store().work();
        let goal = if mode == "dry_run" { " (goal >= 18000, floor 6000)" } else { "" };
        println!(
            "  {name:<20} {rate:8.0} runs/s{goal}, {:.0} x the peer, {:.1} runs per fsync (goal >= 20)",
            rate / PEER_RUNS,
            work.appends as f64 / work.commits as f64
        );
    }
}

fn memory(place: &Path, scale: &Scale) {
    println!("without durability, one core:");
    let mut all = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    // Threads that are started from here on inherit the core.
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let options = Options { threads: Some(1), ..Options::default() };
    let registry = registry(place, &quiet());
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let rate = clients(&router, &plan("dry_run", 1), 64, scale.runs);
    println!("  dry run              {rate:8.0} runs/s (goal >= 30000, floor 10000)");
    drop(router);
    rustix::thread::sched_setaffinity(None, &all).unwrap();
    all.clear();
}

/// A stored run of 10,005 events.
fn long_run(place: &Path) -> (Store, Log) {
    let router = router(place, "long.db", &quiet());
    let request = plan("dry_run", 2_500);
    let outcome = router.run_blocking(Request::parse(&request).unwrap()).unwrap();
    let log = router.store().log(&outcome.run_id).unwrap().unwrap();
    (router.store().clone(), log)
}

fn now() -> nexus_router::clock::Timestamp {
    nexus_router::clock::Clock::System.now()
}

fn bundles(place: &Path, scale: &Scale) {
    println!("a run of 10,005 events:");
    let (store, log) = long_run(place);
    let run_id = log.record.header.run_id.clone();
    let rounds = (scale.rounds / 20).max(2);
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            timed(|| {
                let log = store.log(&run_id).unwrap().unwrap();
                assert!(replay::replay(&log).violations.is_empty());
            })
        })
        .collect();
    let time = median(&mut times);
    let rate = log.record.progress.events as f64 / time.as_secs_f64();
    println!("  replay   {:8.2} ms  {rate:10.0} events/s (goal >= 1000000)", micros(time) / 1e3);
    let mut text = String::new();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            timed(|| {
                let log = store.log(&run_id).unwrap().unwrap();
                let source = bundle::Source::of(&store);
                let exported = bundle::export(&log, &source, bundle::Provenance::Include, now());
                text = exported.unwrap().text;
            })
        })
        .collect();
    let time = median(&mut times);
    println!(
        "  export   {:8.2} ms  {:6.1} x the peer (goal >= 30), {:.2} MB",
        micros(time) / 1e3,
        PEER_EXPORT / time.as_secs_f64(),
        text.len() as f64 / 1e6
    );
    let mut times: Vec<Duration> = (0..rounds)
        .map(|round| {
            let target = Store::open(&place.join(format!("import-{round}.db"))).unwrap();
            timed(|| {
                let options = bundle::ImportOptions::new(now());
                let imported = bundle::import(&target, text.as_bytes(), &options).unwrap();
                let bundle::Imported::Stored { replay: Some(replay), .. } = imported else {
                    panic!("not imported");
                };
                assert!(replay.violations.is_empty());
            })
        })
        .collect();
    let time = median(&mut times);
    println!(
        "  import   {:8.2} ms  {:6.1} x the peer (goal >= 10)",
        micros(time) / 1e3,
        PEER_IMPORT / time.as_secs_f64()
    );
}

/// The time of a step early and late in one long run.
fn growth(place: &Path, scale: &Scale) {
    let steps = if scale.rounds > 5 { 10_000 } else { 400 };
    let router = router(place, "growth.db", &external());
    let outcome = router.run_blocking(Request::parse(&plan("apply", steps)).unwrap()).unwrap();
    let log = router.store().log(&outcome.run_id).unwrap().unwrap();
    let times: Vec<i64> = log
        .lines()
        .filter(|line| line.ends_with("\"type\":\"STEP_STARTED\"}"))
        .map(|line| {
            let line = nexus_router::event::Line::read(line).unwrap();
            nexus_router::clock::Timestamp::parse(&line.ts).unwrap().as_millis()
        })
        .collect();
    let tenth = times.len() / 10;
    let per_step = |part: &[i64]| (part[part.len() - 1] - part[0]) as f64 / (part.len() - 1) as f64;
    let (early, late) = (per_step(&times[..tenth]), per_step(&times[times.len() - tenth..]));
    println!("a run of {steps} steps with effects, time per step:");
    println!("  first tenth {early:.3} ms, last tenth {late:.3} ms, ratio {:.2}", late / early);
}

fn lists(place: &Path, scale: &Scale) {
    println!("list and show, with few and with many stored runs:");
    let router = router(place, "many.db", &quiet());
    let request = plan("dry_run", 1);
    let look = |stored: usize| {
        let store = router.store();
        let mut times = [const { Vec::new() }; 3];
        let newest = store.list(&Filter::default()).unwrap().runs[0].record.header.run_id.clone();
        for _ in 0..50 {
            times[0].push(timed(|| drop(store.list(&Filter::default()).unwrap())));
            let failed = nexus_router::store::Status::Failed;
            let filter = Filter { status: Some(failed), ..Filter::default() };
            times[1].push(timed(|| drop(store.list(&filter).unwrap())));
            times[2].push(timed(|| drop(store.log(&newest).unwrap())));
        }
        let [list, filtered, show] = times.each_mut().map(|times| micros(median(times)));
        println!(
            "  {stored:>8} runs: list {list:7.1} us, by status {filtered:7.1} us, show {show:6.1} us"
        );
    };
    clients(&router, &request, 64, scale.stored / 100);
    look(scale.stored / 100);
    clients(&router, &request, 64, scale.stored - scale.stored / 100);
    look(scale.stored);
    for line in router.store().query_plans().unwrap() {
        println!("  {line}");
    }
}
