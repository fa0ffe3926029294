//! Connections: strangers that are idle, and tokens with many, keep nobody out. The limit of open files fits.

use std::io::Read as _;
use std::net::TcpStream;
use std::process::Command;

use super::client::Wire;
use super::support::{ADAPTERS, Daemon, PATIENCE, Stage, plan, until};
use crate::support::PROGRAM;
use nexus_router::access::Scope;

fn idle(daemon: &Daemon) -> TcpStream {
    let stream = TcpStream::connect(daemon.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns true if the daemon has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).map_or(true, |read| read == 0)
}

#[test]
fn idle_strangers_do_not_lock_others_out() {
    // They would hold their connections for an hour.
    let config = format!("{ADAPTERS}[server]\nconnections = 8\nheader_timeout_ms = 3600000\n");
    let daemon = Daemon::start(&config, &[]);
    let mut strangers: Vec<TcpStream> = (0..32).map(|_| idle(&daemon)).collect();
    // Half a head is as idle as none.
    use std::io::Write as _;
    strangers[30].write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    for _ in 0..20 {
        assert_eq!(daemon.get("/v1/status").ok()["status"], "ready");
        strangers.push(idle(&daemon));
    }
    let run = daemon.post("/v1/runs", &plan("echo", "t", "m")).ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert!(strangers[..40].iter_mut().all(is_closed), "the oldest ones were replaced");
    assert_eq!(daemon.metric("nexus_router_refused_total{reason=\"TOO_MANY_CONNECTIONS\"}"), 0.0);
}

#[test]
fn busy_connections_are_not_replaced() {
    let config = format!("{ADAPTERS}[server]\nconnections = 4\nconnections_per_token = 4\n");
    let daemon = Daemon::start(&config, &[]);
    let run_id = daemon.hold();
    let mut streams: Vec<Wire> = Vec::new();
    let refused = until("a refusal", || {
        let mut wire = daemon.get(&format!("/v1/runs/{run_id}/events")).begin();
        let head = wire.head();
        if head.status == 200 {
            streams.push(wire);
            return None;
        }
        Some(head)
    });
    // Those that were there before may not be closed yet.
    assert_eq!((streams.len(), refused.status), (4, 503));
    assert_eq!(refused.header("connection"), Some("close"));
    drop(streams.pop());
    until("room", || {
        let mut wire = daemon.get("/healthz").begin();
        (wire.response().status == 200).then_some(())
    });
    until("that one is gone", || {
        let answer = daemon.get("/v1/status").begin().response();
        (answer.status == 200 && answer.json()["connections"] == 4).then_some(())
    });
    let refused = "nexus_router_refused_total{reason=\"TOO_MANY_CONNECTIONS\"}";
    assert!(daemon.metric(refused) >= 1.0);
    daemon.release();
    for wire in &mut streams {
        while wire.chunk().is_some() {}
    }
    daemon.assert_alive();
}

#[test]
fn a_token_has_no_more_connections_than_its_share() {
    let mut stage =
        Stage::new(&format!("{ADAPTERS}[server]\nconnections = 16\nconnections_per_token = 2\n"));
    stage.token("crowd", Scope::Apply);
    let daemon = stage.start(&[]);
    let hold = daemon.post("/v1/runs?wait=false", &plan("many", "t", "hold")).by("crowd").send();
    let events = format!("/v1/runs/{}/events", hold.run_id());
    let follow = || {
        let mut wire = daemon.get(&events).by("crowd").begin();
        assert_eq!(wire.head().status, 200);
        wire
    };
    // An idle connection of the token makes room for its next one.
    let mut before = daemon.get("/v1/runs").by("crowd").begin();
    assert_eq!(before.response().status, 200);
    let (first, second) = (follow(), follow());
    assert!(is_closed(before.stream()));
    let refused = daemon.get("/v1/runs").by("crowd").send();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["code"], "TOKEN_CONNECTIONS_EXCEEDED");
    assert_eq!(daemon.get("/v1/status").ok()["status"], "ready", "other tokens are not affected");
    drop((first, second));
    until("room", || (daemon.get("/v1/runs").by("crowd").send().status == 200).then_some(()));
    daemon.release();
}

/// Returns the soft and the hard limit of open files of a process.
fn file_limits(process_id: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{process_id}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn serve_raises_open_file_limit() {
    let daemon = Stage::new(ADAPTERS).start_limited("ulimit -S -n 600");
    let (soft, hard) = file_limits(daemon.process_id());
    assert_eq!(soft, hard);
    daemon.assert_alive();
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.process_id())).unwrap();
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).ok());
    let children: String = children.collect();
    let workers: Vec<u32> = children.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert!(!workers.is_empty(), "the adapters run in workers");
    for worker in workers {
        let (soft, _) = file_limits(worker);
        assert!(soft.parse::<u64>().unwrap() <= 1024, "worker {worker} may open {soft} files");
    }
}

#[test]
fn too_few_open_files_keep_the_daemon_from_starting() {
    let stage = Stage::new(&format!("{ADAPTERS}[server]\nconnections = 1000\n"));
    let mut command = Command::new("/bin/sh");
    let script = "ulimit -n 1100 && exec \"$0\" serve --data-dir data --config router.toml";
    command.args(["-c", script, PROGRAM]).current_dir(stage.path("."));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    for part in ["FILE_LIMIT_TOO_LOW", "1100 open files", "1000 connections", "1256 files"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
