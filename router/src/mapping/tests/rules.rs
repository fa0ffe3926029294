//! The table of rules: each has a document that keeps it and one that breaks it.

use std::collections::BTreeSet;

use super::super::checks;
use super::*;
use crate::interface::{Change, Class};

/// For every rule but the first: a document that breaks it and no other, where, and at which gate.
fn broken() -> Vec<(&'static str, serde_json::Value, &'static str, u8)> {
    let effect =
        |kind: &str| json!([{ "effect_type": kind, "description": "x", "reversible": false }]);
    vec![
        (
            "local_control_only",
            with(local(), "/resource_class", json!("state")),
            "/resource_class",
            4,
        ),
        (
            "remote_requires_target",
            with(remote(), "/execution_target", json!(null)),
            "/execution_target",
            4,
        ),
        (
            "execution_target_incomplete",
            with(remote(), "/execution_target/provider", json!(" ")),
            "/execution_target/provider",
            4,
        ),
        (
            "remote_not_control",
            with(remote(), "/resource_class", json!("control")),
            "/resource_class",
            4,
        ),
        (
            "local_no_direct_cloud_db",
            with(local(), "/side_effects", effect("database_write")),
            "/side_effects/0/effect_type",
            4,
        ),
        (
            "local_no_direct_db_connection",
            with(local(), "/credentials_required", json!(["SUPABASE_DB_PASSWORD"])),
            "/credentials_required/0",
            4,
        ),
        (
            "remote_no_local_effects",
            with(remote(), "/side_effects", effect("process_spawn")),
            "/side_effects/0/effect_type",
            4,
        ),
        ("remote_requires_adapter", with(remote(), "/adapter_id", json!(null)), "/adapter_id", 4),
        ("invalid_adapter_id", with(remote(), "/adapter_id", json!("Qdrant")), "/adapter_id", 4),
        ("local_tools_no_adapter", with(local(), "/adapter_id", json!("loki")), "/adapter_id", 4),
        (
            "unknown_adapter",
            with(remote(), "/adapter_id", json!("qdrant-vectors")),
            "/adapter_id",
            6,
        ),
        (
            "adapter_requires_operation",
            with(remote(), "/adapter_operation", json!(null)),
            "/adapter_operation",
            6,
        ),
        (
            "invalid_adapter_operation",
            with(remote(), "/adapter_operation", json!("serch")),
            "/adapter_operation",
            6,
        ),
        (
            "no_direct_cloud_urls",
            with(remote(), "/credentials_required", json!(["QDRANT_API_KEY", "QDRANT_URL"])),
            "/credentials_required/1",
            4,
        ),
        (
            "contract_version_mismatch",
            with(remote(), "/adapter_contract_version", json!("1.0.1")),
            "/adapter_contract_version",
            6,
        ),
        (
            "unknown_local_operation",
            with(local(), "/execution_target/service", json!("inspct")),
            "/execution_target/service",
            4,
        ),
        (
            "browser_not_executed",
            with(remote(), "/execution_mode", json!("browser")),
            "/execution_mode",
            4,
        ),
        (
            "output_schema_incompatible",
            with(remote(), "/output_schema/required", json!(["guaranteed"])),
            "/output_schema",
            6,
        ),
    ]
}

/// Rules whose breaking needs other contracts than the frozen ones, and where that is tested.
const ELSEWHERE: [(&str, &str); 4] = [
    ("toolspec_schema", "documents.rs"),
    ("operation_removed", "assertion 4 and change example 2 in specification.rs"),
    ("contract_not_frozen", "assertion 5 in specification.rs"),
    ("input_schema_incompatible", "what_the_contract_refuses_is_told below"),
];

#[test]
fn ids_and_codes_are_unique_and_of_one_form() {
    let mut seen = BTreeSet::new();
    for rule in RULES {
        assert!(seen.insert(rule.id), "{} stands twice", rule.id);
        let fits = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(rule.id.chars().all(fits) && !rule.id.starts_with('_'), "{}", rule.id);
        assert!(nexus_router_sdk::code::is_well_formed(rule.code), "{}", rule.code);
        assert!(rule.meaning.ends_with('.') && !rule.remedy.ends_with('.'), "{}", rule.id);
        assert!(!rule.remedy.is_empty() && !rule.gates.is_empty(), "{}", rule.id);
        assert!(rule.number.is_none_or(|number| (1..=10).contains(&number)), "{}", rule.id);
        assert_eq!(Rule::find(rule.id).map(|found| found.id), Some(rule.id));
    }
    let numbers: BTreeSet<u8> = RULES.iter().filter_map(|rule| rule.number).collect();
    assert_eq!(numbers, (1..=10).collect());
    let shared = RULES.iter().filter(|rule| rule.code == BOUNDARY).count();
    let codes: BTreeSet<&str> = RULES.iter().map(|rule| rule.code).collect();
    assert_eq!(codes.len(), RULES.len() - shared + 1, "only boundaries share a code");
    // They are those of the specification, which nobody may renumber.
    let number = |id: &str| Rule::find(id).unwrap().number;
    assert_eq!(number("remote_requires_adapter"), Some(7));
    assert_eq!(number("invalid_adapter_id"), Some(7));
    assert_eq!(number("unknown_adapter"), Some(8));
    assert_eq!(number("invalid_adapter_operation"), Some(9));
    assert_eq!(number("no_direct_cloud_urls"), Some(10));
}

#[test]
fn every_rule_has_a_document_that_breaks_it_alone() {
    let interfaces = frozen();
    let known = Known::new(&interfaces, BUILTINS);
    let mut seen: BTreeSet<&str> = ELSEWHERE.iter().map(|(id, _)| *id).collect();
    for (id, document, pointer, gate) in broken() {
        let document = read(&document);
        let report = if gate == 4 { gate_4(&document, &known) } else { gate_6(&document, &known) };
        let told: Vec<_> =
            report.violations.iter().map(|it| (it.check_id, it.pointer.as_str())).collect();
        assert_eq!(told, [(id, pointer)], "{:#?}", report.violations);
        let violation = &report.violations[0];
        let rule = Rule::find(id).unwrap();
        assert_eq!((violation.rule, violation.code), (rule.number, rule.code));
        assert!(violation.message.ends_with(rule.remedy), "{violation}");
        let failed = report.checks.iter().filter(|check| check.result == CheckResult::Fail);
        assert_eq!(failed.map(|check| check.rule.id).collect::<Vec<_>>(), [id]);
        assert!(seen.insert(id), "{id} is broken twice");
    }
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(seen, all, "every rule needs a document that breaks it");
}

#[test]
fn every_rule_is_kept_by_a_document_to_which_it_applies() {
    let interfaces = frozen();
    let moved = with_qdrant("2.0.0", &["search"]);
    let mut kept = BTreeSet::new();
    let reports = [
        gate_4(&read(&remote()), &Known::new(&interfaces, BUILTINS)),
        gate_6(&read(&remote()), &Known::new(&interfaces, BUILTINS)),
        gate_4(&read(&local()), &Known::new(&interfaces, BUILTINS)),
        gate_6(&read(&local()), &Known::new(&interfaces, BUILTINS)),
    ];
    for report in &reports {
        assert!(report.passed(), "{:#?}", report.violations);
    }
    // An operation that was not removed, although the version moved on.
    let moved = gate_4(&read(&remote()), &Known::new(&moved, BUILTINS));
    assert_eq!(ids(&moved.violations), ["contract_version_mismatch"]);
    for report in reports.iter().chain([&moved]) {
        let passed = report.checks.iter().filter(|check| check.result == CheckResult::Pass);
        kept.extend(passed.map(|check| check.rule.id));
    }
    assert_eq!(kept, RULES.iter().map(|rule| rule.id).collect());
}

#[test]
fn what_the_contract_refuses_is_told() {
    let change = |class, pointer: &str| Change {
        class,
        pointer: pointer.to_owned(),
        message: "n is required now".to_owned(),
        operation: None,
    };
    let changes = [
        change(Class::Major, "/input_schema/required"),
        change(Class::Minor, "/input_schema/properties/x"),
        change(Class::Patch, "/input_schema/title"),
    ];
    let interfaces = frozen();
    let told = checks::refused(&interfaces["loki"], &changes);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].pointer, "/input_schema/required");
    assert!(told[0].message.contains("'loki'") && told[0].message.contains("n is required now"));
}

#[test]
fn a_tool_that_promises_to_take_more_than_its_contract_is_refused() {
    let interfaces = frozen();
    let any = json!({ "type": "object" });
    let document = read(&with(remote(), "/input_schema", any.clone()));
    let told = gate_6(&document, &Known::new(&interfaces, BUILTINS)).violations;
    assert!(told.is_empty(), "who says no more leaves it to the contract: {told:?}");
    let open = with(any, "/additionalProperties", json!(true));
    let document = read(&with(remote(), "/input_schema", open));
    let told = gate_6(&document, &Known::new(&interfaces, BUILTINS)).violations;
    assert!(!told.is_empty());
    assert!(told.iter().all(|it| it.check_id == "input_schema_incompatible"), "{told:?}");
    assert!(told.iter().all(|it| it.pointer.starts_with("/input_schema")), "{told:?}");
}

#[test]
fn all_violations_are_told_in_the_order_of_the_table() {
    let document = [
        ("/resource_class", json!("control")),
        ("/execution_target", json!({})),
        ("/adapter_id", json!("qdrant-vektor")),
        ("/credentials_required", json!(["LOKI_URL", "R2_ENDPOINT"])),
    ]
    .into_iter()
    .fold(remote(), |document, (pointer, value)| with(document, pointer, value));
    let interfaces = frozen();
    let document = read(&document);
    let told = gate_4(&document, &Known::new(&interfaces, BUILTINS)).violations;
    let expected = [
        "execution_target_incomplete",
        "execution_target_incomplete",
        "remote_not_control",
        "unknown_adapter",
        "no_direct_cloud_urls",
        "no_direct_cloud_urls",
    ];
    assert_eq!(ids(&told), expected);
    assert_eq!(told, gate_4(&document, &Known::new(&interfaces, BUILTINS)).violations);
    assert!(told[3].message.contains("perhaps 'qdrant-vector' is meant"), "{}", told[3]);
}

#[test]
fn names_are_shown_and_what_may_be_a_secret_is_not() {
    let interfaces = frozen();
    let known = Known::new(&interfaces, BUILTINS);
    let secret = "postgres://ada:hunter2@db/x";
    let spoiled = [
        with(remote(), "/adapter_id", json!(secret)),
        with(remote(), "/adapter_operation", json!(secret)),
        with(local(), "/execution_target/service", json!(secret)),
        with(local(), "/credentials_required", json!(["DB_PASSWORD_HUNTER2"])),
    ];
    for document in spoiled {
        let told = gate_4(&read(&document), &known).violations;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(!told[0].message.to_lowercase().contains("hunter2"), "{}", told[0]);
    }
    let told = ToolDocument::read(
        with(remote(), "/credentials_required", json!(["hunter2"])).to_string().as_bytes(),
    )
    .unwrap_err();
    assert_eq!(told.len(), 1);
    assert!(!told[0].message.contains("hunter2") && told[0].message.contains("never its value"));
    let typo = with(remote(), "/adapter_operation", json!("upsrt"));
    let told = gate_4(&read(&typo), &known).violations;
    assert!(
        told[0].message.contains("'upsrt'") && told[0].message.contains("'upsert'"),
        "{}",
        told[0]
    );
}

#[test]
fn versions_of_contracts_are_compared_as_numbers() {
    let cases = [
        ("1.0.0", None, true),
        ("1.10.0", Some("1.9.0"), true),
        ("1.1.0", Some("1.0.7"), true),
        ("1.1.0", Some("1.1.0"), true),
        ("1.1.0", Some("1.1.1"), false),
        ("1.9.0", Some("1.10.0"), false),
        ("2.0.0", None, false),
        ("2.0.0", Some("1.0.0"), false),
        ("1.0.0", Some("2.0.0"), false),
    ];
    for (there, said, fits) in cases {
        let interfaces = with_qdrant(there, &["search"]);
        let said = said.map_or(json!(null), |said| json!(said));
        let document = read(&with(remote(), "/adapter_contract_version", said.clone()));
        let told = gate_6(&document, &Known::new(&interfaces, BUILTINS)).violations;
        assert_eq!(told.is_empty(), fits, "{there} {said}: {told:?}");
    }
}
