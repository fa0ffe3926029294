//! Changes of defaults.

use serde_json::json;

use super::*;

#[test]
fn defaults_are_reported_wherever_they_stand() {
    let limit = |schema: serde_json::Value| json!({ "properties": { "limit": schema }, "required": ["limit"] });
    let plain =
        |default: serde_json::Value| limit(json!({ "type": "integer", "default": default }));
    let change = |old: &serde_json::Value, new: &serde_json::Value| {
        let changes = schemas(old, new);
        let found = changes.iter().find(|it| it.message.contains("default")).cloned();
        found.unwrap_or_else(|| panic!("{old} {new}: {changes:?}"))
    };
    let without = limit(json!({ "type": "integer" }));
    let grown = change(&plain(json!(10)), &plain(json!(20)));
    assert_eq!(
        (grown.class, grown.message.as_str()),
        (Class::Minor, "limit: default 10 became 20")
    );
    assert_eq!(grown.pointer, "/s/properties/limit");
    let shrunk = change(&plain(json!(20)), &plain(json!(10)));
    assert_eq!(shrunk.class, Class::Major);
    assert_eq!(
        shrunk.message,
        "limit: default 20 became 10; callers that omit it get something else"
    );
    assert_eq!(change(&without, &plain(json!(10))).class, Class::Minor);
    assert_eq!(change(&plain(json!(10)), &without).class, Class::Major);
    let unfit = change(&without, &plain(json!("ten")));
    assert_eq!(unfit.message, r#"limit: default "ten" is new, and does not fit its schema"#);
    assert_eq!(unfit.class, Class::Major);
    for (was, is, class) in [
        (json!("cosine"), json!("dot"), Class::Major),
        (json!(false), json!(true), Class::Major),
        (json!(null), json!(10), Class::Major),
        (json!(["a", "b"]), json!(["a"]), Class::Major),
        (json!(["a"]), json!(["b", "a"]), Class::Minor),
        (json!({ "a": 1 }), json!({ "a": 2, "b": 0 }), Class::Minor),
        (json!({ "a": 1, "b": 0 }), json!({ "a": 1 }), Class::Major),
    ] {
        let default = |value| limit(json!({ "default": value }));
        assert_eq!(change(&default(was.clone()), &default(is.clone())).class, class, "{was} {is}");
    }
    // It is found where a reference leads, in all parts of a schema, and in every variant.
    let referring = |default: i64| json!({ "items": { "$ref": "#/$defs/a" }, "$defs": { "a": { "default": default } } });
    let found = change(&referring(2), &referring(1));
    assert_eq!((found.class, found.pointer.as_str()), (Class::Major, "/s/$defs/a"));
    assert!(found.message.starts_with("[]: default 2 became 1"), "{found:?}");
    let parted =
        |default: i64| limit(json!({ "allOf": [{ "type": "integer" }, { "default": default }] }));
    assert_eq!(change(&plain(json!(2)), &parted(1)).class, Class::Major);
    documents(plain(json!(2)), parted(2));
    let variant = |tag: &str, default: i64| json!({ "properties": { "kind": { "const": tag }, "n": { "default": default } } });
    let variants = |list: &[serde_json::Value]| json!({ "anyOf": list });
    documents(
        variants(&[variant("a", 1), variant("b", 2)]),
        variants(&[variant("b", 2), variant("a", 1)]),
    );
    let swapped = variants(&[variant("a", 2), variant("b", 1)]);
    assert_eq!(
        change(&variants(&[variant("a", 1), variant("b", 2)]), &swapped).class,
        Class::Minor
    );
    assert_eq!(
        required_bump(&schemas(&variants(&[variant("a", 1), variant("b", 2)]), &swapped)),
        Some(Class::Major)
    );
    // In an output, it only describes.
    let (old, new) = (Value::from(&plain(json!(2))), Value::from(&plain(json!(1))));
    let changes = compare_outputs(&old, &new, "/s");
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].class, Class::Patch);
}
