//! The start of the daemon: beside another one, and after one that was killed.

use nexus_router::store::Status;
use rustix::process::Signal;
use serde_json::json;

use super::daemon::{Daemon, until};
use super::support::{Home, quick};
use crate::support::PROGRAM;

#[test]
fn two_daemons_share_a_store_and_leave_each_other_alone() {
    let home = Home::new("");
    home.configure(&home.fake("held", ""));
    let one = home.start();
    let held = home.hold(&one, "held");
    let other = home.start();
    let mut client = other.client();
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    let running = client.get("/v1/runs?status=RUNNING").unwrap().json();
    let run_id = running["runs"][0]["run_id"].as_str().unwrap().to_owned();
    // It is seen, and not carried out here.
    let cancelled = client.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).unwrap();
    assert_eq!(cancelled.json()["code"], "RUN_NOT_CANCELLABLE", "{}", cancelled.text());
    other.signal(Signal::TERM);
    assert!(other.ended().success());
    assert_eq!(held.release().json()["status"], "COMPLETED");
    assert_eq!(home.statuses(), [Status::Completed; 2]);
}

#[test]
fn signals_are_caught_before_configuration_is_read() {
    let home = Home::new("");
    // Large, so that reading it takes a moment, and invalid, so that the daemon does not get any further.
    let large = "# a line that says nothing\n".repeat(500_000);
    std::fs::write(home.path("router.toml"), format!("{large}nonsense = 1\n")).unwrap();
    // A process may end before this one looks.
    let ended = until("a daemon that catches signals", || {
        let mut process = std::process::Command::new(PROGRAM)
            .args(["serve", "--config", "router.toml"])
            .current_dir(home.directory())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let id = rustix::process::Pid::from_child(&process);
        let mut is_signalled = false;
        loop {
            if let Some(ended) = process.try_wait().unwrap() {
                return is_signalled.then_some(ended);
            }
            if !is_signalled && catches(&process, [Signal::HUP, Signal::TERM]) {
                rustix::process::kill_process(id, Signal::HUP).unwrap();
                rustix::process::kill_process(id, Signal::TERM).unwrap();
                is_signalled = true;
            }
        }
    });
    assert_eq!(ended.code(), Some(2), "{ended}");
}

/// Returns whether a process has handlers for signals.
fn catches(process: &std::process::Child, signals: [Signal; 2]) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.iter().all(|signal| caught & (1 << (signal.as_raw() - 1)) != 0)
}

#[test]
fn port_that_is_taken_is_told() {
    let home = Home::new("");
    let daemon = home.start();
    let address = daemon.address.to_string();
    let arguments = ["--listen", address.as_str()];
    let other = Daemon::start(PROGRAM.as_ref(), home.directory(), &arguments).err().unwrap();
    assert!(other.status.code().is_some_and(|code| code > 0), "{}", other.status);
    assert!(
        other.said.contains("LISTEN_FAILED") && other.said.contains(&address),
        "{}",
        other.said
    );
    assert_eq!(daemon.client().get("/readyz").unwrap().status, 200);
}

#[test]
fn runs_of_a_killed_daemon_are_taken_up_as_the_operator_says() {
    for (recover, expected) in
        [("resume", Status::Completed), ("end", Status::Failed), ("leave", Status::Running)]
    {
        let home = Home::new("");
        home.configure(&format!("recover = \"{recover}\"\n{}", home.fake("held", "")));
        let daemon = home.start();
        let held = home.hold(&daemon, "held");
        daemon.kill();
        held.broken();
        std::fs::write(home.path("go-held"), "").unwrap();
        let daemon = home.start();
        until("the word about it", || daemon.log().contains("a run was left behind").then_some(()));
        assert_eq!(home.statuses(), [expected], "{recover}");
        daemon.signal(Signal::TERM);
        assert!(daemon.ended().success());
        assert_eq!(home.statuses(), [expected], "{recover}");
    }
}
