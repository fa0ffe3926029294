//! What runs cost over HTTP, beside what the same machine does without it in the same run.
//!
//! `cargo bench --bench http` starts the daemon as a user would and prints one line per figure with its
//! goal; `-- --smoke` only shows that everything runs. `NEXUS_ROUTER_BENCH_DIR` names the directory whose
//! disk is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

#[allow(dead_code, unreachable_pub, reason = "two benchmarks share it, and each needs a part")]
#[path = "daemon.rs"]
mod daemon;

use std::path::Path;
use std::time::{Duration, Instant};

use daemon::{Daemon, told};

use nexus_router::Registry;
use nexus_router::loader::Adapter;
use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;

const CLIENTS: usize = 32;
const ADAPTERS: &str = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n";
const PLAN: &str = r#"{"goal":"bench","plan_override":[{"step_id":"s0","intent":"do","call":{"tool":"files","method":"read","args":{"path":"/tmp/a.txt"}}}]}"#;

fn main() {
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (runs, starts) = if smoke { (500, 2) } else { (100_000, 20) };
    let directory = match std::env::var_os("NEXUS_ROUTER_BENCH_DIR") {
        Some(base) => tempfile::tempdir_in(base).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let place = directory.path();
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("start") {
        starting(place, starts);
    }
    if wanted("memory") {
        in_memory(place, runs);
    }
    if wanted("disk") {
        on_disk(place, runs);
    }
}

fn post(clients: usize) -> Vec<Vec<u8>> {
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{PLAN}",
        PLAN.len()
    );
    vec![request.into_bytes(); clients]
}

/// Time until the daemon answers, and what it takes while it does nothing.
fn starting(place: &Path, starts: usize) {
    let mut times: Vec<Duration> = (0..starts)
        .map(|_| Daemon::start(place, place.join("start.db").to_str().unwrap(), ADAPTERS).ready)
        .collect();
    times.sort_unstable();
    let daemon = Daemon::start(place, place.join("start.db").to_str().unwrap(), ADAPTERS);
    // One answer, so that everything is there that the first one brings.
    daemon.load(&[b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()], 1);
    println!(
        "ready after {:.0} ms (median of {starts}; goal 100), idle {:.1} MB resident (goal 25)",
        times[times.len() / 2].as_secs_f64() * 1e3,
        daemon.resident_mb(),
    );
}

/// Runs on a store in memory, beside answers that need no store.
fn in_memory(place: &Path, runs: usize) {
    let daemon = Daemon::start(place, ":memory:", ADAPTERS);
    let health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    daemon.load(&post(CLIENTS), runs / 10);
    let bare = daemon.load(&vec![health; CLIENTS], runs);
    told("GET /healthz, 32 clients (baseline)", &bare, "");
    let one = daemon.load(&post(1), runs / 10);
    told("1-step dry run, memory, 1 client", &one, "");
    let many = daemon.load(&post(CLIENTS), runs);
    let ratio = many.per_second / bare.per_second;
    told(
        "1-step dry run, memory, 32 clients",
        &many,
        &format!("{ratio:.2} of bare; goal 20000, floor 8000"),
    );
    println!("after that {:.1} MB resident, with the runs in memory", daemon.resident_mb());
}

/// Runs on disk, beside the same without HTTP.
fn on_disk(place: &Path, runs: usize) {
    let own = without_http(place, runs);
    let daemon = Daemon::start(place, place.join("http.db").to_str().unwrap(), ADAPTERS);
    daemon.load(&post(CLIENTS), runs / 10);
    let one = daemon.load(&post(1), runs / 50);
    told("1-step dry run, disk, 1 client", &one, "");
    let many = daemon.load(&post(CLIENTS), runs);
    let ratio = many.per_second / own;
    println!("{:<44} {own:>8.0} /s", "the same 32 at once without HTTP (baseline)");
    told("1-step dry run, disk, 32 clients", &many, &format!("{ratio:.2} of that; goal 0.50"));
}

/// Returns how many runs per second 32 tasks get out of the router itself.
fn without_http(place: &Path, runs: usize) -> f64 {
    let store = Store::open(&place.join("own.db")).unwrap();
    let mut registry = Registry::new("null");
    registry.register(Adapter::null()).unwrap();
    let router = Router::new(store, registry, Options::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let round = |count: usize| {
        let begun = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let router = router.clone();
                    tokio::spawn(async move {
                        for _ in 0..count / CLIENTS {
                            router.run(Request::parse(PLAN.as_bytes()).unwrap()).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        (count / CLIENTS * CLIENTS) as f64 / begun.elapsed().as_secs_f64()
    };
    round(runs / 10);
    round(runs)
}
