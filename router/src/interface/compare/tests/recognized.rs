//! Changes of form that are recognized as compatible, and those like them that are not.

use serde_json::json;

use super::*;

#[test]
fn tagged_variants_may_be_added_and_reordered() {
    let variant = |kind: serde_json::Value, more: serde_json::Value| {
        json!({
            "type": "object", "properties": { "kind": kind, "value": more },
            "required": ["kind"], "additionalProperties": false,
        })
    };
    let tag = |name: &str| json!({ "const": name });
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "number" }));
    let (a, b) = (variant(tag("a"), text.clone()), variant(tag("b"), number.clone()));
    let c = variant(json!({ "enum": ["c", "d"] }), json!(true));
    let one_of = |variants: &[&serde_json::Value]| json!({ "oneOf": variants });
    widens(one_of(&[&a, &b]), one_of(&[&c, &b, &a]));
    documents(one_of(&[&a, &b, &c]), one_of(&[&c, &a, &b]));
    widens(one_of(&[&a]), json!({ "anyOf": [b, a] }));
    widens(a.clone(), one_of(&[&b, &a]));
    let changes = schemas(&one_of(&[&a, &b]), &one_of(&[&b, &c, &a]));
    assert_eq!(changes[0].message, "oneOf has more variants");
    // A variant may be wider itself.
    widens(
        one_of(&[&a, &b]),
        one_of(&[&b, &variant(tag("a"), json!({ "type": ["string", "null"] }))]),
    );
    // Two variants of one tag may fit the same object, and then none fits alone.
    let again = variant(tag("a"), json!(true));
    narrows(&one_of(&[&a, &b]), &one_of(&[&a, &b, &again]));
    narrows(&one_of(&[&a]), &one_of(&[&a, &variant(json!({ "enum": ["z", "a"] }), json!(true))]));
    // So may two whose tag is not required, or that are not only objects.
    let optional = |name: &str| json!({ "properties": { "kind": { "const": name } } });
    narrows(&one_of(&[&optional("c")]), &one_of(&[&optional("c"), &optional("d")]));
    widens(one_of(&[&a]), one_of(&[&a, &optional("c")]));
    let untyped =
        |name| json!({ "properties": { "kind": { "const": name } }, "required": ["kind"] });
    narrows(&one_of(&[&untyped("a")]), &one_of(&[&untyped("a"), &untyped("b")]));
    let typed = |variants: &[&serde_json::Value]| json!({ "type": "object", "oneOf": variants });
    widens(typed(&[&untyped("a")]), typed(&[&untyped("b"), &untyped("a")]));
    // Types and bounds tell variants apart, too; and what was excluded before still is.
    widens(one_of(&[&text]), one_of(&[&number, &text]));
    let from =
        |least: i64, most: i64| json!({ "type": "number", "minimum": least, "maximum": most });
    widens(one_of(&[&from(0, 5)]), one_of(&[&from(6, 9), &from(0, 5)]));
    narrows(&one_of(&[&from(0, 5)]), &one_of(&[&from(5, 9), &from(0, 5)]));
    widens(one_of(&[&from(0, 5), &from(4, 9)]), one_of(&[&text, &from(4, 9), &from(0, 5)]));
}

#[test]
fn other_spellings_are_recognized() {
    let integer = |keyword: &str, value: i64| json!({ "type": "integer", keyword: value });
    documents(integer("exclusiveMinimum", 0), integer("minimum", 1));
    documents(integer("maximum", 9), integer("exclusiveMaximum", 10));
    documents(json!({ "type": "integer", "minimum": 0.5 }), integer("minimum", 1));
    narrows(&integer("exclusiveMinimum", 0), &integer("minimum", 2));
    let number = json!({ "type": "number", "exclusiveMinimum": 0 });
    narrows(&number, &json!({ "type": "number", "minimum": 1 }));
    // Listed values are held to the schema that replaces them.
    widens(json!({ "enum": [1, 5, 3] }), json!({ "type": "integer", "minimum": 1, "maximum": 5 }));
    narrows(&json!({ "enum": [1, 6] }), &json!({ "type": "integer", "minimum": 1, "maximum": 5 }));
    widens(json!({ "enum": ["ab", "b"] }), json!({ "type": "string", "pattern": "^[ab]+$" }));
    narrows(&json!({ "enum": ["ab", "c"] }), &json!({ "type": "string", "pattern": "^[ab]+$" }));
    narrows(&json!({ "enum": ["ab", 1] }), &json!({ "type": "string" }));
    narrows(&json!({ "enum": ["2020-01-01"] }), &json!({ "format": "date" }));
    documents(json!({ "type": "boolean" }), json!({ "enum": [true, false] }));
    documents(json!({ "const": [1.0] }), json!({ "enum": [[1]] }));
    // Parts may be written beside each other, or together.
    let (a, b) = (json!({ "a": { "type": "string" } }), json!({ "b": { "minimum": 1 } }));
    let both = json!({ "properties": { "a": a["a"], "b": b["b"] }, "required": ["a"] });
    let parts = json!({ "allOf": [{ "properties": a }, { "properties": b, "required": ["a"] }] });
    documents(both.clone(), parts.clone());
    documents(parts.clone(), json!({ "allOf": [parts] }));
    widens(parts.clone(), json!({ "properties": { "a": a["a"], "b": b["b"] } }));
    let mut shut = both;
    shut["additionalProperties"] = json!(false);
    narrows(&parts, &shut);
    documents(json!({ "allOf": [{ "minimum": 1 }, { "minimum": 3 }] }), json!({ "minimum": 3 }));
    widens(json!({ "allOf": [{ "enum": [1, 2] }, { "enum": [2, 3] }] }), json!({ "enum": [2, 4] }));
}

#[test]
fn changes_beside_unevaluated_keywords_are_compared() {
    let shut = |mut schema: serde_json::Value| {
        schema["unevaluatedProperties"] = json!(false);
        schema
    };
    let a = json!({ "a": { "type": "string" } });
    let more = json!({ "a": { "type": "string" }, "b": {} });
    widens(shut(json!({ "properties": a })), shut(json!({ "properties": more })));
    widens(
        shut(json!({ "allOf": [{ "properties": a }] })),
        shut(json!({ "allOf": [{ "properties": more }] })),
    );
    documents(
        shut(json!({ "properties": a })),
        json!({ "properties": a, "additionalProperties": false }),
    );
    narrows(&shut(json!({ "properties": a })), &shut(json!({ "required": ["a"] })));
    // A variant that does not fit evaluates nothing.
    let variant = |tag: &str, name: &str| json!({ "properties": { "kind": { "const": tag }, name: {} }, "required": ["kind"] });
    let variants = |list: &[serde_json::Value]| shut(json!({ "type": "object", "oneOf": list }));
    let (x, y) = (variant("x", "a"), variant("y", "b"));
    widens(variants(std::slice::from_ref(&x)), variants(&[y.clone(), x.clone()]));
    narrows(&variants(std::slice::from_ref(&x)), &variants(&[variant("x", "b")]));
    let any = |list: &[serde_json::Value]| shut(json!({ "anyOf": list }));
    narrows(&any(&[json!({ "properties": { "a": {} } }), x]), &any(&[y, json!({})]));
    let list =
        |first: serde_json::Value| json!({ "prefixItems": first, "unevaluatedItems": false });
    widens(list(json!([{ "type": "integer" }])), list(json!([{ "type": "number" }, {}])));
    narrows(&list(json!([{}, {}])), &list(json!([{}])));
}

#[test]
fn outputs_may_narrow_but_not_change_their_members() {
    let output =
        |status: serde_json::Value| json!({ "type": "object", "properties": { "status": status } });
    let bump = |old: &serde_json::Value, new: &serde_json::Value| {
        let changes = compare_outputs(&Value::from(old), &Value::from(new), "/s");
        required_bump(&changes)
    };
    let (all, some) =
        (json!({ "enum": ["ok", "late", "error"] }), json!({ "enum": ["ok", "error"] }));
    assert_eq!(bump(&output(all.clone()), &output(some.clone())), Some(Class::Minor));
    assert_eq!(bump(&output(some.clone()), &output(all.clone())), Some(Class::Major));
    let mut required = output(all.clone());
    required["required"] = json!(["status"]);
    assert_eq!(bump(&output(all.clone()), &required), Some(Class::Minor));
    assert_eq!(bump(&required, &output(all.clone())), Some(Class::Major));
    let mut more = output(all.clone());
    more["properties"]["time"] = json!({ "type": "number" });
    assert_eq!(bump(&output(all.clone()), &more), Some(Class::Major));
    assert_eq!(bump(&more, &output(all.clone())), Some(Class::Major));
    let nested = json!({ "allOf": [output(all.clone())] });
    assert_eq!(bump(&output(all.clone()), &nested), Some(Class::Patch));
    assert_eq!(bump(&json!({ "not": all }), &json!({ "not": some })), Some(Class::Major));
    assert_eq!(bump(&json!({ "not": some }), &json!({ "not": all })), Some(Class::Minor));
}
