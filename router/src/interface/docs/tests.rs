//! The document of the frozen contracts, and that of contracts that would like to write another.

use super::*;
use crate::interface::frozen;
use crate::json::{Limits, parse};
use crate::python_text::is_printable;
use proptest::prelude::*;

fn read(text: &str) -> Value {
    parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

fn interface(document: &serde_json::Value) -> Interface {
    Interface::from_document(Value::from(document)).unwrap()
}

fn shape_of(schema: &str) -> String {
    shape(&read(schema))
}

#[test]
fn document_of_the_frozen_contracts_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../adapters/ADAPTER_CONTRACTS.md");
    let expected = docs(&frozen().iter().collect::<Vec<_>>());
    let written = std::fs::read_to_string(path).unwrap_or_default();
    if written != expected {
        let current = std::env::temp_dir().join("ADAPTER_CONTRACTS.md");
        std::fs::write(&current, &expected).unwrap();
        panic!("hint: cp {} adapters/ADAPTER_CONTRACTS.md", current.display());
    }
}

#[test]
fn order_of_the_contracts_does_not_count() {
    let mut interfaces: Vec<&Interface> = frozen().iter().collect();
    let text = docs(&interfaces);
    interfaces.reverse();
    assert_eq!(docs(&interfaces), text);
    assert!(docs(&[]).ends_with("\n\nThere is no contract.\n"));
}

#[test]
fn schemas_are_told_in_a_few_words() {
    for (schema, expected) in [
        (r#"{"type":"string"}"#, "string"),
        (r#"{"type":"integer","minimum":1,"maximum":9}"#, "integer (minimum 1, maximum 9)"),
        (r#"{"type":["integer","string"]}"#, "integer or string"),
        (r#"{"type":"array","items":{"type":"number"}}"#, "array of number"),
        (r#"{"type":"array"}"#, "array"),
        (r#"{"enum":["ok","error"]}"#, r#""ok" or "error""#),
        (r#"{"const":1}"#, "1"),
        (r#"{"type":"object"}"#, "object"),
        (r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "object of string"),
        (r#"{"type":"object","additionalProperties":false}"#, "object {}"),
        (
            r#"{"type":"object","properties":{"id":{},"payload":{}},"required":["id"]}"#,
            "object {id, payload?, …}",
        ),
        (
            r#"{"type":"object","properties":{"id":{}},"additionalProperties":false}"#,
            "object {id?}",
        ),
        (
            r#"{"type":"array","prefixItems":[{"type":"number"},true],"minItems":2}"#,
            "[number, anything]",
        ),
        (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "string or null"),
        (r##"{"$ref":"#/$defs/a"}"##, "see #/$defs/a"),
        (r#"{"type":"string","pattern":"^a|b$"}"#, "string (pattern ^a|b$)"),
        ("{}", "anything"),
        ("true", "anything"),
        ("false", "nothing"),
        (r#"{"not":{}}"#, "nothing"),
        (r#"{"not":true}"#, "nothing"),
        (r#"{"not":{"const":1}}"#, "anything"),
    ] {
        assert_eq!(shape_of(schema), expected, "{schema}");
    }
}

#[test]
fn members_of_members_are_listed_to_some_depth() {
    let schema = read(
        r#"{"properties":{
            "a":{"items":{"properties":{"b":{"type":"string"}},"required":["b"]}},
            "c":{"additionalProperties":{"properties":{"d":{}}}},
            "e":{"anyOf":[{"type":"string"},{"properties":{"f":{}}}]},
            "g":{"properties":{"g":{"properties":{"g":{"properties":{"g":{"properties":{"g":{}}}}}}}}}
        },"required":["a"]}"#,
    );
    let rows = rows(&schema);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["a", "a[].b", "c", "c.*.d", "e", "e.f", "g", "g.g", "g.g.g", "g.g.g.g"]);
    let required: Vec<bool> = rows.iter().take(3).map(|row| row.required).collect();
    assert_eq!(required, [true, true, false]);
}

#[test]
fn long_names_are_cut() {
    let name = "ä".repeat(10_000);
    let schema = serde_json::json!({"properties": {&name: {"properties": {"b": {}}}}});
    let schema = Value::from(&schema);
    let expected = format!("{}….b", "ä".repeat(64));
    assert_eq!(rows(&schema)[1].name, expected);
}

fn contract(texts: &[String]) -> Interface {
    interface(&serde_json::json!({
        "format": crate::interface::FORMAT, "adapter_id": "a", "version": "1.0.0",
        "description": format!("x{}", texts[0]),
        "operations": {"b": {
            "description": format!("x{}", texts[1]),
            "tool": format!("x{}", texts[2]), "method": format!("x{}", texts[3]),
            "input_schema": {
                "type": "object",
                "properties": {&texts[4]: {
                    "type": "string", "default": texts[5], "description": texts[6],
                    "enum": [texts[5]],
                }},
            },
            "output_schema": {"type": "object", "properties": {"c": {"const": texts[7]}}},
            "timeout_ms": 1, "idempotent": true, "read_only": true, "failure_modes": [],
            "volatile": [format!("/{}", texts[7])],
            "examples": [{"input": {&texts[4]: texts[5]}, "output": {"c": texts[7]}}],
        }},
    }))
}

#[test]
fn hostile_texts_stay_texts() {
    let texts = [
        "\n# head",
        "<script>",
        "`t`",
        "m|m",
        "n|`\n",
        "d|`\u{202e}",
        "one\n| two [x](y)",
        "```\n</code>",
    ];
    let text = docs(&[&contract(&texts.map(str::to_owned))]);
    assert!(text.contains("\nx\\\\n\\# head\n"), "{text}");
    assert!(text.contains("\nx\\<script\\>\n"), "{text}");
    assert!(text.contains("tool `` x`t` ``, method `xm|m`"), "{text}");
    assert!(text.contains(r"| <code>n&#124;\`\\n</code> |"), "{text}");
    assert!(text.contains(r#"| <code>"d&#124;\`\\u202e"</code> |"#), "{text}");
    assert!(text.contains(r"| one\\n&#124; two \[x\](y) |"), "{text}");
    assert!(text.contains("\n````json\n"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || is_printable(c)), "{text}");
}

proptest! {
    #[test]
    fn any_text_keeps_the_layout(texts in prop::collection::vec("[^\0]{1,20}", 8)) {
        let tame = docs(&[&contract(&vec!["x".to_owned(); 8])]);
        let text = docs(&[&contract(&texts)]);
        prop_assert_eq!(text.lines().count(), tame.lines().count());
        for (line, tame) in text.lines().zip(tame.lines()) {
            if tame.starts_with('|') {
                let bars = |row: &str| row.matches('|').count();
                prop_assert_eq!(bars(line), bars(tame), "{}", line);
            }
            prop_assert!(line.chars().all(is_printable));
        }
    }
}
