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
                // A list of one was refused, so one part is a text.
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

#[test]
fn inverse_gives_back_every_document() {
    for (target, translator) in translators() {
        for (id, text, payload) in accepted(&translator) {
            let document: Value = serde_json::from_str(&text).unwrap();
            let (messages, tools) = inverse(target.id, &serde_json::from_str(&payload).unwrap());
            assert_eq!(messages, document["messages"], "{id} for {}", target.id);
            assert_eq!(tools, document["tools"], "{id} for {}", target.id);
        }
    }
}
