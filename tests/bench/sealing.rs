//! What sealing adds to runs: processor time, appends to the log and lost throughput, beside the same runs unsealed.
//!
//! `cargo bench --bench sealing` prints one line per figure with its goal; `-- --smoke` only shows that everything runs.
//! `NEXUS_ROUTER_BENCH_DIR` names the directory whose disk is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router::config::Environment;
use nexus_router::metrics::Metrics;
use nexus_router::notary::{Backlog, Notary};
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::seal::Sealer;
use nexus_router::store::Store;
use nexus_router::{LoadRequest, Loader, Registry};
use serde_json::json;

/// Clients that run plans at the same time.
const CLIENTS: usize = 32;
/// How often the two ways are compared.
const ROUNDS: usize = 3;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let runs = if smoke { 320 } else { 32_000 };
    let directory = match std::env::var_os("NEXUS_ROUTER_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let (mut plain, mut sealed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let place = directory.path().join(round.to_string());
        std::fs::create_dir(&place).unwrap();
        plain.push(measure(&place.join("plain.db"), None, runs));
        sealed.push(measure(&place.join("sealed.db"), Some(&place.join("sealed")), runs));
    }
    let (plain, sealed) = (median(plain), median(sealed));
    let cpu = |of: &Measured| of.cpu.as_secs_f64() * 1e6 / runs as f64;
    println!(
        "processor time per run    {:8.1} us plain, {:8.1} us sealed: {:+.1} us (goal <= 200)",
        cpu(&plain),
        cpu(&sealed),
        cpu(&sealed) - cpu(&plain)
    );
    let rate = |of: &Measured| runs as f64 / of.answered.as_secs_f64();
    println!(
        "runs per second, {CLIENTS} clients {:8.0} plain, {:8.0} sealed: ratio {:.2}",
        rate(&plain),
        rate(&sealed),
        rate(&sealed) / rate(&plain)
    );
    println!(
        "appends to the log        {:8} for {runs} runs; all sealed {:.0} ms after the last answer",
        sealed.appends,
        sealed.settled.as_secs_f64() * 1e3
    );
}

/// What some runs took.
#[derive(Clone, Copy)]
struct Measured {
    /// Until the last of them was answered.
    answered: Duration,
    /// From then on until all are sealed.
    settled: Duration,
    /// Of this process.
    cpu: Duration,
    appends: u64,
}

fn median(mut all: Vec<Measured>) -> Measured {
    all.sort_unstable_by_key(|one| one.cpu);
    all[all.len() / 2]
}

fn measure(db: &Path, root: Option<&Path>, runs: usize) -> Measured {
    let store = Store::open(db).unwrap();
    let place = db.parent().unwrap();
    let sealer = root.map(|root| Arc::new(Sealer::open(root).unwrap()));
    let notary = sealer.as_ref().map(|sealer| {
        let (store, sealer) = (store.clone(), Arc::clone(sealer));
        Notary::start(store, sealer, Backlog::Leave, Metrics::default()).unwrap()
    });
    let router = Router::new(store.clone(), registry(place), Options::default()).unwrap();
    let request = json!({ "goal": "bench", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [{ "step_id": "s1", "intent": "do",
            "call": { "tool": "files", "method": "read", "args": { "path": "/tmp/a.txt" } } }] })
    .to_string();
    let (before, start) = (cpu(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..runs / CLIENTS {
                    let request = Request::parse(request.as_bytes()).unwrap();
                    router.run_blocking(request).unwrap();
                }
            });
        }
    });
    let answered = start.elapsed();
    drop(notary);
    let settled = start.elapsed() - answered;
    if root.is_some() {
        assert_eq!(store.unsealed_after(0, 1).unwrap(), Vec::<i64>::new(), "all are sealed");
    }
    let appends = sealer.map_or(0, |sealer| sealer.appends());
    Measured { answered, settled, cpu: cpu() - before, appends }
}

fn registry(place: &Path) -> Registry {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let loader = Loader::from_environment(&Environment {
        adapter_path: vec![built],
        cache_dir: place.join("cache"),
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_nexus-router"))),
        ..Environment::default()
    });
    let factory_ref = "probe_adapters:fake";
    let config = &json!({});
    let request = LoadRequest { factory_ref, adapter_id: Some("fake"), config, pin: None };
    let mut registry = Registry::new("fake");
    registry.register(loader.load(&request).unwrap()).unwrap();
    registry
}

/// Returns the processor time of this process so far.
fn cpu() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec.unsigned_abs(), u32::try_from(usage.tv_nsec).unwrap())
}
