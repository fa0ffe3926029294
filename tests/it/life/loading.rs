//! The load of adapters in the life of a daemon: signals, reloads and recovery meanwhile, and what is strict.

use nexus_router::store::Status;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::daemon::{Daemon, until};
use super::support::{Home, audited, quick, reload, request};
use crate::support::PROGRAM;

/// Adapters that hang when they are made.
fn hanging(count: usize) -> String {
    let entry = |index: usize| {
        format!("[[adapters]]\nid = 'hang-{index}'\nref = 'bad_adapters:factory_hangs'\n")
    };
    (0..count).map(entry).collect()
}

fn crashing(id: &str) -> String {
    format!("[[adapters]]\nid = '{id}'\nref = 'bad_adapters:factory_segfaults'\n")
}

/// How long trials may take, one by one and together.
fn limits(load_timeout_ms: u64) -> String {
    format!(
        "[workers]\nstart_timeout_ms = 3600000\nload_timeout_ms = {load_timeout_ms}\nrequire_valid = false\n"
    )
}

const HOUR: u64 = 3_600_000;

fn begin(home: &Home) -> Daemon {
    Daemon::start_loading(PROGRAM.as_ref(), home.directory())
}

/// Returns the numbers of adapters by state.
fn counts(daemon: &Daemon) -> Value {
    daemon.client().get("/readyz").unwrap().json()["adapters"].clone()
}

/// Waits until so many adapters are being loaded.
fn until_loading(daemon: &Daemon, count: u64) {
    until("the load", || (counts(daemon)["loading"] == count).then_some(()));
}

/// Returns the processes that a daemon started.
fn children(daemon: &Daemon) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap().flatten();
    let children = tasks.flat_map(|task| {
        let told = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        told.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    });
    children.collect()
}

#[test]
fn signal_during_load_drains_and_leaves_no_children() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = Home::new("");
        home.configure(&format!("{}{}{}", limits(HOUR), home.fake("held", ""), hanging(3)));
        let daemon = begin(&home);
        until_loading(&daemon, 3);
        assert_eq!(quick(&mut daemon.client(), "held"), "COMPLETED");
        let tried = until("the trials", || Some(children(&daemon)).filter(|all| all.len() >= 3));
        daemon.signal(signal);
        let ended = daemon.ended();
        assert_eq!(ended.code(), Some(0), "{ended}");
        for id in tried {
            let process = std::path::PathBuf::from(format!("/proc/{id}"));
            until("the end of the trials", || (!process.exists()).then_some(()));
        }
        assert!(home.audit().contains("daemon.stopped"), "{}", home.audit());
    }
}

#[test]
fn reload_during_load_takes_effect_at_once() {
    let home = Home::new("");
    let base = format!("{}{}{}", limits(HOUR), home.fake("held", ""), hanging(2));
    home.configure(&base);
    let daemon = begin(&home);
    until_loading(&daemon, 2);
    let mut client = daemon.client();
    home.configure(&format!("{base}{}", home.fake("new", "")));
    let told = reload(&mut client);
    assert_eq!(told["removed"], json!([]), "{told}");
    until("the new adapter", || {
        let answer = client.post("/v1/runs", &request("new", "quick")).unwrap();
        assert!([200, 503].contains(&answer.status), "{}", answer.text());
        (answer.status == 200).then_some(())
    });
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    assert_eq!(counts(&daemon)["loading"], 2);
    // Without those that hang, all are loaded.
    home.configure(&home.fake("held", ""));
    assert_eq!(reload(&mut client)["removed"], json!(["new"]));
    until("readiness", || (client.get("/readyz").unwrap().status == 200).then_some(()));
    assert_eq!(home.lives(&daemon, "made", "held"), 1);
}

#[test]
fn reload_with_bad_adapters_applies_to_the_rest() {
    let home = Home::new("");
    home.configure(&format!("{}{}", home.fake("held", ""), home.fake("kept", "")));
    let daemon = home.start();
    let mut client = daemon.client();
    let bad = format!("{}{}", crashing("held"), crashing("bad"));
    home.configure(&format!("{bad}{}{}", home.fake("kept", ""), home.fake("new", "")));
    let told = reload(&mut client);
    assert_eq!(told["added"], json!(["new"]), "{told}");
    let failed: Vec<&Value> =
        told["failed"].as_array().unwrap().iter().map(|one| &one["adapter_id"]).collect();
    assert_eq!(failed, ["held", "bad"], "{told}");
    assert_eq!(told["failed"][0]["reason"], "LIBRARY_CRASHED", "{told}");
    // The former one of that id goes on.
    for id in ["held", "kept", "new"] {
        assert_eq!(quick(&mut client, id), "COMPLETED");
    }
    let refused = client.post("/v1/runs", &request("bad", "quick")).unwrap().json();
    assert_eq!(refused["error"]["code"], "ADAPTER_UNAVAILABLE", "{refused}");
    assert_eq!(client.get("/readyz").unwrap().status, 200);
    audited(&mut client, "adapter.failed", 2);
    assert!(client.get("/v1/audit").unwrap().text().contains("\"failed\":[\"held\",\"bad\"]"));
    until("the warnings", || {
        (daemon.log().matches("adapter failed to load").count() == 2).then_some(())
    });
    // The same libraries are not tried again.
    reload(&mut client);
    assert_eq!(daemon.log().matches("adapter failed to load").count(), 2);
    assert_eq!(home.lives(&daemon, "made", "held"), 1);
    home.configure(&home.fake("held", "note = 2"));
    assert_eq!(reload(&mut client)["replaced"], json!(["held"]));
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
}

#[test]
fn required_adapters_keep_daemon_from_starting() {
    let home = Home::new("");
    home.configure(&format!("require_all = true\n{}{}", home.fake("held", ""), crashing("bad")));
    let refused = Daemon::start(PROGRAM.as_ref(), home.directory(), &[]).err().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", refused.said);
    assert!(refused.said.contains("error[LIBRARY_CRASHED]"), "{}", refused.said);
    // A reload is strict as well.
    let good = format!("require_all = true\n{}", home.fake("held", ""));
    home.configure(&good);
    let daemon = home.start();
    let mut client = daemon.client();
    home.configure(&format!("{good}{}{}", crashing("bad"), home.fake("new", "")));
    let answer = client.post("/v1/reload", &json!({})).unwrap();
    assert_eq!((answer.status, &answer.json()["code"]), (422, &json!("LIBRARY_CRASHED")));
    until("the warning", || daemon.log().contains("adapter_id=bad").then_some(()));
    until("the refusal", || daemon.log().contains("code=LIBRARY_CRASHED").then_some(()));
    assert_eq!(quick(&mut client, "held"), "COMPLETED");
    assert!(!client.get("/v1/adapters").unwrap().text().contains("new"));
    assert_eq!(client.get("/readyz").unwrap().json()["adapters"]["failed"], 0);
}

#[test]
fn runs_left_behind_wait_for_their_adapters() {
    let home = Home::new("");
    let base = home.fake("held", "");
    home.configure(&base);
    let daemon = home.start();
    let held = home.hold(&daemon, "held");
    daemon.kill();
    held.broken();
    std::fs::write(home.path("go-held"), "").unwrap();
    home.configure(&format!("{}{base}{}", limits(3000), hanging(1)));
    let daemon = begin(&home);
    // Before the daemon is ready, the store is as the other one left it.
    let status = home.statuses();
    if daemon.client().get("/readyz").unwrap().status == 503 {
        assert_eq!(status, [Status::Running]);
    }
    until("recovery", || (home.statuses() == [Status::Completed]).then_some(()));
    assert_eq!(daemon.client().get("/readyz").unwrap().status, 200);
}

#[test]
fn runs_left_behind_resume_when_failed_adapter_is_ready() {
    let (home, daemon) = left_behind_with_failed_adapter();
    std::fs::write(home.path("go-held"), "").unwrap();
    // Another reload that does not help changes nothing.
    home.configure(&format!("{}{}", crashing("held"), home.fake("new", "")));
    reload(&mut daemon.client());
    until("the second look", || {
        daemon.log().contains("a run waited for its adapter").then_some(())
    });
    assert_eq!(home.statuses(), [Status::Running]);
    home.configure(&home.fake("held", ""));
    reload(&mut daemon.client());
    until("the end of the run", || (home.statuses() == [Status::Completed]).then_some(()));
}

#[test]
fn runs_left_behind_with_failed_adapter_can_be_cancelled() {
    let (home, daemon) = left_behind_with_failed_adapter();
    let mut client = daemon.client();
    let running = client.get("/v1/runs?status=RUNNING").unwrap().json();
    let run_id = running["runs"][0]["run_id"].as_str().unwrap().to_owned();
    let cancelled = client.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).unwrap();
    assert_eq!(cancelled.json()["cancelling"], true, "{}", cancelled.text());
    until("the end of the run", || (home.statuses() == [Status::Failed]).then_some(()));
    let run = client.get(&format!("/v1/runs/{run_id}")).unwrap().text();
    assert!(run.contains("CANCELLED"), "{run}");
}

#[test]
fn runs_left_behind_survive_another_start_with_failed_adapter() {
    let (home, daemon) = left_behind_with_failed_adapter();
    daemon.signal(Signal::TERM);
    assert!(daemon.ended().success());
    assert_eq!(home.statuses(), [Status::Running]);
    std::fs::write(home.path("go-held"), "").unwrap();
    home.configure(&home.fake("held", ""));
    let _daemon = home.start();
    until("the end of the run", || (home.statuses() == [Status::Completed]).then_some(()));
}

/// Starts a daemon whose adapter failed to load, and that finds a run of it.
fn left_behind_with_failed_adapter() -> (Home, Daemon) {
    let home = Home::new("");
    home.configure(&home.fake("held", ""));
    let daemon = home.start();
    let held = home.hold(&daemon, "held");
    daemon.kill();
    held.broken();
    home.configure(&crashing("held"));
    let daemon = home.start();
    until("the word about it", || daemon.log().contains("a run was left behind").then_some(()));
    assert_eq!(home.statuses(), [Status::Running], "{}", daemon.log());
    (home, daemon)
}

#[test]
fn runs_left_behind_end_when_their_adapter_is_removed() {
    let (home, daemon) = left_behind_with_failed_adapter();
    home.configure(&home.fake("other", ""));
    reload(&mut daemon.client());
    until("recovery", || (home.statuses() == [Status::Failed]).then_some(()));
    let failed = daemon.client().get("/v1/runs?status=FAILED").unwrap().json();
    let run_id = failed["runs"][0]["run_id"].as_str().unwrap();
    let run = daemon.client().get(&format!("/v1/runs/{run_id}")).unwrap().text();
    assert!(run.contains("there is no adapter 'held'"), "{run}");
}
