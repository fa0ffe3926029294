//! An adapter that serves what the conformance suite of the Model Context Protocol calls.
//!
//! The suite knows its tools, prompts and resources by name, and says what each must do. Here they are behind
//! the adapter's boundary, so that what the suite judges is everything in between: the catalogue, the gate,
//! the worker, and the router's server.
#![forbid(unsafe_code)]

mod asking;
mod changes;
mod content;
mod elicitation;
mod fixture;
mod prompts;
mod resources;
mod rounds;
mod tasks;
mod tools;

use std::collections::BTreeMap;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Catalog, Manifest, Object, code, export_adapter,
};

use crate::changes::Changes;
use crate::fixture::{Answer, Call, Fixture};

const KIND: &str = "conformance";
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

const MANIFEST: Manifest =
    Manifest::new(KIND, CAPABILITIES).router_versions(">=1.2,<2").config(&[]).error_codes(&[
        code::BUG_ERROR,
        code::CANCELLED,
        code::CLIENT_CAPABILITY_MISSING,
        code::INPUT_REQUIRED,
        code::INVALID_ARGUMENT,
        code::NOT_FOUND,
        code::TIMEOUT,
        tasks::JOB_FAILED,
    ]);

/// The adapter: tools by name, and what changed since it was made.
pub struct Conformance {
    adapter_id: String,
    fixtures: BTreeMap<String, Fixture>,
    changes: Changes,
}

impl Adapter for Conformance {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(&self, context: &CallContext, tool: &str, method: &str, args: Object) -> Answer {
        let call = Call { context, args: &args, changes: &self.changes };
        match (tool, method) {
            Catalog::READ => resources::read(&call),
            Catalog::SUBSCRIBE | Catalog::UNSUBSCRIBE => resources::follow(&call),
            Catalog::PROMPT => prompts::get(&call),
            Catalog::COMPLETE => prompts::complete(&call),
            (name, fixture::METHOD) => match self.fixtures.get(name) {
                Some(fixture) => (fixture.run)(&call),
                None => Err(fixture::not_found("tool", name)),
            },
            (tool, method) => Err(fixture::not_found("operation", &format!("{tool} {method}"))),
        }
    }

    fn has_catalog(&self) -> bool {
        true
    }

    fn catalog(&self, _: &CallContext) -> Result<Catalog, AdapterError> {
        let mut tools: Vec<_> =
            self.fixtures.values().map(|fixture| fixture.tool.clone()).collect();
        self.changes.show_in_tools(&mut tools);
        Ok(Catalog {
            tools,
            resources: resources::resources(),
            resource_templates: resources::templates(),
            prompts: prompts::prompts(&self.changes),
            completes: true,
            subscribes: true,
        })
    }
}

/// Makes the adapter.
///
/// # Errors
/// None.
pub fn create_adapter(adapter_id: Option<&str>, _: Object) -> Result<Conformance, AdapterError> {
    let all = [
        tools::fixtures(),
        changes::fixtures(),
        elicitation::fixtures(),
        rounds::fixtures(),
        tasks::fixtures(),
    ];
    let named = |fixture: Fixture| (fixture.tool.name().to_owned(), fixture);
    Ok(Conformance {
        adapter_id: adapter_id.unwrap_or(KIND).to_owned(),
        fixtures: all.into_iter().flatten().map(named).collect(),
        changes: Changes::default(),
    })
}

export_adapter!(create_adapter, MANIFEST);

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::{self, Recorder};
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn adapter() -> Conformance {
        create_adapter(None, Object::new()).unwrap()
    }

    fn catalog(adapter: &Conformance) -> Catalog {
        adapter.catalog(&Recorder::default().context()).unwrap()
    }

    #[test]
    fn everything_the_suite_knows_by_name_is_in_the_catalogue() {
        let catalog = catalog(&adapter());
        let tools: Vec<&str> = catalog.tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(
            tools,
            [
                "confirm_delete",
                "failing_job",
                "greet",
                "json_schema_2020_12_tool",
                "multi_input",
                "protocol_error_job",
                "slow_compute",
                "test_audio_content",
                "test_elicitation",
                "test_elicitation_sep1034_defaults",
                "test_elicitation_sep1330_enums",
                "test_embedded_resource",
                "test_error_handling",
                "test_image_content",
                "test_input_required_result_capabilities",
                "test_input_required_result_elicitation",
                "test_input_required_result_list_roots",
                "test_input_required_result_multi_round",
                "test_input_required_result_multiple_inputs",
                "test_input_required_result_request_state",
                "test_input_required_result_sampling",
                "test_input_required_result_tampered_state",
                "test_logging_tool",
                "test_missing_capability",
                "test_multiple_content_types",
                "test_reconnection",
                "test_sampling",
                "test_simple_text",
                "test_streaming_elicitation",
                "test_tool_with_logging",
                "test_tool_with_progress",
                "test_tool_with_task",
                "test_trigger_prompt_change",
                "test_trigger_resource_update",
                "test_trigger_tool_change",
                "test_x_mcp_header",
            ]
        );
        for tool in &catalog.tools {
            let definition = &tool.definition;
            assert_eq!(definition["inputSchema"]["type"], "object", "{}", tool.name());
            assert!(definition["description"].as_str().is_some_and(|text| !text.is_empty()));
            assert_eq!((tool.tool.as_str(), tool.method.as_str()), (tool.name(), fixture::METHOD));
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let adapter = adapter();
        let nothing = || json!({ "uri": "test://nowhere", "name": "nobody" });
        for (tool, method) in [
            ("test_nothing", "call"),
            ("test_simple_text", "other"),
            Catalog::READ,
            Catalog::SUBSCRIBE,
            Catalog::PROMPT,
        ] {
            let error = testing::call(&adapter, tool, method, nothing()).unwrap_err();
            assert_eq!(error.code, code::NOT_FOUND, "{tool} {method}");
        }
    }

    #[test]
    fn simple_tools_answer_with_their_content() {
        let adapter = adapter();
        let call = |tool| {
            let output = testing::call(&adapter, tool, fixture::METHOD, json!({})).unwrap();
            Value::Object(output)
        };
        assert_eq!(
            call("test_simple_text"),
            json!({ "content": [
                { "type": "text", "text": "This is a simple text response for testing." },
            ]})
        );
        assert_eq!(call("test_error_handling")["isError"], true);
        assert_eq!(call("test_audio_content")["content"][0]["mimeType"], "audio/wav");
        let mixed = call("test_multiple_content_types");
        let types: Vec<&Value> =
            mixed["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(types, ["text", "image", "resource"]);
    }
}
