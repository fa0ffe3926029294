//! What the router adds to a request that a call asks it for, beside the same request made directly, in the same run.
//!
//! A call asks many times, and the same call asks nothing; the difference is what asking costs. The request goes to an
//! adapter that answers at once, in a worker like any other, so that nothing but the way is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_router::config::{Environment, SourceEntry};
use nexus_router::desk::Desks;
use nexus_router::json::Object;
use nexus_router::loader::Placement;
use nexus_router::policy::Law;
use nexus_router::request::Request;
use nexus_router::role::{ActionClass, Role};
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;
use nexus_router::{Adapter, Call, LoadRequest, Loader, Registry};
use serde_json::json;

/// Requests of one call.
const ASKS: u32 = 100;

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 2 } else { 200 };
    let directory = tempfile::tempdir().unwrap();
    let desks = Desks::default();
    let source = load(directory.path(), "nexus_router_adapter_echo:create_adapter", &desks);
    let asker = load(directory.path(), "probe_adapters:asker", &desks);
    let mut registry = Registry::new("asker");
    registry.register(source.clone()).unwrap();
    registry.register(asker).unwrap();
    let mut law = Law::default();
    law.roles.insert("asker".to_owned(), Role::Scout);
    let entry = SourceEntry {
        name: "docs".to_owned(),
        adapter: "echo".to_owned(),
        tool: "documents".to_owned(),
        method: "get".to_owned(),
        action_class: ActionClass::DocRetrieval,
        args: Object::new(),
        volatile: Vec::new(),
        timeout: None,
    };
    law.sources.insert("asker".to_owned(), vec![entry].into());
    let options = Options { law, desks, ..Options::default() };
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let input = json!({ "id": 7, "language": "en" });
    let (mut direct, mut silent, mut asking) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let args = input.as_object().unwrap();
        let start = Instant::now();
        for _ in 0..ASKS {
            source.call(&Call::new("documents", "get", args)).unwrap();
        }
        direct.push(start.elapsed() / ASKS);
        silent.push(run(&router, 0, &input));
        asking.push(run(&router, ASKS, &input));
    }
    let asked: Vec<Duration> = asking
        .iter()
        .zip(&silent)
        .map(|(with, without)| with.saturating_sub(*without) / ASKS)
        .collect();
    let (base, time) = (at(&direct, 50), at(&asked, 50));
    println!("a request of a call");
    println!("  direct                       p10 {:>10.2?}  p50 {base:>10.2?}", at(&direct, 10));
    println!("  asked for                    p10 {:>10.2?}  p50 {time:>10.2?}", at(&asked, 10));
    println!("  {:.2?} more; goal: at most 100 us", time.saturating_sub(base));
}

/// Carries out a run whose only call asks so often, and returns how long it took.
fn run(router: &Router, times: u32, input: &serde_json::Value) -> Duration {
    let ask = json!({ "type": "retrieve", "source": "docs", "input": input });
    let request = json!({ "goal": "bench", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [{ "step_id": "s", "intent": "", "call": { "tool": "doc_retrieval",
            "method": "call", "args": { "asks": [ask], "times": times } } }] });
    let request = Request::parse(request.to_string().as_bytes()).unwrap();
    let start = Instant::now();
    let outcome = router.run_blocking(request).unwrap().to_json();
    let time = start.elapsed();
    let answers = outcome.pointer("/results/0/output/result/answers").unwrap();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), times as usize);
    assert!(answers.iter().all(|answer| answer.get("told").is_some()), "{outcome:?}");
    time
}

fn load(directory: &Path, factory_ref: &str, desks: &Desks) -> Adapter {
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let loader = Loader::from_environment(&Environment {
        adapter_path: vec![built],
        cache_dir: directory.join("cache"),
        helper: Some(PathBuf::from(env!("CARGO_BIN_EXE_nexus-router"))),
        ..Environment::default()
    });
    let loader = Loader { placement: Placement::worker(), asks: desks.sink(), ..loader };
    let config = json!({});
    loader.load(&LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None }).unwrap()
}

fn at(times: &[Duration], percentile: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percentile / 100).min(sorted.len() - 1)]
}
