//! Types: what is read, what is refused, and what each lets through.

use super::*;
use crate::json::{Limits, parse};

fn value(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn one(text: &str) -> FieldType {
    let types = FieldTypes::read(&value(&format!(r#"{{"f": {text}}}"#)));
    types.unwrap_or_else(|found| panic!("{text}: {found:?}")).get("f").unwrap().clone()
}

#[test]
fn each_type_lets_through_what_it_says() {
    let wrong = Misfit::WrongType;
    let out = Misfit::OutOfRange;
    let (boolean, integer) = (r#"{"type":"boolean"}"#, r#"{"type":"integer"}"#);
    let ranged = r#"{"type":"integer","minimum":0,"maximum":100}"#;
    let huge = r#"{"type":"integer","minimum":-99999999999999999999}"#;
    let number = r#"{"type":"number","minimum":0,"maximum":0.5,"finite":true}"#;
    let string = r#"{"type":"string","min_length":1,"max_length":3}"#;
    let choice = r#"{"type":"enum","values":["a","b"]}"#;
    let time = r#"{"type":"timestamp","not_before":"2026-01-01T00:00:00Z","not_after":"2026-12-31T23:59:59Z"}"#;
    let cases: [(&str, &str, Option<Misfit>); 37] = [
        (boolean, "true", None),
        (boolean, "1", Some(wrong)),
        (boolean, "\"true\"", Some(wrong)),
        (boolean, "null", Some(wrong)),
        (integer, "-5", None),
        (integer, "123456789012345678901234567890", None),
        (integer, "1.0", Some(wrong)),
        (integer, "true", Some(wrong)),
        (ranged, "0", None),
        (ranged, "100", None),
        (ranged, "101", Some(out)),
        (ranged, "-1", Some(out)),
        (ranged, "99999999999999999999", Some(out)),
        (huge, "-99999999999999999999", None),
        (huge, "-100000000000000000000", Some(out)),
        (number, "0", None),
        (number, "0.5", None),
        (number, "0.5000001", Some(out)),
        (number, "-0.0", None),
        (number, "\"0\"", Some(wrong)),
        (string, "\"äöü\"", None),
        (string, "\"\"", Some(out)),
        (string, "\"abcd\"", Some(out)),
        (string, "[]", Some(wrong)),
        (choice, "\"a\"", None),
        (choice, "\"A\"", Some(Misfit::NotInValues)),
        (choice, "1", Some(wrong)),
        (time, "\"2026-06-10T00:00:00Z\"", None),
        (time, "\"2026-06-10T00:00:00.123456789+02:00\"", None),
        (time, "\"2026-01-01T01:00:00+02:00\"", Some(out)),
        (time, "\"2027-01-01T00:00:00Z\"", Some(out)),
        (time, "\"2026-06-10\"", Some(Misfit::NotATimestamp)),
        (time, "\"2026-06-10 00:00:00Z\"", Some(Misfit::NotATimestamp)),
        (time, "\"2026-06-10T00:00:00\"", Some(Misfit::NotATimestamp)),
        (time, "\"2026-02-30T00:00:00Z\"", Some(Misfit::NotATimestamp)),
        (time, "\"2026-06-10T00:00:00Z[UTC]\"", Some(Misfit::NotATimestamp)),
        (time, "0", Some(wrong)),
    ];
    for (field_type, given, expected) in cases {
        let found = one(field_type).check(&value(given)).err();
        assert_eq!(found, expected, "{given} as {field_type}");
        assert!(!one(field_type).told().is_empty());
    }
}

#[test]
fn every_mistake_in_types_is_found_with_its_place() {
    let cases = [
        ("[]", "/field_types", "must be an object"),
        (r#"{"a": 1}"#, "/field_types/a", "is not an object"),
        (r#"{"a": {}}"#, "/field_types/a/type", "must be one of boolean"),
        (r#"{"a": {"type": "float"}}"#, "/field_types/a/type", "must be one of"),
        (r#"{"a": {"type": "boolean", "x": 1}}"#, "/field_types/a", "unknown member 'x'"),
        (r#"{"a": {"type": "string", "pattern": "x"}}"#, "/field_types/a", "unknown member"),
        (r#"{"a": {"type": "integer", "minimum": 0.5}}"#, "/field_types/a/minimum", "no integer"),
        (r#"{"a": {"type": "number", "maximum": "1"}}"#, "/field_types/a/maximum", "no number"),
        (r#"{"a": {"type": "number", "finite": false}}"#, "/field_types/a/finite", "finite"),
        (
            r#"{"a": {"type": "integer", "minimum": 2, "maximum": 1}}"#,
            "/field_types/a/minimum",
            "nothing through",
        ),
        (r#"{"a": {"type": "string", "min_length": -1}}"#, "/field_types/a/min_length", "length"),
        (
            r#"{"a": {"type": "string", "min_length": 2, "max_length": 1}}"#,
            "/field_types/a/min_length",
            "nothing through",
        ),
        (r#"{"a": {"type": "enum"}}"#, "/field_types/a/values", "needs values"),
        (r#"{"a": {"type": "enum", "values": []}}"#, "/field_types/a/values", "needs values"),
        (r#"{"a": {"type": "enum", "values": ["x", "x"]}}"#, "/field_types/a/values", "twice"),
        (r#"{"a": {"type": "enum", "values": ["x", 1]}}"#, "/field_types/a/values", "texts"),
        (
            r#"{"a": {"type": "timestamp", "not_after": "now"}}"#,
            "/field_types/a/not_after",
            "RFC 3339",
        ),
        (r#"{"a/b~": 1}"#, "/field_types/a~1b~0", "is not an object"),
    ];
    for (text, pointer, message) in cases {
        let found = FieldTypes::read(&value(text)).unwrap_err();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].pointer, pointer, "{text}");
        assert!(found[0].message.contains(message), "{text}: {}", found[0].message);
    }
    let all = FieldTypes::read(&value(r#"{"a": 1, "b": {"type": "string", "x": 1, "y": 2}}"#));
    assert_eq!(all.unwrap_err().len(), 3);
}

#[test]
fn a_declaration_is_bound_to_its_types() {
    let types = value(r#"{"b": {"type": "integer"}, "a": {"type": "boolean"}}"#);
    let reordered = value(r#"{"a": {"type": "boolean"}, "b": {"type": "integer"}}"#);
    assert_eq!(validator_name(&types), validator_name(&reordered));
    assert!(is_typed_name(&validator_name(&types)) && !is_typed_name("typed_x"));
    let declaration = |fields: &str, types: &Value, name: &str, version: &str| {
        let mut declaration = Object::new();
        declaration.insert("output_fields", value(fields));
        declaration.insert("validator_name", name);
        declaration.insert("validator_version", version);
        declaration.insert("field_types", types.clone());
        declaration
    };
    let name = validator_name(&types);
    let fields = r#"["a", "b"]"#;
    assert_eq!(findings(&declaration(fields, &types, &name, "1.0.0")), []);
    let pointers = |declaration: &Object| -> Vec<String> {
        findings(declaration).into_iter().map(|finding| finding.pointer).collect()
    };
    let other = value(r#"{"a": {"type": "boolean"}, "b": {"type": "boolean"}}"#);
    assert_eq!(pointers(&declaration(fields, &other, &name, "1.0.0")), ["/validator_name"]);
    assert_eq!(pointers(&declaration(fields, &types, &name, "1.0.1")), ["/validator_version"]);
    assert_eq!(
        pointers(&declaration(r#"["a", "c"]"#, &types, &name, "1.0.0")),
        ["/field_types", "/field_types/b"]
    );
    let mut untyped = declaration(fields, &types, &name, "1.0.0");
    untyped.remove("field_types");
    assert_eq!(pointers(&untyped), ["/validator_name"]);
    untyped.insert("validator_name", "starter_boolean_validator");
    assert_eq!(findings(&untyped), []);
}
