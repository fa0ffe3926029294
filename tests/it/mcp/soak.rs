//! Clients that vanish leave nothing behind. `NEXUS_ROUTER_SOAK_CLIENTS` says how many of them come.

use std::io::Write as _;

use serde_json::json;

use super::support::{ADAPTERS, hello, modern};
use crate::daemon::support::{Daemon, until};

/// Clients at once.
const AT_ONCE: usize = 25;
/// How much larger the daemon may be after a later wave than after the first, in megabytes.
const GROWTH: f64 = 24.0;

#[test]
fn clients_that_vanish_leave_nothing() {
    let clients = std::env::var("NEXUS_ROUTER_SOAK_CLIENTS").ok();
    let clients: usize = clients.map_or(200, |text| text.parse().unwrap());
    let config = format!("{ADAPTERS}\n[mcp]\nsessions = 100000\nsession_idle_ms = 1000\n");
    let daemon = Daemon::start(&config, &["--db", ":memory:"]);
    wave(&daemon, AT_ONCE);
    settle(&daemon);
    let (files, processes, threads) = (files(&daemon), processes(&daemon), threads(&daemon));
    let mut sizes = Vec::new();
    for _ in 0..3 {
        wave(&daemon, clients.div_ceil(3));
        settle(&daemon);
        sizes.push(resident(&daemon));
    }
    // A pool of threads may be larger by then, and a keep-alive connection be open that is ours.
    until("descriptors as before", || (self::files(&daemon) <= files + 4).then_some(()));
    until("processes as before", || (self::processes(&daemon) == processes).then_some(()));
    until("threads as before", || (self::threads(&daemon) <= threads + 16).then_some(()));
    // The runs themselves are kept in memory here, and are not counted against it.
    let runs = 0.02 * clients as f64;
    assert!(sizes[2] - sizes[0] < GROWTH + runs, "{sizes:?} MB");
    daemon.assert_alive();
}

/// Lets clients come and vanish, each in one of the ways there are.
fn wave(daemon: &Daemon, clients: usize) {
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            scope.spawn(move || {
                for client in (worker..clients).step_by(AT_ONCE) {
                    vanish(daemon, client);
                }
            });
        }
    });
}

fn vanish(daemon: &Daemon, client: usize) {
    let call = |name: &str, args: serde_json::Value| {
        modern(daemon, "tools/call", json!({ "name": name, "arguments": args }), &json!({}))
    };
    match client % 7 {
        0 => drop(call("greet", json!({ "name": "Ada" })).begin().response()),
        // In the middle of a call.
        1 => drop(call("slow_compute", json!({ "seconds": 60, "label": "x" })).begin()),
        // After the handshake, and in the middle of it.
        2 => drop(hello(daemon).begin().response()),
        3 => drop(hello(daemon).begin()),
        // With a stream open.
        4 => {
            let session = super::support::Session::open(daemon, "apply");
            drop(session.stream());
        }
        5 => {
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            let mut listener = modern(daemon, "subscriptions/listen", filter, &json!({})).begin();
            drop(listener.head());
        }
        // In the middle of a request.
        _ => {
            let bytes = call("greet", json!({ "name": "Ada" })).bytes();
            let mut wire = daemon.connect();
            wire.stream().write_all(&bytes[..bytes.len() / 2]).unwrap();
        }
    }
}

/// Waits until nothing is under way any more.
fn settle(daemon: &Daemon) {
    for name in ["nexus_router_mcp_sessions", "nexus_router_runs_in_flight", "nexus_router_streams"]
    {
        until(name, || (daemon.metric(name) == 0.0).then_some(()));
    }
    // The one that asks is open itself.
    until("connections", || (daemon.metric("nexus_router_connections") <= 1.0).then_some(()));
}

fn files(daemon: &Daemon) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.process_id())).unwrap().count()
}

fn threads(daemon: &Daemon) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", daemon.process_id())).unwrap().count()
}

fn processes(daemon: &Daemon) -> usize {
    let of = daemon.process_id().to_string();
    let parent = |stat: &str| stat.rsplit(')').next()?.split_whitespace().nth(1).map(str::to_owned);
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| parent(stat).as_deref() == Some(&of)).count()
}

fn resident(daemon: &Daemon) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process_id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
