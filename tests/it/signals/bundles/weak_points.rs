//! The weak points of the AiGentsy verifier that bundles have, by their numbers: what it passes is refused here.

use nexus_router::json::{Object, Value, to_canonical};
use nexus_router::key::PublicKey;
use nexus_router::merkle;
use nexus_router::signal::bundle::{self, Log, Options};

use super::{
    at, bundles, draft, findings, golden, make_key, one, rehashed, set, value, verify, write,
    write_public,
};
use crate::support::World;

/// Returns the bundle of a recorded case, and the key of its log.
fn recorded(id: &str) -> (Value, PublicKey) {
    let file = golden("cli_verify_bundle.json");
    let case = file["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
    let key = file["keys"]["log_1"]["public_key_base64"].as_str().unwrap();
    let bundle = value(case["files"]["b.json"].as_str().unwrap());
    (bundle, format!("ed25519:{key}").parse().unwrap())
}

/// Computes everything anew that takes no key: hashes of events, the leaf, a tree of one leaf, the bundle's hash.
fn rebuilt(mut bundle: Value) -> Value {
    let mut last = String::new();
    let count = bundle.get("events").unwrap().as_array().unwrap().len();
    for index in 0..count {
        let event = at(&mut bundle, &format!("/events/{index}"));
        set(event, "/prev_hash", last.as_str());
        let mut hashed = event.clone().into_object().unwrap();
        hashed.remove("hash");
        let text = nexus_router::json::to_spaced(&hashed.into());
        last = nexus_router::Digest::of(text.as_bytes()).to_string();
        set(event, "/hash", last.as_str());
    }
    let leaf = bundle::leaf(&bundle.get("events").unwrap().as_array().unwrap()[count - 1]).unwrap();
    for pointer in [
        "/merkle_inclusion/leaf_hash",
        "/merkle_inclusion/merkle_root",
        "/signed_tree_head/root_hash",
    ] {
        set(&mut bundle, pointer, leaf.to_string());
    }
    rehashed(bundle)
}

#[test]
fn weak_point_01_evaluations_are_anchored() {
    let (key, input) =
        (make_key(), "/proofs/0/evidence/adapter_evaluation/normalized_policy_inputs");
    let public = key.public();
    let mut changed = bundles(&key, &[1]).remove(0);
    set(&mut changed, &format!("{input}/coverage_met"), true);
    let inputs = changed.pointer(input).unwrap().clone();
    let hash = |value: &Value| nexus_router::Digest::of(to_canonical(value).as_bytes()).to_string();
    set(&mut changed, "/proofs/0/evidence/adapter_evaluation/output_hash", hash(&inputs));
    let changed = rehashed(changed);
    let report = verify(&changed, Some(&public));
    assert!(!report.verified);
    let found = findings(&report, "binding");
    assert!(found.iter().any(|it| it.contains("is not the one that was sealed")), "{found:?}");
    // Also whoever has no key sees that the proofs are not those of the events.
    assert!(!verify(&changed, None).verified);
    // Who computes everything anew makes a bundle that is whole, and says nothing of who made it.
    let seal = "/events/1/payload";
    let mut forged = changed;
    let proofs = forged.get("proofs").unwrap().clone();
    set(&mut forged, &format!("{seal}/proofs_hash"), hash(&proofs));
    let evaluation = proofs.pointer("/0/evidence/adapter_evaluation").unwrap();
    set(&mut forged, &format!("{seal}/evaluation_hashes/0"), hash(evaluation));
    let forged = rebuilt(forged);
    let offline = verify(&forged, None);
    assert!(offline.verified, "{:?}", offline.value);
    assert_eq!(offline.value.get("verification_level"), Some(&"offline".into()));
    assert!(!verify(&forged, Some(&public)).verified);
    let strict = bundle::verify(&forged, &Options { strict: true, ..Options::default() });
    assert!(!strict.verified);
}

#[test]
fn weak_point_02_what_follows_the_anchored_event_is_never_silent() {
    // What is dated later than the head was added to the finished bundle.
    let (appended, log_key) = recorded("bundle-anchor-suffix-appended");
    let report = verify(&appended, Some(&log_key));
    let found = findings(&report, "strict");
    assert!(!report.verified && found.len() == 1, "{found:?}");
    assert!(found[0].starts_with("/events/3/timestamp") && found[0].contains("later"), "{found:?}");
    // What claims to be older is reported, and refused by --strict.
    let mut earlier = appended;
    set(&mut earlier, "/events/3/timestamp", "2026-06-10T10:59:59Z");
    let mut hashed = at(&mut earlier, "/events/3").clone().into_object().unwrap();
    hashed.remove("hash");
    let text = nexus_router::json::to_spaced(&hashed.into());
    let hash = nexus_router::Digest::of(text.as_bytes()).to_string();
    set(&mut earlier, "/events/3/hash", hash);
    let earlier = rehashed(earlier);
    for strict in [false, true] {
        let options = Options { key: Some(&log_key), strict, ..Options::default() };
        let report = bundle::verify(&earlier, &options);
        assert_eq!(report.verified, !strict);
        let anchoring = Value::from(report.value);
        let anchoring = anchoring.get("anchoring").unwrap();
        assert_eq!(anchoring.get("status"), Some(&"anchored_in_part".into()));
        assert_eq!(anchoring.get("uncovered_events"), Some(&1.into()));
    }
    let key = make_key();
    let mut longer = one(&key);
    let Value::Array(events) = at(&mut longer, "/events") else { panic!() };
    let mut more = events[0].clone();
    set(&mut more, "/event_id", "more");
    set(&mut more, "/prev_hash", events.last().unwrap().get("hash").unwrap().clone());
    let mut hashed = more.clone().into_object().unwrap();
    hashed.remove("hash");
    let text = nexus_router::json::to_spaced(&hashed.into());
    set(&mut more, "/hash", nexus_router::Digest::of(text.as_bytes()).to_string());
    events.push(more);
    let report = verify(&rehashed(longer), Some(&key.public()));
    let found = findings(&report, "binding");
    assert!(!report.verified && found.iter().any(|it| it.contains("the last event")), "{found:?}");
}

/// The head, the proof and the seal are cut off, and every hash is computed anew: the rest still names the run.
#[test]
fn weak_point_01_bundle_of_ours_without_its_seal_is_refused() {
    let key = make_key();
    for mut bundle in bundles(&key, &[1, 2]) {
        for name in ["merkle_inclusion", "signed_tree_head", "consistency"] {
            let Value::Object(object) = &mut bundle else { panic!() };
            object.remove(name);
        }
        let Value::Array(events) = at(&mut bundle, "/events") else { panic!() };
        events.pop();
        let stripped = rehashed(bundle);
        for known in [Some(key.public()), None] {
            let report = verify(&stripped, known.as_ref());
            let found = findings(&report, "binding");
            assert!(!report.verified && !found.is_empty(), "{:?}", report.value);
        }
    }
}

#[test]
fn weak_point_03_evaluations_are_of_the_declarations_that_they_embed() {
    let (bundle, key) = recorded("bundle-plain-json");
    let of = "/proofs/0/evidence/adapter_evaluation";
    for (pointer, text) in [
        ("adapter_id", "acme.other.v0"),
        ("adapter_version", "9.0.0"),
        ("adapter_contract/contract_hash", &"0".repeat(64)),
        ("adapter_contract/input_schema_hash", &"0".repeat(64)),
    ] {
        let mut changed = bundle.clone();
        set(&mut changed, &format!("{of}/{pointer}"), text);
        let report = verify(&rehashed(changed), Some(&key));
        assert!(!report.verified, "{pointer}");
        let found = findings(&report, "strict");
        assert!(found.len() == 1 && found[0].starts_with(&format!("{of}/{pointer}:")), "{found:?}");
    }
    // Without a tree head there is no signature, and the report says so to whoever has a key.
    let report = verify(&bundle, Some(&key));
    let report = (report.verified, Value::from(report.value));
    let status = report.1.pointer("/anchoring/status");
    assert_eq!((report.0, status), (true, Some(&"not_anchored".into())));
    assert!(verify(&bundle, None).verified);
}

#[test]
fn weak_point_04_what_cannot_be_checked_does_not_pass() {
    let of = "/proofs/0/evidence/adapter_evaluation";
    let (bundle, _) = recorded("bundle-plain-json");
    // The declaration is gone.
    for gone in [Value::Null, "x".into()] {
        let mut changed = bundle.clone();
        set(&mut changed, &format!("{of}/adapter_contract"), gone);
        assert!(!verify(&rehashed(changed), None).verified);
    }
    // But an adapter that nobody knows has none.
    let mut unknown = bundle.clone();
    set(&mut unknown, &format!("{of}/adapter_contract"), Value::Null);
    set(&mut unknown, &format!("{of}/validation_result"), "unknown_adapter");
    set(&mut unknown, &format!("{of}/normalized_policy_inputs"), Object::new());
    assert!(verify(&rehashed(unknown), None).verified);
    // The evaluation is none.
    for other in [value("[]"), "x".into(), 5.into(), true.into()] {
        let mut changed = bundle.clone();
        set(&mut changed, of, other);
        assert!(!verify(&rehashed(changed), None).verified);
    }
    // The evaluation is in an event only.
    let (bundle, _) = recorded("bundle-event-ae-bad-only");
    assert!(!verify(&bundle, None).verified);
    // The decision does not replay, and there is no evaluation.
    let (mut bundle, _) = recorded("bundle-snapshot-only");
    assert!(verify(&bundle, None).verified);
    let input = "/events/2/payload/policy_snapshot/evaluated_inputs/coverage_met/value";
    set(&mut bundle, input, true);
    set(&mut bundle, "/signed_tree_head", Value::Null);
    set(&mut bundle, "/merkle_inclusion", Value::Null);
    let mut hashed = bundle.pointer("/events/2").unwrap().clone().into_object().unwrap();
    hashed.remove("hash");
    let text = nexus_router::json::to_spaced(&hashed.into());
    let hash = nexus_router::Digest::of(text.as_bytes()).to_string();
    set(&mut bundle, "/events/2/hash", hash);
    let report = verify(&rehashed(bundle), None);
    assert!(!report.verified && findings(&report, "strict")[0].contains("does not replay"));
}

#[test]
fn weak_point_05_values_are_what_the_validator_gives() {
    let of = "/proofs/0/evidence/adapter_evaluation";
    let (bundle, _) = recorded("bundle-plain-json");
    for other in ["1", "0", "\"true\"", "null", "[]", "{}"] {
        let mut changed = bundle.clone();
        set(&mut changed, &format!("{of}/normalized_policy_inputs/coverage_met"), value(other));
        let report = verify(&rehashed(changed), None);
        let found = findings(&report, "strict");
        assert!(!report.verified && found[0].contains("validator"), "{other}: {found:?}");
    }
    let mut odd = bundle;
    set(&mut odd, &format!("{of}/validation_result"), "splendid");
    assert!(!verify(&rehashed(odd), None).verified);
    // In bundles of ours the hash of the inputs is known.
    let key = make_key();
    let mut wrong = draft("run", 1);
    set(&mut wrong.proofs[0], "/evidence/adapter_evaluation/output_hash", "0".repeat(64));
    let made = bundle::build(wrong, &mut Log::in_memory(), &key).unwrap();
    let report = verify(&made.into(), Some(&key.public()));
    let found = findings(&report, "binding");
    assert!(!report.verified && found.len() == 1 && found[0].contains("output_hash"), "{found:?}");
}

#[test]
fn weak_point_08_consistency_is_that_of_the_rfc() {
    let leaves = (0..9_u8).map(|number| merkle::leaf(&[number]));
    let tree: merkle::Memory = leaves.collect();
    for old in 2..9 {
        let proof = merkle::consistency(&tree, old, 9).unwrap().unwrap();
        let [of, to] = [old, 9].map(|size| merkle::root_at(&tree, size).unwrap());
        assert!(merkle::verify_consistency(old, 9, &of, &to, &proof), "{old}");
    }
}

#[test]
fn weak_point_09_nothing_is_remembered_from_one_verdict_to_the_next() {
    let (bundle, key) = recorded("bundle-anchored-key");
    for _ in 0..2 {
        assert!(verify(&bundle, Some(&key)).verified);
        for (pointer, other) in
            [("tree_size", value("7")), ("timestamp", "2026-06-10T11:00:01Z".into())]
        {
            let mut changed = bundle.clone();
            set(&mut changed, &format!("/signed_tree_head/{pointer}"), other);
            assert!(!verify(&changed, Some(&key)).verified, "{pointer}");
        }
        assert!(!verify(&bundle, Some(&make_key().public())).verified);
        let without = verify(&bundle, None);
        assert_eq!(without.value.get("verification_level"), Some(&"offline".into()));
    }
}

#[test]
fn weak_point_10_there_is_always_a_verdict() {
    let (bundle, key) = recorded("bundle-anchored-key");
    for (pointer, other) in [
        ("/merkle_inclusion/leaf_hash", value("\"ä\"")),
        ("/merkle_inclusion/leaf_hash", value("5")),
        ("/merkle_inclusion/tree_size", value("9223372036854775808")),
        ("/merkle_inclusion/tree_size", value("9223372036854775807")),
        ("/merkle_inclusion/proof/0", value("null")),
        ("/merkle_inclusion", value("true")),
        ("/signed_tree_head", value("\"x\"")),
        ("/signed_tree_head", value("[1]")),
        ("/events/1", value("null")),
        ("/events/1/payload", value("[]")),
        ("/events", value("{}")),
        ("/events", value("\"x\"")),
        ("/proofs", value("{\"a\": 1}")),
        ("/proofs/0", value("7")),
        ("/proofs/0/evidence/adapter_evaluation/normalized_policy_inputs", value("[1]")),
        ("/deal_id", value("[]")),
    ] {
        let mut changed = bundle.clone();
        set(&mut changed, pointer, other);
        let report = verify(&rehashed(changed), Some(&key));
        assert!(!report.verified, "{pointer}");
    }
    // What cannot be compared does not hold.
    let snapshot = r#"{"matched_rule": {"conditions": [{"field": "n", "op": ">=", "value": 1}]}, "rule_index": 0,
                       "evaluated_inputs": {"n": "x"}}"#;
    let replayed = to_canonical(&bundle::replay_policy(&value(snapshot)).into());
    assert!(replayed.contains("does_not_fire"), "{replayed}");
}

#[test]
fn weak_point_11_what_belongs_together_is_held_together() {
    let world = World::new();
    let key = make_key();
    write(&world.path("b.json"), &one(&key));
    write_public(&world.path("k.json"), &key.public());
    let run = |more: &[&str]| {
        world.run(&[&["contract", "bundle", "verify", "b.json", "--strict"], more].concat())
    };
    for more in [&[][..], &["--json"]] {
        assert_eq!(run(more).code(), 1);
        assert_eq!(run(&[more, &["--public-key", "k.json"]].concat()).code(), 0);
    }
    assert_eq!(run(&["--json"]).json()["verified"], false);
    for id in ["bundle-event-foreign-deal", "bundle-anchor-sth-size-differs-nokey"] {
        let (bundle, _) = recorded(id);
        let report = verify(&bundle, None);
        assert!(!report.verified && findings(&report, "strict").len() == 1, "{id}");
    }
}

#[test]
fn weak_point_12_no_text_claims_what_nothing_covers() {
    let world = World::new();
    let (bundle, _) = recorded("bundle-unhashed-top-fields");
    write(&world.path("b.json"), &bundle);
    let text = world.run(&["contract", "bundle", "verify", "b.json"]).stdout();
    assert!(text.contains("no hash covers it") && !text.contains("tamper"), "{text}");
}

#[test]
fn weak_point_13_texts_mean_one_thing() {
    let world = World::new();
    let verify = |text: &str| {
        std::fs::write(world.path("b.json"), text).unwrap();
        world.run(&["contract", "bundle", "verify", "b.json", "--json"]).code()
    };
    assert_eq!(verify(r#"{"deal_id": "a", "deal_id": "b"}"#), 2);
    assert_eq!(verify(r#"{"deal_id": NaN}"#), 2);
    assert_eq!(verify(r#"{"deal_id": "\ud800"}"#), 2);
    let (mut bundle, _) = recorded("bundle-plain-json");
    let version = "/proofs/0/evidence/adapter_evaluation/adapter_contract/adapter_version";
    set(&mut bundle, version, "1.0.0\n");
    assert_eq!(verify(&nexus_router::json::to_compact(&rehashed(bundle))), 1);
}
