//! Changes, each with the class that it has.

mod bounded;
mod defaults;
mod recognized;

use serde_json::json;

use super::*;
use crate::interface::keyword::DIALECT;

fn schemas(old: &serde_json::Value, new: &serde_json::Value) -> Vec<Change> {
    compare_schemas(&Value::from(old), &Value::from(new), "/s")
}

/// Compares both ways, and expects the first to widen and the second to narrow.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "what is made for a call is given to it")]
fn widens(narrow: serde_json::Value, wide: serde_json::Value) {
    let changes = schemas(&narrow, &wide);
    assert_eq!(required_bump(&changes), Some(Class::Minor), "{narrow} {wide}: {changes:?}");
    narrows(&wide, &narrow);
}

#[track_caller]
fn narrows(old: &serde_json::Value, new: &serde_json::Value) -> String {
    let changes = schemas(old, new);
    assert_eq!(required_bump(&changes), Some(Class::Major), "{old} {new}: {changes:?}");
    changes.into_iter().find(|change| change.class == Class::Major).unwrap().message
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "what is made for a call is given to it")]
fn documents(old: serde_json::Value, new: serde_json::Value) {
    let changes = schemas(&old, &new);
    assert_eq!(required_bump(&changes), Some(Class::Patch), "{old} {new}: {changes:?}");
}

#[test]
fn types_and_listed_values() {
    widens(json!({ "type": "integer" }), json!({ "type": "number" }));
    widens(json!({ "type": "string" }), json!({ "type": ["null", "string"] }));
    widens(json!({ "type": "string" }), json!({}));
    widens(json!({ "enum": ["a"] }), json!({ "enum": ["b", "a"] }));
    widens(json!({ "const": 1 }), json!({ "enum": [1.0, 2] }));
    widens(json!({ "enum": ["a"] }), json!({ "type": "string" }));
    widens(json!(false), json!({ "type": "string" }));
    documents(json!({ "enum": [1, 2] }), json!({ "enum": [2, 1] }));
    documents(json!({ "type": "string" }), json!({ "type": ["string"] }));
    let message = narrows(&json!({ "enum": ["a", "b"] }), &json!({ "enum": ["a", "c"] }));
    assert_eq!(message, r#"enum lost "b""#);
}

#[test]
fn bounds_and_texts() {
    for (keyword, narrow, wide) in [
        ("minimum", 5, 1),
        ("exclusiveMinimum", 5, 1),
        ("minLength", 5, 1),
        ("minItems", 5, 1),
        ("minProperties", 5, 1),
        ("maximum", 5, 10),
        ("exclusiveMaximum", 5, 10),
        ("maxLength", 5, 10),
        ("maxItems", 5, 10),
        ("maxProperties", 5, 10),
    ] {
        widens(json!({ keyword: narrow }), json!({ keyword: wide }));
        widens(json!({ keyword: narrow }), json!({}));
    }
    widens(json!({ "exclusiveMinimum": 1 }), json!({ "minimum": 1 }));
    widens(
        json!({ "type": "integer", "multipleOf": 4 }),
        json!({ "type": "integer", "multipleOf": 2 }),
    );
    let in_range =
        |step: i64| json!({ "type": "integer", "minimum": 0, "maximum": 99, "multipleOf": step });
    widens(in_range(15), in_range(5));
    narrows(&json!({ "multipleOf": 15 }), &json!({ "multipleOf": 5 }));
    widens(json!({ "uniqueItems": true }), json!({ "uniqueItems": false }));
    widens(json!({ "pattern": "a" }), json!({}));
    widens(json!({ "format": "date" }), json!({}));
    narrows(&json!({ "pattern": "a" }), &json!({ "pattern": "a|b" }));
    let limit = |most: i64| json!({ "properties": { "limit": { "maximum": most } } });
    let changes = schemas(&limit(100), &limit(50));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].message, "limit: maximum 100 became 50");
    assert_eq!(changes[0].pointer, "/s/properties/limit");
}

#[test]
fn members_of_objects() {
    let open = json!({ "properties": { "a": {} } });
    let shut = json!({ "properties": { "a": {} }, "additionalProperties": false });
    let more = json!({ "properties": { "a": {}, "b": { "type": "string" } }, "additionalProperties": false });
    widens(shut.clone(), open.clone());
    widens(shut.clone(), more);
    let message = narrows(&open, &json!({ "properties": { "a": {}, "b": { "type": "string" } } }));
    assert!(message.contains("close it with additionalProperties: false"), "{message}");
    widens(json!({ "required": ["a"] }), json!({}));
    let message = narrows(&open, &json!({ "properties": { "a": {} }, "required": ["a"] }));
    assert_eq!(message, "a: the optional input became required");
    let message = narrows(&shut, &json!({ "additionalProperties": false }));
    assert_eq!(message, "a: the input is gone");
    let texts = |keyword: &str| json!({ keyword: { "type": "string" } });
    // Every name is a text.
    documents(texts("propertyNames"), json!({}));
    documents(texts("propertyNames"), json!({ "propertyNames": { "type": ["string", "null"] } }));
    widens(json!({ "propertyNames": { "maxLength": 3 } }), texts("propertyNames"));
    for keyword in ["additionalProperties", "items"] {
        widens(texts(keyword), json!({}));
        widens(texts(keyword), json!({ keyword: { "type": ["string", "null"] } }));
    }
    let names = |kind| json!({ "patternProperties": { "^x-": { "type": kind } }, "properties": { "a": {} }, "additionalProperties": false });
    widens(shut, names("string"));
    widens(names("integer"), names("number"));
    let both = json!({ "patternProperties": { "^x-": { "type": "string" } }, "properties": { "a": {}, "x-b": { "type": "string" } }, "additionalProperties": false });
    assert_eq!(required_bump(&schemas(&names("string"), &both)), Some(Class::Minor));
    widens(json!({ "dependentRequired": { "a": ["b"] } }), json!({}));
    widens(json!({ "dependentSchemas": { "a": { "required": ["b"] } } }), json!({}));
}

#[test]
fn items_of_lists() {
    widens(
        json!({ "prefixItems": [{ "type": "integer" }] }),
        json!({ "prefixItems": [{ "type": "number" }] }),
    );
    widens(
        json!({ "items": { "type": "integer" } }),
        json!({ "prefixItems": [{ "type": "number" }], "items": { "type": "integer" } }),
    );
    widens(json!({ "prefixItems": [true], "items": false }), json!({ "prefixItems": [true] }));
    let contains = |kind, least, most| json!({ "contains": { "type": kind }, "minContains": least, "maxContains": most });
    widens(contains("integer", 2, 4), contains("integer", 1, 5));
    narrows(&contains("integer", 2, 4), &contains("number", 2, 4));
    widens(json!({ "contains": { "const": 1 } }), json!({ "contains": { "enum": [1, 2] } }));
    widens(json!({ "contains": { "const": 1 } }), json!({}));
}

#[test]
fn schemas_of_schemas() {
    let (text, nothing) = (json!({ "type": "string" }), json!({ "type": "null" }));
    widens(text.clone(), json!({ "anyOf": [nothing, text] }));
    widens(json!({ "anyOf": [text] }), json!({ "anyOf": [nothing, text] }));
    widens(
        json!({ "allOf": [text, { "minLength": 1 }] }),
        json!({ "allOf": [{ "minLength": 1 }] }),
    );
    widens(json!({ "not": { "type": "number" } }), json!({ "not": { "type": "integer" } }));
    documents(json!({ "oneOf": [text, nothing] }), json!({ "anyOf": [text, nothing] }));
    let short = json!({ "type": "string", "maxLength": 3 });
    widens(json!({ "oneOf": [text, short] }), json!({ "anyOf": [text, short] }));
    documents(
        json!({ "oneOf": [text, nothing] }),
        json!({ "oneOf": [text, { "type": "null", "title": "t" }] }),
    );
    let when =
        |least: i64| json!({ "if": { "required": ["a"] }, "then": { "minProperties": least } });
    widens(when(3), when(2));
    widens(when(3), json!({}));
    documents(json!({ "anyOf": [text, nothing] }), json!({ "type": ["null", "string"] }));
    let rest = |kind| json!({ "allOf": [{ "properties": { "a": { "type": kind } } }], "unevaluatedProperties": false });
    widens(rest("integer"), rest("number"));
    widens(rest("integer"), json!({ "allOf": [{ "properties": { "a": { "type": "integer" } } }] }));
}

#[test]
fn references_are_followed() {
    let referring = |kind| json!({ "properties": { "a": { "$ref": "#/$defs/x" } }, "$defs": { "x": { "type": kind } } });
    widens(referring("integer"), referring("number"));
    let changes = schemas(&referring("number"), &referring("integer"));
    assert_eq!(changes[0].pointer, "/s/$defs/x");
    assert!(changes[0].message.starts_with("a: type"), "{changes:?}");
    documents(referring("integer"), json!({ "properties": { "a": { "type": "integer" } } }));
    let beside =
        json!({ "$ref": "#/$defs/x", "minimum": 1, "$defs": { "x": { "type": "integer" } } });
    widens(beside, json!({ "$ref": "#/$defs/x", "$defs": { "x": { "type": "integer" } } }));
    let list = |kind| json!({ "properties": { "next": { "$ref": "#" }, "a": { "type": kind } }, "title": kind });
    narrows(&list("integer"), &list("number"));
    narrows(&json!({ "$ref": "#" }), &json!({ "$ref": "#", "title": "t" }));
    narrows(&json!({ "$ref": "#", "minimum": 1 }), &json!({ "$ref": "#", "minimum": 0 }));
}

#[test]
fn what_describes_is_a_patch_and_a_default_is_not() {
    for keyword in ["title", "description", "examples", "$comment", "x-anything", "deprecated"] {
        documents(json!({ "type": "string" }), json!({ "type": "string", keyword: ["x"] }));
    }
    documents(json!({ "$defs": { "a": true } }), json!({ "$defs": { "b": true } }));
    documents(json!({}), json!({ "$schema": DIALECT }));
    let changes = schemas(&json!({ "default": 10 }), &json!({ "default": 20 }));
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].class, changes[0].message.as_str()),
        (Class::Minor, "default 10 became 20")
    );
    narrows(&json!({}), &json!({ "nullable": false }));
}

fn contract(change: impl FnOnce(&mut serde_json::Value)) -> Interface {
    let input = json!({
        "type": "object",
        "properties": {
            "vector": { "type": "array", "items": { "type": "number" } },
            "limit": { "type": "integer", "default": 10 },
        },
        "required": ["vector"],
        "additionalProperties": false,
    });
    let mut operations = serde_json::Map::new();
    for name in ["search", "upsert", "create_collection", "health_check"] {
        let mut input = input.clone();
        input["title"] = name.into();
        operations.insert(name.to_owned(), json!({
            "description": name,
            "input_schema": input,
            "output_schema": { "type": "object", "properties": { "status": { "enum": ["ok", "error"] } } },
            "timeout_ms": 1000, "retry": { "attempts": 1 }, "idempotent": true, "read_only": false,
            "failure_modes": [{ "code": "TIMEOUT", "severity": "error", "halts": false }],
            "volatile": ["/time"],
        }));
    }
    let mut document = json!({
        "format": "nexus-router.interface/1", "adapter_id": "qdrant-vector", "version": "1.0.0",
        "description": "vectors", "operations": operations,
    });
    change(&mut document);
    Interface::from_document(Value::from(&document)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

#[track_caller]
fn changed(change: impl FnOnce(&mut serde_json::Value)) -> Vec<Change> {
    compare(&contract(|_| {}), &contract(change))
}

#[test]
fn the_examples_of_the_specification() {
    let changes = changed(|it| {
        it["version"] = "1.1.0".into();
        it["operations"]["search"]["input_schema"]["properties"]["filter"] =
            json!({ "type": "object" });
    });
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].class, Class::Minor);
    assert_eq!(changes[0].message, "filter: the input is new");
    assert_eq!(changes[0].pointer, "/operations/search/input_schema/properties/filter");
    assert_eq!(changes[0].operation.as_deref(), Some("search"));

    let changes = changed(|it| {
        it["version"] = "2.0.0".into();
        it["operations"].as_object_mut().unwrap().remove("create_collection");
    });
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].class, Class::Major);
    assert_eq!(changes[0].message, "operation create_collection is gone");
    assert_eq!(changes[0].pointer, "/operations/create_collection");
}

#[test]
fn every_part_of_an_operation_has_its_class() {
    use Class::{Major, Minor, Patch};
    type Edit = (&'static str, serde_json::Value, Class);
    let edits: [Edit; 19] = [
        ("description", json!("another"), Patch),
        ("examples", json!([{ "input": { "vector": [] }, "error": "TIMEOUT" }]), Patch),
        (
            "fault_examples",
            json!([{ "when": "it is late", "input": { "vector": [] }, "error": "TIMEOUT" }]),
            Patch,
        ),
        ("tool", json!("other"), Major),
        ("method", json!("other"), Major),
        ("timeout_ms", json!(500), Major),
        ("timeout_ms", json!(2000), Minor),
        ("retry", json!({ "attempts": 2, "base_ms": 1, "max_ms": 2 }), Minor),
        ("idempotent", json!(false), Major),
        ("read_only", json!(true), Major),
        ("failure_modes", json!([]), Minor),
        (
            "failure_modes",
            json!([{ "code": "TIMEOUT", "severity": "info", "halts": false }]),
            Minor,
        ),
        (
            "failure_modes",
            json!([{ "code": "TIMEOUT", "severity": "error", "halts": true }]),
            Major,
        ),
        (
            "failure_modes",
            json!([{ "code": "TIMEOUT", "description": "Late.", "severity": "error", "halts": false }]),
            Patch,
        ),
        ("volatile", json!([]), Minor),
        ("volatile", json!(["/time", "/id"]), Major),
        ("output_schema", json!({ "type": "object" }), Major),
        (
            "output_schema",
            json!({ "type": "object", "properties": { "status": { "enum": ["ok", "error", "late"] } } }),
            Major,
        ),
        (
            "output_schema",
            json!({ "type": "object", "title": "t", "properties": { "status": { "enum": ["error", "ok"] } } }),
            Patch,
        ),
    ];
    for (member, value, class) in edits {
        let changes = changed(|it| it["operations"]["search"][member] = value.clone());
        assert_eq!(required_bump(&changes), Some(class), "{member} {value}: {changes:?}");
        assert!(
            changes[0].pointer.starts_with(&format!("/operations/search/{member}")),
            "{changes:?}"
        );
    }
    // It differs, but only in what is meant where nothing is said.
    let changes = changed(|it| it["operations"]["search"]["tool"] = "qdrant-vector".into());
    assert_eq!(required_bump(&changes), Some(Patch));
}

#[test]
fn adapters_and_operations() {
    let changes = changed(|it| {
        it["adapter_id"] = "other".into();
        for (_, operation) in it["operations"].as_object_mut().unwrap() {
            operation["tool"] = "qdrant-vector".into();
        }
        it["description"] = "other".into();
    });
    let told: Vec<_> =
        changes.iter().map(|change| (change.class, change.pointer.as_str())).collect();
    assert_eq!(told, [(Class::Major, "/adapter_id"), (Class::Patch, "/description")]);
    let changes = changed(|it| {
        let operations = it["operations"].as_object_mut().unwrap();
        let moved = operations.remove("search").unwrap();
        let copied = operations["upsert"].clone();
        operations.insert("find".to_owned(), moved);
        operations.insert("insert".to_owned(), copied);
    });
    let told: Vec<_> = changes.iter().map(|change| change.message.as_str()).collect();
    assert_eq!(told, ["operation search was renamed to find", "operation insert is new"]);
    assert_eq!(changes[0].pointer, "/operations/find");
    assert_eq!(changed(|it| it["version"] = "1.0.1".into()), []);
    assert_eq!(required_bump(&[]), None);
}

#[test]
fn the_highest_part_of_a_version_counts() {
    let bump = |old: &str, new: &str| {
        declared_bump(&Version::parse(old).unwrap(), &Version::parse(new).unwrap())
    };
    assert_eq!(bump("1.2.3", "1.2.3"), Ok(None));
    assert_eq!(bump("1.2.3", "1.2.4"), Ok(Some(Class::Patch)));
    assert_eq!(bump("1.2.3", "1.3.0"), Ok(Some(Class::Minor)));
    assert_eq!(bump("1.2.3", "1.3.1"), Ok(Some(Class::Minor)));
    assert_eq!(bump("1.2.3", "2.0.0"), Ok(Some(Class::Major)));
    assert_eq!(bump("0.2.3", "0.3.0"), Ok(Some(Class::Minor)));
    for lower in ["1.2.2", "1.1.9", "0.9.9"] {
        let refused = bump("1.2.3", lower).unwrap_err();
        assert!(refused.to_string().contains(lower), "{refused}");
    }
}

#[test]
fn contracts_are_compared_soon() {
    let (old, new) = (
        contract(|_| {}),
        contract(|it| {
            for (_, operation) in it["operations"].as_object_mut().unwrap() {
                operation["input_schema"]["properties"]["limit"]["maximum"] = 100.into();
            }
        }),
    );
    for _ in 0..100 {
        assert_eq!(compare(&old, &new).len(), 4);
    }
}
