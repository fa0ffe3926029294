//! Bundles of recorded runs.

use nexus_router::Digest;
use nexus_router::json::{Object, Value, to_canonical};
use nexus_router::key::SigningKey;
use nexus_router::signal::bundle::{self, Log, RunError};

use super::{evaluation, make_key, value, verify};
use crate::run_cli;
use crate::support::World;

/// Returns a line of a record.
fn line(seq: usize, kind: &str, payload: &Value) -> String {
    let mut event = Object::new();
    event.insert("event_id", format!("e{seq}"));
    event.insert("payload", payload.clone());
    event.insert("run_id", "r1");
    event.insert("seq", seq);
    event.insert("ts", format!("2026-06-10T10:00:0{seq}.000Z"));
    event.insert("type", kind);
    to_canonical(&event.into())
}

#[test]
fn each_evaluation_of_a_run_is_a_proof() {
    let mut payload = Object::new();
    payload.insert("step_id", "s1");
    payload.insert("adapter_evaluation", evaluation());
    payload.insert("decision", value(r#"{"action": "require_review", "rule_index": -1}"#));
    payload.insert("policy_snapshot", value(r#"{"rule_index": -1}"#));
    let lines = [
        line(0, "RUN_STARTED", &Object::new().into()),
        line(1, "SIGNALS_EVALUATED", &payload.clone().into()),
        line(2, "SIGNALS_EVALUATED", &payload.into()),
        line(3, "RUN_COMPLETED", &Object::new().into()),
    ];
    let lines = || lines.iter().map(String::as_str);
    let (key, now) = (make_key(), "2026-06-10T11:00:00.000Z");
    let head = lines().fold(Digest::ZERO, |head, line| head.chain(line));
    let draft = bundle::of_run("r1", &head, lines(), now).unwrap();
    assert_eq!((draft.proofs.len(), draft.events.len()), (2, 3));
    let made = Value::from(bundle::build(draft, &mut Log::in_memory(), &key).unwrap());
    let report = verify(&made, Some(&key.public()));
    assert!(report.verified, "{:?}", report.value);
    let hash = made.pointer("/events/0/payload/evaluation_hash");
    assert_eq!(hash, made.pointer("/events/3/payload/evaluation_hashes/0"));
    let changed = bundle::of_run("r1", &Digest::ZERO, lines(), now);
    assert!(matches!(changed, Err(RunError::Changed { .. })), "{changed:?}");
    let first = lines().take(1).fold(Digest::ZERO, |head, line| head.chain(line));
    let without = bundle::of_run("r1", &first, lines().take(1), now);
    assert!(matches!(without, Err(RunError::Nothing { .. })), "{without:?}");
    let damaged = bundle::of_run("r1", &Digest::ZERO, lines().chain(["{}"]), now);
    assert!(matches!(damaged, Err(RunError::Unreadable { place: 4, .. })), "{damaged:?}");
}

#[test]
fn a_run_without_evaluations_has_no_bundle() {
    let world = World::new();
    let run_id = run_cli::completed(&world);
    SigningKey::create(&world.path("key.pem")).unwrap();
    let export = |run_id: &str, key: &str| {
        let words = ["contract", "bundle", "export", run_id, "--db", "runs.db"];
        world.run(&[&words[..], &["--key", key, "--log-dir", "log", "--out", "b.json"]].concat())
    };
    let none = export(&run_id, "key.pem");
    assert_eq!(none.code(), 1, "{}", none.stderr());
    assert!(none.stderr().contains("no evaluation"), "{}", none.stderr());
    assert_eq!(export("nobody", "key.pem").code(), 2);
    assert_eq!(export(&run_id, "none.pem").code(), 2);
    assert!(!world.path("log").exists() && !world.path("b.json").exists());
}
