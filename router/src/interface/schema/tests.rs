//! Schemas, each with what is wrong with it.

use proptest::prelude::*;

use super::*;
use crate::interface::Finding;
use crate::json::{Limits, parse};

fn read(text: &str) -> Value {
    parse(text.as_bytes(), Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn lint_of(schema: &Value) -> Vec<Finding> {
    let mut findings = Findings::default();
    let fine = lint(schema, "/s", &mut findings);
    assert_eq!(fine, findings.is_empty());
    findings.into_vec()
}

/// Lists what is found as `CODE pointer`.
fn found(schema: &str) -> Vec<String> {
    let findings = lint_of(&read(schema));
    findings.iter().map(|finding| format!("{} {}", finding.code, finding.pointer)).collect()
}

#[test]
fn sound_schemas_are_let_through() {
    for schema in [
        "true",
        "{}",
        r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": ["null", "object"]}"#,
        r##"{"properties": {"$ref": {"type": "string"}, "$id": {}, "enum": {"$ref": "#/$defs/a~1b"}},
             "$defs": {"a/b": {"enum": [{"$ref": "nowhere"}]}}, "x-any": {"$id": 1}}"##,
        r##"{"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {}}}"##,
        r##"{"properties": {"a": {"minimum": 1}, "b": {"$ref": "#/properties/a"}}}"##,
        r#"{"const": {"$id": 1}, "default": {"$ref": 1}, "examples": [{"$anchor": 2}]}"#,
    ] {
        assert_eq!(found(schema), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn references_stay_inside_lead_somewhere_and_never_back() {
    for (schema, expected) in [
        (r#"{"$ref": "https://example.com/x"}"#, "SCHEMA_REF_REMOTE /s/$ref"),
        (r#"{"items": {"$ref": "other.json#/a"}}"#, "SCHEMA_REF_REMOTE /s/items/$ref"),
        (r##"{"$ref": "#name"}"##, "SCHEMA_REF_REMOTE /s/$ref"),
        (r##"{"$ref": "#"}"##, "SCHEMA_REF_RECURSIVE /s/$ref"),
        (
            r##"{"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}"##,
            "SCHEMA_REF_RECURSIVE /s/$defs/a/items/$ref",
        ),
        (
            r##"{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##,
            "SCHEMA_REF_RECURSIVE /s/$defs/b/$ref",
        ),
        (
            r##"{"properties": {"a": {"$ref": "#/properties"}}}"##,
            "SCHEMA_REF_DANGLING /s/properties/a/$ref",
        ),
        (r##"{"$ref": "#/$defs/b", "$defs": {"a": {}}}"##, "SCHEMA_REF_DANGLING /s/$ref"),
        (r##"{"$ref": "#/%24defs/a", "$defs": {"a": {}}}"##, "SCHEMA_REF_DANGLING /s/$ref"),
        (r##"{"$ref": "#/x/y", "x": {"y": {}}}"##, "SCHEMA_REF_DANGLING /s/$ref"),
    ] {
        assert_eq!(found(schema), [expected], "{schema}");
    }
}

#[test]
fn keywords_that_lead_elsewhere_are_refused() {
    let schema = r#"{"$id": "x", "$anchor": "a", "$dynamicRef": "b", "$dynamicAnchor": "a", "$recursiveRef": "c",
        "$recursiveAnchor": true, "$vocabulary": {}, "definitions": {}, "dependencies": {},
        "$schema": "http://json-schema.org/draft-07/schema#", "items": {"$id": "y"}}"#;
    let found = found(schema);
    assert_eq!(found.len(), 11, "{found:?}");
    assert!(
        found.iter().all(|finding| finding.starts_with("SCHEMA_KEYWORD_REFUSED /s/")),
        "{found:?}"
    );
    assert!(found.contains(&"SCHEMA_KEYWORD_REFUSED /s/items/$id".to_owned()), "{found:?}");
}

#[test]
fn every_keyword_of_a_wrong_type_is_told() {
    let schema = r#"{"type": "text", "enum": 1, "minimum": "1", "multipleOf": 0, "maxLength": -1, "minItems": 1.5,
        "pattern": 1, "uniqueItems": 1, "required": ["a", "a"], "properties": [], "items": [true], "anyOf": [],
        "not": 1, "dependentRequired": {"a": 1}, "title": 1, "$ref": 1, "$defs": {"a": "x"}, "allOf": {}}"#;
    let found = found(schema);
    assert_eq!(found.len(), 18, "{found:?}");
    assert!(found.iter().all(|finding| finding.starts_with("SCHEMA_INVALID /s/")), "{found:?}");
    assert_eq!(lint_of(&Value::Null).len(), 1);
}

#[test]
fn every_pattern_that_cannot_be_used_is_told() {
    let schema = r#"{"properties": {"a": {"pattern": "("}, "b": {"pattern": "^ok$"}}, "patternProperties": {"[": {}}}"#;
    let expected =
        ["SCHEMA_INVALID /s/properties/a/pattern", "SCHEMA_INVALID /s/patternProperties/["];
    assert_eq!(found(schema), expected);
    let bomb = r#"{"pattern": "((((a{1,1000}){1,1000}){1,1000}){1,1000})"}"#;
    assert_eq!(found(bomb), ["SCHEMA_TOO_LARGE /s/pattern"]);
    let many: Vec<_> = (0..300).map(|n| format!(r#"{{"pattern": "a{n}"}}"#)).collect();
    assert_eq!(found(&format!(r#"{{"anyOf": [{}]}}"#, many.join(","))), ["SCHEMA_TOO_LARGE /s"]);
}

#[test]
fn what_is_too_large_is_told_soon() {
    // Each part refers to the next one three times, beneath a member that looks like data.
    let mut bomb =
        r##"{"properties": {"default": {"$ref": "#/$defs/d0"}}, "$defs": {"d40": {}"##.to_owned();
    for n in 0..40 {
        let next = format!(r##"{{"$ref": "#/$defs/d{}"}}"##, n + 1);
        bomb += &format!(r#","d{n}": {{"anyOf": [{{"allOf": [{next}, {next}]}}, {next}]}}"#);
    }
    assert_eq!(found(&format!("{bomb}}}}}")), ["SCHEMA_TOO_LARGE /s"]);
    // A chain of references is as deep as nesting is.
    let chain: Vec<_> =
        (0..1_500).map(|n| format!(r##""d{n}": {{"$ref": "#/$defs/d{}"}}"##, n + 1)).collect();
    let chain = format!(r#"{{"$defs": {{{}, "d1500": {{}}}}}}"#, chain.join(","));
    assert_eq!(found(&chain), ["SCHEMA_TOO_LARGE /s"]);
    // Nested without end.
    let deep = (0..50_000).fold(Value::Bool(true), |inner, _| {
        Value::Object([("not".to_owned(), inner)].into_iter().collect())
    });
    let codes: Vec<_> = lint_of(&deep).into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["SCHEMA_TOO_LARGE"]);
    unnest(deep);
    // Many values, many schemas, long names.
    let many = |item: &str, count| vec![item; count].join(",");
    assert_eq!(found(&format!(r#"{{"enum": [{}]}}"#, many("1", 200_000))), ["SCHEMA_TOO_LARGE /s"]);
    assert_eq!(found(&format!(r#"{{"allOf": [{}]}}"#, many("{}", 5_000))), ["SCHEMA_TOO_LARGE /s"]);
    let long = "x".repeat(100_000);
    assert_eq!(
        found(&format!(r#"{{"properties": {{"{long}": {{}}}}}}"#)),
        ["SCHEMA_TOO_LARGE /s/properties"]
    );
    assert_eq!(found(&format!(r#"{{"{long}": {{}}}}"#)), ["SCHEMA_TOO_LARGE /s"]);
}

/// A value that is nested so deeply must not be dropped at once.
fn unnest(mut value: Value) {
    while let Some(mut members) = value.into_object() {
        value = members.remove("not").unwrap_or(Value::Null);
    }
}

fn any_schema() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "$ref",
        "$defs",
        "properties",
        "items",
        "anyOf",
        "not",
        "type",
        "enum",
        "pattern",
        "required",
        "$id",
        "minimum",
        "dependentRequired",
        "patternProperties",
        "a",
        "if",
        "$schema",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec![
            "#",
            "#/$defs/a",
            "#/items",
            "#/$defs/a/not",
            "x",
            "(",
            "object"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((keyword.clone().prop_map(str::to_owned), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_let_through_compiles(schema in any_schema()) {
        let mut findings = Findings::default();
        if lint(&schema, "", &mut findings) {
            prop_assert!(crate::conform::Schema::read(&schema.to_serde()).is_ok());
        }
        for finding in findings.into_vec() {
            // Each points to something that is there.
            prop_assert!(schema.pointer(&finding.pointer).is_some(), "{}", finding);
        }
    }
}
