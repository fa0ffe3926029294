//! Calls that do not end when they are told to: their worker goes when the others in it are done, and no sooner.

use std::time::{Duration, Instant};

use super::orphans::{Seen, descendants};
use super::support::{Daemon, Stage, plan, until};

/// An adapter whose calls do not listen, for long or for a moment, or wait for a file.
fn start(more: &str) -> Daemon {
    let stage = Stage::new("");
    let behaviour = |method: &str, behaviour: &str| {
        format!("{{ tool = \"t\", method = \"{method}\", behaviour = {{ {behaviour} }} }}")
    };
    let go = stage.path("go");
    let responses = [
        behaviour("deaf", "deaf_ms = 600000"),
        behaviour("late", "deaf_ms = 800"),
        behaviour("hold", &format!("wait_for = {{ file = {go:?}, tell = \"go\" }}")),
    ];
    stage.configure(&format!(
        "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n\
         [[adapters]]\nid = \"fake\"\nref = \"probe_adapters:fake\"\n{more}\n\
         config = {{ responses = [{}] }}\n",
        responses.join(", ")
    ));
    stage.start(&[])
}

fn submit(daemon: &Daemon, method: &str) -> String {
    let before = daemon.calls_in_flight("fake");
    let answer = daemon.post("/v1/runs?wait=false", &plan("fake", "t", method)).send();
    until("the call", || (daemon.calls_in_flight("fake") > before).then_some(()));
    answer.run_id()
}

fn stuck(daemon: &Daemon) -> f64 {
    daemon.metric("nexus_router_adapter_incidents_total{adapter=\"fake\",kind=\"stuck\"}")
}

/// The worker of the adapter that is called: the one with a call.
fn workers(daemon: &Daemon) -> Vec<Seen> {
    let id = daemon.process_id();
    descendants(id).into_iter().filter(|one| one.parent == id).collect()
}

#[test]
fn a_call_that_does_not_listen_retires_its_worker_and_the_others_in_it_finish() {
    let daemon = start("");
    // Only this adapter's worker is there, as the other one was not called.
    let began = Instant::now();
    let (deaf, late) = (submit(&daemon, "deaf"), submit(&daemon, "late"));
    let held = submit(&daemon, "hold");
    let former = workers(&daemon);
    for run in [&deaf, &late] {
        daemon.ask("POST", &format!("/v1/runs/{run}/cancel")).send();
    }
    until("the worker is retired", || (stuck(&daemon) == 1.0).then_some(()));
    for run in [&deaf, &late] {
        assert_eq!(daemon.ended(run)["status"], "FAILED");
    }
    // New calls have a new worker; what was held goes on in the former one.
    let run = daemon.post("/v1/runs", &plan("fake", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    until("a new worker", || (workers(&daemon).len() > former.len()).then_some(()));
    // One of them answers after all, when nobody waits for it any more. Nothing shows that it has.
    until("the late answer", || (began.elapsed() > Duration::from_secs(1)).then_some(()));
    assert!(!former.iter().any(Seen::is_over), "{former:?}");
    assert_eq!(daemon.get(&format!("/v1/runs/{held}")).ok()["status"], "RUNNING");
    std::fs::write(daemon.stage.path("go"), "").unwrap();
    assert_eq!(daemon.ended(&held)["status"], "COMPLETED");
    until("the former worker is gone", || former.iter().any(Seen::is_over).then_some(()));
    assert_eq!(stuck(&daemon), 1.0);
    let shown = daemon.get("/v1/adapters/fake").ok();
    assert_eq!((&shown["state"], &shown["workers"]), (&"serving".into(), &1.into()), "{shown}");
    daemon.assert_alive();
}

#[test]
fn an_answer_that_comes_soon_after_the_time_was_over_saves_the_worker() {
    let daemon = start("timeout_ms = 650");
    let run = daemon.post("/v1/runs", &plan("fake", "t", "late")).ok();
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "TIMEOUT", "{run}");
    // A busy machine may be too late for that, and then says so.
    let stopped = error["details"]["stopped"].as_bool().unwrap();
    let run = daemon.post("/v1/runs", &plan("fake", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let expected = if stopped { 0.0 } else { 1.0 };
    until("the incident", || (stuck(&daemon) == expected).then_some(()));
    let restarts = daemon.get("/v1/adapters/fake").ok()["restarts"].clone();
    assert_eq!(restarts, u8::from(!stopped));
}
