//! Tools that ask with what the call brings: a prompt, a message, and forms of every kind.

use serde_json::{Value, json};

use crate::asking::{self, Question};
use crate::content::said;
use crate::fixture::{Answer, Call, Fixture};

const ANSWER: &str = "answer";

pub(crate) fn fixtures() -> Vec<Fixture> {
    let takes_text = |name: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "string" } },
            "required": [name],
        })
    };
    let all = [
        Fixture::new("test_sampling", "Asks the client's model", sampling)
            .takes(takes_text("prompt")),
        Fixture::new("test_elicitation", "Asks the user", |call| {
            let question = Question::elicit(ANSWER, call.text("message")?, &person());
            form(call, question, "User response")
        })
        .takes(takes_text("message")),
        Fixture::new("test_elicitation_sep1034_defaults", "Shows a form with defaults", |call| {
            let message = "Please review and update the form fields with defaults";
            let question = Question::elicit_by(ANSWER, message, &defaults());
            form(call, question, "Elicitation completed")
        }),
        Fixture::new("test_elicitation_sep1330_enums", "Shows a form with choices", |call| {
            let message = "Please select options from the enum fields";
            let question = Question::elicit_by(ANSWER, message, &choices());
            form(call, question, "Elicitation completed")
        }),
    ];
    all.map(Fixture::interactive).into()
}

fn sampling(call: &Call<'_>) -> Answer {
    let question = Question::sample(ANSWER, call.text("prompt")?, 100);
    let answers = asking::ask(call.context, &[question])?;
    Ok(said(&format!("LLM response: {}", asking::sampled(answers.get(ANSWER)))))
}

fn form(call: &Call<'_>, question: Question, what: &str) -> Answer {
    let answers = asking::ask(call.context, &[question])?;
    let answer = answers.get(ANSWER);
    let action = answer["action"].as_str().unwrap_or_default();
    Ok(said(&format!("{what}: action={action}, content={}", answer["content"])))
}

fn person() -> Value {
    json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    })
}

/// One field of every primitive type, each with a default.
fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": {
                "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
            },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

/// One field of every way to write a choice.
fn choices() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    let titled = |what: &str| {
        let choice =
            |(value, ordinal)| json!({ "const": value, "title": format!("{ordinal} {what}") });
        [("value1", "First"), ("value2", "Second"), ("value3", "Third")].map(choice)
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
    })
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, Interaction, code};

    use super::*;
    use crate::asking::able;
    use crate::fixture::{METHOD, object};
    use crate::tests::adapter;

    #[test]
    fn the_question_brings_what_the_call_did_and_the_answer_comes_back() {
        let call = |tool: &str, args: Value, inputs: Value| {
            let interaction = Interaction { inputs: object(inputs), state: None, client: able() };
            let context = Recorder::default().context_with(interaction);
            adapter().call(&context, tool, METHOD, object(args))
        };
        let args = json!({ "message": "Please provide your information" });
        let error = call("test_elicitation", args.clone(), json!({})).unwrap_err();
        assert_eq!(error.code, code::INPUT_REQUIRED);
        let params = &error.details["requests"][ANSWER]["params"];
        assert_eq!(params["message"], args["message"]);
        assert_eq!(params["requestedSchema"]["required"], json!(["username", "email"]));

        let content = json!({ "username": "testuser", "email": "test@example.com" });
        let answer = json!({ ANSWER: { "action": "accept", "content": content } });
        let output = call("test_elicitation", args, answer).unwrap();
        let expected = format!("User response: action=accept, content={content}");
        assert_eq!(output["content"][0]["text"], expected);

        let prompt = json!({ "prompt": "Test prompt for sampling" });
        let answer = json!({ ANSWER: { "content": { "type": "text", "text": "Yes" } } });
        let output = call("test_sampling", prompt, answer).unwrap();
        assert_eq!(output["content"][0]["text"], "LLM response: Yes");
    }
}
