//! The end of the daemon: what is under way is let finish, and what is idle does not hold it up.

use std::os::unix::process::ExitStatusExt as _;

use nexus_router::store::Status;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::json;

use super::daemon::{Daemon, until};
use super::support::{Home, quick, request};
use crate::support::PROGRAM;

fn home(more: &str) -> Home {
    let home = Home::new("");
    let external = home.fake("external", "capabilities = [\"apply\", \"external\"]");
    home.configure(&format!("{}{external}{more}", home.fake("held", "")));
    home
}

/// Waits until the daemon says that it drains.
fn drains(daemon: &Daemon) {
    until("the drain", || {
        let answer = daemon.client().get("/readyz").unwrap();
        assert!(answer.status == 200 || answer.json()["code"] == "DRAINING", "{}", answer.text());
        (answer.status == 503).then_some(())
    });
}

#[test]
fn call_that_is_under_way_is_answered() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = home("");
        let daemon = home.start();
        let [mut idle, mut silent, mut follower] = [(); 3].map(|()| daemon.client());
        assert_eq!(quick(&mut idle, "held"), "COMPLETED");
        silent.connect().unwrap();
        let held = home.hold(&daemon, "held");
        let running = idle.get("/v1/runs?status=RUNNING").unwrap().json();
        let run_id = running["runs"][0]["run_id"].as_str().unwrap().to_owned();
        follower.send("GET", &format!("/v1/runs/{run_id}/events"), &[], b"").unwrap();
        assert_eq!(follower.head().unwrap().status, 200);
        daemon.signal(signal);
        drains(&daemon);
        assert!(idle.is_closed() && silent.is_closed());
        let refused = daemon.client().post("/v1/runs", &request("held", "quick")).unwrap();
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("DRAINING")));
        assert!(refused.header("retry-after").is_some());
        // What only asks is answered still.
        let shown = daemon.client().get(&format!("/v1/runs/{run_id}")).unwrap().json();
        assert_eq!(shown["status"], "RUNNING");
        let answer = held.release();
        assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("COMPLETED")));
        let mut events = String::new();
        while let Some(chunk) = follower.chunk().unwrap() {
            events.push_str(&String::from_utf8(chunk).unwrap());
        }
        assert!(events.contains("event: end"), "{events}");
        let ended = daemon.ended();
        assert_eq!(ended.code(), Some(0), "{ended}");
        assert_eq!(home.statuses(), [Status::Completed; 2]);
        let audit = home.audit();
        assert!(audit.contains("daemon.draining") && audit.contains("daemon.stopped"), "{audit}");
    }
}

#[test]
fn call_that_takes_too_long_is_cancelled() {
    for method in ["hold", "deaf"] {
        let home = home("[server]\ndrain_ms = 1\n");
        let daemon = home.start();
        let held = home.begin(&daemon, "held", method);
        daemon.signal(Signal::TERM);
        let answer = held.answer().json();
        assert_eq!(answer["status"], "FAILED", "{answer}");
        assert_eq!(answer["results"][0]["error"]["code"], "CANCELLED", "{answer}");
        let ended = daemon.ended();
        assert_eq!(ended.code(), Some(0), "{ended}");
        assert_eq!(home.statuses(), [Status::Failed]);
        assert!(home.audit().contains("\"cancelled\":1"), "{}", home.audit());
    }
}

#[test]
fn second_signal_ends_at_once_and_the_next_daemon_takes_up() {
    let home = home("");
    let daemon = home.start();
    assert_eq!(quick(&mut daemon.client(), "held"), "COMPLETED");
    let held = home.hold(&daemon, "held");
    let external = home.hold(&daemon, "external");
    daemon.signal(Signal::TERM);
    drains(&daemon);
    daemon.signal(Signal::TERM);
    let ended = daemon.ended();
    assert_eq!(ended.signal(), Some(9), "{ended}");
    held.broken();
    external.broken();
    assert_eq!(home.statuses()[0], Status::Completed);
    std::fs::write(home.path("go-held"), "").unwrap();
    let daemon = home.start();
    until("the end of both", || (!home.statuses().contains(&Status::Running)).then_some(()));
    // Without effects it goes on; what became of effects, nobody knows.
    assert_eq!(home.statuses(), [Status::Completed, Status::Completed, Status::Failed]);
    let failed = daemon.client().get("/v1/runs?status=FAILED").unwrap().text();
    assert!(failed.contains("nobody knows") || failed.contains("interrupted"), "{failed}");
}

#[test]
fn signal_ends_daemon_whose_own_process_makes_an_adapter() {
    let home = Home::new("");
    // It opens the pipe when it is made, and waits for somebody to read.
    mknodat(CWD, home.path("life"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    home.configure(&home.fake("held", ""));
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = Daemon::command(PROGRAM.as_ref(), home.directory(), &[]).spawn().unwrap();
        until("the port", || listens(process.id()).then_some(()));
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, signal).unwrap();
        let ended = until("its end", || process.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0), "{ended}");
    }
}

/// Says whether a process listens on a port.
fn listens(pid: u32) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inodes: Vec<String> = listening
        .filter(|columns| columns[3] == "0A")
        .map(|columns| format!("socket:[{}]", columns[9]))
        .collect();
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
    })
}

#[test]
fn workers_let_go_of_what_they_hold_when_the_work_is_done() {
    let home = Home::new("");
    let (out, life) = (home.path("out"), home.path("out/life"));
    std::fs::create_dir(&out).unwrap();
    home.configure(&format!(
        "[[adapters]]\nid = 'out'\nref = 'probe_adapters:outgoing'\n\
         config = {{ life = '{}' }}\ngrants = {{ write = ['{}'] }}\n",
        life.display(),
        out.display()
    ));
    let daemon = home.start();
    assert_eq!(quick(&mut daemon.client(), "out"), "COMPLETED");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    let told = std::fs::read_to_string(life).unwrap();
    let count = |what: &str| told.lines().filter(|line| line.starts_with(what)).count();
    assert!(count("made") > 0, "{told}");
    assert_eq!(count("made"), count("shut down"), "{told}");
}
