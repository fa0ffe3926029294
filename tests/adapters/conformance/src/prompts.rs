//! Prompts, and what their arguments may be completed to.

use nexus_router_sdk::{AdapterError, CallContext, Object};
use serde_json::{Value, json};

use crate::asking::{self, Question};
use crate::changes::Changes;
use crate::content;
use crate::fixture::{Answer, Call, not_found, object, text};

/// What a prompt makes of its arguments.
type Messages = fn(&CallContext, &Object) -> Result<Vec<Value>, AdapterError>;

/// A prompt: its name, its description, its arguments, all required, and what it says.
struct Prompt(&'static str, &'static str, &'static [&'static str], Messages);

/// The prompt whose definition changes.
const CHANGING: &str = "test_simple_prompt";

const PROMPTS: [Prompt; 5] = [
    Prompt(CHANGING, "Takes no arguments", &[], |_, _| {
        Ok(vec![content::text("This is a simple prompt for testing.")])
    }),
    Prompt("test_prompt_with_arguments", "Takes two arguments", &["arg1", "arg2"], |_, given| {
        let (first, second) = (text(given, "arg1")?, text(given, "arg2")?);
        let line = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
        Ok(vec![content::text(&line)])
    }),
    Prompt(
        "test_prompt_with_embedded_resource",
        "Includes a resource",
        &["resourceUri"],
        |_, given| {
            let uri = text(given, "resourceUri")?;
            Ok(vec![
                content::resource(uri, "text/plain", "Embedded resource content for testing."),
                content::text("Please process the embedded resource above."),
            ])
        },
    ),
    Prompt("test_prompt_with_image", "Includes a picture", &[], |_, _| {
        Ok(vec![content::image(), content::text("Please analyze the image above.")])
    }),
    Prompt(
        "test_input_required_result_prompt",
        "Asks before it says anything",
        &[],
        |context, _| {
            let message = "What context should the prompt use?";
            let question = Question::elicit(
                "user_context",
                message,
                &json!({ "context": { "type": "string" } }),
            );
            let answers = asking::ask(context, &[question])?;
            let line = match answers.accepted("user_context") {
                Some(content) => format!("Use this context: {}", text(content, "context")?),
                None => "Use no context.".to_owned(),
            };
            Ok(vec![content::text(&line)])
        },
    ),
];

pub(crate) fn prompts(changes: &Changes) -> Vec<Object> {
    let define = |Prompt(name, description, arguments, _): &Prompt| {
        let argument = |name: &&str| json!({ "name": name, "required": true });
        let arguments: Vec<Value> = arguments.iter().map(argument).collect();
        let mut prompt = object(json!({
            "name": name, "description": description, "arguments": arguments,
        }));
        if *name == CHANGING {
            changes.show_in_prompt(&mut prompt);
        }
        prompt
    };
    PROMPTS.iter().map(define).collect()
}

/// Gets a prompt.
pub(crate) fn get(call: &Call<'_>) -> Answer {
    let name = call.text("name")?;
    let Prompt(_, description, _, messages) =
        PROMPTS.iter().find(|prompt| prompt.0 == name).ok_or_else(|| not_found("prompt", name))?;
    let nothing = Object::new();
    let given = call.args.get("arguments").and_then(Value::as_object).unwrap_or(&nothing);
    let of_user = |content: Value| json!({ "role": "user", "content": content });
    let messages: Vec<Value> = messages(call.context, given)?.into_iter().map(of_user).collect();
    Ok(object(json!({ "description": description, "messages": messages })))
}

/// Completes an argument of a prompt or of a template.
pub(crate) fn complete(call: &Call<'_>) -> Answer {
    let argument = call.args.get("argument").and_then(Value::as_object);
    let member = |key| argument.and_then(|it| it.get(key)).and_then(Value::as_str);
    let known: &[&str] = match member("name") {
        Some("arg1") => &["testValue1"],
        Some("arg2") => &["testValue2"],
        Some("id") => &["123"],
        _ => &[],
    };
    let begun = member("value").unwrap_or_default();
    let values: Vec<&str> = known.iter().copied().filter(|it| it.starts_with(begun)).collect();
    Ok(object(json!({ "values": values, "total": values.len(), "hasMore": false })))
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::{Recorder, call};
    use nexus_router_sdk::{Adapter as _, Catalog, Interaction, code};

    use super::*;
    use crate::tests::adapter;

    #[test]
    fn prompts_use_their_arguments() {
        let (tool, method) = Catalog::PROMPT;
        let get = |name: &str, given: Value| {
            let args = json!({ "name": name, "arguments": given });
            call(&adapter(), tool, method, args)
        };
        let given = json!({ "arg1": "testValue1", "arg2": "testValue2" });
        let text = &get("test_prompt_with_arguments", given).unwrap()["messages"][0]["content"];
        assert_eq!(text["text"], "Prompt with arguments: arg1='testValue1', arg2='testValue2'");
        let given = json!({ "resourceUri": "test://example-resource" });
        let block = &get("test_prompt_with_embedded_resource", given).unwrap()["messages"][0];
        assert_eq!(block["content"]["resource"]["uri"], "test://example-resource");
        let error = get("test_prompt_with_arguments", json!({ "arg1": "a" })).unwrap_err();
        assert_eq!(error.code, code::INVALID_ARGUMENT);
        for name in ["test_simple_prompt", "test_prompt_with_image"] {
            let messages = call(&adapter(), tool, method, json!({ "name": name })).unwrap();
            assert_eq!(messages["messages"][0]["role"], "user", "{name}");
        }
    }

    #[test]
    fn a_prompt_asks_first() {
        let (tool, method) = Catalog::PROMPT;
        let get = |inputs: Value| {
            let client = object(json!({ "elicitation": {} }));
            let interaction = Interaction { inputs: object(inputs), state: None, client };
            let args = object(json!({ "name": "test_input_required_result_prompt" }));
            let context = Recorder::default().context_with(interaction);
            adapter().call(&context, tool, method, args)
        };
        let error = get(json!({})).unwrap_err();
        assert_eq!(error.code, code::INPUT_REQUIRED);
        assert!(error.details["requests"]["user_context"].is_object());
        let answer = json!({ "action": "accept", "content": { "context": "test context" } });
        let messages = get(json!({ "user_context": answer })).unwrap();
        assert_eq!(messages["messages"][0]["content"]["text"], "Use this context: test context");
    }

    #[test]
    fn arguments_are_completed() {
        let (tool, method) = Catalog::COMPLETE;
        let complete = |name: &str, value: &str| {
            let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
            let args = json!({ "ref": reference, "argument": { "name": name, "value": value } });
            Value::Object(call(&adapter(), tool, method, args).unwrap())
        };
        let found = json!({ "values": ["testValue1"], "total": 1, "hasMore": false });
        assert_eq!(complete("arg1", "test"), found);
        for (name, value) in [("arg1", "other"), ("arg3", "")] {
            let nothing = json!({ "values": [], "total": 0, "hasMore": false });
            assert_eq!(complete(name, value), nothing);
        }
    }
}
