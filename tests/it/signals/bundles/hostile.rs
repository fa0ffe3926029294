//! Bundles that are large, deep, or made to take long: each has a verdict.

use std::fmt::Write as _;

use nexus_router::json::{Value, to_compact};
use nexus_router::signal::bundle;

use super::{make_key, one, rehashed, set, value, verify};
use crate::support::World;

/// Verifies a text on the command line, and returns the exit code.
fn code(text: &str, more: &[&str]) -> i32 {
    let world = World::new();
    std::fs::write(world.path("b.json"), text).unwrap();
    let run = world.run(&[&["contract", "bundle", "verify", "b.json", "--json"], more].concat());
    assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
    run.code()
}

#[test]
fn a_million_events_have_a_verdict() {
    let mut text =
        String::from(r#"{"deal_id": "d", "spec_version": "2.0.0", "proofs": [], "events": ["#);
    for number in 0..1_000_000 {
        text.push_str(if number > 0 { ",{}" } else { "{}" });
    }
    text.push_str("]}");
    assert_eq!(code(&text, &[]), 1);
}

#[test]
fn long_proofs_have_a_verdict() {
    let mut bundle = one(&make_key());
    set(&mut bundle, "/merkle_inclusion/proof", vec![Value::from("0".repeat(64)); 100_000]);
    set(&mut bundle, "/consistency/proof", vec![Value::from("0".repeat(64)); 100_000]);
    assert_eq!(code(&to_compact(&rehashed(bundle)), &[]), 1);
}

#[test]
fn nothing_takes_the_square_of_its_size() {
    const MANY: usize = 20_000;
    let list = |item: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (0..MANY).map(item).collect();
        items.join(",")
    };
    // Keys, required types, conditions and inputs, each as many as there are events.
    let mut text =
        String::from(r#"{"deal_id": "d", "spec_version": "3.0.0", "proofs": [], "events": ["#);
    text.push_str(&list(&|number| {
        format!(
            r#"{{"event_id": "e{number}", "event_type": "CONSEQUENCE_AUTHORIZED", "deal_id": "d",
                "payload": {{"identity_hash": "h", "swarm_decision": {{"policy_event_id": "p"}}}},
                "actor_signature": {{"key_id": "k{number}", "signature": "AAAA"}}}}"#
        )
    }));
    let types = list(&|number| format!("\"t{number}\""));
    let _ = write!(
        text,
        r#",{{"event_id": "p", "event_type": "P", "deal_id": "d", "payload": {{"swarm_policy":
            {{"required_signed_event_types": [{types}]}}, "policy_snapshot": {{"rule_index": 0,
            "matched_rule": {{"conditions": [{}]}}, "evaluated_inputs": {{{}}}}}}}}}], "key_directory": {{{}}}}}"#,
        list(&|number| format!(r#"{{"field": "f{number}", "op": "==", "value": {number}}}"#)),
        list(&|number| format!(r#""f{number}": {number}"#)),
        list(&|number| format!(r#""k{number}": {{"issued_at": "2026"}}"#)),
    );
    assert_eq!(code(&text, &["--swarm-strict"]), 1);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(code(&deep, &[]), 2);
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let text = format!(r#"{{"deal_id": {deep}, "events": [{{"payload": {{"a": {deep}}}}}]}}"#);
    assert_eq!(code(&text, &[]), 1);
    for text in ["", "[]", "5", "null", "\"x\"", "{}", "\u{feff}{}", "{\"a\": 1e999}"] {
        assert_ne!(code(text, &[]), 0, "{text}");
    }
    let world = World::new();
    std::fs::create_dir(world.path("d")).unwrap();
    for file in ["none.json", "d"] {
        assert_eq!(world.run(&["contract", "bundle", "verify", file]).code(), 2, "{file}");
    }
}

#[test]
fn any_type_anywhere_has_a_verdict() {
    let key = make_key();
    let whole = one(&key);
    let others = [
        "null",
        "true",
        "-1",
        "1e300",
        "99999999999999999999",
        "\"\"",
        "\"ä\\u0000\"",
        "[]",
        "[[]]",
        "{}",
    ];
    let mut pointers = vec![String::new()];
    let mut at = 0;
    while at < pointers.len() {
        let pointer = pointers[at].clone();
        at += 1;
        match whole.pointer(&pointer).unwrap() {
            Value::Object(object) => {
                pointers.extend(object.keys().map(|it| format!("{pointer}/{it}")));
            }
            Value::Array(items) => {
                pointers.extend((0..items.len()).map(|it| format!("{pointer}/{it}")));
            }
            _ => {}
        }
    }
    for pointer in pointers.iter().skip(1) {
        for other in others {
            let mut changed = whole.clone();
            set(&mut changed, pointer, value(other));
            let changed = rehashed(changed);
            let same = changed == whole;
            assert_eq!(verify(&changed, Some(&key.public())).verified, same, "{pointer}: {other}");
            assert!(bundle::replay(&changed).get("passed").is_some());
        }
    }
}
