//! What no translator may take, made of a document that it takes.

use nexus_router_translate::{MAX_BYTES, MAX_DEPTH};
use serde_json::{Value, json};

use super::jcs;

/// A name, the code without its namespace, and the text.
type Negative = (&'static str, &'static str, String);

/// A name, the code, and what is changed.
type Change = (&'static str, &'static str, fn(&mut Value));

/// Changes of the value: its text stays canonical.
const CHANGES: &[Change] = &[
    ("newer version", "VERSION_UNSUPPORTED", |d| d["metadata"]["facet_version"] = json!("2.1.4")),
    ("look-alike version", "VERSION_UNSUPPORTED", |d| {
        d["metadata"]["facet_version"] = json!("2.1.30");
    }),
    ("number for a version", "VERSION_UNSUPPORTED", |d| d["metadata"]["facet_version"] = json!(2)),
    ("newer policies", "VERSION_UNSUPPORTED", |d| d["metadata"]["policy_version"] = json!("2")),
    ("no target", "TARGET_MISMATCH", |d| {
        d["metadata"]["target_provider_id"] = json!("unknown-provider");
    }),
    ("null target", "TARGET_MISMATCH", |d| d["metadata"]["target_provider_id"] = json!(null)),
    ("another member", "UNKNOWN_MEMBER", |d| d["model"] = json!("m")),
    ("another member of metadata", "UNKNOWN_MEMBER", |d| d["metadata"]["more"] = json!(null)),
    ("null tools", "WRONG_TYPE", |d| d["tools"] = json!(null)),
    ("null messages", "WRONG_TYPE", |d| d["messages"] = json!(null)),
    ("omitted null", "MEMBER_MISSING", |d| {
        d["metadata"].as_object_mut().into_iter().for_each(|m| drop(m.remove("policy_hash")));
    }),
    ("unknown mode", "VALUE_UNKNOWN", |d| d["metadata"]["mode"] = json!("fast")),
    ("budget of text", "WRONG_TYPE", |d| d["metadata"]["budget_units"] = json!("1")),
    ("no messages", "NO_MESSAGES", |d| d["messages"] = json!([])),
    ("unknown role", "VALUE_UNKNOWN", |d| d["messages"][0]["role"] = json!("developer")),
    ("null content", "WRONG_TYPE", |d| d["messages"][0]["content"] = json!(null)),
    ("unknown item", "VALUE_UNKNOWN", |d| {
        d["messages"][0]["content"] = json!([{ "type": "tool_use" }]);
    }),
    ("more in an item", "UNKNOWN_MEMBER", |d| {
        d["messages"][0]["content"] = json!([{ "type": "text", "text": "a", "cache": true }]);
    }),
    ("image", "ASSET_HAS_NO_BYTES", |d| {
        d["messages"][0]["content"] = json!([{ "type": "image", "asset": {
            "kind": "image", "format": "png", "shape": { "width": 1, "height": 1 },
            "digest": { "algo": "sha256", "value": "00" } } }]);
    }),
    ("wrong order", "ROLE_ORDER", |d| {
        let system = json!({ "role": "system", "content": "a" });
        let user = json!({ "role": "user", "content": "a" });
        d["messages"] = json!([user, system]);
    }),
    ("tool of another type", "VALUE_UNKNOWN", |d| {
        d["tools"] = json!([tool("a")]);
        d["tools"][0]["type"] = json!("custom");
    }),
    ("option in a tool", "UNKNOWN_MEMBER", |d| {
        d["tools"] = json!([tool("a")]);
        d["tools"][0]["function"]["strict"] = json!(true);
    }),
    ("parameters that are none", "WRONG_TYPE", |d| {
        d["tools"] = json!([tool("a")]);
        d["tools"][0]["function"]["parameters"] = json!([]);
    }),
    ("one name twice", "DUPLICATE_TOOL_NAMES", |d| d["tools"] = json!([tool("a"), tool("a")])),
    ("no name", "TOOL_NAME_CONSTRAINT", |d| d["tools"] = json!([tool("")])),
];

fn tool(name: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": {}, "required": [] });
    json!({ "type": "function",
        "function": { "name": name, "description": "d", "parameters": parameters } })
}

/// Returns every negative of a document.
pub(super) fn all(document: &str) -> Vec<Negative> {
    let value: Value = serde_json::from_str(document).expect("a document is JSON");
    let mut all: Vec<Negative> = CHANGES
        .iter()
        .map(|(name, code, change)| {
            let mut changed = value.clone();
            change(&mut changed);
            (*name, *code, jcs(&changed))
        })
        .collect();
    let pretty = serde_json::to_string_pretty(&value).expect("a value is JSON");
    let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
    let plain = value["metadata"]["mode"].as_str().unwrap_or_default();
    all.extend([
        ("nothing", "NOT_JSON", String::new()),
        ("half", "NOT_JSON", document[..document.len() - 1].to_owned()),
        ("blanks", "NOT_CANONICAL", pretty),
        ("trailing line feed", "NOT_CANONICAL", format!("{document}\n")),
        ("trailing text", "NOT_JSON", format!("{document}x")),
        ("line before", "NOT_JSON", format!("INFO compiled\n{document}")),
        ("byte order mark", "BYTE_ORDER_MARK", format!("\u{feff}{document}")),
        ("array", "WRONG_TYPE", format!("[{document}]")),
        ("needless escape", "NOT_CANONICAL", document.replacen(plain, "\\u0065", 1)),
        ("half a character", "LONE_SURROGATE", document.replacen(plain, "\\ud800", 1)),
        ("number in another form", "NOT_CANONICAL", document.replacen(":\"", ":1.0,\"", 1)),
        ("not a number", "NOT_JSON", document.replacen(":\"", ":NaN,\"", 1)),
        (
            "integer beyond 2^53",
            "NUMBER_INEXACT",
            document.replacen(":\"", ":9007199254740993,\"", 1),
        ),
        ("name twice", "DUPLICATE_KEY", document.replacen("\"metadata\"", "\"messages\"", 1)),
        ("other order", "NOT_CANONICAL", document.replacen("\"metadata\"", "\"a\"", 1)),
        ("too deep", "TOO_DEEP", document.replacen(":\"", &format!(":{deep},\""), 1)),
        (
            "too large",
            "TOO_LARGE",
            document.replacen(":\"", &format!(":\"{}", "a".repeat(MAX_BYTES)), 1),
        ),
    ]);
    all
}
