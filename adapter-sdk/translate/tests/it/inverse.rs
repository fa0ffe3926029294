//! The way back: messages and tools from a payload, written apart from the translators.

use serde_json::{Value, json};

use crate::support::{accepted, translators};

/// Returns the messages and the tools that a payload says.
pub(crate) fn inverse(target: &str, payload: &Value) -> (Value, Value) {
    let list = |name: &str| payload.get(name).map_or_else(|| json!([]), Clone::clone);
    match target {
        "openai" | "ollama" | "llama.cpp" => (list("messages"), list("tools")),
        "openai.responses" => {
            let messages = map(&payload["input"], |item| {
                json!({ "role": item["role"], "content": match &item["content"] {
                    Value::Array(_) => map(&item["content"], |part| {
                        assert_eq!(part["type"], "input_text");
                        json!({ "type": "text", "text": part["text"] })
                    }),
                    text => text.clone(),
                }})
            });
            (messages, map(&list("tools"), |tool| canonical_tool(tool, "parameters")))
        }
        "anthropic" => {
            let system = map(&list("system"), |block| {
                assert_eq!(block["type"], "text");
                json!({ "role": "system", "content": block["text"] })
            });
            let messages = join(&system, &payload["messages"]);
            (messages, map(&list("tools"), |tool| canonical_tool(tool, "input_schema")))
        }
        "gemini" => {
            let system = payload.get("systemInstruction").map_or_else(
                || json!([]),
                |content| {
                    map(
                        &content["parts"],
                        |part| json!({ "role": "system", "content": part["text"] }),
                    )
                },
            );
            let turns = map(&payload["contents"], |content| {
                let parts =
                    map(&content["parts"], |part| json!({ "type": "text", "text": part["text"] }));
                let role = if content["role"] == "model" { "assistant" } else { "user" };
                // One part is a text, or a list of that text.
                let parts = match parts.as_array().unwrap().as_slice() {
                    [one] => one["text"].clone(),
                    _ => parts,
                };
                json!({ "role": role, "content": parts })
            });
            let tools = match payload["tools"].as_array().unwrap().as_slice() {
                [] => json!([]),
                [all] => map(&all["functionDeclarations"], |tool| {
                    canonical_tool(tool, "parametersJsonSchema")
                }),
                more => panic!("{more:?}"),
            };
            (join(&system, &turns), tools)
        }
        "gemini.interactions" => {
            let system = payload.get("system_instruction").map_or_else(
                || json!([]),
                |instruction| json!([{ "role": "system", "content": instruction }]),
            );
            let turns = map(&payload["input"], |step| {
                let role = match step["type"].as_str() {
                    Some("user_input") => "user",
                    Some("model_output") => "assistant",
                    other => panic!("{other:?}"),
                };
                let content = match step["content"].as_array().unwrap().as_slice() {
                    [one] => one["text"].clone(),
                    _ => step["content"].clone(),
                };
                json!({ "role": role, "content": content })
            });
            (join(&system, &turns), map(&list("tools"), |tool| canonical_tool(tool, "parameters")))
        }
        other => panic!("{other} has no inverse"),
    }
}

fn canonical_tool(tool: &Value, parameters: &str) -> Value {
    json!({ "type": "function", "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool[parameters],
    }})
}

fn map(list: &Value, change: impl Fn(&Value) -> Value) -> Value {
    list.as_array().unwrap().iter().map(change).collect()
}

fn join(one: &Value, other: &Value) -> Value {
    let both = [one, other].into_iter().flat_map(|list| list.as_array().unwrap());
    both.cloned().collect()
}

/// Returns a document with texts for lists of one text, in the messages for which the target has one form alone.
pub(crate) fn in_one_form(target: &str, mut document: Value) -> Value {
    for message in document["messages"].as_array_mut().unwrap() {
        let is_one = match target {
            "gemini" | "gemini.interactions" => true,
            "anthropic" => message["role"] == "system",
            _ => false,
        };
        if let Some([item]) = message["content"].as_array().map(Vec::as_slice).filter(|_| is_one) {
            message["content"] = item["text"].clone();
        }
    }
    document
}

#[test]
fn inverse_gives_back_every_document() {
    for (target, translator) in translators() {
        for (id, text, payload) in accepted(&translator) {
            let document = in_one_form(target.id, serde_json::from_str(&text).unwrap());
            let (messages, tools) = inverse(target.id, &serde_json::from_str(&payload).unwrap());
            assert_eq!(messages, document["messages"], "{id} for {}", target.id);
            assert_eq!(tools, document["tools"], "{id} for {}", target.id);
        }
    }
}
