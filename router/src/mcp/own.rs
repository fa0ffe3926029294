//! The router's own tools, for administrators.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, ErrorData, JsonObject,
    Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::answer;
use super::call::{Came, Following, Wait};
use super::{Asker, Handler, REFUSED, refused_with};
use crate::access::Scope;
use crate::app::{self, TOOLS};
use crate::json::Object;
use crate::request::RunToolRequest;
use crate::schema::SCHEMAS;
use crate::toolspec::Local;

const PREFIX: &str = "nexus-router.";
/// The tool that carries out a plan.
const RUN: &str = "nexus-router.run";
/// Tools that change nothing.
const READ_ONLY: [&str; 7] = [
    "nexus-router.inspect",
    "nexus-router.replay",
    "nexus-router.export",
    "nexus-router.adapters",
    "nexus-router.validate_adapter",
    "nexus-router.inspect_adapter",
    "nexus-router.generate_adapter_docs",
];

/// Says whether a name is that of a tool of the router itself.
pub(super) fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Lists them.
pub(super) fn tools() -> impl Iterator<Item = Tool> {
    TOOLS.iter().map(|own| {
        let read_only = READ_ONLY.contains(&own.id);
        let mut tool = Tool::default();
        tool.name = own.id.into();
        tool.description = Some(own.doc.into());
        tool.input_schema = Arc::new(input(own.id));
        let mut annotations = ToolAnnotations::default();
        annotations.read_only_hint = Some(read_only);
        annotations.destructive_hint = Some(!read_only);
        annotations.open_world_hint = Some(own.id == RUN);
        tool.annotations = Some(annotations);
        tool
    })
}

/// Returns a registered tool that is one of them under another name.
pub(super) fn alias(name: &str, local: &Local) -> Option<Tool> {
    let mut tool = tools().find(|tool| tool.name == local.operation)?;
    tool.name = name.to_owned().into();
    tool.description = Some(local.description.clone().into());
    Some(tool)
}

/// Returns the schema of a tool's request, as far as one is published. The store is the daemon's own.
fn input(id: &str) -> JsonObject {
    let begin = format!("{id}.request.");
    let published = SCHEMAS.iter().find(|schema| schema.name.starts_with(&begin));
    let schema = published.and_then(|schema| serde_json::from_str::<Value>(schema.text).ok());
    let mut schema = schema.unwrap_or_else(|| json!({ "type": "object" }));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("db_path");
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "db_path");
    }
    schema.as_object().cloned().unwrap_or_default()
}

impl Handler {
    /// Calls a tool of the router itself.
    pub(super) async fn call_own(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        asker: &Asker,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        self.require(asker, Scope::Admin, &format!("tools/call {name}"))?;
        let args = request.arguments.as_ref().map(Object::from).unwrap_or_default();
        if name != RUN {
            let answer = self.service().own_tool(name, args.into()).await;
            let answer = answer.map_err(|error| self.unanswered(&error))?;
            return Ok(CallToolResult::structured(answer.to_serde()).into());
        }
        if args.contains_key("db_path") {
            let hint = "leave it out: this router has one store";
            let message = "db_path is not taken here";
            return Err(refused_with(ErrorCode::INVALID_PARAMS, "REQUEST_INVALID", message, hint));
        }
        let read = RunToolRequest::read(args.into());
        let read = read.and_then(|read| read.request.without_interaction());
        let request = read.map_err(|error| {
            refused_with(ErrorCode::INVALID_PARAMS, error.code(), error.to_string(), &error.hint())
        })?;
        let wait = Wait::of(self, context);
        match self.run(&wait, asker, request, Following::Plan).await? {
            Came::Over(outcome) => Ok(answer::whole(&outcome).into()),
            Came::UnderWay(run_id) => {
                Ok(CallToolResponse::Task(self.new_task(asker, &run_id).await?))
            }
        }
    }

    fn unanswered(&self, error: &app::Error) -> ErrorData {
        let kind = match error {
            app::Error::Request(_) | app::Error::Tool { .. } | app::Error::UnknownTool { .. } => {
                ErrorCode::INVALID_PARAMS
            }
            _ => REFUSED,
        };
        refused_with(kind, error.code(), self.scrubbed(&error.to_string()), &error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tools_are_told_without_the_store() {
        for tool in tools() {
            assert!(is_own(&tool.name));
            let text = Value::Object((*tool.input_schema).clone()).to_string();
            assert!(text.contains("object") && !text.contains("db_path"), "{text}");
        }
        for name in READ_ONLY {
            assert!(TOOLS.iter().any(|tool| tool.id == name), "{name}");
        }
    }
}
