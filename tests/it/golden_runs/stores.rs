//! The Python router's databases, read where they are and taken over.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nexus_router::inspect::inspect;
use nexus_router::json::{self, Value};
use nexus_router::replay::{Strictness, not_found, replay};
use nexus_router::store::{self, Filter, Status, Store};
use nexus_router::takeover::{self, Unreadable, take_over};

use super::{Exception, NOW, export_digest, golden, member, read, replayed, settle, text, without};

/// Runs that hold what JSON cannot say.
const UNREADABLE: [&str; 2] = ["21-nan", "22-surrogates"];

const EXCEPTIONS: &[Exception] = &[
    ("21-nan", &["export"], "NaN and Infinity are not JSON, and nothing else is written"),
    ("22-surrogates", &["export"], "a lone surrogate is no character, and is not written"),
];

/// What our rules say of the hand-made logs, which the peer does not see (flaw V1).
const WARNINGS: &[(&str, &[&str])] = &[
    ("no-events", &[]),
    ("only-started", &[]),
    ("minimal-ok", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("plan-first", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("two-started", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("started-without-fields", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("completed-then-failed", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("unknown-types", &["UNKNOWN_EVENT_TYPE", "STATUS_MISMATCH"]),
    ("tool-without-step", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("result-after-complete", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("open-step", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("empty-step-id", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("methods", &["EVENT_OUT_OF_ORDER", "STATUS_MISMATCH"]),
    ("provenance-only", &["EVENT_OUT_OF_ORDER"]),
    ("gap", &["SEQ_UNEXPECTED"]),
    ("start-at-1", &["SEQ_UNEXPECTED"]),
    ("negative", &["SEQ_UNEXPECTED"]),
    ("sparse", &["SEQ_UNEXPECTED"]),
];

/// A database of the Python router in a directory of its own.
struct Copy {
    directory: tempfile::TempDir,
    file: PathBuf,
}

impl Copy {
    fn of(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name);
        std::fs::copy(golden(name), &file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        Self { directory, file }
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn runs_are_read_in_place_as_the_peer_reads_them() {
    let copy = Copy::of("runs.db");
    compare_runs(&Store::open_read_only(&copy.file).unwrap());
}

#[test]
fn reading_in_place_changes_no_byte_and_leaves_no_file() {
    for name in ["runs.db", "replay.db"] {
        for mode in [0o755, 0o555] {
            let copy = Copy::of(name);
            set_mode(copy.directory.path(), mode);
            let store = Store::open_read_only(&copy.file).unwrap();
            assert!(store.is_python());
            let listed = inspect(&store, &Filter { limit: 1000, ..Filter::default() }).unwrap();
            assert_eq!(listed.runs.len() as u64, listed.counted.total);
            for run in listed.runs {
                let log = store.log(&run.header.run_id).unwrap().unwrap();
                assert_eq!(replay(&log).events, log.record.progress.events);
            }
            drop(store);
            set_mode(copy.directory.path(), 0o755);
            assert_eq!(copy.files(), [name], "{mode:o}");
            let (before, after) = (std::fs::read(golden(name)), std::fs::read(&copy.file));
            assert!(before.unwrap() == after.unwrap(), "{name} was changed");
        }
    }
}

#[test]
fn a_python_store_is_not_written() {
    let copy = Copy::of("runs.db");
    assert_eq!(Store::open(&copy.file).unwrap_err().code(), "STORE_PYTHON");
    assert_eq!(copy.files(), ["runs.db"]);
}

#[test]
fn hand_made_logs_are_replayed_as_the_peer_does() {
    let copy = Copy::of("replay.db");
    let store = Store::open_read_only(&copy.file).unwrap();
    let cases = read(&golden("replay.json"));
    let mut warned = Vec::new();
    for case in cases.as_array().unwrap() {
        let run_id = text(case, "run_id");
        for (name, strictness) in [("strict", Strictness::Strict), ("lenient", Strictness::Lenient)]
        {
            let Some(log) = store.log(run_id).unwrap() else {
                assert_eq!(&not_found(run_id), member(case, name));
                continue;
            };
            let replay = replay(&log);
            let answer = replay.to_json(strictness);
            assert_eq!(&without(answer, &["warnings"]), member(case, name), "{run_id}");
            if strictness == Strictness::Strict {
                let codes: Vec<&str> = replay.warnings.iter().map(|warning| warning.code).collect();
                warned.push((run_id, codes));
            }
        }
    }
    let expected: Vec<(&str, Vec<&str>)> =
        WARNINGS.iter().map(|(run_id, codes)| (*run_id, codes.to_vec())).collect();
    assert_eq!(warned, expected);
}

#[test]
fn runs_are_listed_as_the_peer_lists_them() {
    let copy = Copy::of("runs.db");
    let store = Store::open_read_only(&copy.file).unwrap();
    let cases = read(&golden("inspect.json"));
    for case in cases.as_array().unwrap() {
        let request = member(case, "request");
        let ours = inspect(&store, &filter(request)).unwrap().to_json();
        assert_eq!(&ours, member(case, "response"), "{}", json::to_canonical(request));
    }
    assert_eq!(cases.as_array().unwrap().len(), 15);
}

#[test]
fn a_time_is_compared_as_a_time_whatever_its_offset() {
    let copy = Copy::of("runs.db");
    let store = Store::open_read_only(&copy.file).unwrap();
    let total = |since: &str| {
        let filter = Filter { since: Some(since.to_owned()), ..Filter::default() };
        inspect(&store, &filter).unwrap().counted.total
    };
    let expected = total("2026-11-16T00:02:47.102Z");
    assert_eq!(expected, 13);
    for same in [
        "2026-11-16T02:02:47.102+02:00",
        "2026-11-15T19:02:47.102-05:00",
        "2026-11-16T00:02:47.102000Z",
    ] {
        assert_eq!(total(same), expected, "{same}");
    }
}

#[test]
fn taking_over_refuses_runs_that_json_cannot_say() {
    let copy = Copy::of("runs.db");
    let error = take_over(&copy.file, Unreadable::Refuse, NOW, |_, _| {}).unwrap_err();
    assert_eq!(error.code(), "RUNS_UNREADABLE");
    let takeover::Error::Unreadable(left) = error else { panic!("{error:?}") };
    let mut left: Vec<String> = left.into_iter().map(|left| left.run_id).collect();
    left.sort();
    assert_eq!(left, unreadable_ids());
    assert_eq!(copy.files(), ["runs.db"]);
    compare_runs(&Store::open_read_only(&copy.file).unwrap());
}

#[test]
fn taking_over_changes_no_answer() {
    let copy = Copy::of("runs.db");
    let python = rusqlite::Connection::open(&copy.file).unwrap();
    for run_id in unreadable_ids() {
        python.execute("DELETE FROM events WHERE run_id = ?1", [&run_id]).unwrap();
        python.execute("DELETE FROM runs WHERE run_id = ?1", [&run_id]).unwrap();
    }
    drop(python);
    let before = Store::open_read_only(&copy.file).unwrap();
    let answers = |store: &Store| -> Vec<(Value, Vec<Value>)> {
        let cases = read(&golden("inspect.json"));
        let inspected = cases.as_array().unwrap().iter().map(|case| {
            let inspection = inspect(store, &filter(member(case, "request"))).unwrap();
            let runs = inspection.runs.iter().map(|run| {
                let run_id = &run.header.run_id;
                let digest = export_digest(store, run_id);
                let replay = replay(&store.log(run_id).unwrap().unwrap());
                Value::Array(vec![replay.to_json(Strictness::Strict), digest])
            });
            (inspection.to_json(), runs.collect())
        });
        inspected.collect()
    };
    let expected = answers(&before);
    drop(before);
    let mut told = Vec::new();
    let report =
        take_over(&copy.file, Unreadable::Refuse, NOW, |done, of| told.push((done, of))).unwrap();
    assert_eq!((report.runs, report.left.len()), (23, 0));
    assert_eq!(told, (1..=23).map(|done| (done, 23)).collect::<Vec<_>>());
    let store = Store::open_read_only(&copy.file).unwrap();
    assert!(!store.is_python());
    assert!(answers(&store) == expected, "an answer has changed");
    assert_eq!(store.check(|_, _| {}).unwrap().findings, []);
    assert_eq!(store.check(|_, _| {}).unwrap().events, report.events);
    let copied = Store::open_read_only(&report.backup).unwrap();
    assert!(copied.is_python());
    assert!(answers(&copied) == expected, "the copy differs");
}

#[test]
fn runs_that_cannot_be_taken_over_stay_in_the_copy() {
    let copy = Copy::of("runs.db");
    let report = take_over(&copy.file, Unreadable::Leave, NOW, |_, _| {}).unwrap();
    let mut left: Vec<&str> = report.left.iter().map(|left| left.run_id.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, unreadable_ids());
    compare_runs(&Store::open_read_only(&report.backup).unwrap());
    let store = Store::open_read_only(&copy.file).unwrap();
    for case in runs() {
        let run_id = text(&case, "run_id");
        if left.contains(&run_id) {
            assert!(store.find(run_id).unwrap().is_none());
            continue;
        }
        assert_eq!(&replayed(&store, run_id), member(&case, "replay"), "{run_id}");
        assert_eq!(&export_digest(&store, run_id), member(&case, "export_digest"), "{run_id}");
    }
    // The copy is there, and a second attempt would overwrite it.
    let again = take_over(&copy.file, Unreadable::Leave, NOW, |_, _| {}).unwrap_err();
    assert_eq!(again.code(), "BACKUP_EXISTS");
    std::fs::rename(&report.backup, copy.directory.path().join("kept")).unwrap();
    let again = take_over(&copy.file, Unreadable::Leave, NOW, |_, _| {}).unwrap_err();
    assert!(matches!(again, takeover::Error::Store(store::Error::Ours(_))), "{again:?}");
}

#[test]
fn a_run_that_was_under_way_belongs_to_nobody_after_a_takeover() {
    let copy = Copy::of("runs.db");
    take_over(&copy.file, Unreadable::Leave, NOW, |_, _| {}).unwrap();
    let interrupted = runs().into_iter().find(|case| text(case, "case") == "23-interrupted");
    let run_id = text(&interrupted.unwrap(), "run_id").to_owned();
    let store = Store::open(&copy.file).unwrap();
    assert_eq!(store.orphans().unwrap(), [run_id]);
}

#[test]
fn damaged_payloads_are_violations_and_not_the_end() {
    let copy = Copy::of("replay.db");
    let python = rusqlite::Connection::open(&copy.file).unwrap();
    let damage = "UPDATE events SET payload_json = ?1 WHERE run_id = 'methods' AND seq = 2";
    for payload in ["[]", "{\"step_id\":", "", "{\"step_id\":\"a\"}\n{}", "null", "{\"step_id\":7}"]
    {
        python.execute(damage, [payload]).unwrap();
        let store = Store::open_read_only(&copy.file).unwrap();
        let replay = replay(&store.log("methods").unwrap().unwrap());
        let codes: Vec<&str> = replay.violations.iter().map(|violation| violation.code).collect();
        assert!(codes.contains(&"PAYLOAD_INVALID"), "{payload}: {codes:?}");
        if !payload.contains('7') {
            let error = take_over(&copy.file, Unreadable::Refuse, NOW, |_, _| {}).unwrap_err();
            assert_eq!(error.code(), "RUNS_UNREADABLE", "{payload}: {error}");
        }
    }
}

fn runs() -> Vec<Value> {
    let runs = read(&golden("runs.json"));
    runs.as_array().unwrap().to_vec()
}

fn unreadable_ids() -> Vec<String> {
    let unreadable = runs().into_iter().filter(|case| UNREADABLE.contains(&text(case, "case")));
    let mut ids: Vec<String> = unreadable.map(|case| text(&case, "run_id").to_owned()).collect();
    ids.sort();
    ids
}

/// Compares every run of a store with what the peer says of it.
fn compare_runs(store: &Store) {
    let mut found = Vec::new();
    for case in runs() {
        let run_id = text(&case, "run_id");
        for (aspect, ours, theirs) in [
            ("replay", replayed(store, run_id), member(&case, "replay")),
            ("export", export_digest(store, run_id), member(&case, "export_digest")),
        ] {
            if ours != *theirs {
                let difference = format!("{ours:?}\nnot {theirs:?}");
                found.push((text(&case, "case").to_owned(), aspect, difference));
            }
        }
    }
    settle(EXCEPTIONS, &found);
}

fn filter(request: &Value) -> Filter {
    let text = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str, usual: usize| {
        request.get(name).and_then(Value::as_i64).map_or(usual, |n| usize::try_from(n).unwrap())
    };
    Filter {
        run_id: text("run_id"),
        status: text("status").map(|status| Status::from_name(&status).unwrap()),
        since: text("since"),
        limit: number("limit", 50),
        offset: number("offset", 0),
        ..Filter::default()
    }
}

#[test]
fn every_warning_of_the_hand_made_logs_is_one_that_is_explained() {
    let rules = nexus_router::run::Illegal::CODES;
    let codes = nexus_router::replay::CODES;
    for code in WARNINGS.iter().flat_map(|(_, codes)| codes.iter()) {
        let known = rules.contains(code) || codes.iter().any(|row| row.0 == *code);
        assert!(known, "{code}");
    }
}
