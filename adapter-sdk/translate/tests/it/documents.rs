//! The table of documents that must be refused, beyond the recorded negatives.

use serde_json::{Value, json};

use crate::support::{all_refuse, base, render, settings, translators};
use nexus_router_translate::{Translator, target};

fn set(pointer: &'static str, value: Value) -> impl Fn(&mut Value) {
    move |document| *document.pointer_mut(pointer).unwrap() = value.clone()
}

fn remove(pointer: &'static str, name: &'static str) -> impl Fn(&mut Value) {
    move |document| {
        document.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    }
}

#[test]
fn other_versions_are_refused_whatever_they_look_like() {
    let version = "/metadata/facet_version";
    for other in ["2.1.30", "2.1.3 ", " 2.1.3", "2.1", "2.1.2", "2.2.0", "", "2.1.3\u{0}", "２.1.3"]
    {
        all_refuse(set(version, json!(other)), "VERSION_UNSUPPORTED", version);
    }
    for other in [json!(null), json!(2.13), json!(["2.1.3"]), json!(true)] {
        all_refuse(set(version, other), "VERSION_UNSUPPORTED", version);
    }
    all_refuse(remove("/metadata", "facet_version"), "VERSION_UNSUPPORTED", version);
    // An early 2.1.3 had no version of policies.
    all_refuse(remove("/metadata", "policy_version"), "MEMBER_MISSING", "/metadata/policy_version");
    let policy = "/metadata/policy_version";
    all_refuse(set(policy, json!(1)), "VERSION_UNSUPPORTED", policy);
}

#[test]
fn other_targets_are_refused() {
    let target = "/metadata/target_provider_id";
    for other in
        [json!(""), json!(null), json!("unknown-provider"), json!("OPENAI"), json!("openai ")]
    {
        all_refuse(set(target, other), "TARGET_MISMATCH", target);
    }
    all_refuse(remove("/metadata", "target_provider_id"), "TARGET_MISMATCH", target);
}

#[test]
fn shape_is_closed() {
    all_refuse(set("/messages", json!(null)), "WRONG_TYPE", "/messages");
    all_refuse(set("/metadata", json!(null)), "WRONG_TYPE", "/metadata");
    all_refuse(set("/metadata/budget_units", json!(-1)), "WRONG_TYPE", "/metadata/budget_units");
    all_refuse(set("/metadata/budget_units", json!(1.5)), "WRONG_TYPE", "/metadata/budget_units");
    all_refuse(
        set("/metadata/document_hash", json!(null)),
        "WRONG_TYPE",
        "/metadata/document_hash",
    );
    all_refuse(
        set("/metadata/profile", json!("strict_chat")),
        "VALUE_UNKNOWN",
        "/metadata/profile",
    );
    all_refuse(remove("", "tools"), "MEMBER_MISSING", "/tools");
    for name in ["model", "max_tokens", "contents", "system", "a/b~c"] {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        all_refuse(|document| document[name] = json!(1), "UNKNOWN_MEMBER", &pointer);
    }
    all_refuse(|d| d["metadata"]["more"] = json!(null), "UNKNOWN_MEMBER", "/metadata/more");
    all_refuse(|d| d["messages"][0]["name"] = json!("a"), "UNKNOWN_MEMBER", "/messages/0/name");
    all_refuse(|d| d["messages"][0] = json!([]), "WRONG_TYPE", "/messages/0");
}

#[test]
fn messages_that_are_none_are_refused() {
    for role in [json!("developer"), json!("model"), json!("System"), json!(null)] {
        all_refuse(set("/messages/1/role", role), "VALUE_UNKNOWN", "/messages/1/role");
    }
    let content = "/messages/1/content";
    all_refuse(set(content, json!({})), "WRONG_TYPE", content);
    all_refuse(remove("/messages/1", "content"), "MEMBER_MISSING", content);
    all_refuse(set(content, json!([])), "EMPTY_CONTENT", content);
    all_refuse(set(content, json!(["a"])), "WRONG_TYPE", "/messages/1/content/0");
    let item = |item: Value| set(content, json!([item]));
    let text = "/messages/1/content/0/text";
    all_refuse(item(json!({"type": "text", "text": null})), "WRONG_TYPE", text);
    all_refuse(item(json!({"text": "a"})), "MEMBER_MISSING", "/messages/1/content/0/type");
}

#[test]
fn assets_are_refused_well_formed_or_not() {
    let asset = json!({"kind": "audio", "format": "ogg", "shape": {"duration": 1.5},
        "digest": {"algo": "sha256", "value": "00"}});
    let put = |asset: Value| set("/messages/1/content", json!([{"type": "audio", "asset": asset}]));
    let item = "/messages/1/content/0";
    all_refuse(put(asset.clone()), "ASSET_HAS_NO_BYTES", item);
    let changed = |pointer: &str, value: Value| {
        let mut asset = asset.clone();
        *asset.pointer_mut(pointer).unwrap() = value;
        put(asset)
    };
    let at = |inner: &str| format!("{item}/asset{inner}");
    all_refuse(changed("/kind", json!("image")), "VALUE_UNKNOWN", &at("/kind"));
    all_refuse(changed("/format", json!("flac")), "VALUE_UNKNOWN", &at("/format"));
    all_refuse(changed("/digest/algo", json!("md5")), "VALUE_UNKNOWN", &at("/digest/algo"));
    all_refuse(changed("/shape/duration", json!(null)), "WRONG_TYPE", &at("/shape/duration"));
    let mut inline = asset.clone();
    inline["data"] = json!("AAAA");
    all_refuse(put(inline), "ASSET_HAS_NO_BYTES", item);
}

#[test]
fn tools_that_are_none_are_refused() {
    let name = "/tools/0/function/name";
    all_refuse(set(name, json!("")), "TOOL_NAME_CONSTRAINT", name);
    all_refuse(set(name, json!(null)), "WRONG_TYPE", name);
    all_refuse(
        remove("/tools/0/function", "description"),
        "MEMBER_MISSING",
        "/tools/0/function/description",
    );
    let kind = "/tools/0/function/parameters/type";
    all_refuse(set(kind, json!("array")), "VALUE_UNKNOWN", kind);
    all_refuse(
        set("/tools/0", json!({"name": "a", "input_schema": {}})),
        "UNKNOWN_MEMBER",
        "/tools/0/input_schema",
    );
}

/// Returns the code by which each target refuses a document, or `ok`.
fn verdicts(change: impl Fn(&mut Value)) -> Vec<(&'static str, String)> {
    let code = |(target, translator): (&'static nexus_router_translate::Target, Translator)| {
        let mut document = base(target.id);
        change(&mut document);
        let code = match render(&translator, &document) {
            Ok(_) => "ok".to_owned(),
            Err(refusal) => refusal.rule.code["X.nexus.".len()..].to_owned(),
        };
        (target.id, code)
    };
    translators().map(code).collect()
}

#[track_caller]
fn expect(change: impl Fn(&mut Value), exceptions: &[(&str, &str)]) {
    for (target, code) in verdicts(change) {
        let expected = exceptions.iter().find(|(known, _)| *known == target);
        assert_eq!(code, expected.map_or("ok", |(_, code)| *code), "{target}");
    }
}

#[test]
fn what_a_provider_cannot_express_is_refused_by_its_table_alone() {
    let name = |name: String| set("/tools/0/function/name", json!(name));
    let refused = "TOOL_NAME_CONSTRAINT";
    let named = ["openai", "openai.responses", "anthropic", "gemini", "gemini.interactions"]
        .map(|target| (target, refused));
    expect(name("a b".into()), &named);
    expect(name("größe".into()), &named);
    expect(name("a:b".into()), &named[..3]);
    expect(name("1a".into()), &named[3..]);
    expect(name("a".repeat(64)), &[]);
    expect(name("a".repeat(65)), &[("openai", refused)]);
    expect(name("a".repeat(128)), &[("openai", refused)]);
    expect(name("a".repeat(129)), &named);

    let text = |text: &'static str| set("/messages/1/content", json!(text));
    let empty = ["anthropic", "gemini", "gemini.interactions"].map(|it| (it, "EMPTY_TEXT"));
    expect(text(""), &empty);
    expect(text(" \n\u{a0}\u{3000}"), &[("anthropic", "EMPTY_TEXT")]);
    expect(text("\u{0}"), &[]);

    let list = |items: &[&str]| {
        let items: Vec<Value> = items.iter().map(|t| json!({"type": "text", "text": t})).collect();
        Value::Array(items)
    };
    let user = |items: &[&str]| set("/messages/1/content", list(items));
    let no_list = "LIST_CONTENT_NOT_EXPRESSIBLE";
    expect(user(&["a"]), &[("ollama", no_list)]);
    expect(user(&["a", "b"]), &[("ollama", no_list)]);
    expect(user(&[""]), &[("ollama", no_list), empty[0], empty[1], empty[2]]);
    let system = |items: &[&str]| set("/messages/0/content", list(items));
    let lost =
        ["anthropic", "gemini", "gemini.interactions"].map(|it| (it, "SYSTEM_BOUNDARY_LOST"));
    // One text item is one block.
    expect(system(&["a"]), &[("ollama", no_list)]);
    expect(system(&[""]), &[("ollama", no_list), empty[0], empty[1], empty[2]]);
    expect(system(&["a", "b"]), &[("ollama", no_list), lost[0], lost[1], lost[2]]);
    let two_systems = |document: &mut Value| {
        let system = document["messages"][0].clone();
        document["messages"].as_array_mut().unwrap().insert(1, system);
    };
    expect(two_systems, &[("gemini.interactions", "TOO_MANY_SYSTEM_MESSAGES")]);
    let assistants = |count: usize, content: Value| {
        move |document: &mut Value| {
            let message = json!({"role": "assistant", "content": content});
            document["messages"].as_array_mut().unwrap().extend(vec![message; count]);
        }
    };
    let last = ["anthropic", "gemini", "gemini.interactions"].map(|it| (it, "ENDS_WITH_ASSISTANT"));
    expect(assistants(1, json!("a")), &last);
    let two = ("llama.cpp", "TWO_TRAILING_ASSISTANTS");
    expect(assistants(2, json!("a")), &[last[0], last[1], last[2], two]);
    let listed = ("openai.responses", no_list);
    let expected = [last[0], last[1], last[2], listed, ("ollama", no_list)];
    expect(assistants(1, list(&["a", "b"])), &expected);
    let system_only = |document: &mut Value| {
        document["messages"].as_array_mut().unwrap().truncate(1);
    };
    let none = "NO_NON_SYSTEM_MESSAGE";
    expect(system_only, &[("anthropic", none), ("gemini", none), ("gemini.interactions", none)]);
}

#[test]
fn schemas_are_held_to_the_table_and_otherwise_left_alone() {
    let root = |keyword: &'static str, value: Value| {
        move |document: &mut Value| {
            document["tools"][0]["function"]["parameters"][keyword] = value.clone();
        }
    };
    let (refused, dropped) = ("SCHEMA_ROOT_NOT_EXPRESSIBLE", "SCHEMA_KEYWORDS_SILENTLY_DROPPED");
    let ollama = ("ollama", dropped);
    let openai = [("openai", refused), ("openai.responses", refused)];
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let expected = [openai[0], openai[1], ("anthropic", refused), ollama];
        expect(root(keyword, json!([])), &expected);
    }
    for keyword in ["enum", "not"] {
        expect(root(keyword, json!([])), &[openai[0], openai[1], ollama]);
    }
    expect(root("additionalProperties", json!(false)), &[ollama]);
    let city = |schema: Value| set("/tools/0/function/parameters/properties/city", schema);
    for schema in [
        json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "string", "pattern": "a"}),
        json!({"type": "number", "minimum": 0, "maximum": 1}),
        json!({"type": "array", "items": {}, "minItems": 1}),
        json!({"type": "object", "properties": {}}),
        json!({"type": "string", "description": null}),
        json!(true),
    ] {
        expect(city(schema), &[ollama]);
    }
    for schema in [
        json!({}),
        json!({"type": "array", "items": {"oneOf": [], "default": null}}),
        json!({"type": ["string", "null"], "enum": ["a", null], "description": "d"}),
    ] {
        expect(city(schema), &[]);
    }
    let parameter = |name: &'static str| {
        set("/tools/0/function/parameters/properties", json!({name: {"type": "string"}}))
    };
    for name in ["a-b", "1a", "", "é"] {
        let refused = "PARAMETER_NAME_CONSTRAINT";
        expect(parameter(name), &[("gemini", refused), ("gemini.interactions", refused)]);
    }
    let null = |document: &mut Value| {
        document["tools"][0]["function"]["description"] = json!(null);
    };
    let others = ["openai", "anthropic", "gemini", "gemini.interactions", "ollama", "llama.cpp"];
    expect(null, &others.map(|target| (target, "DESCRIPTION_NULL")));
    let many = |count: usize| {
        move |document: &mut Value| {
            let tool = document["tools"][0].clone();
            let tools = (0..count).map(|n| {
                let mut tool = tool.clone();
                tool["function"]["name"] = json!(format!("t{n}"));
                tool
            });
            document["tools"] = tools.collect();
        }
    };
    let most = "TOO_MANY_TOOLS";
    expect(many(128), &[]);
    expect(many(129), &[("openai", most), ("openai.responses", most)]);
    let refused = ["openai", "openai.responses", "gemini", "gemini.interactions"];
    expect(many(513), &refused.map(|target| (target, most)));
}

#[test]
fn strict_tools_must_be_closed_and_required() {
    let strict = |target: &'static nexus_router_translate::Target| {
        let mut binding = crate::support::json("bindings.json")[target.id].clone();
        binding["strict"] = json!(true);
        Translator::new(target, settings(&binding)).unwrap()
    };
    let closed = json!({"type": "object", "additionalProperties": false, "required": ["a"],
        "properties": {"a": {"type": "array", "items": {"type": "object",
            "additionalProperties": false, "properties": {"b": {}}, "required": ["b"]}}}});
    for target in [target::OPENAI, target::OPENAI_RESPONSES, target::ANTHROPIC] {
        let code = |parameters: &Value| {
            let mut document = base(target.id);
            document["tools"][0]["function"]["parameters"] = parameters.clone();
            match render(&strict(target), &document) {
                Ok(payload) => {
                    assert!(payload.contains("\"strict\":true"), "{payload}");
                    "ok"
                }
                Err(refusal) => refusal.rule.code,
            }
        };
        let refused = "X.nexus.STRICT_NOT_EXPRESSIBLE";
        assert_eq!(code(&closed), "ok");
        assert_eq!(code(&base(target.id)["tools"][0]["function"]["parameters"]), refused);
        let mut open = closed.clone();
        open["properties"]["a"]["items"]["additionalProperties"] = json!(true);
        assert_eq!(code(&open), refused);
        let only_openai = if target.id == "anthropic" { "ok" } else { refused };
        let mut optional = closed.clone();
        optional["required"] = json!([]);
        assert_eq!(code(&optional), only_openai);
        let mut union = closed.clone();
        union["properties"]["a"]["items"]["properties"]["b"] = json!({"oneOf": []});
        assert_eq!(code(&union), only_openai);
    }
}

#[test]
fn policy_hash_has_its_form_or_is_null() {
    let place = "/metadata/policy_hash";
    for other in [json!(0), json!({}), json!([]), json!(true)] {
        all_refuse(set(place, other), "WRONG_TYPE", place);
    }
    let (digits, long) = ("0123456789abcdef".repeat(4), "a".repeat(100_000));
    for other in [
        "",
        " ",
        "sha256:",
        &digits,
        &format!("sha256:{}", &digits[1..]),
        &format!("sha256:{digits}0"),
        &format!("sha256:{}", digits.to_uppercase()),
        &format!("SHA256:{digits}"),
        &format!("sha512:{digits}"),
        &format!("sha256:{}g", &digits[1..]),
        &format!("sha256:{digits}\n"),
        &format!("sha256:{}\u{e9}", &digits[2..]),
        &long,
    ] {
        all_refuse(set(place, json!(other)), "VALUE_UNKNOWN", place);
    }
    expect(set(place, json!(null)), &[]);
    expect(set(place, json!(format!("sha256:{digits}"))), &[]);
}

proptest::proptest! {
    #[test]
    fn list_of_one_text_is_that_text(text in "\\PC{1,20}", place in 0_usize..2) {
        for (target, translator) in translators() {
            let mut plain = base(target.id);
            plain["messages"][place]["content"] = json!(text);
            let mut listed = plain.clone();
            listed["messages"][place]["content"] = json!([{ "type": "text", "text": text }]);
            let (plain, listed) = (render(&translator, &plain), render(&translator, &listed));
            let is_block = match target.id {
                "gemini" | "gemini.interactions" => true,
                "anthropic" => place == 0,
                _ => false,
            };
            match (plain, listed) {
                (Ok(plain), Ok(listed)) => proptest::prop_assert_eq!(plain == listed, is_block),
                (Err(_), Err(_)) => proptest::prop_assert!(text.trim().is_empty() || target.id == "ollama"),
                (Ok(_), Err(refusal)) => {
                    proptest::prop_assert_eq!(target.id, "ollama");
                    proptest::prop_assert_eq!(refusal.rule.code, "X.nexus.LIST_CONTENT_NOT_EXPRESSIBLE");
                }
                (Err(refusal), Ok(_)) => proptest::prop_assert!(false, "{}", refusal),
            }
        }
    }

    #[test]
    fn version_is_taken_if_it_is_declared_and_only_then(version in "(2\\.1\\.3|[ 0-9.v]{0,7}|.*)") {
        let translator = crate::support::translator(target::OPENAI);
        let mut document = base("openai");
        document["metadata"]["facet_version"] = json!(version);
        let is_taken = render(&translator, &document).is_ok();
        proptest::prop_assert_eq!(is_taken, target::OPENAI.canonical_versions.contains(&version.as_str()));
    }
}
