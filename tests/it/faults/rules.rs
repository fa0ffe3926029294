//! What SQL may not do to a store, and what an older program finds of it.

use nexus_router::clock::Timestamp;
use nexus_router::json::Object;
use nexus_router::store::{AuditEntry, Conflict, Imported, Log, NewRun, Replaced, Store};
use rusqlite::Connection;

use super::{Place, assert_sound, external, request, run_record};

/// Changes to what is recorded, each with what the refusal says.
const FORBIDDEN: &[(&str, &str)] = &[
    ("UPDATE segments SET body = replace(body, 'a', 'b')", "events are append-only"),
    ("UPDATE segments SET events = events + 1", "events are append-only"),
    ("UPDATE OR REPLACE segments SET segment_no = segment_no + 1", "events are append-only"),
    ("DELETE FROM segments", "events are append-only"),
    (
        "INSERT OR REPLACE INTO segments SELECT segment_no, events, 'x' FROM segments",
        "without a gap",
    ),
    ("INSERT INTO segments SELECT max(segment_no) + 1, 1, 'x' FROM segments", "without a gap"),
    ("INSERT INTO segments SELECT (max(run_no) + 9) << 24 | 5, 1, 'x' FROM runs", "without a gap"),
    ("UPDATE runs SET run_id = run_id || 'x'", "keeps what it is"),
    ("UPDATE runs SET goal = 'another'", "keeps what it is"),
    ("UPDATE runs SET mode = 'dry_run'", "keeps what it is"),
    ("UPDATE runs SET created_at = '2000'", "keeps what it is"),
    ("UPDATE runs SET status = 'FAILED'", "keeps what it is"),
    ("UPDATE runs SET status = 'RUNNING'", "keeps what it is"),
    ("UPDATE runs SET events = events - 1", "keeps what it is"),
    ("UPDATE runs SET head = zeroblob(32)", "keeps what it is"),
    ("UPDATE runs SET outcome = 'error'", "keeps what it is"),
    ("UPDATE runs SET origin = '{}'", "keeps what it is"),
    ("UPDATE runs SET run_no = run_no + 1000", "keeps what it is"),
    ("DELETE FROM runs", "runs are append-only"),
    ("INSERT OR REPLACE INTO runs SELECT * FROM runs", "runs are append-only"),
    (
        "REPLACE INTO runs (run_id, mode, goal, status, created_at, steps_planned, steps_executed, \
         tools_used, events, head) SELECT run_id, mode, 'another', status, created_at, 0, 0, '[]', 0, \
         zeroblob(32) FROM runs",
        "runs are append-only",
    ),
    ("UPDATE attic SET bundle = '{}'", "the attic is append-only"),
    ("DELETE FROM attic", "the attic is append-only"),
    ("INSERT OR REPLACE INTO attic SELECT * FROM attic", "the attic is append-only"),
    ("UPDATE audit SET body = '{}'", "the audit log is append-only"),
    ("UPDATE OR REPLACE audit SET seq = seq + 1", "the audit log is append-only"),
    ("DELETE FROM audit", "the audit log is append-only"),
    ("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "the audit log is append-only"),
    ("INSERT OR REPLACE INTO audit SELECT * FROM audit", "the audit log is append-only"),
    ("INSERT INTO audit SELECT max(seq) + 2, '{}', zeroblob(32) FROM audit", "without a gap"),
    ("INSERT INTO audit (body, head) VALUES ('{}', zeroblob(32))", "without a gap"),
    ("UPDATE run_records SET body = '{}'", "run records are append-only"),
    ("UPDATE OR REPLACE run_records SET seq = seq + 1", "run records are append-only"),
    ("DELETE FROM run_records", "run records are append-only"),
    ("INSERT OR REPLACE INTO run_records SELECT * FROM run_records", "run records are append-only"),
    (
        "REPLACE INTO run_records SELECT seq + 1, record_id, '{}', head FROM run_records",
        "run records are append-only",
    ),
    (
        "INSERT INTO run_records SELECT max(seq) + 2, 'x', '{}', zeroblob(32) FROM run_records",
        "without a gap",
    ),
];

/// A store with runs, one of which replaced another.
fn filled(place: &Place) -> Vec<Log> {
    let router = place.router();
    for _ in 0..3 {
        router.run_blocking(request(&external(&["a", "b"]))).unwrap();
    }
    let store = router.store();
    let run_id = router.run_blocking(request(&external(&["a"]))).unwrap().run_id;
    let log = store.log(&run_id).unwrap().unwrap();
    let new = NewRun {
        header: log.record.header.clone(),
        progress: log.record.progress.clone(),
        origin: "{}".to_owned(),
        body: log.bodies.concat(),
    };
    let imported = store.import(new, Conflict::Overwrite, |_| "{}".to_owned()).unwrap();
    assert!(matches!(imported, Imported::Stored(Replaced::Archived)), "{imported:?}");
    let entry = |kind: &str| AuditEntry {
        ts: Timestamp::from_millis(0),
        kind: kind.to_owned(),
        payload: Object::new(),
    };
    store.append_audit(vec![entry("daemon.started"), entry("daemon.stopped")]).unwrap();
    store.append_run_record(&run_record()).unwrap();
    logs(store)
}

fn logs(store: &Store) -> Vec<Log> {
    let listed = store.list(&Default::default()).unwrap().runs.into_iter();
    listed.map(|run| store.log(&run.record.header.run_id).unwrap().unwrap()).collect()
}

#[test]
fn sql_cannot_change_what_is_recorded() {
    let place = Place::new();
    let before = filled(&place);
    let connection = Connection::open(place.db()).unwrap();
    for (sql, why) in FORBIDDEN {
        let error = connection.execute(sql, []).expect_err(sql);
        assert!(error.to_string().contains(why), "{sql}: {error}");
    }
    drop(connection);
    let store = Store::open(&place.db()).unwrap();
    assert_eq!(logs(&store), before);
    assert_sound(&store);
}

/// Takes away or adds a rule; the check must say so, and of what.
#[test]
fn check_tells_when_the_rules_themselves_were_changed() {
    let changes = [
        ("DROP TRIGGER segments_are_not_changed", "trigger segments_are_not_changed is missing"),
        (
            "DROP TRIGGER runs_are_not_removed; \
             CREATE TRIGGER runs_are_not_removed BEFORE DELETE ON runs BEGIN SELECT 1; END",
            "trigger runs_are_not_removed was changed",
        ),
        ("CREATE TABLE stranger (a)", "table stranger is not of this program"),
        (
            "CREATE TRIGGER liar AFTER INSERT ON runs BEGIN DELETE FROM owners; END",
            "trigger liar is not of this program",
        ),
    ];
    let place = Place::new();
    for (number, (sql, problem)) in changes.iter().enumerate() {
        let path = place.path(&format!("{number}.db"));
        drop(Store::open(&path).unwrap());
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let findings = Store::open_read_only(&path).unwrap().check(|_, _| ()).unwrap().findings;
        let problems: Vec<&str> = findings.iter().map(|found| found.problem.as_str()).collect();
        assert_eq!(problems, [*problem]);
    }
}

/// Changes beside the events, which are possible once the rules are gone.
#[test]
fn check_tells_when_what_is_kept_of_a_run_is_not_what_its_log_says() {
    let changes = [
        ("UPDATE runs SET goal = 'another'", "the mode or the goal is another than in the log", ""),
        ("UPDATE runs SET status = 'FAILED'", "the status is FAILED, against the log", ""),
        ("UPDATE runs SET status = 'RUNNING'", "the status is RUNNING, against the log", ""),
        ("UPDATE runs SET events = 3", "13 events are stored, and 3 recorded", ""),
        ("UPDATE runs SET events = -3", "out of range", "STORE_DAMAGED"),
        ("UPDATE runs SET tools_used = 'a'", "tools_used", "STORE_DAMAGED"),
        ("UPDATE runs SET head = x'00'", "32 byte value", "STORE_DAMAGED"),
        ("UPDATE counts SET runs = -1", "are counted", "STORE_DAMAGED"),
        ("UPDATE counts SET runs = 9223372036854775807", "are counted", ""),
        ("DELETE FROM counts", "returned no rows", "STORE_DAMAGED"),
        ("DELETE FROM runs", "segments belong to no run", ""),
    ];
    let place = Place::new();
    place.router().run_blocking(request(&external(&["a", "b"]))).unwrap();
    for (number, (sql, problem, lists)) in changes.iter().enumerate() {
        let path = place.path(&format!("{number}.db"));
        std::fs::copy(place.db(), &path).unwrap();
        let connection = Connection::open(&path).unwrap();
        let triggers = ["runs_keep_what_they_are", "runs_are_not_removed"];
        for trigger in triggers {
            connection.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
        }
        connection.execute(sql, []).unwrap();
        drop(connection);
        let store = Store::open_read_only(&path).unwrap();
        let findings = store.check(|_, _| ()).unwrap().findings;
        assert!(
            findings.iter().any(|found| found.problem.contains(problem)),
            "{sql}: {findings:?}"
        );
        let listed = store.list(&Default::default());
        let code = listed.as_ref().err().map_or("", nexus_router::store::Error::code);
        assert_eq!(code, *lists, "{sql}: {listed:?}");
    }
}

/// Everything in a database, as text.
fn dump(connection: &Connection) -> Vec<String> {
    let mut said = Vec::new();
    let tables =
        ["sqlite_schema", "runs", "segments", "counts", "idempotency", "attic", "owners", "audit"];
    for table in tables {
        let mut query = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
        let columns = query.column_count();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let row: Vec<_> = (0..columns).map(|column| row.get_ref(column).unwrap()).collect();
            said.push(format!("{table} {row:?}"));
        }
    }
    said
}

#[test]
fn a_store_of_this_version_stays_as_it_is() {
    let place = Place::new();
    let before = filled(&place);
    let read = || dump(&Connection::open(place.db()).unwrap());
    let tables = read();
    for _ in 0..3 {
        let store = Store::open(&place.db()).unwrap();
        assert_eq!(logs(&store), before);
        drop(store);
        assert_eq!(read(), tables);
    }
    let version = "SELECT user_version, (SELECT application_id FROM pragma_application_id) FROM pragma_user_version";
    let found: (i64, i64) = Connection::open(place.db())
        .unwrap()
        .query_row(version, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(found, (7, 0x4e58_5254));
}

#[test]
fn a_newer_store_is_refused_and_not_touched() {
    let place = Place::new();
    filled(&place);
    let connection = Connection::open(place.db()).unwrap();
    connection.execute_batch("PRAGMA user_version = 8; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(connection);
    let before = std::fs::read(place.db()).unwrap();
    let path = place.db();
    for open in [Store::open, Store::open_read_only] {
        let error = open(&path).unwrap_err();
        assert_eq!(error.code(), "STORE_NEWER");
        assert!(
            error
                .to_string()
                .ends_with("has version 8 of the tables; this program knows versions up to 7")
        );
        assert!(error.hint().contains("backup"), "{}", error.hint());
    }
    assert_eq!(std::fs::read(place.db()).unwrap(), before);
    assert!(!place.path("runs.db-owners").exists());
}
