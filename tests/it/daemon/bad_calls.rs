//! The bad libraries of the corpus in workers of one daemon: each call ends with its error, and the daemon goes on.

use std::time::{Duration, Instant};

use nexus_router_sdk::code;
use serde_json::Value;

use super::support::{Daemon, Stage, plan, until};
use crate::corpus::calls::{Bug, CALLED, FLOODING, HANGING, Operational};
use crate::corpus::factories::factory_ref;

const ECHO: &str = "[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\n";

/// Returns the entry of a factory of the corpus.
fn entry(function: &str, more: &str) -> String {
    format!("[[adapters]]\nid = \"{function}\"\nref = \"{}\"\n{more}\n", factory_ref(function))
}

/// Makes a call that fails, and returns the code, what is said, and whether it is a bug of the adapter.
fn failure(daemon: &Daemon, id: &str) -> (String, String, bool) {
    let answer = daemon.post("/v1/runs", &plan(id, "t", "m")).send().json();
    let text =
        |value: &Value| value.as_str().unwrap_or_else(|| panic!("{id}: {answer}")).to_owned();
    // A bug is a problem; what else can happen is a result.
    match answer.get("code") {
        Some(code) => (text(code), text(&answer["detail"]), true),
        None => {
            let error = &answer["results"][0]["error"];
            (text(&error["code"]), text(&error["message"]), false)
        }
    }
}

/// Returns a number of an adapter's own, which may take a moment to come.
fn incidents(daemon: &Daemon, id: &str, kind: &str) -> f64 {
    daemon.metric(&format!(
        "nexus_router_adapter_incidents_total{{adapter=\"{id}\",kind=\"{kind}\"}}"
    ))
}

#[test]
fn bad_calls_cost_the_daemon_nothing() {
    let cases: Vec<_> = CALLED.iter().filter(|case| case.0 != "drop_segfaults").collect();
    let entries: String = cases.iter().map(|case| entry(case.0, "memory_mb = 1024")).collect();
    let daemon = Daemon::start(&format!("{ECHO}{entries}"), &[]);
    for (function, expected, says) in &cases {
        let (code, is_bug) = match expected {
            Bug(code) => (*code, true),
            Operational(code) => (*code, false),
        };
        // The second call is served by another worker, if the first one cost it.
        for _ in 0..2 {
            let (told, message, bug) = failure(&daemon, function);
            // Its answer is dropped by the panic that then ends the process; either may be seen first.
            if *function == "call_panics_unguarded" && told == "BUG_ERROR" {
                assert!(message.contains("dropped a call without an answer"), "{message}");
                continue;
            }
            assert_eq!((told.as_str(), bug), (code, is_bug), "{function}: {message}");
            // Where it was is told by the child; here it can only have been a call. And the text of an
            // answer is read by whoever records it, in other words.
            let says = match code {
                code::BUG_ERROR => "the adapter's ",
                _ => says.trim_end_matches("in a call").trim_end(),
            };
            assert!(message.contains(says), "{function}: {message}");
        }
        daemon.assert_alive();
        let crashes = match (code, *function) {
            // One that has answered, and is about to end, may get the second call too.
            (_, "call_panics_unguarded") => 1.0..=2.0,
            ("ADAPTER_CRASHED", _) => 2.0..=2.0,
            _ => 0.0..=0.0,
        };
        let told = || incidents(&daemon, function, "crashed");
        until(function, || crashes.contains(&told()).then_some(()));
    }
    let echo = daemon.get("/v1/adapters/echo").ok();
    assert_eq!((&echo["restarts"], &echo["last_end"]), (&0.into(), &Value::Null));
}

#[test]
fn calls_that_never_come_back_time_out_and_their_workers_are_ended() {
    let entries: String = HANGING.iter().map(|one| entry(one, "timeout_ms = 300")).collect();
    let daemon = Daemon::start(&format!("{ECHO}{entries}"), &[]);
    for function in HANGING {
        for stuck in [1.0, 2.0] {
            let (code, message, bug) = failure(&daemon, function);
            assert_eq!((code.as_str(), bug), ("TIMEOUT", false), "{function}: {message}");
            until(function, || (incidents(&daemon, function, "stuck") == stuck).then_some(()));
        }
        daemon.assert_alive();
    }
}

#[test]
fn a_flood_that_ends_is_cut_off_and_the_call_answers() {
    let entries: String = FLOODING.iter().map(|one| entry(one, "")).collect();
    let daemon = Daemon::start(&format!("{ECHO}{entries}"), &[]);
    for function in FLOODING {
        for _ in 0..2 {
            let run = daemon.post("/v1/runs", &plan(function, "t", "m")).ok();
            assert_eq!(run["status"], "COMPLETED", "{function}: {run}");
        }
        assert_eq!(daemon.get(&format!("/v1/adapters/{function}")).ok()["restarts"], 0);
        daemon.assert_alive();
    }
}

#[test]
fn an_instance_that_crashes_when_it_is_dropped_does_so_when_nobody_needs_it() {
    // A trial drops its instance, and the library is refused for that.
    let lax = "[workers]\nrequire_valid = false\n";
    let config = format!("{ECHO}{}{lax}", entry("drop_segfaults", ""));
    let mut daemon = Daemon::start(&config, &[]);
    let run = daemon.post("/v1/runs", &plan("drop_segfaults", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    daemon.stop();
    assert!(!daemon.stderr().contains("panicked"), "{}", daemon.stderr());
}

const HUNG: &str = "did not answer within 0.5s";

#[test]
fn required_adapters_that_cannot_be_loaded_end_the_start() {
    for (function, says) in [
        ("factory_segfaults", "SIGSEGV (signal 11) in its factory"),
        ("factory_exits_0", "exit code 0 in its factory"),
        ("factory_panics", "the factory gave up"),
        ("factory_errs", "is not good"),
        ("factory_allocates_without_end", "in its factory"),
        ("describe_segfaults", "while it described itself"),
        ("description_is_large", "104857602 bytes"),
        ("factory_hangs", HUNG),
        ("factory_prints_without_end", HUNG),
    ] {
        let time = if says == HUNG { 500 } else { 30_000 };
        let entry = entry(function, "");
        let workers = format!("[workers]\nstart_timeout_ms = {time}\n");
        let stage = Stage::bare(&format!("require_all = true\n{ECHO}{entry}{workers}"));
        let run = stage.refused(&["--listen", "127.0.0.1:0", "--data-dir", "data"]);
        let (code, error) = (run.code(), run.stderr());
        assert!(code != 0 && error.contains(says), "{function}: {code} {error}");
        assert!(error.contains(function) || error.contains("bad_adapters"), "{function}: {error}");
    }
}

#[test]
fn an_adapter_that_prints_without_end_slows_nobody_down() {
    let flood = entry("call_prints_without_end", "timeout_ms = 3000");
    let daemon = Daemon::start(&format!("{ECHO}{flood}"), &[]);
    let submitted =
        daemon.post("/v1/runs?wait=false", &plan("call_prints_without_end", "t", "m")).send();
    until("the call", || (daemon.calls_in_flight("call_prints_without_end") > 0).then_some(()));
    let (began, before) = (Instant::now(), processor_time(&daemon));
    while began.elapsed() < Duration::from_secs(2) {
        daemon.assert_alive();
        std::thread::sleep(Duration::from_millis(50));
    }
    let taken = processor_time(&daemon) - before;
    // What is left to read waits in the pipe, and its writer with it.
    assert!(taken < Duration::from_millis(1500), "the daemon took {taken:?} of two seconds");
    assert_eq!(daemon.ended(&submitted.run_id())["status"], "FAILED");
    // However much it was, the log has little of it.
    assert!(daemon.stderr().len() < 8 * 1024 * 1024);
}

/// Returns how long the processors have been at work for the daemon.
fn processor_time(daemon: &Daemon) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.process_id())).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 =
        rest.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / 100)
}
