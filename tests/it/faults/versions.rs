//! A store that an older version made: read as it is, brought up when it is written, and its audit log.

use std::path::PathBuf;

use nexus_router::clock::Timestamp;
use nexus_router::json::Object;
use nexus_router::metrics::{Gauges, Metrics};
use nexus_router::store::{self, ApprovalFilter, AuditEntry, Filter, Log, RunSeal, Status, Store};
use rusqlite::Connection;

use super::{Place, external, request, run_record};
use crate::support::workspace;

/// The runs of the recorded file, the newest first.
const RUNS: [(&str, Status, u64); 4] = [
    ("01a1e3ae-27e1-71c7-8dae-45fee23eba8b", Status::Failed, 3),
    ("01a1e3ae-27cf-73b6-ad58-00c137cc6695", Status::Completed, 9),
    ("01a1e3ae-27be-700d-9e07-6276db972ce0", Status::Completed, 13),
    ("6d6b2053-0680-4f11-af3b-3f7e3f3fccff", Status::Completed, 9),
];

/// Copies the file that version 1 of the tables was recorded in.
fn version_1(place: &Place) -> PathBuf {
    let path = place.db();
    std::fs::copy(workspace().join("tests/golden/store_v1.db"), &path).unwrap();
    path
}

fn version(path: &PathBuf) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn logs(store: &Store) -> Vec<Log> {
    RUNS.iter().map(|(run_id, _, _)| store.log(run_id).unwrap().unwrap()).collect()
}

fn entry(kind: &str) -> AuditEntry {
    let ts = Timestamp::from_millis(1_800_000_000_000);
    AuditEntry { ts, kind: kind.to_owned(), payload: Object::new() }
}

#[test]
fn a_store_of_version_1_is_read_as_it_is() {
    let place = Place::new();
    let path = version_1(&place);
    let before = std::fs::read(&path).unwrap();
    let store = Store::open_read_only(&path).unwrap();
    let found: Vec<_> = logs(&store)
        .into_iter()
        .map(|log| {
            (log.record.header.run_id, log.record.progress.status, log.record.progress.events)
        })
        .collect();
    let recorded = RUNS.map(|(run_id, status, events)| (run_id.to_owned(), status, events));
    assert_eq!(found, recorded);
    assert_eq!(store.audit_page(0, 10).unwrap(), Vec::<String>::new());
    let health = store.check(|_, _| ()).unwrap();
    assert_eq!((health.runs, health.audit, health.findings), (4, 0, vec![]));
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_version_1_is_brought_up_and_keeps_what_it_has() {
    let place = Place::new();
    let path = version_1(&place);
    let before = logs(&Store::open_read_only(&path).unwrap());
    let store = Store::open(&path).unwrap();
    assert_eq!(logs(&store), before);
    let keyed: String = Connection::open(&path)
        .unwrap()
        .query_row("SELECT run_id FROM idempotency JOIN runs USING (run_no)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(keyed, RUNS[2].0);
    store.append_audit(vec![entry("daemon.started")]).unwrap();
    drop(store);
    assert_eq!(version(&path), 7);
    let router = place.router();
    let outcome = router.run_blocking(request(&external(&["a"]))).unwrap();
    drop(router);
    let store = Store::open_read_only(&path).unwrap();
    let health = store.check(|_, _| ()).unwrap();
    assert_eq!((health.runs, health.audit, health.findings), (5, 1, vec![]));
    assert!(store.find(&outcome.run_id).unwrap().is_some());
    assert_eq!(logs(&store), before);
}

#[test]
fn a_reader_of_version_1_goes_on_while_another_brings_it_up() {
    let place = Place::new();
    let path = version_1(&place);
    let reader = Store::open_read_only(&path).unwrap();
    let before = logs(&reader);
    let writer = Store::open(&path).unwrap();
    writer.append_audit(vec![entry("daemon.started")]).unwrap();
    assert_eq!(logs(&reader), before);
    assert_eq!(reader.audit_page(0, 10).unwrap().len(), 1);
    assert_eq!(reader.check(|_, _| ()).unwrap().findings, []);
}

#[test]
fn a_backup_of_version_1_is_one_too() {
    let place = Place::new();
    let path = version_1(&place);
    let copy = place.path("copy.db");
    store::backup(&path, &copy, |_, _| ()).unwrap();
    assert_eq!((version(&path), version(&copy)), (1, 1));
    assert_eq!(Store::open(&copy).unwrap().check(|_, _| ()).unwrap().findings, []);
}

/// Copies the file that version 2 of the tables was recorded in: three runs, and an audit log.
fn version_2(place: &Place) -> PathBuf {
    let path = place.db();
    std::fs::copy(workspace().join("tests/golden/store_v2.db"), &path).unwrap();
    path
}

/// Returns every run and every line of the audit log.
fn everything(store: &Store) -> (Vec<Log>, Vec<String>) {
    let runs = store.list(&Filter::default()).unwrap().runs.into_iter();
    let logs = runs.map(|run| store.log(&run.record.header.run_id).unwrap().unwrap()).collect();
    (logs, store.audit_page(0, 10).unwrap())
}

#[test]
fn a_store_of_version_2_is_read_as_it_is_and_has_no_approvals() {
    let place = Place::new();
    let path = version_2(&place);
    let before = std::fs::read(&path).unwrap();
    let store = Store::open_read_only(&path).unwrap();
    let filter = ApprovalFilter { open: None, ..ApprovalFilter::default() };
    assert_eq!(store.approvals(&filter).unwrap(), (vec![], 0));
    assert_eq!((store.approvals_open().unwrap(), store.approval("x").unwrap()), (0, None));
    let health = store.check(|_, _| ()).unwrap();
    assert_eq!((health.runs, health.audit, health.findings), (3, 3, vec![]));
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_version_2_is_brought_up_and_keeps_what_it_has() {
    let place = Place::new();
    let path = version_2(&place);
    let before = everything(&Store::open_read_only(&path).unwrap());
    assert_eq!((version(&path), before.0.len(), before.1.len()), (2, 3, 3));
    let store = Store::open(&path).unwrap();
    assert_eq!((everything(&store), version(&path)), (before, 7));
    assert_eq!(store.approvals_open().unwrap(), 0);
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
}

/// Copies the file that version 3 of the tables was recorded in: four runs, one of which waits, an audit log, and
/// three approvals.
fn version_3(place: &Place) -> PathBuf {
    let path = place.db();
    std::fs::copy(workspace().join("tests/golden/store_v3.db"), &path).unwrap();
    path
}

#[test]
fn a_store_of_version_3_is_read_as_it_is_and_has_no_run_records() {
    let place = Place::new();
    let path = version_3(&place);
    let before = std::fs::read(&path).unwrap();
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.run_records_page(0, 10).unwrap(), vec![]);
    let health = store.check(|_, _| ()).unwrap();
    assert_eq!((health.runs, health.audit, health.run_records), (4, 3, 0));
    assert_eq!(health.findings, []);
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_version_3_is_brought_up_and_keeps_what_it_has() {
    let place = Place::new();
    let path = version_3(&place);
    let asked = |store: &Store| {
        store.approvals(&ApprovalFilter { open: None, ..ApprovalFilter::default() }).unwrap()
    };
    let reader = Store::open_read_only(&path).unwrap();
    let before = (everything(&reader), asked(&reader));
    assert_eq!((version(&path), before.0.0.len(), before.1.1), (3, 4, 3));
    let store = Store::open(&path).unwrap();
    let record = run_record();
    assert_eq!(store.append_run_record(&record).unwrap(), 1);
    assert_eq!(version(&path), 7);
    for store in [&store, &reader] {
        assert_eq!((everything(store), asked(store)), before);
        assert_eq!(store.run_records_page(0, 10).unwrap(), [(1, record.text())]);
        let health = store.check(|_, _| ()).unwrap();
        assert_eq!((health.run_records, health.findings), (1, vec![]));
    }
    assert_eq!(store.approvals_open().unwrap(), 1);
}

/// Copies the file that version 4 of the tables was recorded in: four runs that are over.
fn version_4(place: &Place) -> PathBuf {
    let path = place.db();
    std::fs::copy(workspace().join("tests/golden/store_v4.db"), &path).unwrap();
    path
}

#[test]
fn a_store_of_version_4_is_read_as_it_is_and_has_no_seals() {
    let place = Place::new();
    let path = version_4(&place);
    let before = std::fs::read(&path).unwrap();
    let store = Store::open_read_only(&path).unwrap();
    let (runs, _) = everything(&store);
    assert_eq!(runs.len(), 4);
    for run in runs {
        assert_eq!(store.seal_of(&run.record.header.run_id).unwrap(), None);
    }
    assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_version_4_is_brought_up_and_its_runs_can_be_sealed() {
    let place = Place::new();
    let path = version_4(&place);
    let reader = Store::open_read_only(&path).unwrap();
    let before = everything(&reader);
    let store = Store::open(&path).unwrap();
    assert_eq!((everything(&store), version(&path)), (before.clone(), 7));
    let numbers = store.unsealed_after(0, 10).unwrap();
    assert_eq!(numbers.len(), 4);
    let seal = |leaf| RunSeal { leaf, attestation: format!("{{\"leaf\":{leaf}}}") };
    store.keep_seals(vec![(numbers[1], seal(7)), (numbers[1], seal(8))]).unwrap();
    let sealed = &before.0.iter().rev().nth(1).unwrap().record.header.run_id;
    for store in [&store, &reader] {
        assert_eq!(store.seal_of(sealed).unwrap(), Some(seal(7)), "the first one stays");
        assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
    }
    let left: Vec<i64> = [0, 2, 3].map(|index| numbers[index]).into();
    assert_eq!(store.unsealed_after(0, 10).unwrap(), left);
    let (unsealed, covered) = store.unsealed(&numbers).unwrap();
    let found: Vec<i64> = unsealed.iter().map(|run| run.run_no).collect();
    assert_eq!((found, covered), (left, 4));
}

#[test]
fn a_backup_holds_the_audit_log() {
    let place = Place::new();
    let store = Store::open(&place.db()).unwrap();
    store.append_audit(vec![entry("daemon.started"), entry("daemon.draining")]).unwrap();
    let copy = place.path("copy.db");
    store::backup(&place.db(), &copy, |_, _| ()).unwrap();
    let lines = Store::open_read_only(&copy).unwrap().audit_page(0, 10).unwrap();
    assert_eq!(lines, store.audit_page(0, 10).unwrap());
    assert_eq!(lines.len(), 2);
}

/// Changes a table behind the back of its rules, and says what the check tells of it.
fn told_of(path: &PathBuf, table: &str, change: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let rules: Vec<(String, String)> = {
        let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1";
        let mut query = connection.prepare(sql).unwrap();
        let rows = query.query_map([table], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    for (name, _) in &rules {
        connection.execute_batch(&format!("DROP TRIGGER {name};")).unwrap();
    }
    connection.execute_batch(change).unwrap();
    // The rules are put back, so that only the change is to be found.
    for (_, sql) in &rules {
        connection.execute_batch(sql).unwrap();
    }
    drop(connection);
    let findings = Store::open(path).unwrap().check(|_, _| ()).unwrap().findings;
    findings.into_iter().map(|found| found.problem).collect()
}

#[test]
fn check_tells_when_the_audit_log_was_changed() {
    let changes = [
        ("UPDATE audit SET body = replace(body, 'drain', 'train')", "the chain is broken"),
        ("UPDATE audit SET head = zeroblob(32) WHERE seq = 2", "the chain is broken"),
        ("DELETE FROM audit WHERE seq = 1", "audit event 2 follows 0"),
        ("UPDATE audit SET body = '{}' WHERE seq = 2", "another number"),
        ("UPDATE audit SET body = 'x' WHERE seq = 2", "audit event 2: "),
    ];
    for (change, expected) in changes {
        let place = Place::new();
        let store = Store::open(&place.db()).unwrap();
        store.append_audit(vec![entry("a"), entry("drained"), entry("c")]).unwrap();
        drop(store);
        let told = told_of(&place.db(), "audit", change);
        assert!(told.iter().any(|problem| problem.contains(expected)), "{change}: {told:?}");
        assert!(told.len() <= 2, "{change}: {told:?}");
    }
}

#[test]
fn check_tells_when_run_records_were_changed() {
    let changes = [
        (
            "UPDATE run_records SET body = replace(body, 'fail', 'pass') WHERE seq = 2",
            "run record 2: the chain is broken",
        ),
        ("UPDATE run_records SET head = zeroblob(32) WHERE seq = 2", "the chain is broken"),
        ("DELETE FROM run_records WHERE seq = 1", "run record 2 follows 0"),
        (
            "UPDATE run_records SET record_id = 'x' WHERE seq = 2",
            "run record 2: its text has another id",
        ),
        ("UPDATE run_records SET body = 'x' WHERE seq = 2", "run record 2: "),
    ];
    for (change, expected) in changes {
        let place = Place::new();
        let store = Store::open(&place.db()).unwrap();
        for _ in 0..3 {
            store.append_run_record(&run_record()).unwrap();
        }
        drop(store);
        let told = told_of(&place.db(), "run_records", change);
        assert!(told.iter().any(|problem| problem.contains(expected)), "{change}: {told:?}");
        assert!(told.len() <= 2, "{change}: {told:?}");
    }
}

#[test]
fn commits_are_counted_and_timed() {
    let place = Place::new();
    let metrics = Metrics::default();
    let options = store::Options { metrics: metrics.clone(), ..store::Options::default() };
    let store = Store::open_with(&place.db(), options).unwrap();
    let count = |name: &str| {
        let text = metrics.render(&Gauges::default());
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse::<usize>().unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(count("nexus_router_store_commit_duration_seconds_count"), 0);
    let source = Place::new();
    let golden = Store::open_read_only(&version_1(&source)).unwrap();
    let log = golden.log(RUNS[2].0).unwrap().unwrap();
    let append = |ticket: store::Ticket| store::Append {
        ticket,
        header: log.record.header.clone().into(),
        progress: log.record.progress.clone(),
        body: log.bodies.concat(),
        count: log.record.progress.events,
        claim: None,
        caller: None,
        approvals: Vec::new(),
        held: Vec::new(),
        arguments: None,
        waits: false,
    };
    let made = store.append(append(store::Ticket::default())).unwrap();
    runtime.block_on(made.durable()).unwrap();
    assert_eq!(count("nexus_router_store_commit_duration_seconds_count"), 1);
    assert_eq!(count("nexus_router_store_appends_total"), 1);
    assert_eq!(count("nexus_router_store_written_bytes_total"), log.bodies.concat().len());
    assert_eq!(count("nexus_router_store_commit_failures_total"), 0);
    // The same run again is refused.
    let again = store.append(append(store::Ticket::default())).unwrap();
    runtime.block_on(again.durable()).unwrap_err();
    assert_eq!(count("nexus_router_store_commit_failures_total"), 1);
    assert_eq!(count("nexus_router_store_commit_duration_seconds_count"), 1);
}

#[test]
fn version_6_is_brought_up_to_hold_arguments() {
    let place = Place::new();
    let path = place.db();
    drop(Store::open(&path).unwrap());
    let back = "DROP TABLE held_arguments; PRAGMA user_version = 6;";
    Connection::open(&path).unwrap().execute_batch(back).unwrap();
    let older = Store::open_read_only(&path).unwrap();
    assert_eq!(older.check(|_, _| ()).unwrap().findings, []);
    drop(older);
    store::backup(&path, &place.path("copy.db"), |_, _| ()).unwrap();
    assert_eq!((store::forget_key(&path, None).unwrap(), version(&path)), (0, 6));
    let store = Store::open(&path).unwrap();
    assert_eq!((store.check(|_, _| ()).unwrap().findings, version(&path)), (vec![], 7));
}
