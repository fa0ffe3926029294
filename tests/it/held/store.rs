//! Held arguments in the store: changed, exchanged, missing, left over, copied.

use std::path::Path;

use nexus_router::access::Scope;
use nexus_router::config::{Effect, Pattern, Rule};
use nexus_router::policy::Law;
use nexus_router::request::Request;
use nexus_router::router::{Answer, Decider, Options, Router};
use nexus_router::store::{Status, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{
    ORIGINAL, args, assert_done, assert_no_original, called_with, db, decide, held, open_approval,
    request, stage, waits,
};
use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::engine::registry;
use crate::support::{Run, World};

/// Kills a daemon in which runs wait for a slot, changes its store, and returns the runs after a restart.
fn resumed(runs: usize, change: &str) -> (Daemon, Vec<Value>) {
    let mut daemon = stage("").start(&[]);
    let mut slow = plan("shop", "t", "slow");
    slow["plan_override"][0]["call"]["args"] = json!({});
    daemon.post("/v1/runs?wait=false", &slow).send();
    until("the slow call", || (called_with(&daemon.stage).len() == 1).then_some(()));
    let submit = |_| daemon.post("/v1/runs?wait=false", &request(&["t"])).send().run_id();
    let run_ids: Vec<String> = (0..runs).map(submit).collect();
    until("the queued calls", || {
        let waiting = daemon.metric("nexus_router_calls_waiting{adapter=\"shop\"}");
        (waiting == runs as f64).then_some(())
    });
    daemon.kill();
    Connection::open(db(&daemon.stage)).unwrap().execute_batch(change).unwrap();
    let daemon = daemon.again();
    let ended = run_ids.iter().map(|run_id| daemon.ended(run_id)).collect();
    (daemon, ended)
}

fn assert_unreadable(daemon: &Daemon, run: &Value, problem: &str) {
    assert_eq!((&run["status"], &run["reason"]), (&json!("FAILED"), &json!("interrupted")));
    assert_eq!(run["error"]["code"], "HELD_ARGUMENTS_UNREADABLE", "{run}");
    assert!(run["error"]["message"].as_str().unwrap().contains(problem), "{run}");
    assert_eq!(called_with(&daemon.stage).len(), 1, "nothing was called");
    assert_eq!(held(&db(&daemon.stage)), 0);
}

#[test]
fn changed_ciphertext_fails_the_run() {
    let change = "UPDATE held_arguments SET arguments = CAST(substr(arguments, 1, 20) || x'00' || \
                  substr(arguments, 22) AS BLOB)";
    let (daemon, runs) = resumed(1, change);
    assert_unreadable(&daemon, &runs[0], "were changed, or belong to another run");
}

#[test]
fn exchanged_ciphertexts_fail_both_runs() {
    let change = "CREATE TEMP TABLE x AS SELECT * FROM held_arguments; \
                  UPDATE held_arguments SET arguments = (SELECT x.arguments FROM x WHERE x.run_no != \
                  held_arguments.run_no)";
    let (daemon, runs) = resumed(2, change);
    for run in &runs {
        assert_unreadable(&daemon, run, "were changed, or belong to another run");
    }
}

#[test]
fn missing_ciphertext_fails_the_run() {
    let (daemon, runs) = resumed(1, "DELETE FROM held_arguments");
    assert_unreadable(&daemon, &runs[0], "the store does not hold the original");
}

#[test]
fn changed_ciphertext_does_not_use_up_an_approval() {
    let mut daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    daemon.kill();
    let connection = Connection::open(db(&daemon.stage)).unwrap();
    let original = "CREATE TABLE kept AS SELECT * FROM held_arguments; \
                    UPDATE held_arguments SET arguments = zeroblob(100)";
    connection.execute_batch(original).unwrap();
    let daemon = daemon.again();
    let approval_id = open_approval(&daemon);
    let approve = daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    let problem = approve.refused(409, "APPROVAL_NOT_EXECUTABLE");
    assert!(problem.to_string().contains("were changed"), "{problem}");
    let back =
        "UPDATE held_arguments SET arguments = (SELECT arguments FROM kept); DROP TABLE kept";
    connection.execute_batch(back).unwrap();
    decide(&daemon, &approval_id, "approve");
    assert_done(&daemon, &run_id, 1);
}

fn store(stage: &Stage, arguments: &[&str]) -> Run {
    let mut command = stage.program();
    command.args(["store"]).args(arguments);
    Run(command.output().unwrap())
}

#[test]
fn leftover_arguments_are_found_and_removed() {
    let mut daemon = stage("").start(&[]);
    let run = daemon.post("/v1/runs", &request(&["t"])).ok();
    let run_id = run["run"]["run_id"].as_str().unwrap().to_owned();
    daemon.stop();
    let insert = "INSERT INTO held_arguments SELECT run_no, x'00', NULL, x'0102' FROM runs";
    Connection::open(db(&daemon.stage)).unwrap().execute_batch(insert).unwrap();
    let checked = store(&daemon.stage, &["check", "--db", "data/runs.db"]);
    assert_eq!(checked.code(), 1, "{}", checked.stderr());
    let found = checked.stdout();
    assert!(found.contains(&run_id) && found.contains("held arguments"), "{found}");
    let daemon = daemon.again();
    assert_eq!(held(&db(&daemon.stage)), 0);
    assert_eq!(store(&daemon.stage, &["check", "--db", "data/runs.db"]).code(), 0);
}

/// Returns the first bytes of the only held plan, as encrypted.
fn ciphertext(db: &Path) -> Vec<u8> {
    let connection = Connection::open(db).unwrap();
    let sql = "SELECT substr(arguments, 1, 32) FROM held_arguments";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn has_bytes(file: &Path, part: &[u8]) -> bool {
    std::fs::read(file).unwrap().windows(part.len()).any(|window| window == part)
}

#[test]
fn ended_run_leaves_no_ciphertext() {
    let mut daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    let encrypted = ciphertext(&db(&daemon.stage));
    decide(&daemon, &open_approval(&daemon), "approve");
    assert_done(&daemon, &run_id, 1);
    daemon.stop();
    assert!(!has_bytes(&db(&daemon.stage), &encrypted));
}

#[test]
fn revoked_token_removes_the_original() {
    let mut stage = stage("");
    stage.token("guest", Scope::Apply);
    let daemon = stage.start(&[]);
    let answer = daemon.post("/v1/runs", &request(&["risk"])).by("guest").send();
    assert_eq!(answer.status, 202, "{answer:?}");
    let revoke = ["token", "revoke", "guest", "--data-dir", "data"];
    assert!(daemon.stage.program().args(revoke).output().unwrap().status.success());
    until("the revocation", || {
        (daemon.get("/v1/runs").by("guest").send().status == 401).then_some(())
    });
    let approval_id = open_approval(&daemon);
    let approve = daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({}));
    approve.refused(409, "APPROVAL_CALLER_GONE");
    assert_eq!(held(&db(&daemon.stage)), 1, "the approval can still be denied");
    decide(&daemon, &approval_id, "deny");
    daemon.ended(&answer.run_id());
    assert_eq!((held(&db(&daemon.stage)), called_with(&daemon.stage).len()), (0, 0));
}

#[test]
fn backup_has_no_held_arguments() {
    let mut daemon = stage("").start(&[]);
    let run_id = waits(&daemon, &request(&["risk"]));
    let backup = ["backup", "copy.db", "--db", "data/runs.db"];
    assert_eq!(store(&daemon.stage, &backup).code(), 0);
    let copy = daemon.stage.path("copy.db");
    assert_eq!(held(&copy), 0);
    let encrypted = ciphertext(&db(&daemon.stage));
    assert!(!has_bytes(&copy, &encrypted), "the copy has ciphertext");
    daemon.stop();
    assert_eq!(store(&daemon.stage, &["restore", "copy.db", "--db", "data/runs.db"]).code(), 0);
    let daemon = daemon.again();
    let run = daemon.ended(&run_id);
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("FAILED"), &json!("RUN_INTERRUPTED"))
    );
    assert_eq!(called_with(&daemon.stage).len(), 0);
}

#[test]
fn store_in_memory_holds_arguments() {
    let world = World::new();
    let config = json!({ "capabilities": ["apply", "external"], "trace_args": true,
        "traces": world.path("traces") });
    let rule = Rule { tool: Pattern::new("risk"), ..Rule::any(Effect::Approve) };
    let law = Law { rules: vec![rule], ..Law::default() };
    let options = Options { law, threads: Some(2), ..Options::default() };
    let registry = registry(&world, &[("shop", config)]);
    let router = Router::new(Store::in_memory().unwrap(), registry, options).unwrap();
    let request = Request::parse(request(&["risk"]).to_string().as_bytes()).unwrap();
    let outcome = router.run_blocking(request).unwrap();
    let waiting = outcome.waiting.as_ref().unwrap();
    assert!(!outcome.to_json().to_serde()["plan"].to_string().contains(ORIGINAL));
    let ada = Decider { name: "ada".to_owned(), token_id: None, admin: true };
    let decided = router.decide_blocking(&waiting.approval_id, Answer::Approve, &ada, None);
    let outcome = router.outcome_blocking(decided.unwrap().run).unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let traces = std::fs::read_to_string(world.path("traces")).unwrap();
    assert!(traces.trim_end().ends_with(&args().to_string()), "{traces}");
}

#[test]
fn bundle_has_the_recorded_form() {
    let daemon = stage("").start(&[]);
    let run = daemon.post("/v1/runs", &request(&["t"])).ok();
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    assert!(!bundle.to_string().contains(ORIGINAL));
    assert_eq!(held(&db(&daemon.stage)), 0);
    assert_no_original(&daemon.stage.path("data"));
}
