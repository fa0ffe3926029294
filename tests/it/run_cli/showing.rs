//! Listing, showing and replaying runs.

use std::path::Path;

use serde_json::json;

use super::{completed, request, run, run_id};
use crate::support::World;

#[test]
fn runs_are_listed_newest_first_with_filters() {
    let world = World::new();
    let first = completed(&world);
    let failed = run_id(&run(&world, &request(), &[]).json());
    let list = |arguments: &[&str]| {
        let run = world.run(&[&["runs", "list", "--db", "runs.db"], arguments].concat());
        assert_eq!(run.code(), 0, "{}", run.stderr());
        run.stdout()
    };
    let shown = list(&[]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("RUN "), "{shown}");
    assert!(lines[1].starts_with(&failed) && lines[1].contains("FAILED"), "{shown}");
    assert!(lines[2].starts_with(&first) && lines[2].contains("2/2"), "{shown}");
    assert_eq!(lines[4], "2 runs: 1 completed, 1 failed, 0 running");
    assert!(!list(&["--status", "failed"]).contains(&first));
    assert!(!list(&["--limit", "1"]).contains(&first));
    assert!(!list(&["--offset", "1"]).contains(&failed));
    assert!(!list(&["--since", "2999-01-01"]).contains(&first));
    assert!(list(&["--since", "2000-01-01T00:00:00+14:00"]).contains(&first));
    let run = world.run(&["runs", "list", "--db", "runs.db", "--since", "yesterday"]);
    assert_eq!(run.code(), 2);
}

#[test]
fn list_has_the_form_of_inspect() {
    let world = World::new();
    let id = completed(&world);
    let listed = world.run(&["runs", "list", "--db", "runs.db", "--format", "json"]).json();
    assert_eq!(
        listed["summary"],
        json!({ "runs_total": 1, "completed": 1, "failed": 0, "running": 0 })
    );
    let run = &listed["runs"][0];
    assert_eq!(run["run_id"], id.as_str());
    assert_eq!((&run["steps_planned"], &run["steps_executed"]), (&json!(2), &json!(2)));
    assert_eq!(run["tools_used"], json!(["hello", "bye"]));
    assert_eq!((&run["outcome"], &run["last_failure_reason"]), (&json!("ok"), &json!(null)));
}

#[test]
fn run_is_shown_as_a_timeline() {
    let world = World::new();
    let id = completed(&world);
    let shown = world.run(&["runs", "show", &id, "--db", "runs.db"]).stdout();
    for part in ["status    COMPLETED", "goal      greet", "adapters  echo (echo, by default)"] {
        assert!(shown.contains(part), "{shown}");
    }
    let step = shown.lines().find(|line| line.starts_with("✓ s1  greeter.hello  ")).unwrap();
    assert!(step.contains('━') && step.contains(" ms"), "{shown}");
    let json = world.run(&["runs", "show", &id, "--db", "runs.db", "--format", "json"]).json();
    assert_eq!(json["status"], "COMPLETED");
    assert_eq!(json["goal"], "greet");
    assert_eq!(json["timeline"][0]["step_id"], "s1");
    assert_eq!(json["timeline"][1]["status"], "ok");
    assert!(json["timeline"][0]["started_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn replay_is_ok_until_the_record_is_changed() {
    let world = World::new();
    let id = completed(&world);
    completed(&world);
    let replay = |arguments: &[&str]| {
        world.run(&[&["runs", "replay", "--db", "runs.db"], arguments].concat())
    };
    let one = replay(&[&id]);
    assert_eq!((one.code(), one.stdout().as_str()), (0, "ok: 13 events, 0 violations\n"));
    let all = replay(&["--all"]);
    assert_eq!(
        (all.code(), all.stdout().as_str()),
        (0, "ok: 2 runs replayed, 0 with violations\n")
    );
    let json = replay(&[&id, "--format", "json"]).json();
    assert_eq!((&json["ok"], &json["violations"]), (&json!(true), &json!([])));
    assert_eq!(json["run_view"]["outcome"], "ok");
    assert_eq!(world.run(&["store", "check", "--db", "runs.db"]).code(), 0);

    let connection = rusqlite::Connection::open(world.path("runs.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE type = 'trigger';",
        )
        .unwrap();
    drop(connection);
    let connection = rusqlite::Connection::open(world.path("runs.db")).unwrap();
    let sql = "UPDATE segments SET body = replace(body, 'Ada', 'Eve') \
               WHERE segment_no = (SELECT min(segment_no) FROM segments)";
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
    drop(connection);
    let one = replay(&[&id]);
    assert_eq!(one.code(), 1);
    assert!(one.stdout().contains("✗ CHAIN_BROKEN: "), "{}", one.stdout());
    assert_eq!(replay(&["--all"]).code(), 1);
    assert_eq!(replay(&["--all", "--format", "json"]).json()["runs"][0]["run_id"], id.as_str());
    assert_eq!(replay(&[&id, "--lenient"]).code(), 0);
    let check = world.run(&["store", "check", "--db", "runs.db"]);
    assert_eq!(check.code(), 1);
    assert!(check.stdout().contains("not ok: 2 runs"), "{}", check.stdout());
}

#[test]
fn python_store_is_read_in_place() {
    let world = World::new();
    python_store(&world.path("python.db"));
    let db = ["--db", "python.db"];
    let listed = world.run(&[&["runs", "list", "--format", "json"], &db[..]].concat()).json();
    assert_eq!(listed["summary"]["runs_total"], 1, "{listed}");
    assert_eq!(listed["runs"][0]["steps_planned"], 1, "{listed}");
    let shown = world.run(&[&["runs", "list"], &db[..]].concat()).stdout();
    assert!(shown.contains("0/1") && shown.contains("RUNNING"), "{shown}");
    let id = listed["runs"][0]["run_id"].as_str().unwrap();
    for verb in [&["runs", "show", id][..], &["runs", "export", id]] {
        assert_eq!(world.run(&[verb, &db].concat()).code(), 0, "{verb:?}");
    }
    let replay = world.run(&[&["runs", "replay", id], &db[..]].concat());
    assert_eq!(replay.code(), 1);
    assert!(replay.stdout().contains("✗ NO_TERMINAL_EVENT: "), "{}", replay.stdout());
    let request = super::write(&world, "request.json", &request());
    let run = world.run(&[&["run", &request], &db[..]].concat());
    assert_eq!(run.code(), 2);
    assert!(run.stderr().contains("error[STORE_PYTHON]"), "{}", run.stderr());
    assert!(run.stderr().contains("store take-over"), "{}", run.stderr());
}

/// Makes a store as the Python router makes them, with a run that was left in the middle.
pub fn python_store(file: &Path) {
    let connection = rusqlite::Connection::open(file).unwrap();
    let now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
    connection
        .execute_batch(&format!(
            "CREATE TABLE runs (run_id TEXT PRIMARY KEY, mode TEXT NOT NULL, goal TEXT NOT NULL, \
             status TEXT NOT NULL, created_at TEXT NOT NULL DEFAULT ({now})); \
             CREATE TABLE events (event_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, \
             seq INTEGER NOT NULL, type TEXT NOT NULL, payload_json TEXT NOT NULL, \
             ts TEXT NOT NULL DEFAULT ({now}), FOREIGN KEY(run_id) REFERENCES runs(run_id)); \
             CREATE UNIQUE INDEX ux_events_run_seq ON events (run_id, seq); \
             CREATE INDEX ix_events_run ON events (run_id); \
             INSERT INTO runs (run_id, mode, goal, status) \
             VALUES ('r-1', 'apply', 'left', 'RUNNING');"
        ))
        .unwrap();
    let step = r#"{"call":{"args":{},"method":"m","tool":"t"},"intent":"","step_id":"s"}"#;
    let events = [
        ("RUN_STARTED", r#"{"goal":"left","mode":"apply"}"#.to_owned()),
        (
            "DISPATCH_SELECTED",
            r#"{"adapter_id":"a","adapter_kind":"k","capabilities":[],"selection_source":"default"}"#
                .to_owned(),
        ),
        ("PLAN_CREATED", format!(r#"{{"plan":[{step}]}}"#)),
    ];
    for (seq, (kind, payload)) in events.iter().enumerate() {
        let sql = "INSERT INTO events (event_id, run_id, seq, type, payload_json) \
                   VALUES (?1, 'r-1', ?2, ?3, ?4)";
        let seq = i64::try_from(seq).unwrap();
        connection.execute(sql, (format!("e-{seq}"), seq, kind, payload)).unwrap();
    }
}
