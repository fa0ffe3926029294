//! What a change of a document changes in its payload, and what it does not.

use serde_json::{Value, json};

use crate::inverse::inverse;
use crate::support::{accepted, base, render, translators};
use nexus_router_translate::Translator;

fn parsed(translator: &Translator, document: &Value) -> Option<Value> {
    render(translator, document).ok().map(|payload| serde_json::from_str(&payload).unwrap())
}

/// The paths and values of all leaves.
fn leaves(value: &Value) -> Vec<(String, Value)> {
    fn walk(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Array(items) if !items.is_empty() => {
                let walk_item = |(n, item)| walk(item, &format!("{path}/{n}"), found);
                items.iter().enumerate().for_each(walk_item);
            }
            Value::Object(members) if !members.is_empty() => {
                members
                    .iter()
                    .for_each(|(name, item)| walk(item, &format!("{path}/{name}"), found));
            }
            leaf => found.push((path.to_owned(), leaf.clone())),
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

type Leaves = Vec<(String, Value)>;

fn difference(one: &Value, other: &Value) -> (Leaves, Leaves) {
    let (one, other) = (leaves(one), leaves(other));
    let only = |a: &[(String, Value)], b: &[(String, Value)]| {
        a.iter().filter(|leaf| !b.contains(leaf)).cloned().collect()
    };
    (only(&one, &other), only(&other, &one))
}

#[test]
fn one_more_message_is_one_more_element() {
    for (target, translator) in translators() {
        for role in ["system", "user"] {
            if role == "system" && translator.table().most_system == Some(1) {
                continue;
            }
            let before = base(target.id);
            let mut after = before.clone();
            let messages = after["messages"].as_array_mut().unwrap();
            let place = if role == "system" { 1 } else { messages.len() };
            messages.insert(place, json!({ "role": role, "content": "one more" }));
            let (before, after) =
                (parsed(&translator, &before).unwrap(), parsed(&translator, &after).unwrap());
            let (old, _) = inverse(target.id, &before);
            let (new, _) = inverse(target.id, &after);
            assert_eq!(new.as_array().unwrap().len(), old.as_array().unwrap().len() + 1);
            let count =
                |payload: &Value| leaves(payload).iter().filter(|(_, v)| *v == "one more").count();
            assert_eq!((count(&before), count(&after)), (0, 1), "{}", target.id);
        }
    }
}

#[test]
fn one_more_tool_is_one_more_definition_and_nothing_else() {
    for (target, translator) in translators() {
        let before = base(target.id);
        let mut after = before.clone();
        let mut tool = before["tools"][0].clone();
        tool["function"]["name"] = json!("one_more");
        after["tools"].as_array_mut().unwrap().push(tool);
        let (before, after) =
            (parsed(&translator, &before).unwrap(), parsed(&translator, &after).unwrap());
        let (gone, come) = difference(&before, &after);
        assert!(gone.is_empty(), "{gone:?}");
        assert!(
            come.iter().all(|(path, _)| path.contains("/1/") && path.starts_with("/tools")),
            "{come:?}"
        );
    }
}

#[test]
fn tools_that_change_places_change_places() {
    for (target, translator) in translators() {
        let mut one = base(target.id);
        let mut tool = one["tools"][0].clone();
        tool["function"]["name"] = json!("other");
        one["tools"].as_array_mut().unwrap().push(tool);
        let mut other = one.clone();
        other["tools"].as_array_mut().unwrap().swap(0, 1);
        let (one, other) =
            (parsed(&translator, &one).unwrap(), parsed(&translator, &other).unwrap());
        let (mut gone, come) = difference(&one, &other);
        assert_eq!(gone.len(), 2, "{gone:?}");
        gone.reverse();
        let values = |leaves: &[(String, Value)]| -> Vec<Value> {
            leaves.iter().map(|(_, value)| value.clone()).collect()
        };
        assert_eq!(values(&gone), values(&come), "{}", target.id);
    }
}

#[test]
fn one_changed_character_changes_one_string() {
    for (target, translator) in translators() {
        let before = base(target.id);
        let mut places = vec!["/messages/0/content", "/messages/1/content"];
        places.extend(["/tools/0/function/description", "/tools/0/function/name"]);
        for place in places {
            let mut after = before.clone();
            let text = after.pointer(place).unwrap().as_str().unwrap().to_owned() + "x";
            *after.pointer_mut(place).unwrap() = json!(text);
            let (one, other) =
                (parsed(&translator, &before).unwrap(), parsed(&translator, &after).unwrap());
            let (gone, come) = difference(&one, &other);
            assert_eq!((gone.len(), come.len()), (1, 1), "{} {place}", target.id);
            assert_eq!(come[0].1, json!(text));
            assert_eq!(gone[0].0, come[0].0);
        }
    }
}

#[test]
fn no_message_and_no_tool_is_lost() {
    for (target, translator) in translators() {
        for (id, text, payload) in accepted(&translator) {
            let document: Value = serde_json::from_str(&text).unwrap();
            let payload: Value = serde_json::from_str(&payload).unwrap();
            let count = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
            let messages = ["messages", "input", "contents", "system"];
            let system = count(payload.pointer("/systemInstruction/parts"))
                + payload.get("system_instruction").iter().count();
            let said: usize = messages.iter().map(|name| count(payload.get(name))).sum();
            assert_eq!(said + system, count(document.get("messages")), "{id} for {}", target.id);
        }
    }
}

#[test]
fn parameters_pass_through_with_every_null() {
    for (target, translator) in translators() {
        let mut document = base(target.id);
        let deep = json!({ "type": "array", "items": {
            "default": null, "enum": [null, {}, [], "", 0, -1.5, 1e-7], "x": { "y": [null, { "z": null }] },
        }});
        document["tools"][0]["function"]["parameters"]["properties"]["city"] = deep.clone();
        let payload = parsed(&translator, &document).unwrap();
        let (_, tools) = inverse(target.id, &payload);
        assert_eq!(tools, document["tools"], "{}", target.id);
    }
}
