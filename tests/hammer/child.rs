//! The processes that are killed: one carries out runs until it is told to stop, one recovers.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_router::request::Request;
use nexus_router::router::{Error, Resumable, Router};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::stage::{self, EXTERNAL, Stage};

const THREADS: u64 = 8;

/// Carries out runs from many threads, and tells each answer, until standard input ends.
pub fn carry_out(stage: &Stage, store: &Path, seed: u64) {
    let registry = stage.registry();
    tell("loaded");
    let router = stage::router(store, registry);
    tell("open");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (router, stop) = (&router, &stop);
            let mut dice = Dice::new(seed ^ (thread << 32));
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    one(router, &mut dice);
                }
            });
        }
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    tell("done");
}

/// Takes over what dead processes left.
pub fn recover(stage: &Stage, store: &Path) {
    let registry = stage.registry();
    tell("loaded");
    let router = stage::router(store, registry);
    tell("open");
    router.recover_blocking(Resumable::Resume).unwrap();
    tell("done");
}

fn one(router: &Router, dice: &mut Dice) {
    let request = Request::parse(request(dice).to_string().as_bytes()).unwrap();
    let answer = router.run_blocking(request);
    let outcome = match &answer {
        Ok(outcome) => outcome,
        Err(error @ Error::Bug { .. }) => error.outcome().unwrap(),
        Err(error) => {
            tell(&format!("error {error}"));
            panic!("{error}");
        }
    };
    tell(&format!("run {} {} {}", outcome.run_id, outcome.status.name(), outcome.events));
}

/// A request of any kind that a run can be.
fn request(dice: &mut Dice) -> Value {
    let (kind, steps) = (dice.below(10), dice.below(5) + 1);
    let methods =
        if kind < 2 { &["a", "lazy"][..] } else { &["a", "b", "slow", "slow", "bad"][..] };
    let step = |index: u64, dice: &mut Dice| {
        let method = match dice.below(64) {
            0 => "bug",
            _ => methods[dice.index(methods.len())],
        };
        let mut step = json!({ "step_id": format!("s{}", index + 1), "intent": "do",
            "call": { "tool": "t", "method": method, "args": { "number": dice.next() } } });
        // What is taken out of the record cannot be gone on with.
        if kind == 0 && index == 0 {
            step["call"]["args"] = json!({ "password": "hunter2" });
        }
        // Some steps have an adapter of their own.
        if kind == 9 && dice.below(2) == 0 {
            step["dispatch"] = json!({ "adapter_id": EXTERNAL });
        }
        step
    };
    let plan: Vec<Value> = (0..steps).map(|index| step(index, dice)).collect();
    let mut request = json!({ "goal": "survive", "mode": "apply",
        "policy": { "allow_apply": true }, "plan_override": plan });
    match kind {
        2 => request["mode"] = json!("dry_run"),
        4..=8 => request["dispatch"] = json!({ "adapter_id": EXTERNAL }),
        _ => {}
    }
    if dice.below(2) == 0 {
        request["policy"]["on_error"] = json!("continue");
    }
    request
}

/// Writes a whole line at once, so that a kill cannot leave half of one.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
