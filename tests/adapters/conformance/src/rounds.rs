//! Tools that come to their answer in rounds: they ask, and are called again with what was answered.

use serde_json::{Value, json};

use crate::asking::{self, Question};
use crate::content::said;
use crate::fixture::{Answer, Call, Fixture};

pub(crate) fn fixtures() -> Vec<Fixture> {
    let all = [
        Fixture::new(
            "test_input_required_result_elicitation",
            "Asks the user for a name",
            |call| {
                let answers = asking::ask(call.context, &[user_name()])?;
                Ok(said(&greeting(answers.accepted("user_name").map(|it| &it["name"]))))
            },
        ),
        Fixture::new("test_input_required_result_sampling", "Asks the client's model", |call| {
            let question =
                Question::sample("capital_question", "What is the capital of France?", 100);
            let answers = asking::ask(call.context, &[question])?;
            Ok(said(asking::sampled(answers.get("capital_question"))))
        }),
        Fixture::new("test_input_required_result_list_roots", "Asks for the roots", |call| {
            let answers = asking::ask(call.context, &[Question::roots("client_roots")])?;
            Ok(said(&answers.get("client_roots")["roots"].to_string()))
        }),
        Fixture::new(
            "test_input_required_result_request_state",
            "Asks, and must be told again what it knew",
            |call| confirmed(call, "state-ok"),
        ),
        Fixture::new(
            "test_input_required_result_tampered_state",
            "Asks, and must be told to the letter what it knew",
            |call| confirmed(call, "integrity-ok"),
        ),
        Fixture::new(
            "test_input_required_result_multiple_inputs",
            "Asks for three things at once",
            several,
        ),
        Fixture::new("test_input_required_result_multi_round", "Asks twice", two_rounds),
        Fixture::new(
            "test_input_required_result_capabilities",
            "Asks only what the client can answer",
            answerable,
        ),
        Fixture::new("test_streaming_elicitation", "Tells how far it is, then asks", |call| {
            call.context.progress(50.0, Some(100.0), "Half of it is done");
            let answers = asking::ask(call.context, &[user_name()])?;
            Ok(said(&greeting(answers.accepted("user_name").map(|it| &it["name"]))))
        }),
    ];
    all.map(Fixture::interactive).into()
}

pub(crate) fn user_name() -> Question {
    Question::elicit("user_name", "What is your name?", &json!({ "name": { "type": "string" } }))
}

/// Greets whoever told a name.
pub(crate) fn greeting(name: Option<&Value>) -> String {
    match name.and_then(Value::as_str) {
        Some(name) => format!("Hello, {name}!"),
        None => "Hello, whoever you are!".to_owned(),
    }
}

fn confirmed(call: &Call<'_>, what: &str) -> Answer {
    let properties = json!({ "ok": { "type": "boolean" } });
    let question = Question::elicit("confirm", "Please confirm", &properties);
    let answers = asking::ask_with_state(call.context, &[question])?;
    let agreed = answers.accepted("confirm").is_some_and(|it| it["ok"] == true);
    Ok(said(&format!("{what}: {}", if agreed { "confirmed" } else { "not confirmed" })))
}

fn several(call: &Call<'_>) -> Answer {
    let questions = [
        user_name(),
        Question::sample("greeting", "Generate a greeting", 50),
        Question::roots("client_roots"),
    ];
    let answers = asking::ask_with_state(call.context, &questions)?;
    let name = answers.accepted("user_name").map_or(&Value::Null, |it| &it["name"]);
    let (model, roots) = (asking::sampled(answers.get("greeting")), answers.get("client_roots"));
    Ok(said(&format!("name {name}, greeting {model}, roots {}", roots["roots"])))
}

fn two_rounds(call: &Call<'_>) -> Answer {
    let ask = |name, message: &str, property: &str| {
        Question::elicit(name, message, &json!({ property: { "type": "string" } }))
    };
    let first = || ask("step1", "Step 1: What is your name?", "name");
    asking::ask_with_state(call.context, &[first()])?;
    let second = ask("step2", "Step 2: What is your favorite color?", "color");
    let answers = asking::ask_with_state(call.context, &[first(), second])?;
    let told = |step: &str, property: &str| {
        answers.accepted(step).map_or(&Value::Null, |it| &it[property]).clone()
    };
    Ok(said(&format!("name {}, color {}", told("step1", "name"), told("step2", "color"))))
}

fn answerable(call: &Call<'_>) -> Answer {
    let value = json!({ "value": { "type": "string" } });
    let mut questions = vec![
        Question::elicit("value", "Please give a value", &value),
        Question::sample("word", "Say a word", 50),
    ];
    questions.retain(|question| question.is_answerable(call.context));
    asking::ask(call.context, &questions)?;
    Ok(said("Nothing more to ask"))
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, AdapterError, Interaction, Object, code};

    use super::*;
    use crate::asking::{able, accept};
    use crate::fixture::{METHOD, object};
    use crate::tests::adapter;

    fn call(tool: &str, inputs: Value, state: Option<&str>, client: Object) -> Answer {
        let state = state.map(str::to_owned);
        let interaction = Interaction { inputs: object(inputs), state, client };
        adapter().call(&Recorder::default().context_with(interaction), tool, METHOD, Object::new())
    }

    fn requests(error: &AdapterError) -> Vec<(&str, &str)> {
        assert_eq!(error.code, code::INPUT_REQUIRED);
        let requests = error.details["requests"].as_object().unwrap();
        requests.iter().map(|(name, it)| (name.as_str(), it["method"].as_str().unwrap())).collect()
    }

    #[test]
    fn a_name_is_asked_for_without_a_state() {
        let tool = "test_input_required_result_elicitation";
        let error = call(tool, json!({}), None, able()).unwrap_err();
        assert_eq!(requests(&error), [("user_name", "elicitation/create")]);
        assert!(!error.details.contains_key("state"));
        let inputs = json!({ "user_name": accept(&json!({ "name": "Alice" })), "unknown": {} });
        let output = call(tool, inputs, None, able()).unwrap();
        assert_eq!(output["content"][0]["text"], "Hello, Alice!");
    }

    #[test]
    fn three_things_are_asked_for_at_once() {
        let tool = "test_input_required_result_multiple_inputs";
        let error = call(tool, json!({}), None, able()).unwrap_err();
        assert_eq!(
            requests(&error),
            [
                ("user_name", "elicitation/create"),
                ("greeting", "sampling/createMessage"),
                ("client_roots", "roots/list"),
            ]
        );
        let inputs = json!({
            "user_name": accept(&json!({ "name": "Alice" })),
            "greeting": { "content": { "type": "text", "text": "Hello there!" } },
            "client_roots": { "roots": [] },
        });
        let output = call(tool, inputs, error.details["state"].as_str(), able()).unwrap();
        let expected = r#"name "Alice", greeting Hello there!, roots []"#;
        assert_eq!(output["content"][0]["text"], expected);
    }

    #[test]
    fn the_second_round_knows_what_the_first_was_told() {
        let tool = "test_input_required_result_multi_round";
        let first = call(tool, json!({}), None, able()).unwrap_err();
        assert_eq!(requests(&first), [("step1", "elicitation/create")]);
        let inputs = json!({ "step1": accept(&json!({ "name": "Alice" })) });
        let second = call(tool, inputs, first.details["state"].as_str(), able()).unwrap_err();
        assert_eq!(requests(&second), [("step2", "elicitation/create")]);
        assert_ne!(first.details["state"], second.details["state"]);
        let inputs = json!({ "step2": accept(&json!({ "color": "blue" })) });
        let output = call(tool, inputs, second.details["state"].as_str(), able()).unwrap();
        assert_eq!(output["content"][0]["text"], r#"name "Alice", color "blue""#);
    }

    #[test]
    fn a_client_is_asked_what_it_can_answer() {
        let tool = "test_input_required_result_capabilities";
        let sampling = object(json!({ "sampling": {} }));
        let error = call(tool, json!({}), None, sampling).unwrap_err();
        assert_eq!(requests(&error), [("word", "sampling/createMessage")]);
    }
}
