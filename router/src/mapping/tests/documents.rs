//! Reading tool specs: every mistake is told, and nothing makes it panic.

use proptest::prelude::*;

use super::*;

fn findings(text: &str) -> Vec<(String, &'static str)> {
    let told = ToolDocument::read(text.as_bytes()).unwrap_err();
    told.into_iter().map(|finding| (finding.pointer, finding.code)).collect()
}

#[test]
fn a_whole_document_is_read() {
    let document = read(&remote());
    assert_eq!(document.execution_mode, ExecutionMode::Remote);
    assert_eq!(document.resource_class, ResourceClass::Compute);
    assert_eq!(document.side_effects[0].effect_type, EffectType::NetworkRequest);
    assert_eq!(document.timeout_seconds, 30);
    assert_eq!(document.execution_target.as_ref().unwrap().service.as_deref(), Some("qdrant"));
    assert_eq!(document.dependencies.tools, ["other"]);
    assert_eq!(document.metadata.len(), 2);
    let text = crate::json::to_jcs(&document.document).unwrap();
    assert_eq!(document.digest, crate::Digest::of(text.as_bytes()));
    let other = read(&with(remote(), "/version", json!("1.2.4")));
    assert_ne!(other.digest, document.digest);
    assert_eq!(Fragment::of(&document).contract_version().to_string(), "1.0.0");
    assert_eq!(Fragment::of(&read(&local())).contract_version(), DEFAULT_CONTRACT);
}

#[test]
fn every_word_reads_back() {
    for name in EffectType::NAMES {
        assert_eq!(EffectType::from_name(name).unwrap().name(), *name);
    }
    assert_eq!(EffectType::NAMES.len(), 14);
    assert_eq!(RollbackStrategy::from_name("snapshot"), Some(RollbackStrategy::Snapshot));
    assert_eq!(RollbackStrategy::from_name("Snapshot"), None);
}

#[test]
fn every_mistake_is_told_and_not_the_first_only() {
    let wrong = json!({
        "tool_id": "Not An Id", "version": "1", "description": "short",
        "input_schema": { "type": "object", "properties": 1 }, "output_schema": [],
        "execution_mode": "remot", "credentials_required": ["A", "A", "b", 1],
        "side_effects": [{ "effect_type": "x", "description": "", "more": 1 }, 1],
        "rollback_strategy": 1, "timeout_seconds": 3601,
        "adapter_id": 1, "adapter_operation": [], "adapter_contract_version": "1.0.0-rc.1",
        "execution_target": { "mode": 1, "place": "here" },
        "dependencies": { "tools": ["A b"], "services": "x",
            "minimum_resources": { "memory_mb": -1, "cpu_cores": "2", "gpu": 1 } },
        "validation": { "invariants": [""] }, "metadata": 1, "unknown~/": true,
    });
    let mut sorted: Vec<String> =
        findings(&wrong.to_string()).into_iter().map(|(pointer, _)| pointer).collect();
    sorted.sort();
    let expected = [
        "/adapter_contract_version",
        "/adapter_id",
        "/adapter_operation",
        "/credentials_required/1",
        "/credentials_required/2",
        "/credentials_required/3",
        "/dependencies/minimum_resources/cpu_cores",
        "/dependencies/minimum_resources/gpu",
        "/dependencies/minimum_resources/memory_mb",
        "/dependencies/services",
        "/dependencies/tools/0",
        "/description",
        "/execution_mode",
        "/execution_target/mode",
        "/execution_target/place",
        "/input_schema",
        "/metadata",
        "/output_schema",
        "/resource_class",
        "/rollback_strategy",
        "/side_effects/0/description",
        "/side_effects/0/effect_type",
        "/side_effects/0/more",
        "/side_effects/0/reversible",
        "/side_effects/1",
        "/timeout_seconds",
        "/tool_id",
        "/unknown~0~1",
        "/validation/invariants/0",
        "/version",
    ];
    assert_eq!(sorted, expected);
    assert_eq!(findings("{}").len(), 11, "all that is required is told");
}

#[test]
fn what_is_no_document_is_told_as_such() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let long = format!("\"{}\"", "x".repeat(MAX_BYTES));
    let many = format!("[{}1]", "1,".repeat(60_000));
    let twice = r#"{"tool_id": "a", "tool_id": "b"}"#;
    for text in ["", "{", "nul", "1", "[]", "\"x\"", &deep, &long, &many, twice] {
        assert_eq!(findings(text), [(String::new(), "TOOLSPEC_MALFORMED")]);
    }
    assert!(ToolDocument::read(b"\xff").is_err() && Fragment::read(b"[]").is_err());
    let exact = with(remote(), "/metadata", json!({ "n": 9_007_199_254_740_993_u64 }));
    assert_eq!(findings(&exact.to_string()), [(String::new(), "TOOLSPEC_MALFORMED")]);
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    let schemas = [
        json!({ "type": "object", "$ref": "https://example.com/schema.json" }),
        json!({ "type": "object", "$ref": "#/$defs/none" }),
        json!({ "type": "nothing" }),
        json!({ "type": "object", "pattern": "((((a{1,1000}){1,1000}){1,1000}){1,1000})" }),
    ];
    for schema in schemas {
        let told = findings(&with(remote(), "/output_schema", schema.clone()).to_string());
        assert_eq!(told, [("/output_schema".to_owned(), "TOOL_SCHEMA_INVALID")], "{schema}");
    }
}

#[test]
fn a_fragment_has_the_mapping_and_nothing_else() {
    let told = Fragment::read(br#"{"adapter_ids": "x", "execution_mode": 1, "adapter_id": []}"#);
    let told = told.unwrap_err();
    let pointers: Vec<&str> = told.iter().map(|finding| finding.pointer.as_str()).collect();
    assert_eq!(pointers, ["/adapter_ids", "/execution_mode", "/adapter_id"]);
    assert!(told[0].message.contains("perhaps 'adapter_id' is meant"), "{}", told[0]);
}

/// Any JSON of a few levels, with names that a tool spec has and others.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|truth| json!(truth)),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(|text| json!(text)),
        prop::sample::select(vec!["remote", "local", "1.0.0", "object", "qdrant-vector", "search"])
            .prop_map(|word| json!(word)),
    ];
    scalar.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![
            prop::sample::select(vec![
                "type",
                "service",
                "effect_type",
                "tools",
                "$ref",
                "required"
            ])
            .prop_map(str::to_owned),
            any::<String>(),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| json!(items)),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (ToolDocument::read(&bytes).is_ok(), Fragment::read(&bytes).is_ok());
    }

    #[test]
    fn whatever_stands_in_a_member_is_taken_or_told(
        which in any::<prop::sample::Index>(),
        also in any::<prop::sample::Index>(),
        first in any_json(),
        second in any_json(),
    ) {
        let mut document = remote();
        let names: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
        document[which.get(&names)] = first;
        document[also.get(&names)] = second;
        let text = document.to_string();
        let interfaces = frozen();
        let known = Known::new(&interfaces, BUILTINS);
        match ToolDocument::read(text.as_bytes()) {
            Ok(document) => {
                for report in [gate_4(&document, &known), gate_6(&document, &known)] {
                    let failed = report.checks.iter().any(|check| check.result == CheckResult::Fail);
                    prop_assert_eq!(failed, !report.passed());
                }
            }
            Err(findings) => prop_assert!(!findings.is_empty()),
        }
    }

    #[test]
    fn the_order_of_members_does_not_count(
        members in Just(remote().as_object().unwrap().clone().into_iter().collect::<Vec<_>>())
            .prop_shuffle(),
    ) {
        let shuffled: serde_json::Map<_, _> = members.into_iter().collect();
        let document = read(&serde_json::Value::Object(shuffled));
        prop_assert_eq!(document.digest, read(&remote()).digest);
    }
}
