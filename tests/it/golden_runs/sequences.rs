//! Several imports into one store, one after another.

use nexus_router::bundle::{Check, ImportOptions, Replays};
use nexus_router::digest::Digest;
use nexus_router::event::Line;
use nexus_router::json::{self, Limits, Value, parse};
use nexus_router::request::ImportMode;
use nexus_router::store::{Filter, Store};

use super::{
    Exception, NOW, export_digest, golden, import, list, member, object, read, settle, text,
    without,
};

const EXCEPTIONS: &[Exception] = &[
    (
        "overwrite-loss/1",
        &["state"],
        "a bundle that is refused leaves the stored run alone (flaw E1)",
    ),
    (
        "event-id-collision/1",
        &["result"],
        "refused, but because its events are of another run (flaw E3); ids of events are unique \
         within a run, so they are no reason (flaw E2)",
    ),
    ("remap/0", &["payloads"], "what stands in payloads is not ours to rewrite (flaws E11, E13)"),
];

#[test]
fn sequences_of_imports_end_as_the_peer_says() {
    let mut found = Vec::new();
    let mut steps = 0;
    for sequence in read(&golden("import_sequences.json")).as_array().unwrap() {
        let store = Store::in_memory().unwrap();
        for (index, step) in list(sequence, "steps").iter().enumerate() {
            steps += 1;
            let case = format!("{}/{index}", text(sequence, "name"));
            let mut differ = |aspect, ours: Value, theirs: &Value| {
                if ours != *theirs {
                    let (ours, theirs) = (json::to_canonical(&ours), json::to_canonical(theirs));
                    found.push((case.clone(), aspect, format!("{ours}\nnot {theirs}")));
                }
            };
            let answer = import(&store, &bundle(step), &options(member(step, "options")));
            let ours = answer.get("imported_run_id").and_then(Value::as_str).map(str::to_owned);
            let theirs = member(step, "result");
            let theirs_id = theirs.get("imported_run_id").and_then(Value::as_str);
            // An id that was made is another each time.
            let same_ids = |value: &Value| match (&ours, theirs_id) {
                (Some(ours), Some(theirs)) if case == "new-id-collision/1" => {
                    let text = json::to_canonical(value).replace(theirs, ours);
                    sorted(&parse(text.as_bytes(), Limits::REQUEST).unwrap())
                }
                _ => value.clone(),
            };
            differ("result", as_the_peer_says(answer.clone(), &case), &same_ids(theirs));
            differ("state", state(&store), &same_ids(member(step, "state_after")));
            if let (Some(run_id), Some(digest)) = (&ours, step.get("export_digest_after")) {
                differ("digest", export_digest(&store, run_id), digest);
            }
            if let (Some(run_id), Some(payloads)) = (&ours, step.get("payloads_after")) {
                differ("payloads", stored_payloads(&store, run_id), payloads);
            }
        }
    }
    assert_eq!(steps, 18);
    settle(EXCEPTIONS, &found);
}

/// Takes away what our answers say besides, and checks it.
fn as_the_peer_says(answer: Value, case: &str) -> Value {
    let Some(conflict) = answer.get("conflict").cloned() else { return answer };
    if text(&answer, "status") == "ok" {
        assert_eq!(case, "new-id-collision/1");
        assert_eq!(text(&conflict, "reason"), "run_id_exists");
        assert_eq!(text(&conflict, "existing_run_id"), "taken");
        return without(answer, &["conflict"]);
    }
    assert_eq!(member(&conflict, "identical"), &Value::Bool(true), "{case}");
    let mut answer = answer.into_object().unwrap();
    answer.insert("conflict", without(conflict, &["identical"]));
    answer.into()
}

fn options(given: &Value) -> ImportOptions {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let mode = text("mode").map(|mode| ImportMode::from_name(mode).unwrap());
    ImportOptions {
        mode: mode.unwrap_or_default(),
        new_run_id: text("new_run_id").map(str::to_owned),
        ..ImportOptions::new(NOW)
    }
}

/// Returns the bundle of a step, patched and with a new digest.
fn bundle(step: &Value) -> Vec<u8> {
    let path = golden("bundles").join(text(step, "bundle")).join("bundle.json");
    let patches = list(step, "patch_then_redigest");
    if patches.is_empty() {
        return std::fs::read(path).unwrap();
    }
    let mut bundle = read(&path);
    for patch in patches {
        let [path, value] = patch.as_array().unwrap() else { panic!("{patch:?}") };
        put(&mut bundle, path.as_array().unwrap(), value);
    }
    redigest(&mut bundle);
    json::to_compact(&bundle).into_bytes()
}

/// Puts the digest of its run and events into a bundle.
pub(super) fn redigest(bundle: &mut Value) {
    let part = |name: &str| bundle.get(name).unwrap().clone();
    let covered = object([("events", part("events")), ("run", part("run"))]);
    let digest = Digest::of(json::to_canonical(&covered).as_bytes()).to_string();
    let Value::Object(members) = bundle else { panic!("no bundle") };
    members.insert("digests", object([("sha256", digest.into())]));
}

fn put(value: &mut Value, path: &[Value], new: &Value) {
    match (value, path) {
        (value, []) => *value = new.clone(),
        (Value::Object(members), [Value::String(name), rest @ ..]) => {
            if !members.contains_key(name) {
                members.insert(name.as_str(), Value::Null);
            }
            put(members.get_mut(name).unwrap(), rest, new);
        }
        (Value::Array(items), [Value::Int(index), rest @ ..]) => {
            put(&mut items[usize::try_from(*index).unwrap()], rest, new);
        }
        (value, path) => panic!("{value:?} has no {path:?}"),
    }
}

/// Returns the runs and how many events each has, in the order of their ids.
fn state(store: &Store) -> Value {
    let runs = store.list(&Filter { limit: 1000, ..Filter::default() }).unwrap().runs;
    let rows = runs.iter().map(|run| {
        let (run_id, events) = (&run.record.header.run_id, run.record.progress.events);
        object([("run_id", run_id.as_str().into()), ("events", events.into())])
    });
    sorted(&rows.collect::<Vec<_>>().into())
}

fn sorted(value: &Value) -> Value {
    let Value::Array(rows) = value else { return value.clone() };
    let mut rows = rows.clone();
    rows.sort_by_key(|row| text(row, "run_id").to_owned());
    rows.into()
}

fn stored_payloads(store: &Store, run_id: &str) -> Value {
    let log = store.log(run_id).unwrap().unwrap();
    let payloads = log.lines().map(|line| {
        let payload = Line::read(line).unwrap().payload;
        parse(payload.as_bytes(), Limits::REQUEST).unwrap()
    });
    payloads.collect::<Vec<_>>().into()
}

#[test]
fn an_import_under_a_new_id_keeps_what_was_recorded() {
    let store = Store::in_memory().unwrap();
    let bundle = std::fs::read(golden("bundles/03-apply-one/bundle.json")).unwrap();
    let given = read(&golden("bundles/03-apply-one/bundle.json"));
    import(&store, &bundle, &ImportOptions::new(NOW));
    let new_id = ImportOptions { mode: ImportMode::NewRunId, ..ImportOptions::new(NOW) };
    let answer = import(&store, &bundle, &new_id);
    let run_id = text(&answer, "imported_run_id");
    let log = store.log(run_id).unwrap().unwrap();
    let events = list(&given, "events");
    assert_eq!(log.record.progress.events, events.len() as u64);
    let mut ids = std::collections::BTreeSet::from([run_id.to_owned()]);
    for (line, event) in log.lines().zip(events) {
        let line = Line::read(line).unwrap();
        assert_eq!(line.run_id, run_id);
        assert!(ids.insert(line.event_id.clone().into_owned()), "{}", line.event_id);
        assert_ne!(line.event_id, text(event, "event_id"));
        assert_eq!(line.payload, json::to_canonical(member(event, "payload")));
        assert_eq!(
            (line.kind.as_ref(), line.ts.as_ref()),
            (text(event, "type"), text(event, "ts"))
        );
    }
    let origin = parse(log.record.origin.as_ref().unwrap().as_bytes(), Limits::REQUEST).unwrap();
    assert_eq!(text(&origin, "source_run_id"), text(member(&given, "run"), "run_id"));
    assert_eq!(text(&origin, "exported_at"), text(&given, "exported_at"));
    assert_eq!(text(&origin, "imported_at"), NOW.to_string());
    assert_eq!(text(&origin, "bundle_digest"), text(member(&given, "digests"), "sha256"));
}

#[test]
fn a_different_run_of_the_same_id_is_said_to_be_different() {
    let store = Store::in_memory().unwrap();
    let mut bundle = read(&golden("bundles/03-apply-one/bundle.json"));
    let first = json::to_compact(&bundle);
    import(&store, first.as_bytes(), &ImportOptions::new(NOW));
    put(&mut bundle, &["run".into(), "goal".into()], &"another".into());
    redigest(&mut bundle);
    let answer = import(&store, json::to_compact(&bundle).as_bytes(), &ImportOptions::new(NOW));
    assert_eq!(answer.pointer("/conflict/identical"), Some(&Value::Bool(false)));
}

#[test]
fn a_run_that_was_overwritten_is_in_the_attic() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs.db");
    let store = Store::open(&file).unwrap();
    let mut bundle = read(&golden("bundles/03-apply-one/bundle.json"));
    import(&store, json::to_compact(&bundle).as_bytes(), &ImportOptions::new(NOW));
    put(&mut bundle, &["run".into(), "goal".into()], &"another".into());
    let overwrite = ImportOptions {
        mode: ImportMode::Overwrite,
        check: Check::Skip,
        ..ImportOptions::new(NOW)
    };
    assert_eq!(
        text(&import(&store, json::to_compact(&bundle).as_bytes(), &overwrite), "status"),
        "ok"
    );
    drop(store);
    let attic: String = rusqlite::Connection::open(&file)
        .unwrap()
        .query_row("SELECT bundle FROM attic", [], |row| row.get(0))
        .unwrap();
    // The attic's bundle has the digest of the run that it was, and can be imported again.
    let other = Store::in_memory().unwrap();
    let answer = import(&other, attic.as_bytes(), &ImportOptions::new(NOW));
    assert_eq!(member(&answer, "replay_ok"), &Value::Bool(true));
    let run_id = text(&answer, "imported_run_id");
    let theirs = read(&golden("bundles/03-apply-one/expected.json"));
    assert_eq!(&export_digest(&other, run_id), member(&theirs, "digest"));
}

#[test]
fn a_run_with_violations_can_be_refused() {
    let store = Store::in_memory().unwrap();
    let bundle =
        std::fs::read(golden("bundles/35-tampered-terminal-dropped-redigest/bundle.json")).unwrap();
    let refuse = ImportOptions { replays: Replays::Refuse, ..ImportOptions::new(NOW) };
    let answer = import(&store, &bundle, &refuse);
    assert_eq!(answer.pointer("/error/code").and_then(Value::as_str), Some("REPLAY_FAILED"));
    assert_eq!(
        answer.pointer("/violations/0/code").and_then(Value::as_str),
        Some("NO_TERMINAL_EVENT")
    );
    assert_eq!(state(&store), Value::Array(Vec::new()));
}
