//! What a worker costs, each figure beside the same thing done inline, in the same run.
//!
//! Cases are interleaved in rounds, so that a busy machine slows both sides. The tenth percentile is the
//! undisturbed cost.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nexus_router::config::Environment;
use nexus_router::loader::{LoadRequest, Placement};
use nexus_router::{Adapter, Call, Loader};
use nexus_router_sdk::Object;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");
const ECHO: &str = "nexus_router_adapter_echo:create_adapter";
const CRASHING: &str = "bad_adapters:call_segfaults";

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 2 } else { 40 };
    let directory = tempfile::tempdir().unwrap();
    one_in_flight(rounds, directory.path());
    many_in_flight(rounds, directory.path());
    fresh(rounds, directory.path());
    replaced(rounds.min(20), directory.path());
    resident(directory.path());
}

fn load(directory: &Path, factory_ref: &str, placement: Placement) -> Adapter {
    let loader = Loader::from_environment(&Environment {
        adapter_path: vec![built_directory()],
        cache_dir: directory.join("cache"),
        helper: Some(PROGRAM.into()),
        ..Environment::default()
    });
    let config = json!({});
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    Loader { placement, ..loader }.load(&request).unwrap()
}

fn built_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn args() -> Object {
    let Value::Object(args) = json!({
        "path": "/srv/data/report-2026.csv", "encoding": "utf-8", "limit": 100, "offset": 0,
        "filters": [{"column": "region", "equals": "north"}, {"column": "year", "equals": 2026}],
    }) else {
        unreachable!()
    };
    args
}

/// One call after the other.
fn one_in_flight(rounds: usize, directory: &Path) {
    let (inline, worker) =
        (load(directory, ECHO, Placement::inline()), load(directory, ECHO, Placement::worker()));
    let args = args();
    let call = Call::new("files", "read", &args);
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (adapter, times) in [(&inline, &mut direct), (&worker, &mut through)] {
            // What has slept is woken first.
            for index in 0..120 {
                let start = Instant::now();
                adapter.call(&call).unwrap();
                if index >= 20 {
                    times.push(start.elapsed());
                }
            }
        }
    }
    report("one call in flight", &direct, &through, "goal: at most 30 us more; floor 60 us");
    let mut seldom = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        worker.call(&call).unwrap();
        seldom.push(start.elapsed());
    }
    println!(
        "  after 5 ms of sleep          p10 {:>10.2?}  p50 {:>10.2?}",
        at(&seldom, 10),
        at(&seldom, 50)
    );
}

/// Many calls at once.
fn many_in_flight(rounds: usize, directory: &Path) {
    let (inline, worker) =
        (load(directory, ECHO, Placement::inline()), load(directory, ECHO, Placement::worker()));
    for in_flight in [8, 32, 128] {
        let rates = [&inline, &worker].map(|adapter| rate(adapter, in_flight, rounds * 5_000));
        let [inline, worker] = rates;
        println!("{in_flight} calls in flight");
        println!(
            "  inline {inline:>10.0}/s   worker {worker:>10.0}/s   {:.3} of inline; goal at 128: 100,000/s; floor 60,000/s",
            worker / inline
        );
    }
}

fn rate(adapter: &Adapter, in_flight: usize, calls: usize) -> f64 {
    let args = args();
    let call = Call::new("files", "read", &args);
    let (answer, answers) = channel();
    let start_one = || {
        let answer = answer.clone();
        adapter.start(&call, move |result| {
            result.unwrap();
            answer.send(()).unwrap();
        });
    };
    let start = Instant::now();
    (0..in_flight).for_each(|_| start_one());
    for _ in 0..calls.saturating_sub(in_flight) {
        answers.recv().unwrap();
        start_one();
    }
    (0..in_flight).for_each(|_| answers.recv().unwrap());
    calls as f64 / start.elapsed().as_secs_f64()
}

/// The first answer of an adapter that is known to load, beside a program that only starts and ends.
fn fresh(rounds: usize, directory: &Path) {
    let args = args();
    let call = Call::new("files", "read", &args);
    drop(load(directory, ECHO, Placement::worker()));
    let (mut spawned, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let mut program = std::process::Command::new(PROGRAM);
        program.arg("__adapter-child").stdin(std::process::Stdio::null()).env_clear();
        program.status().unwrap();
        spawned.push(start.elapsed());
        let adapter = load(directory, ECHO, Placement::worker());
        assert_eq!(adapter.workers().unwrap().state, "idle");
        let start = Instant::now();
        adapter.call(&call).unwrap();
        answered.push(start.elapsed());
    }
    report("first answer of a fresh worker", &spawned, &answered, "goal: at most 5 ms");
}

/// From the crash of a worker to the answer of the next.
fn replaced(rounds: usize, directory: &Path) {
    let rules = Placement { crashes: usize::MAX, ..Placement::worker() };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let adapter = load(directory, CRASHING, rules.clone());
        let nothing = Object::new();
        // The first may have to be started.
        let call = Call::new("tool", "method", &nothing);
        assert!(adapter.call(&call).is_err());
        let start = Instant::now();
        while adapter.workers().unwrap().state != "serving" {
            std::thread::sleep(Duration::from_micros(100));
        }
        times.push(start.elapsed());
    }
    println!("replacement after SIGSEGV, until it serves");
    println!("  p10 {:>10.2?}  p50 {:>10.2?}; goal: at most 10 ms", at(&times, 10), at(&times, 50));
}

/// The memory of workers that have answered a call and wait.
fn resident(directory: &Path) {
    let args = args();
    let call = Call::new("files", "read", &args);
    let adapters: Vec<Adapter> =
        (0..10).map(|_| load(directory, ECHO, Placement::worker())).collect();
    for adapter in &adapters {
        adapter.call(&call).unwrap();
    }
    // At rest they let go of what they do not need.
    std::thread::sleep(Duration::from_millis(2500));
    let of = |key: &str| -> f64 {
        let processes: Vec<u32> =
            adapters.iter().flat_map(|adapter| adapter.workers().unwrap().processes).collect();
        let sum: u64 = processes.iter().map(|id| rollup(*id, key)).sum();
        sum as f64 / processes.len() as f64 / 1024.0
    };
    println!(
        "memory of an idle worker: {:.2} MB resident, {:.2} MB its share, {:.2} MB its own; goal: at most 4 MB resident",
        of("Rss:"),
        of("Pss:"),
        of("Private_Dirty:")
    );
}

fn rollup(id: u32, key: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn at(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[(times.len() - 1) * percent / 100]
}

fn report(what: &str, baseline: &[Duration], measured: &[Duration], goal: &str) {
    let (base, time) = (at(baseline, 50), at(measured, 50));
    println!("{what}");
    println!("  baseline                     p10 {:>10.2?}  p50 {base:>10.2?}", at(baseline, 10));
    println!(
        "  worker                       p10 {:>10.2?}  p50 {time:>10.2?}  p99 {:>10.2?}",
        at(measured, 10),
        at(measured, 99)
    );
    println!("  {:?} more; {goal}", time.saturating_sub(base));
}
