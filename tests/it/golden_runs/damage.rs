//! Bundles and logs that are damaged at will: refused or harmless, and never a panic.

use nexus_router::bundle::{self, ImportOptions, Imported, Provenance, Source};
use nexus_router::digest::Digest;
use nexus_router::json::{self, Value};
use nexus_router::replay::{Strictness, replay};
use nexus_router::store::{Header, Log, Progress, RunRecord, Status, Store};
use nexus_router::view::View;
use proptest::prelude::*;

use super::{NOW, golden, import, object, read, text};
use crate::golden_runs::sequences::redigest;

#[test]
fn no_byte_of_a_bundle_can_be_changed_to_effect() {
    let store = Store::in_memory().unwrap();
    let given = std::fs::read(golden("bundles/03-apply-one/bundle.json")).unwrap();
    let answer = import(&store, &given, &ImportOptions::new(NOW));
    let log = store.log(text(&answer, "imported_run_id")).unwrap().unwrap();
    let ours = bundle::export(&log, &Source::of(&store), Provenance::Include, NOW).unwrap();
    for original in [given, ours.text.into_bytes()] {
        let mut harmless = 0;
        for at in 0..original.len() {
            let mut changed = original.clone();
            for byte in [original[at] ^ 1, b'"'] {
                changed[at] = byte;
                match bundle::import(&store, &changed, &ImportOptions::new(NOW)) {
                    Err(_) => {}
                    Ok(Imported::Skipped { identical: true, .. }) => harmless += 1,
                    Ok(other) => panic!("byte {at} as {byte}: {other:?}"),
                }
            }
        }
        // What is neither covered nor needed can be changed, such as the time of the export.
        assert!(harmless > 0);
    }
}

#[test]
fn a_field_of_another_type_is_refused_and_named() {
    let store = Store::in_memory().unwrap();
    let original = read(&golden("bundles/03-apply-one/bundle.json"));
    let mut places = 0;
    let fields = [
        "/bundle_version",
        "/exported_at",
        "/run",
        "/events",
        "/digests",
        "/digests/sha256",
        "/run/run_id",
        "/run/mode",
        "/run/goal",
        "/run/status",
        "/run/created_at",
        "/events/3",
        "/events/3/event_id",
        "/events/3/run_id",
        "/events/3/seq",
        "/events/3/type",
        "/events/3/payload",
        "/events/3/ts",
    ];
    for pointer in fields {
        for value in [Value::Null, Value::Bool(true), Value::Float(3.0), Value::Array(Vec::new())] {
            if pointer == "/events" && matches!(value, Value::Array(_)) {
                continue;
            }
            let mut changed = original.clone();
            set(&mut changed, pointer, value.clone());
            if !pointer.starts_with("/digests") {
                redigest(&mut changed);
            }
            let answer =
                import(&store, json::to_compact(&changed).as_bytes(), &ImportOptions::new(NOW));
            assert_eq!(answer.pointer("/error/code"), Some(&"INVALID_BUNDLE".into()), "{pointer}");
            assert_eq!(answer.pointer("/error/pointer"), Some(&pointer.into()), "{pointer}");
            places += 1;
        }
    }
    assert_eq!(places, fields.len() * 4 - 1);
}

#[test]
fn a_chain_that_does_not_fit_is_refused() {
    let store = Store::in_memory().unwrap();
    let mut bundle = read(&golden("bundles/03-apply-one/bundle.json"));
    let Value::Object(members) = &mut bundle else { panic!() };
    let chain = |head: String| object([("alg", "sha256".into()), ("head", head.into())]);
    members.insert("chain", chain(Digest::ZERO.to_string()));
    let answer = import(&store, json::to_compact(&bundle).as_bytes(), &ImportOptions::new(NOW));
    assert_eq!(answer.pointer("/error/code"), Some(&"CHAIN_MISMATCH".into()));
}

fn set(value: &mut Value, pointer: &str, new: Value) {
    let mut place = value;
    for token in pointer.split('/').skip(1) {
        place = match place {
            Value::Object(members) => members.get_mut(token).unwrap(),
            Value::Array(items) => &mut items[token.parse::<usize>().unwrap()],
            other => panic!("{other:?} has no {token}"),
        };
    }
    *place = new;
}

fn kind() -> impl Strategy<Value = String> {
    let kinds = nexus_router::event::Kind::ALL.map(|kind| kind.name().to_owned());
    prop_oneof![9 => proptest::sample::select(kinds.to_vec()), 1 => ".{0,5}"]
}

fn payload() -> impl Strategy<Value = String> {
    let members = proptest::sample::select(
        &[
            r#""step_id":"a""#,
            r#""step_id":"b""#,
            r#""step_id":7"#,
            r#""status":"ok""#,
            r#""status":"error""#,
            r#""call":{"method":"m"}"#,
            r#""call":[]"#,
            r#""attempt":2"#,
            r#""plan":[{"step_id":"a"},{"step_id":"b"}]"#,
            r#""plan":[1]"#,
            r#""mode":"dry_run""#,
            r#""goal":"g""#,
            r#""router_version":"1.2.0""#,
            r#""request":{}"#,
            r#""output":{"x":1}"#,
            r#""provenance":{"records":[]}"#,
            r#""reason":"r""#,
            r#""outcome":"ok""#,
            r#""x":NaN"#,
            r#""adapter_id":"z""#,
        ][..],
    );
    let object = proptest::collection::vec(members, 0..4)
        .prop_map(|members| format!("{{{}}}", members.join(",")));
    prop_oneof![9 => object, 1 => r#"[\[\]{}:,"a\\u0-9eE+. ]{0,12}"#]
}

fn event() -> impl Strategy<Value = (String, i64, String, String)> {
    (".{0,3}", prop_oneof![5 => 0..9_i64, 1 => any::<i64>()], kind(), payload())
}

fn log(lines: Vec<String>, status: Status) -> Log {
    let text = |text: &str| text.to_owned();
    let header =
        Header { run_id: text("r"), mode: text("apply"), goal: text("g"), created_at: text("t") };
    let progress = Progress {
        status,
        steps_planned: 0,
        steps_executed: 0,
        tools_used: Vec::new(),
        outcome: None,
        last_failure_reason: None,
        events: lines.len() as u64,
        head: Digest::ZERO,
    };
    let record = RunRecord { header, progress, origin: None, owned: false, waits: false };
    Log { record, bodies: lines.into_iter().map(|line| line + "\n").collect() }
}

proptest! {
    #[test]
    fn no_log_makes_replay_panic(
        events in proptest::collection::vec(event(), 0..20),
        odd in proptest::collection::vec((any::<prop::sample::Index>(), r#"[{}",:a-z\\_]{0,30}"#), 0..2),
        status in proptest::sample::select(&Status::ALL[..]),
    ) {
        let mut lines: Vec<String> = events.iter().map(|(id, seq, kind, payload)| {
            let id = json::to_canonical(&Value::from(id.as_str()));
            let kind = json::to_canonical(&Value::from(kind.as_str()));
            format!(r#"{{"event_id":{id},"payload":{payload},"run_id":"r","seq":{seq},"ts":"t","type":{kind}}}"#)
        }).collect();
        for (at, line) in odd {
            lines.insert(at.index(lines.len() + 1), line);
        }
        let log = log(lines, status);
        let replay = replay(&log);
        prop_assert_eq!(replay.events, log.record.progress.events);
        prop_assert!(!replay.is_ok(Strictness::Strict));
        let answer = replay.to_json(Strictness::Lenient);
        prop_assert_eq!(answer.get("ok"), Some(&Value::Bool(true)));
        let view = View::of(&log);
        prop_assert_eq!(view.to_json(), replay.view.to_json());
    }

    #[test]
    fn what_an_import_reports_is_what_replay_finds(
        events in proptest::collection::vec(event(), 0..12),
        status in proptest::sample::select(&Status::ALL[..]),
    ) {
        let store = Store::in_memory().unwrap();
        let events = events.iter().map(|(id, seq, kind, payload)| {
            let id = json::to_canonical(&Value::from(id.as_str()));
            let kind = json::to_canonical(&Value::from(kind.as_str()));
            format!(r#"{{"event_id":{id},"payload":{payload},"run_id":"r","seq":{seq},"ts":"t","type":{kind}}}"#)
        });
        let events = events.collect::<Vec<_>>().join(",");
        let status = status.name();
        let bundle = format!(
            r#"{{"bundle_version":"0.3","events":[{events}],"run":{{"run_id":"r","mode":"m","goal":"g",
            "status":"{status}","created_at":"t"}}}}"#
        );
        let options = ImportOptions { check: bundle::Check::Skip, ..ImportOptions::new(NOW) };
        if let Ok(imported) = bundle::import(&store, bundle.as_bytes(), &options) {
            let Imported::Stored { replay: Some(reported), .. } = imported else { panic!() };
            let log = store.log("r").unwrap().unwrap();
            let found = replay(&log);
            prop_assert_eq!(&reported.violations, &found.violations);
            prop_assert_eq!(&reported.warnings, &found.warnings);
            let exported = bundle::export(&log, &Source::of(&store), Provenance::Include, NOW).unwrap();
            prop_assert!(exported.to_json().is_ok());
            let again = bundle::import(&store, exported.text.as_bytes(), &ImportOptions::new(NOW));
            let identical = matches!(again, Ok(Imported::Skipped { identical: true, .. }));
            prop_assert!(identical, "{again:?}");
        }
    }
}
