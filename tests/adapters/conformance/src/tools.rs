//! Tools that answer by themselves: content of every type, progress, logs, and what a client must be able to.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, Level};
use serde_json::{Value, json};

use crate::content::{self, said};
use crate::fixture::{Answer, Call, Fixture};

/// Between two things that a tool tells.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn fixtures() -> Vec<Fixture> {
    vec![
        Fixture::new("test_simple_text", "Returns a text", |_| {
            Ok(said("This is a simple text response for testing."))
        }),
        Fixture::new("test_image_content", "Returns a picture", |_| {
            Ok(content::result(&[content::image()]))
        }),
        Fixture::new("test_audio_content", "Returns a sound", |_| {
            Ok(content::result(&[content::audio()]))
        }),
        Fixture::new("test_embedded_resource", "Returns a resource", |_| {
            Ok(content::result(&[content::resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )]))
        }),
        Fixture::new(
            "test_multiple_content_types",
            "Returns a text, a picture and a resource",
            several_types,
        ),
        Fixture::new("test_error_handling", "Returns a failure", |_| {
            let mut output = said("This tool intentionally returns an error for testing");
            output.insert("isError".to_owned(), true.into());
            Ok(output)
        }),
        Fixture::new("test_tool_with_progress", "Tells how far it has come", progress),
        Fixture::new("test_tool_with_logging", "Tells what it does", logging),
        Fixture::new("test_logging_tool", "Tells once what it does", |call| {
            call.context.log(Level::Info, "Tool execution started");
            Ok(said("Logging evaluated"))
        }),
        Fixture::new("test_reconnection", "Takes a moment", |call| {
            call.context.sleep(2 * PAUSE)?;
            Ok(said("Reconnection test completed"))
        }),
        Fixture::plain(
            "json_schema_2020_12_tool",
            "Returns what a rich schema lets through",
            |call| Ok(call.args.clone()),
        )
        .takes(rich_schema()),
        Fixture::plain(
            "test_x_mcp_header",
            "Has an argument that also stands in a header",
            |call| Ok(call.args.clone()),
        )
        .takes(region(&json!({ "type": "string", "x-mcp-header": "Region" })))
        .gives(region(&json!({ "type": "string" }))),
        Fixture::new("test_missing_capability", "Needs a client that samples", |call| {
            match call.context.client_capability("sampling") {
                Some(_) => Ok(said("The client can sample")),
                None => Err(AdapterError::client_lacks(&json!({ "sampling": {} }))),
            }
        })
        .interactive(),
        Fixture::new("greet", "Greets somebody", |call| {
            Ok(said(&format!("Hello, {}!", call.text("name")?)))
        })
        .takes(json!({
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"],
        })),
    ]
}

fn several_types(_: &Call<'_>) -> Answer {
    Ok(content::result(&[
        content::text("Multiple content types test:"),
        content::image(),
        content::resource(
            "test://mixed-content-resource",
            "application/json",
            r#"{"test":"data","value":123}"#,
        ),
    ]))
}

fn progress(call: &Call<'_>) -> Answer {
    for done in [0.0, 50.0, 100.0] {
        call.context.progress(done, Some(100.0), &format!("Completed step {done} of 100"));
        call.context.sleep(PAUSE)?;
    }
    Ok(said("Tool with progress completed"))
}

fn logging(call: &Call<'_>) -> Answer {
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        call.context.log(Level::Info, line);
        call.context.sleep(PAUSE)?;
    }
    Ok(said("Tool with logging completed"))
}

fn region(property: &Value) -> Value {
    json!({ "type": "object", "properties": { "region": property }, "required": ["region"] })
}

/// A schema whose keywords must all reach the client, to the letter.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        }},
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, Interaction, Object, code};

    use super::*;
    use crate::fixture::{METHOD, object};
    use crate::tests::adapter;

    #[test]
    fn progress_and_logs_are_told_in_order() {
        let recorder = Recorder::default();
        for tool in ["test_tool_with_progress", "test_tool_with_logging"] {
            adapter().call(&recorder.context(), tool, METHOD, Object::new()).unwrap();
        }
        let told: Vec<Value> = recorder
            .notices()
            .iter()
            .map(|notice| notice.get("done").unwrap_or(&notice["message"]).clone())
            .collect();
        assert_eq!(
            Value::from(told),
            json!([
                0.0,
                50.0,
                100.0,
                "Tool execution started",
                "Tool processing data",
                "Tool execution completed",
            ])
        );
    }

    #[test]
    fn a_client_that_lacks_something_is_told_what() {
        let recorder = Recorder::default();
        let call = |client: Value| {
            let interaction = Interaction { client: object(client), ..Interaction::default() };
            let context = recorder.context_with(interaction);
            adapter().call(&context, "test_missing_capability", METHOD, Object::new())
        };
        let error = call(json!({ "elicitation": {} })).unwrap_err();
        assert_eq!(error.code, code::CLIENT_CAPABILITY_MISSING);
        assert_eq!(error.details["required"], json!({ "sampling": {} }));
        assert!(call(json!({ "sampling": {} })).is_ok());
    }
}
