//! Tools that take so long that clients follow them as tasks.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, CallContext};
use serde_json::{Value, json};

use crate::asking::{self, Question};
use crate::content::said;
use crate::fixture::{Answer, Call, Fixture};
use crate::rounds::{greeting, user_name};

/// A job failed, as it was meant to.
pub(crate) const JOB_FAILED: &str = "JOB_FAILED";

const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Longer than a router waits until it makes a task of a call.
const LONG: Duration = Duration::from_millis(500);
const LONGEST_SECONDS: f64 = 3600.0;

pub(crate) fn fixtures() -> Vec<Fixture> {
    vec![
        Fixture::new("slow_compute", "Takes as long as it is told", slow)
            .takes(json!({
                "type": "object",
                "properties": {
                    "seconds": { "type": "number", "minimum": 0, "maximum": LONGEST_SECONDS },
                    "label": { "type": "string" },
                },
            }))
            .long(),
        Fixture::new("failing_job", "Fails after a second", |call| {
            needs_tasks(call.context)?;
            call.context.sleep(Duration::from_secs(1))?;
            Err(AdapterError::operational(JOB_FAILED, "the job failed, as it was meant to"))
        })
        .interactive()
        .long(),
        Fixture::new("protocol_error_job", "Fails as nothing should", |call| {
            needs_tasks(call.context)?;
            call.context.sleep(LONG)?;
            Err(AdapterError::bug("the job broke, as it was meant to"))
        })
        .interactive()
        .long(),
        Fixture::new("confirm_delete", "Pretends to delete a file, if the user confirms", delete)
            .takes(json!({
                "type": "object",
                "properties": { "filename": { "type": "string" } },
                "required": ["filename"],
            }))
            .interactive()
            .long(),
        Fixture::new("multi_input", "Asks for two things at once, after a while", both)
            .interactive()
            .long(),
        Fixture::new("test_tool_with_task", "Asks, then takes long", |call| {
            needs_tasks(call.context)?;
            let answers = asking::ask_with_state(call.context, &[user_name()])?;
            call.context.sleep(LONG)?;
            Ok(said(&greeting(answers.accepted("user_name").map(|it| &it["name"]))))
        })
        .interactive()
        .long(),
    ]
}

/// Refuses callers that cannot follow tasks.
fn needs_tasks(context: &CallContext) -> Result<(), AdapterError> {
    match context.client_capability("extensions").and_then(|it| it.get(TASKS)) {
        Some(_) => Ok(()),
        None => Err(AdapterError::client_lacks(&json!({ "extensions": { TASKS: {} } }))),
    }
}

fn slow(call: &Call<'_>) -> Answer {
    let seconds = call.args.get("seconds").and_then(Value::as_f64).unwrap_or_default();
    call.context.sleep(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SECONDS)))?;
    let label = call.args.get("label").and_then(Value::as_str).unwrap_or("something");
    Ok(said(&format!("Computed {label} in {seconds} seconds")))
}

fn delete(call: &Call<'_>) -> Answer {
    let filename = call.text("filename")?;
    if call.context.input("confirm").is_none() {
        call.context.sleep(LONG)?;
    }
    let message = format!("Delete {filename}?");
    let properties = json!({ "confirm": { "type": "boolean" } });
    let answers = asking::ask(call.context, &[Question::elicit("confirm", &message, &properties)])?;
    let agreed = answers.accepted("confirm").is_some_and(|it| it["confirm"] == true);
    Ok(said(&format!("{} {filename}", if agreed { "Deleted" } else { "Kept" })))
}

fn both(call: &Call<'_>) -> Answer {
    if call.context.input_state().is_none() {
        call.context.sleep(LONG)?;
    }
    let ask = |name, message: &str| {
        Question::elicit(name, message, &json!({ "name": { "type": "string" } }))
    };
    let questions = [ask("first", "The first name?"), ask("second", "The second name?")];
    let answers = asking::ask_with_state(call.context, &questions)?;
    let name = |which: &str| answers.accepted(which).map_or(&Value::Null, |it| &it["name"]).clone();
    Ok(said(&format!("first {}, second {}", name("first"), name("second"))))
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, ErrorKind, Interaction, Object, code};

    use super::*;
    use crate::asking::{able, accept};
    use crate::fixture::{METHOD, object};
    use crate::tests::adapter;

    fn call(tool: &str, args: Value, inputs: Value, state: Option<&str>) -> Answer {
        let mut client = able();
        client.insert("extensions".to_owned(), json!({ TASKS: {} }));
        let state = state.map(str::to_owned);
        let interaction = Interaction { inputs: object(inputs), state, client };
        let context = Recorder::default().context_with(interaction);
        adapter().call(&context, tool, METHOD, object(args))
    }

    #[test]
    fn jobs_fail_in_their_own_ways() {
        let error = call("failing_job", json!({}), json!({}), None).unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Operational, JOB_FAILED));
        let error = call("protocol_error_job", json!({}), json!({}), None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Bug);
        let context = Recorder::default().context();
        let error = adapter().call(&context, "failing_job", METHOD, Object::new()).unwrap_err();
        assert_eq!(error.code, code::CLIENT_CAPABILITY_MISSING);
        assert_eq!(error.details["required"], json!({ "extensions": { TASKS: {} } }));
    }

    #[test]
    fn a_question_comes_only_when_the_call_is_a_task() {
        let args = json!({ "filename": "a.txt" });
        let hurried = Recorder::default().context_with_time(LONG / 2);
        let error = adapter().call(&hurried, "confirm_delete", METHOD, object(args.clone()));
        assert_eq!(error.unwrap_err().code, code::TIMEOUT);
        let error = call("confirm_delete", args.clone(), json!({}), None).unwrap_err();
        assert_eq!(error.code, code::INPUT_REQUIRED);
        for (confirm, expected) in [(true, "Deleted a.txt"), (false, "Kept a.txt")] {
            let inputs = json!({ "confirm": accept(&json!({ "confirm": confirm })) });
            let output = call("confirm_delete", args.clone(), inputs, None).unwrap();
            assert_eq!(output["content"][0]["text"], expected);
        }
    }

    #[test]
    fn two_answers_may_come_one_by_one() {
        let asked = |error: &AdapterError| -> Vec<String> {
            error.details["requests"].as_object().unwrap().keys().cloned().collect()
        };
        let first = call("multi_input", json!({}), json!({}), None).unwrap_err();
        assert_eq!(asked(&first), ["first", "second"]);
        let inputs = json!({ "first": accept(&json!({ "name": "a" })) });
        let state = first.details["state"].as_str();
        let second = call("multi_input", json!({}), inputs, state).unwrap_err();
        assert_eq!(asked(&second), ["second"]);
        let inputs = json!({ "second": accept(&json!({ "name": "b" })) });
        let state = second.details["state"].as_str();
        let output = call("multi_input", json!({}), inputs, state).unwrap();
        assert_eq!(output["content"][0]["text"], r#"first "a", second "b""#);
    }

    #[test]
    fn a_slow_call_can_be_cancelled() {
        let (context, cancel) = Recorder::default().cancellable_context();
        let args = object(json!({ "seconds": LONGEST_SECONDS }));
        let calling =
            std::thread::spawn(move || adapter().call(&context, "slow_compute", METHOD, args));
        cancel();
        assert_eq!(calling.join().unwrap().unwrap_err().code, code::CANCELLED);
        let output = call("slow_compute", json!({ "seconds": 0 }), json!({}), None).unwrap();
        assert_eq!(output["content"][0]["text"], "Computed something in 0 seconds");
    }
}
