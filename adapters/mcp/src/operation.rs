//! Which request of the protocol a call is, and what its result is to the caller.

use nexus_router_sdk::{AdapterError, CallContext, Catalog, Object};
use serde_json::Value;

use crate::failure::{self, Failure};

/// The method of calls of tools.
pub(crate) const CALL: &str = "call";

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Call the tool of this name.
    Tool(String),
    /// Read a resource.
    Read,
    /// Follow a resource.
    Subscribe,
    /// No longer follow a resource.
    Unsubscribe,
    /// Get a prompt.
    Prompt,
    /// Complete an argument.
    Complete,
}

impl Operation {
    /// Reads the tool and the method of a call.
    pub(crate) fn of(tool: &str, method: &str) -> Result<Self, AdapterError> {
        match (tool, method) {
            Catalog::READ => Ok(Self::Read),
            Catalog::SUBSCRIBE => Ok(Self::Subscribe),
            Catalog::UNSUBSCRIBE => Ok(Self::Unsubscribe),
            Catalog::PROMPT => Ok(Self::Prompt),
            Catalog::COMPLETE => Ok(Self::Complete),
            (tool, CALL) => Ok(Self::Tool(tool.to_owned())),
            _ => {
                let known = "the method of a tool is call; besides there are resources.read, \
                             resources.subscribe, resources.unsubscribe, prompts.get and completion.complete";
                let given = failure::short(method, 100);
                Err(failure::invalid(format!("there is no method {given:?}: {known}")))
            }
        }
    }

    /// Returns the method of the protocol.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tools/call",
            Self::Read => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::Unsubscribe => "resources/unsubscribe",
            Self::Prompt => "prompts/get",
            Self::Complete => "completion/complete",
        }
    }

    /// Returns what it is about, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tool",
            Self::Read | Self::Subscribe | Self::Unsubscribe => "resource",
            Self::Prompt => "prompt",
            Self::Complete => "reference",
        }
    }

    /// Makes the parameters of the request, with what the caller answered before.
    pub(crate) fn params(
        &self,
        args: Object,
        context: &CallContext,
    ) -> Result<Object, AdapterError> {
        let needed = match self {
            Self::Read | Self::Subscribe | Self::Unsubscribe => Some("uri"),
            Self::Prompt => Some("name"),
            Self::Tool(_) | Self::Complete => None,
        };
        if let Some(needed) =
            needed.filter(|needed| !args.get(*needed).is_some_and(Value::is_string))
        {
            return Err(failure::invalid(format!("args.{needed} must be text")));
        }
        let mut params = match self {
            Self::Tool(name) => {
                let mut params = Object::new();
                params.insert("name".to_owned(), name.as_str().into());
                params.insert("arguments".to_owned(), args.into());
                params
            }
            _ => args,
        };
        if matches!(self, Self::Tool(_) | Self::Read | Self::Prompt) {
            if let Some(inputs) = context.inputs() {
                params.insert("inputResponses".to_owned(), inputs.clone().into());
            }
            if let Some(state) = context.input_state() {
                params.insert("requestState".to_owned(), state.into());
            }
        }
        Ok(params)
    }

    /// Makes the output of the result.
    pub(crate) fn output(&self, mut result: Object) -> Result<Object, Failure> {
        let kind = result.get("resultType").and_then(Value::as_str).unwrap_or("complete");
        match kind {
            "complete" => {
                result.remove("resultType");
            }
            "input_required" => return Err(Failure::answered(asked(&result))),
            other => {
                let what =
                    format!("is of a type that was not offered: {:?}", failure::short(other, 100));
                return Err(Failure::malformed(&what));
            }
        }
        match self {
            Self::Complete => match result.remove("completion") {
                Some(Value::Object(completion)) => Ok(completion),
                _ => Err(Failure::malformed("has no completion")),
            },
            _ => Ok(result),
        }
    }
}

/// Makes the error of a call whose server wants to know more.
fn asked(result: &Object) -> AdapterError {
    let requests = result.get("inputRequests").and_then(Value::as_object);
    let state = result.get("requestState").and_then(Value::as_str);
    AdapterError::input_required(&requests.cloned().unwrap_or_default(), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Interaction, code};
    use serde_json::json;

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("{value} is no object") };
        object
    }

    #[test]
    fn a_tool_may_be_called_like_anything() {
        assert_eq!(Operation::of("resources", "call"), Ok(Operation::Tool("resources".to_owned())));
        assert_eq!(Operation::of("resources", "read"), Ok(Operation::Read));
        assert_eq!(Operation::of("echo", "read").unwrap_err().code, code::INVALID_ARGUMENT);
    }

    #[test]
    fn answers_of_the_caller_go_along() {
        let interaction = Interaction {
            inputs: object(json!({ "who": { "action": "accept" } })),
            state: Some("s".to_owned()),
            client: Object::new(),
        };
        let context = Recorder::default().context_with(interaction);
        let tool = Operation::Tool("t".to_owned());
        let params = tool.params(object(json!({ "a": 1 })), &context).unwrap();
        let expected = json!({
            "name": "t",
            "arguments": { "a": 1 },
            "inputResponses": { "who": { "action": "accept" } },
            "requestState": "s",
        });
        assert_eq!(Value::Object(params), expected);
    }

    #[test]
    fn what_is_needed_must_be_there() {
        let context = Recorder::default().context();
        for operation in [Operation::Read, Operation::Subscribe, Operation::Prompt] {
            let error = operation.params(Object::new(), &context).unwrap_err();
            assert_eq!(error.code, code::INVALID_ARGUMENT);
        }
    }

    #[test]
    fn results_pass_as_they_came() {
        let tool = Operation::Tool("t".to_owned());
        let result = json!({
            "resultType": "complete",
            "content": [{ "type": "hologram", "x": 1 }],
            "structuredContent": null,
            "isError": true,
            "_meta": { "a.b/c": 1 },
            "more": 2,
        });
        let mut expected = object(result.clone());
        expected.remove("resultType");
        assert_eq!(tool.output(object(result)).unwrap(), expected);
        let completion = json!({ "completion": { "values": ["a"], "hasMore": false } });
        let expected = json!({ "values": ["a"], "hasMore": false });
        assert_eq!(Operation::Complete.output(object(completion)).unwrap(), object(expected));
    }

    #[test]
    fn a_question_of_the_server_is_one_to_the_caller() {
        let tool = Operation::Tool("t".to_owned());
        let requests = json!({ "who": { "method": "elicitation/create", "params": {} } });
        let result = json!({
            "resultType": "input_required", "inputRequests": requests, "requestState": "sealed",
        });
        let error = tool.output(object(result)).unwrap_err().error;
        assert_eq!(error.code, code::INPUT_REQUIRED);
        assert_eq!(error.details["requests"], requests);
        assert_eq!(error.details["state"], "sealed");
        let task = json!({ "resultType": "task" });
        assert_eq!(tool.output(object(task)).unwrap_err().error.code, code::INVALID_JSON);
    }
}
