//! Every example of the specification, by name.

use super::*;

fn mapping(text: &str, interfaces: &Interfaces) -> Vec<Violation> {
    let fragment = Fragment::read(text.as_bytes()).unwrap();
    check_mapping(&fragment, &Known::new(interfaces, BUILTINS))
}

#[track_caller]
fn passes(text: &str) {
    assert_eq!(mapping(text, &frozen()), []);
}

#[track_caller]
fn fails(text: &str, id: &str, rule: Option<u8>, code: &str, pointer: &str) {
    let violations = mapping(text, &frozen());
    let told: Vec<_> = violations
        .iter()
        .map(|it| (it.check_id, it.rule, it.code, it.pointer.as_str(), it.gate.number()))
        .collect();
    assert_eq!(told, [(id, rule, code, pointer, 6)]);
}

#[test]
fn assertion_1_pass_a_remote_tool_names_a_valid_adapter_id() {
    passes(
        r#"{"tool_id": "vector-search", "execution_mode": "remote", "adapter_id": "qdrant-vector",
        "adapter_operation": "search"}"#,
    );
}

#[test]
fn assertion_1_fail_the_adapter_id_of_a_remote_tool_is_missing() {
    let text = r#"{"tool_id": "vector-search", "execution_mode": "remote", "adapter_operation": "search"}"#;
    let code = "REMOTE_REQUIRES_ADAPTER";
    fails(text, "remote_requires_adapter", Some(7), code, "/adapter_id");
    // The specification says IS NULL.
    let text = r#"{"execution_mode": "remote", "adapter_id": null, "adapter_operation": "search"}"#;
    fails(text, "remote_requires_adapter", Some(7), code, "/adapter_id");
}

#[test]
fn assertion_1_fail_the_adapter_id_does_not_match_the_pattern() {
    for id in ["Qdrant", "qdrant_vector", "qdrant vector", "", "é", "qdrant-vector\\n"] {
        let text = format!(
            r#"{{"execution_mode": "remote", "adapter_id": "{id}", "adapter_operation": "search"}}"#
        );
        fails(&text, "invalid_adapter_id", Some(7), "INVALID_ADAPTER_ID", "/adapter_id");
    }
}

#[test]
fn assertion_1_fail_a_local_tool_names_an_adapter() {
    let text = r#"{"execution_mode": "local", "adapter_id": "qdrant-vector"}"#;
    fails(text, "local_tools_no_adapter", Some(7), "LOCAL_TOOLS_NO_ADAPTER", "/adapter_id");
    passes(r#"{"execution_mode": "local"}"#);
}

#[test]
fn assertion_2_pass_the_adapter_exists() {
    passes(r#"{"adapter_id": "qdrant-vector", "adapter_operation": "search"}"#);
}

#[test]
fn assertion_2_fail_the_adapter_does_not_exist() {
    let text = r#"{"adapter_id": "invalid-adapter", "adapter_operation": "search"}"#;
    fails(text, "unknown_adapter", Some(8), "UNKNOWN_ADAPTER", "/adapter_id");
}

#[test]
fn assertion_3_pass_every_operation_of_the_eight_adapters_is_valid() {
    passes(r#"{"adapter_id": "qdrant-vector", "adapter_operation": "search"}"#);
    let mut count = 0;
    for (id, operations) in ADAPTERS {
        for operation in operations {
            passes(&json!({ "adapter_id": id, "adapter_operation": operation }).to_string());
            count += 1;
        }
    }
    assert_eq!(count, 14);
}

#[test]
fn assertion_3_fail_the_operation_is_not_in_the_interface() {
    let text = r#"{"adapter_id": "qdrant-vector", "adapter_operation": "drop_all_collections"}"#;
    let code = "INVALID_ADAPTER_OPERATION";
    fails(text, "invalid_adapter_operation", Some(9), code, "/adapter_operation");
}

#[test]
fn assertion_4_pass_the_version_is_compatible() {
    let text = r#"{"adapter_id": "qdrant-vector", "adapter_operation": "search",
        "adapter_contract_version": "1.0.0"}"#;
    passes(text);
    // A minor version of the contract leaves tools as they are.
    assert_eq!(mapping(text, &with_qdrant("1.1.0", &["search", "scroll"])), []);
}

#[test]
fn assertion_4_fail_the_operation_was_removed_in_a_major_version() {
    let text = r#"{"adapter_id": "qdrant-vector", "adapter_operation": "search",
        "adapter_contract_version": "1.0.0"}"#;
    let violations = mapping(text, &with_qdrant("2.0.0", &["upsert", "health_check"]));
    assert_eq!(ids(&violations), ["operation_removed", "contract_version_mismatch"]);
    let message = &violations[1].message;
    assert!(message.contains("1.0.0") && message.contains("2.0.0"), "{message}");
}

#[test]
fn assertion_4_fail_the_adapter_was_removed() {
    let mut interfaces = frozen();
    interfaces.remove("qdrant-vector");
    for (id, operations) in ADAPTERS {
        for operation in operations {
            let text = json!({ "adapter_id": id, "adapter_operation": operation }).to_string();
            let gone = if id == "qdrant-vector" { vec!["unknown_adapter"] } else { vec![] };
            assert_eq!(ids(&mapping(&text, &interfaces)), gone, "{text}");
        }
    }
}

#[test]
fn assertion_5_pass_all_tool_specs_reference_frozen_contracts() {
    let (interfaces, none) = (frozen(), Default::default());
    let known = Known::new(&interfaces, BUILTINS).with_unfrozen(&none);
    assert!(gate_6(&read(&remote()), &known).passed());
}

#[test]
fn assertion_5_fail_the_contract_was_modified_without_a_version_bump() {
    let (interfaces, drifted) = (frozen(), ["qdrant-vector".to_owned()].into());
    let known = Known::new(&interfaces, BUILTINS).with_unfrozen(&drifted);
    assert_eq!(ids(&gate_6(&read(&remote()), &known).violations), ["contract_not_frozen"]);
    let other = with(remote(), "/adapter_id", json!("meilisearch"));
    assert!(gate_6(&read(&other), &known).passed());
}

#[test]
fn assertion_6_pass_the_mapping_is_registered() {
    passes(
        r#"{"tool_id": "vector-search", "execution_mode": "remote", "adapter_id": "qdrant-vector",
        "adapter_operation": "search", "adapter_contract_version": "1.0.0"}"#,
    );
}

#[test]
fn assertion_6_fail_the_tool_spec_is_rejected() {
    let text = r#"{"tool_id": "vector-search", "execution_mode": "remote",
        "adapter_id": "qdrant-vector", "adapter_operation": "drop_all_collections",
        "adapter_contract_version": "1.0.0"}"#;
    let code = "INVALID_ADAPTER_OPERATION";
    fails(text, "invalid_adapter_operation", Some(9), code, "/adapter_operation");
}

#[test]
fn change_example_1_a_new_optional_field_is_minor_and_old_tools_still_work() {
    let mut interfaces = with_qdrant("1.1.0", &["search"]);
    let operation = interfaces.get_mut("qdrant-vector").unwrap().operations.get_mut("search");
    let mut wider = input_schema();
    wider["properties"]["filter"] = json!({ "type": "object" });
    operation.unwrap().input_schema = value(&wider);
    let known = Known::new(&interfaces, BUILTINS);
    let old = read(&remote());
    assert!(gate_4(&old, &known).passed() && gate_6(&old, &known).passed());
    // Whoever uses the new field must say so, and then the old contract is too old.
    let new =
        with(with(remote(), "/input_schema", wider), "/adapter_contract_version", json!("1.1.0"));
    let new = read(&new);
    assert!(gate_4(&new, &known).passed() && gate_6(&new, &known).passed());
    let report = gate_4(&new, &Known::new(&frozen(), BUILTINS)).violations;
    assert_eq!(ids(&report), ["contract_version_mismatch"]);
}

#[test]
fn change_example_2_a_removed_operation_is_major_and_old_tools_fail() {
    let interfaces = with_qdrant("2.0.0", &["search", "upsert", "health_check"]);
    let known = Known::new(&interfaces, BUILTINS);
    let old = read(&with(remote(), "/adapter_operation", json!("create_collection")));
    for report in [gate_4(&old, &known), gate_6(&old, &known)] {
        let told = ids(&report.violations);
        assert_eq!(told, ["operation_removed", "contract_version_mismatch"]);
    }
    // Also those that use what is still there: all must be looked at anew.
    let told = gate_6(&read(&remote()), &known).violations;
    assert_eq!(ids(&told), ["contract_version_mismatch"]);
    let new = with(remote(), "/adapter_contract_version", json!("2.0.0"));
    assert!(gate_6(&read(&new), &known).passed());
}
