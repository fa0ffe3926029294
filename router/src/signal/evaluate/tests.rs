//! Evaluation and decision: what passes, what fails closed, and that nothing else ever enters a policy.

use proptest::prelude::*;

use super::*;
use crate::json::{Limits, parse};
use crate::signal::{AcceptancePolicy, Action, builtins, decide};

const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);
const STARTER: &str = "aigentsy.settlement_native_mcp.starter";
const DEPLOYMENT: &str = "nexus_router.examples.deployment";

fn value(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn by(id: &str, fields: &str) -> Evaluation {
    evaluate(&Registry::open(None), id, None, &value(fields), NOW)
}

fn reasons(evaluation: &Evaluation) -> Vec<(&str, &'static str)> {
    let one = |it: &'_ Rejection| it.reason.name();
    evaluation.rejected_fields.iter().map(|it| (it.field.as_str(), one(it))).collect()
}

#[test]
fn what_is_whole_and_typed_passes() {
    let evaluation = by(
        STARTER,
        r#"{"tests_passed": true, "rollback_plan_present": false, "reviewer_approval": true}"#,
    );
    assert_eq!(evaluation.validation_result, ValidationResult::Passed);
    let shown = evaluation.to_json();
    let keys: Vec<&str> = shown.keys().collect();
    assert_eq!(
        keys,
        [
            "adapter_id",
            "adapter_version",
            "contract_hash",
            "input_schema_hash",
            "input_hash",
            "output_hash",
            "validation_result",
            "normalized_policy_inputs",
            "rejected_fields",
            "evaluated_at",
            "adapter_contract",
            "lifecycle_warnings"
        ]
    );
    let inputs = r#"{"reviewer_approval":true,"rollback_plan_present":false,"tests_passed":true}"#;
    assert_eq!(to_canonical(&evaluation.normalized_policy_inputs.clone().into()), inputs);
    assert_eq!(evaluation.output_hash, Digest::of(inputs.as_bytes()).to_string());
    assert_eq!(evaluation.input_hash, evaluation.output_hash);
    assert_eq!(shown.get("evaluated_at").unwrap().as_str(), Some("2025-06-15T15:06:40.000Z"));
    let embedded = shown.get("adapter_contract").unwrap();
    assert_eq!(embedded.get("contract_hash"), shown.get("contract_hash"));
}

#[test]
fn whatever_is_not_as_promised_fails_closed() {
    use ValidationResult::{Incomplete, Passed, Rejected, UnknownAdapter};
    let whole = r#"{"environment": "staging", "error_rate": 0, "healthy_share": 1.0, "rollback_ready": true,
                    "deployed_at": "2026-06-10T00:00:00Z", "summary": "fine"}"#;
    let with = |from: &str, to: &str| whole.replace(from, to);
    let cases = [
        (DEPLOYMENT, whole.to_owned(), Passed, vec![]),
        (
            DEPLOYMENT,
            with(r#""summary": "fine""#, r#""a": 1"#),
            Rejected,
            vec![("a", "unknown_field"), ("summary", "missing")],
        ),
        (DEPLOYMENT, with(r#", "summary": "fine""#, ""), Incomplete, vec![("summary", "missing")]),
        (DEPLOYMENT, with("staging", "moon"), Rejected, vec![("environment", "not_in_values")]),
        (DEPLOYMENT, with("1.0", "1.1"), Rejected, vec![("healthy_share", "out_of_range")]),
        (DEPLOYMENT, with("true", "1"), Rejected, vec![("rollback_ready", "wrong_type")]),
        (DEPLOYMENT, with("2026-06-10T", "x"), Rejected, vec![("deployed_at", "not_a_timestamp")]),
        (DEPLOYMENT, with(": 0, ", ": null, "), Rejected, vec![("error_rate", "wrong_type")]),
        (DEPLOYMENT, "[]".to_owned(), Rejected, vec![("", "not_an_object")]),
        (
            STARTER,
            "{}".to_owned(),
            Incomplete,
            vec![
                ("tests_passed", "missing"),
                ("rollback_plan_present", "missing"),
                ("reviewer_approval", "missing"),
            ],
        ),
        ("no.such", whole.to_owned(), UnknownAdapter, vec![]),
    ];
    let accepts =
        AcceptancePolicy::of(&value(r#"{"rules": [{"conditions": [], "action": "auto_reject"}]}"#))
            .unwrap();
    for (id, fields, expected, rejected) in cases {
        let evaluation = by(id, &fields);
        assert_eq!(evaluation.validation_result, expected, "{fields}");
        assert_eq!(reasons(&evaluation), rejected, "{fields}");
        assert_eq!(evaluation.why().is_none(), expected == Passed, "{fields}");
        let decision = decide(Some(&accepts), &evaluation);
        if expected == Passed {
            assert_eq!(evaluation.normalized_policy_inputs.len(), 4, "summary must not enter");
            assert_eq!(decision.action, Action::AutoReject);
        } else {
            assert!(evaluation.normalized_policy_inputs.is_empty(), "{fields}");
            // Not even a rule without conditions is looked at.
            assert_eq!((decision.action, decision.rule_index), (Action::RequireReview, None));
        }
    }
    let shown = to_canonical(&by(DEPLOYMENT, &with("staging", "hunter22")).to_json().into());
    assert!(!shown.contains("hunter22"), "{shown}");
}

#[test]
fn what_became_of_a_contract_is_told_and_a_revoked_one_lets_nothing_in() {
    use crate::signal::registry::tests::contract;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let file = directory.path().join(format!("{name}.adapter_contract.json"));
        std::fs::write(file, text).unwrap();
    };
    let newer = ("replaced_by", "a.b@9.0.0");
    write("a", contract("a.b", "1.0.0", &["x"], &[newer]));
    write("b", contract("a.b", "2.0.0", &["x"], &[("status", "deprecated"), newer]));
    write("c", contract("a.b", "3.0.0", &["x"], &[("status", "revoked"), newer]));
    write("d", contract("c.d", "1.0.0", &["x"], &[("status", "revoked")]));
    write("e", contract("e.f", "1.0.0", &["x"], &[("validator_name", "somebody_elses")]));
    write("f", contract("e.f", "0.1.0", &["x"], &[("validator_version", "1.0.1")]));
    write("g", contract("g.h", "1.0.0", &["x"], &[("status", "deprecated")]));
    write("h", contract("g.h", "2.0.0", &["x"], &[("status", "revoked")]));
    let registry = Registry::open(Some(directory.path()));
    assert_eq!(registry.reports(), []);
    let at = |id: &str, version: Option<&str>| {
        let evaluation = evaluate(&registry, id, version, &value(r#"{"x": true}"#), NOW);
        let kinds: Vec<_> = evaluation.lifecycle_warnings.iter().map(|it| it.kind.name()).collect();
        (evaluation.validation_result.name(), kinds.join(","), evaluation)
    };
    for (id, version, result, kinds, whole) in [
        ("a.b", None, "passed", "superseded", true),
        ("a.b", Some("2.0.0"), "passed", "deprecated", true),
        ("a.b", Some("3.0.0"), "unknown_adapter", "revoked", true),
        ("a.b", Some("4.0.0"), "unknown_adapter", "", false),
        ("c.d", None, "unknown_adapter", "revoked", false),
        ("g.h", None, "passed", "deprecated", true),
        ("g.h", Some("2.0.0"), "unknown_adapter", "revoked", true),
        ("e.f", None, "unknown_adapter", "", true),
        ("e.f", Some("0.1.0"), "unknown_adapter", "", true),
    ] {
        let (got, warned, evaluation) = at(id, version);
        assert_eq!((got, warned.as_str()), (result, kinds), "{id} {version:?}");
        assert_eq!(evaluation.contract.is_some(), whole, "{id} {version:?}");
        assert_eq!(evaluation.normalized_policy_inputs.len(), usize::from(result == "passed"));
    }
    let (_, _, evaluation) = at("a.b", Some("3.0.0"));
    assert!(evaluation.why().unwrap().contains("is revoked; a.b@9.0.0 replaces it"));
    let (_, _, evaluation) = at("c.d", None);
    assert_eq!(evaluation.why().unwrap(), "every version of c.d is revoked; the newest is 1.0.0");
    let (_, _, evaluation) = at("g.h", None);
    assert_eq!(evaluation.adapter_version.as_deref(), Some("1.0.0"));
}

#[test]
fn a_million_wrong_fields_are_told_in_a_few() {
    let many: Object = (0..100_000).map(|at| (format!("x{at}"), Value::Null)).collect();
    let evaluation = evaluate(&Registry::open(None), STARTER, None, &many.into(), NOW);
    assert_eq!(evaluation.validation_result, ValidationResult::Rejected);
    assert_eq!(evaluation.rejected_fields.len(), 101);
    assert_eq!(evaluation.rejected_fields[100].reason.name(), "and_more");
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        "(tests_passed|rollback_plan_present|reviewer_approval|approvals|changes_requested|risk|reviewed_at)",
        any::<String>()
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "-?[1-9][0-9]{19,40}".prop_map(|digits| Value::BigInt(digits.into())),
        any::<f64>().prop_map(|float| Value::float(float).into()),
        any::<String>().prop_map(Value::from),
        "(low|high|2026-06-10T00:00:00Z)".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn only_allowed_fields_of_what_passed_ever_enter(fields in any_json(), at in 0..6_usize, id in any::<String>()) {
        let registry = Registry::open(None);
        let contract = &builtins()[at];
        let evaluation = evaluate(&registry, &contract.adapter_id, None, &fields, NOW);
        let inputs = &evaluation.normalized_policy_inputs;
        prop_assert!(inputs.keys().all(|key| contract.allowed_policy_fields.iter().any(|it| it == key)));
        let passed = evaluation.validation_result == ValidationResult::Passed;
        prop_assert!(passed || inputs.is_empty());
        prop_assert_eq!(evaluation.rejected_fields.is_empty(), passed);
        let again = evaluate(&registry, &contract.adapter_id, None, &fields, NOW);
        prop_assert_eq!(evaluation.to_json(), again.to_json());
        let unknown = evaluate(&registry, &id, Some("1.0.0"), &fields, NOW);
        prop_assert_eq!(unknown.validation_result, ValidationResult::UnknownAdapter);
        prop_assert!(unknown.normalized_policy_inputs.is_empty());
        let policy = AcceptancePolicy::of(&value(
            r#"{"rules": [{"conditions": [{"field": "risk", "op": "==", "value": "low"}], "action": "auto_accept"}]}"#,
        )).unwrap();
        prop_assert_eq!(decide(Some(&policy), &unknown).action, Action::RequireReview);
        let decision = decide(Some(&policy), &evaluation);
        prop_assert!(decision.action != Action::AutoAccept || inputs.get("risk") == Some(&Value::from("low")));
    }
}
