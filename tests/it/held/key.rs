//! The key of the store: in its file, by reference, missing, wrong, or readable by others.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{
    args, assert_done, assert_no_original, called_with, db, decide, held, open_approval, request,
    stage, waits,
};
use crate::daemon::support::{Daemon, Stage};
use crate::support::Run;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn key_file(stage: &Stage) -> std::path::PathBuf {
    stage.path("data/runs.db.key")
}

/// Returns a stopped daemon in whose store a run waits, and the run.
fn stopped(stage: Stage) -> (Daemon, String) {
    let mut daemon = stage.start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    daemon.kill();
    (daemon, run_id)
}

fn refused(stage: &Stage, code: &str) -> String {
    let run = stage.refused(&["--data-dir", "data", "--listen", "127.0.0.1:0"]);
    let text = run.stderr();
    assert_ne!(run.code(), 0);
    assert!(text.contains(code), "{text}");
    text
}

fn store(stage: &Stage, arguments: &[&str]) -> Run {
    let mut command = stage.program();
    command.args(["store"]).args(arguments);
    Run(command.output().unwrap())
}

#[test]
fn missing_or_wrong_key_file_refuses_the_store() {
    let (daemon, run_id) = stopped(stage(""));
    let (file, kept) = (key_file(&daemon.stage), daemon.stage.path("kept.key"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::rename(&file, &kept).unwrap();
    let text = refused(&daemon.stage, "STORE_KEY_MISSING");
    assert!(text.contains("runs.db.key") && text.contains("--without-key"), "{text}");
    assert!(!file.exists(), "no other key is made");
    std::fs::write(&file, [7; 32]).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    refused(&daemon.stage, "STORE_KEY_WRONG");
    // Reading needs no key.
    let listed = daemon.stage.program().args(["runs", "list", "--db", "data/runs.db"]).output();
    assert!(listed.unwrap().status.success());
    std::fs::copy(&kept, &file).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let text = refused(&daemon.stage, "STORE_KEY_UNUSABLE");
    assert!(text.contains("runs.db.key") && text.contains("mode is 0640"), "{text}");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let daemon = daemon.again();
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
}

#[test]
fn adoption_without_key_gives_up_held_arguments() {
    let (daemon, run_id) = stopped(stage(""));
    std::fs::remove_file(key_file(&daemon.stage)).unwrap();
    let adopted = store(&daemon.stage, &["adopt", "--without-key", "--db", "data/runs.db"]);
    assert_eq!(adopted.code(), 0, "{}", adopted.stderr());
    assert!(adopted.stdout().contains("held arguments of 1 runs"), "{}", adopted.stdout());
    assert_eq!(held(&db(&daemon.stage)), 0);
    let daemon = daemon.again();
    let approval_id = open_approval(&daemon);
    let approve = daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    let problem = approve.refused(409, "APPROVAL_NOT_EXECUTABLE");
    assert!(problem.to_string().contains("does not hold the original"), "{problem}");
    decide(&daemon, &approval_id, "deny");
    let run = daemon.ended(&run_id);
    assert_eq!((&run["status"], called_with(&daemon.stage).len()), (&json!("FAILED"), 0));
    let audited = daemon.audited(|event| event["kind"] == "store.key_forgotten");
    assert_eq!(audited["payload"]["runs"], 1);
}

#[test]
fn adoption_keeps_arguments_of_the_present_key() {
    let mut daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    let approval_id = open_approval(&daemon);
    waits(&daemon, &request(&["risk"]));
    daemon.kill();
    let change =
        "UPDATE held_arguments SET key_id = x'00' WHERE run_no = (SELECT max(run_no) FROM runs)";
    rusqlite::Connection::open(db(&daemon.stage)).unwrap().execute_batch(change).unwrap();
    refused(&daemon.stage, "STORE_KEY_WRONG");
    let adopted = store(&daemon.stage, &["adopt", "--without-key", "--db", "data/runs.db"]);
    assert!(adopted.stdout().contains("held arguments of 1 runs"), "{}", adopted.stdout());
    assert_eq!(held(&db(&daemon.stage)), 1);
    let daemon = daemon.again();
    decide(&daemon, &approval_id, "approve");
    assert_done(&daemon, &run_id, 1);
}

/// Returns a stage whose key is in a file that the configuration names.
fn referring() -> Stage {
    let stage = stage("[store]\nkey = \"file:store.key\"\n");
    write_key(&stage, HEX, 0o600);
    stage
}

fn write_key(stage: &Stage, text: &str, mode: u32) {
    std::fs::write(stage.path("store.key"), text).unwrap();
    std::fs::set_permissions(stage.path("store.key"), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn referenced_key_replaces_the_key_file() {
    let (daemon, run_id) = stopped(referring());
    assert!(!key_file(&daemon.stage).exists());
    assert_no_original(&daemon.stage.path("data"));
    let daemon = daemon.again();
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
    let shown = daemon.stage.program().args(["config", "show"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("store.key\"") && !shown.contains(HEX), "{shown}");
}

#[test]
fn command_line_uses_the_referenced_key() {
    let (daemon, run_id) = stopped(referring());
    // The key comes only from the configuration.
    let without = Run(daemon
        .stage
        .program()
        .args(["runs", "recover", "--db", "runs.db"])
        .current_dir(daemon.stage.path("data"))
        .output()
        .unwrap());
    assert!(without.stderr().contains("STORE_KEY_MISSING"), "{}", without.stderr());
    let mut command = daemon.stage.program();
    let list = ["approvals", "list", "--db", "data/runs.db", "--format", "json"];
    let listed = Run(command.args(list).output().unwrap()).json();
    let approval_id = listed["approvals"][0]["approval_id"].as_str().unwrap();
    let mut command = daemon.stage.program();
    let approved = Run(command
        .args(["approvals", "approve", approval_id, "--db", "data/runs.db"])
        .output()
        .unwrap());
    assert_eq!(approved.code(), 0, "{}", approved.stderr());
    assert_eq!(called_with(&daemon.stage), [args()]);
    let daemon = daemon.again();
    assert_done(&daemon, &run_id, 1);
}

#[test]
fn unusable_reference_is_refused_with_file_and_line() {
    let stage = referring();
    let line = std::fs::read_to_string(stage.path("router.toml")).unwrap();
    let line = 1 + line.lines().position(|line| line.starts_with("key = ")).unwrap();
    let assert_refused = |fault: &str| {
        let text = refused(&stage, "STORE_KEY_UNUSABLE");
        for part in ["router.toml", &format!("line {line}"), "store.key", fault] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut command = stage.program();
        let checked =
            Run(command.args(["config", "check", "--config", "router.toml"]).output().unwrap());
        let told = format!("{}{}", checked.stdout(), checked.stderr());
        assert_ne!(checked.code(), 0, "{told}");
        assert!(told.contains(fault) && told.contains(&format!("line {line}")), "{told}");
        assert!(!told.contains("0001020304") && !text.contains("0001020304"), "{told}");
    };
    write_key(&stage, &HEX[..62], 0o600);
    assert_refused("neither base64 nor 64 hexadecimal digits");
    write_key(&stage, &HEX[..32], 0o600);
    assert_refused("bytes, not 32");
    write_key(&stage, HEX, 0o604);
    assert_refused("mode is 0604");
    std::fs::remove_file(stage.path("store.key")).unwrap();
    assert_refused("No such file");
    let other = stage_with("env:NO_SUCH_KEY");
    let text = refused(&other, "STORE_KEY_UNUSABLE");
    assert!(text.contains("the variable NO_SUCH_KEY is not set"), "{text}");
    let literal = stage_with(HEX);
    let text = refused(&literal, "CONFIG_FILE_INVALID");
    assert!(text.contains("store.key is not a reference") && !text.contains(HEX), "{text}");
}

fn stage_with(key: &str) -> Stage {
    stage(&format!("[store]\nkey = \"{key}\"\n"))
}

#[test]
fn reload_says_that_another_key_needs_a_restart() {
    let daemon = referring().start(&[]);
    let config = std::fs::read_to_string(daemon.stage.path("router.toml")).unwrap();
    daemon.stage.configure(&config.replace("file:store.key", "file:other.key"));
    let reloaded = daemon.ask("POST", "/v1/reload").ok();
    assert!(reloaded.to_string().contains("store.key"), "{reloaded}");
}
