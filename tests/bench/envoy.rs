//! What confinement adds to starting a program, beside the same program started plainly, in the same run.
//!
//! Cases are interleaved in rounds, so that a busy machine slows both sides. The tenth percentile is the
//! undisturbed cost. What is added should be no more than 5 ms.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use nexus_router::config::Environment;
use nexus_router::grant::Grants;
use nexus_router::loader::{LoadRequest, Placement};
use nexus_router::{Call, Loader};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");
const TRUE: &str = "/bin/true";

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 2 } else { 200 };
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let loader = Loader::from_environment(&Environment {
        cache_dir: directory.path().join("cache"),
        helper: Some(PROGRAM.into()),
        ..Environment::default()
    });
    let grants = Grants { run: vec![TRUE.into()], ..Grants::default() };
    let loader = Loader { placement: Placement { grants, ..Placement::worker() }, ..loader };
    let config = json!({ "workspace": workspace });
    let factory_ref = "builtin:envoy";
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let envoy = loader.load(&request).unwrap();
    let run = json!({ "argv": [TRUE] });
    let staged = json!({ "argv": [TRUE], "env": ["ARTIFACTS", "TMPDIR"] });
    let write = json!({ "path": "file", "text": "x", "mode": "replace" });
    let [mut plain, mut confined, mut placed, mut written] = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let start = Instant::now();
        assert!(Command::new(TRUE).env_clear().output().unwrap().status.success());
        plain.push(start.elapsed());
        for (tool, args, times) in [
            ("test_exec", &run, &mut confined),
            ("test_exec", &staged, &mut placed),
            ("file_write", &write, &mut written),
        ] {
            let start = Instant::now();
            let output = envoy.call(&Call::new(tool, "run", args.as_object().unwrap())).unwrap();
            times.push(start.elapsed());
            assert_eq!(output["ok"], true, "{output:?}");
        }
    }
    let [plain, confined, placed, written] = [plain, confined, placed, written].map(tenth);
    let added = |time: Duration| milliseconds(time.saturating_sub(plain));
    let told = |what: &str, time: Duration| {
        println!(
            "{what:<44} {:>7.3} ms, {:.3} ms more, {:.1} times",
            milliseconds(time),
            added(time),
            time.as_secs_f64() / plain.as_secs_f64()
        );
    };
    println!("{:<44} {:>7.3} ms", "a program, plainly started", milliseconds(plain));
    told("a program, in its own sandbox", confined);
    told("a program, with directories of its own too", placed);
    told("a file, written in a sandbox", written);
}

fn tenth(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 10]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
