//! Policies: what is refused, which rule decides, and that the recorded decisions of the peer are made the same way.

use super::*;
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{Limits, parse, to_canonical};
use crate::signal::{Registry, builtins, evaluate};

fn value(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn policy(text: &str) -> AcceptancePolicy {
    AcceptancePolicy::read(text.as_bytes()).unwrap_or_else(|found| panic!("{found:?}"))
}

fn findings(text: &str) -> Vec<(String, String)> {
    let found = AcceptancePolicy::read(text.as_bytes()).unwrap_err();
    found.into_iter().map(|it| (it.pointer, it.message)).collect()
}

#[test]
fn recorded_replays_of_the_peer_are_decided_the_same_way() {
    let recorded = include_str!("../../../../tests/golden/aigentsy/verify_adapter.json");
    let recorded = parse(recorded.as_bytes(), Limits::BUNDLE).unwrap();
    let mut played = 0;
    for case in recorded.get("policy_replays").and_then(Value::as_array).unwrap() {
        let id = case.get("id").and_then(Value::as_str).unwrap();
        let snapshot = case.get("policy_snapshot").unwrap();
        let rule = snapshot.get("matched_rule").and_then(Value::as_object);
        let inputs = snapshot.get("evaluated_inputs").and_then(Value::as_object);
        let (Some(rule), Some(inputs)) = (rule, inputs) else { continue };
        let conditions = rule.get("conditions").and_then(Value::as_array).unwrap_or_default();
        let fires = conditions.iter().all(|condition| {
            let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap();
            let op = Op::ALL.iter().find(|(name, _)| *name == text("op"));
            let got = inputs.get(text("field")).map(|it| it.get("value").unwrap_or(it));
            let wanted = condition.get("value").unwrap();
            op.zip(got).is_some_and(|((_, op), got)| op.holds(got, wanted))
        });
        let status = case.get("result").and_then(|it| it.get("status")).and_then(Value::as_str);
        let expected = status == Some("ok");
        // Booleans are no numbers here, and objects are no fields; both are stricter.
        let stricter = ["true-eq-1", "dict-without-value"].contains(&id);
        assert_eq!(fires, expected && !stricter, "{id}");
        played += 1;
    }
    assert!(played > 35, "{played}");
}

#[test]
fn kinds_that_differ_fulfil_nothing() {
    let kinds = ["true", "1", "\"1\"", "[1]", "{}", "null"].map(value);
    for (at, got) in kinds.iter().enumerate() {
        for (other, wanted) in kinds.iter().enumerate().filter(|(other, _)| *other != at) {
            for (name, op) in Op::ALL {
                let fires = op.holds(got, wanted);
                let listed = op == Op::In && at == 1 && other == 3;
                assert_eq!(fires, listed, "{got:?} {name} {wanted:?}");
            }
        }
    }
    assert!(Op::Equal.holds(&value("1"), &value("1.0")), "a number is a number");
    assert!(Op::Unequal.holds(&value("true"), &value("false")));
    assert!(!Op::AtLeast.holds(&value("true"), &value("false")), "booleans have no order");
}

#[test]
fn what_is_wrong_with_a_policy_is_told_all_at_once() {
    for (text, pointer, message) in [
        ("[]", "", "not a JSON object"),
        ("{", "", "JSON_SYNTAX"),
        (r#"{"rules": [], "rules": []}"#, "/rules", "JSON_DUPLICATE_KEY"),
        (r#"{"default_action": "auto_accept"}"#, "/default_action", "must not be auto_accept"),
        (r#"{"default_action": "accept"}"#, "/default_action", "unknown action 'accept'"),
        (r#"{"rule": []}"#, "", "unknown member 'rule'"),
        (r#"{"rules": {}}"#, "/rules", "must be a list"),
        (r#"{"rules": [1]}"#, "/rules/0", "must be an object"),
        (r#"{"rules": [{"action": "auto_reject"}]}"#, "/rules/0/conditions", "list of conditions"),
        (r#"{"rules": [{"conditions": []}]}"#, "/rules/0", "must have an action"),
        (
            r#"{"rules": [{"conditions": [], "action": "auto_accept"}]}"#,
            "/rules/0/conditions",
            "accepts everything",
        ),
        (
            r#"{"rules": [{"conditions": [{"field": "a", "op": "=~", "value": 1}], "action": "auto_reject"}]}"#,
            "/rules/0/conditions/0/op",
            "unknown op '=~'",
        ),
        (
            r#"{"rules": [{"conditions": [{"field": "a", "op": "in", "value": 1}], "action": "auto_reject"}]}"#,
            "/rules/0/conditions/0/value",
            "in needs a list",
        ),
        (
            r#"{"rules": [{"conditions": [{"field": "a", "op": ">", "value": true}], "action": "auto_reject"}]}"#,
            "/rules/0/conditions/0/value",
            "> needs a text or a number",
        ),
        (
            r#"{"rules": [{"conditions": [{"field": "a", "op": "=="}], "action": "auto_reject"}]}"#,
            "/rules/0/conditions/0/value",
            "== needs a text",
        ),
        (
            r#"{"rules": [{"conditions": [{"field": "A", "op": "==", "value": 1}], "action": "auto_reject"}]}"#,
            "/rules/0/conditions/0/field",
            "snake_case",
        ),
    ] {
        let found = findings(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].0, pointer, "{text}: {found:?}");
        assert!(found[0].1.contains(message), "{text}: {found:?}");
    }
    let many =
        r#"{"x": 1, "default_action": 1, "rules": [1, {"conditions": [{}], "action": "z"}]}"#;
    assert_eq!(findings(many).len(), 6);
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert!(findings(&deep)[0].1.contains("JSON_TOO_DEEP"));
    let rules = vec![r#"{"conditions": [], "action": "auto_reject"}"#; 1001].join(",");
    assert!(findings(&format!(r#"{{"rules": [{rules}]}}"#))[0].1.contains("more than 1000"));
}

#[test]
fn fields_and_values_that_can_never_hold_are_found() {
    let about = |field: &str, op: &str, wanted: &str| {
        let text = format!(
            r#"{{"rules": [{{"conditions": [{{"field": "{field}", "op": "{op}", "value": {wanted}}}], "action": "auto_reject"}}]}}"#
        );
        let contract = builtins().iter().find(|it| it.adapter_id.ends_with("deployment")).unwrap();
        let found = policy(&text).findings_for(contract);
        found.into_iter().map(|it| it.pointer.rsplit('/').next().unwrap().to_owned()).next()
    };
    for (field, op, wanted, expected) in [
        ("environment", "==", "\"staging\"", None),
        ("environment", "in", r#"["staging", "production"]"#, None),
        ("environment", "in", r#"["staging", "moon"]"#, Some("value")),
        ("environment", "==", "\"moon\"", Some("value")),
        ("error_rate", "<=", "0.5", None),
        ("error_rate", "<=", "1", None),
        ("error_rate", "<=", "\"0.5\"", Some("value")),
        ("rollback_ready", "==", "true", None),
        ("rollback_ready", "==", "1", Some("value")),
        ("summary", "==", "\"x\"", Some("field")),
        ("nothing", "==", "1", Some("field")),
    ] {
        assert_eq!(about(field, op, wanted).as_deref(), expected, "{field} {op} {wanted}");
    }
    let review = builtins().iter().find(|it| it.adapter_id.ends_with("code_review")).unwrap();
    let late = policy(
        r#"{"rules": [{"conditions": [{"field": "reviewed_at", "op": ">", "value": "2026-01-01T00:00:00Z"}],
            "action": "auto_accept"}]}"#,
    );
    assert!(late.findings_for(review)[0].message.contains("not_before"));
}

#[test]
fn first_rule_that_holds_decides_and_is_explained() {
    let policy = policy(
        r#"{"policy_id": "p", "policy_version": "7", "default_action": "auto_reject", "rules": [
            {"name": "risky", "conditions": [{"field": "risk", "op": "==", "value": "high"}], "action": "require_review"},
            {"name": "seen by two", "conditions": [
                {"field": "approvals", "op": ">=", "value": 2},
                {"field": "changes_requested", "op": "==", "value": false}], "action": "auto_accept"},
            {"conditions": [], "action": "auto_reject"}]}"#,
    );
    let decided = |approvals: i64, risk: &str| {
        let fields = format!(
            r#"{{"approvals": {approvals}, "changes_requested": false, "risk": "{risk}",
                "reviewed_at": "2026-01-01T00:00:00Z"}}"#
        );
        let (registry, now) = (Registry::open(None), Timestamp::from_millis(0));
        let id = "nexus_router.examples.code_review";
        decide(Some(&policy), &evaluate(&registry, id, None, &value(&fields), now))
    };
    let accepted = decided(2, "low");
    assert_eq!((accepted.action, accepted.rule_index), (Action::AutoAccept, Some(1)));
    assert_eq!(accepted.reason, "rule 1, seen by two, holds");
    assert_eq!(accepted.explained.len(), 2);
    let first = &accepted.explained[0];
    assert_eq!(first.pointer("/holds"), Some(&false.into()));
    assert_eq!(
        to_canonical(first.pointer("/conditions/0").unwrap()),
        r#"{"field":"risk","got":"low","holds":false,"op":"==","wanted":"high"}"#
    );
    let snapshot = Value::Object(accepted.snapshot);
    assert_eq!(snapshot.pointer("/matched_rule/name"), Some(&"seen by two".into()));
    assert_eq!(snapshot.pointer("/rule_index"), Some(&Value::Int(1)));
    assert_eq!(snapshot.pointer("/evaluated_inputs/approvals"), Some(&Value::Int(2)));
    assert_eq!(decided(9, "high").action, Action::RequireReview);
    assert_eq!(
        (decided(1, "low").action, decided(1, "low").rule_index),
        (Action::AutoReject, Some(2))
    );
}

#[test]
fn hash_of_a_policy_is_that_of_its_rules_and_its_default() {
    let rules = r#"[{"action":"auto_reject","conditions":[],"name":"é"}]"#;
    let one = policy(&format!(r#"{{"policy_id": "a", "rules": {rules}}}"#));
    let two = policy(&format!(r#"{{"default_action": "require_review", "rules": {rules}}}"#));
    let text = r#"{"default":"require_review","rules":[{"action":"auto_reject","conditions":[],"name":"\u00e9"}]}"#;
    assert_eq!(one.policy_hash, Digest::of(text.as_bytes()).to_string());
    assert_eq!(one.policy_hash, two.policy_hash);
    let other = policy(&format!(r#"{{"default_action": "auto_reject", "rules": {rules}}}"#));
    assert_ne!(one.policy_hash, other.policy_hash);
}
