//! What no translator may take: every recorded negative, with the rule and the place.

use crate::support::{golden, json, retargeted, translators};

/// The negatives that are one provider's rule: who takes the document all the same.
const TAKEN: &[(&str, &[&str])] =
    &[("n28_tool_dotted_name", &["gemini", "gemini.interactions", "ollama", "llama.cpp"])];

/// The code of each, and its pointer where the text can be read at all.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("n01_facet_version_newer_patch", "VERSION_UNSUPPORTED", "/metadata/facet_version"),
    ("n02_facet_version_older", "VERSION_UNSUPPORTED", "/metadata/facet_version"),
    ("n03_facet_version_number", "VERSION_UNSUPPORTED", "/metadata/facet_version"),
    ("n04_policy_version_2", "VERSION_UNSUPPORTED", "/metadata/policy_version"),
    ("n05_target_unknown_provider", "TARGET_MISMATCH", "/metadata/target_provider_id"),
    ("n06_target_case", "TARGET_MISMATCH", "/metadata/target_provider_id"),
    ("n07_extra_top_level_key", "UNKNOWN_MEMBER", "*"),
    ("n08_v20_shape", "*", "*"),
    ("n09_metadata_missing", "MEMBER_MISSING", "/metadata"),
    ("n10_tools_null", "WRONG_TYPE", "/tools"),
    ("n11_policy_hash_omitted", "MEMBER_MISSING", "/metadata/policy_hash"),
    ("n12_mode_unknown", "VALUE_UNKNOWN", "/metadata/mode"),
    ("n13_budget_string", "WRONG_TYPE", "/metadata/budget_units"),
    ("n14_role_tool", "VALUE_UNKNOWN", "*"),
    ("n15_role_case", "VALUE_UNKNOWN", "*"),
    ("n16_content_null", "WRONG_TYPE", "*"),
    ("n17_content_number", "WRONG_TYPE", "*"),
    ("n18_item_tool_use", "VALUE_UNKNOWN", "*"),
    ("n19_item_text_missing", "MEMBER_MISSING", "*"),
    ("n20_item_extra_key", "UNKNOWN_MEMBER", "*"),
    ("n21_messages_out_of_role_order", "ROLE_ORDER", "/messages/1"),
    ("n22_image_without_asset", "MEMBER_MISSING", "*"),
    ("n23_asset_md5", "VALUE_UNKNOWN", "*"),
    ("n24_tool_name_missing", "MEMBER_MISSING", "/tools/0/function/name"),
    ("n25_tool_type_custom", "VALUE_UNKNOWN", "/tools/0/type"),
    ("n26_tool_parameters_array", "WRONG_TYPE", "/tools/0/function/parameters"),
    ("n27_tool_extra_strict", "UNKNOWN_MEMBER", "/tools/0/function/strict"),
    ("n28_tool_dotted_name", "TOOL_NAME_CONSTRAINT", "/tools/0/function/name"),
    ("n29_duplicate_tool_names", "DUPLICATE_TOOL_NAMES", "/tools/1/function/name"),
    ("x01_pretty_printed", "NOT_CANONICAL", ""),
    ("x02_struct_key_order", "NOT_CANONICAL", "*"),
    ("x03_duplicate_key", "DUPLICATE_KEY", "*"),
    ("x04_bom", "BYTE_ORDER_MARK", ""),
    ("x05_trailing_garbage", "*", ""),
    ("x06_number_4096_0", "NOT_CANONICAL", "/metadata/budget_units"),
    ("x07_unneeded_escape", "NOT_CANONICAL", "*"),
    ("x08_lone_surrogate", "LONE_SURROGATE", "*"),
    ("x09_nan", "NOT_JSON", "*"),
    ("x10_top_level_array", "WRONG_TYPE", ""),
];

#[test]
fn every_negative_is_refused_by_its_rule() {
    let listed = json("negative/manifest.json");
    let listed = listed["vectors"].as_array().unwrap();
    assert_eq!(listed.len(), EXPECTED.len());
    for vector in listed {
        let id = vector["id"].as_str().unwrap();
        let (_, code, pointer) = EXPECTED.iter().find(|(known, ..)| *known == id).unwrap();
        let bytes = std::fs::read(golden().join(vector["file"].as_str().unwrap())).unwrap();
        assert_eq!(nexus_router_translate::sha256(&bytes), vector["sha256"]);
        for (target, translator) in translators() {
            let is_taken = TAKEN.iter().any(|(known, by)| *known == id && by.contains(&target.id));
            // What is wrong with the target is looked at as it is.
            let bytes = match core::str::from_utf8(&bytes) {
                Ok(text) if vector["cls"] != "target" => retargeted(text, target.id).into_bytes(),
                _ => bytes.clone(),
            };
            let rendered = translator.render(&bytes);
            if is_taken {
                assert!(rendered.is_ok(), "{id} for {}: {rendered:?}", target.id);
                continue;
            }
            let refusal = rendered.unwrap_err();
            let found = refusal.rule.code.strip_prefix("X.nexus.").unwrap();
            assert!(*code == "*" || found == *code, "{id}: {refusal}");
            assert!(*pointer == "*" || refusal.pointer == *pointer, "{id}: {refusal}");
            assert!(!refusal.message.is_empty());
        }
    }
}
