//! What came of a run of one step, in the words of the protocol.

use nexus_router_sdk::code;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, InputRequests, JsonObject, MetaObject,
    ResultType,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::event::OutputDigest;
use crate::json::Object;
use crate::outcome::{Outcome, StepError, StepResult};

/// What a step gave.
pub(super) enum Gave {
    /// An output.
    Output(JsonObject),
    /// Operational failure.
    Failure(Failure),
    /// Questions to the caller.
    Questions(Questions),
}

/// Operational failure of a step, with the output that the adapter gave with it.
pub(super) struct Failure {
    pub(super) error: StepError,
    output: Option<JsonObject>,
}

/// What a call asks its caller.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) requests: InputRequests,
    /// What the adapter wants to hear again with the answers.
    pub(super) state: Option<String>,
}

/// Reads what came of the only step of a run.
pub(super) fn read(outcome: &Outcome) -> Result<Gave, ErrorData> {
    let data = |code: &str| Some(json!({ "code": code, "run_id": outcome.run_id }));
    let step = outcome.results.first();
    let Some(error) = step.and_then(|step| step.error.as_ref()) else {
        if let Some((code, message)) = &outcome.error {
            return Err(ErrorData::new(super::REFUSED, message.clone(), data(code)));
        }
        // The output is there only for the caller who waited for it.
        if let Some(digest) = step.filter(|it| it.answer.is_none()).and_then(|it| it.output_digest)
        {
            let data = data(OutputDigest::CODE);
            return Err(ErrorData::new(super::REFUSED, digest.message(), data));
        }
        let output = step.map(|step| step.for_caller().to_serde()).unwrap_or_default();
        return Ok(Gave::Output(output));
    };
    let details = Value::Object(error.details.to_serde());
    match error.code.as_str() {
        code::INPUT_REQUIRED => {
            let requests = serde_json::from_value(details["requests"].clone());
            let requests = requests.map_err(|problem| {
                let message = format!("the adapter asks what cannot be asked: {problem}");
                ErrorData::internal_error(message, data(code::INPUT_REQUIRED))
            })?;
            let state = details["state"].as_str().map(str::to_owned);
            Ok(Gave::Questions(Questions { requests, state }))
        }
        code::CLIENT_CAPABILITY_MISSING => {
            let required = match &details["required"] {
                Value::Object(required) => Value::Object(required.clone()),
                _ => json!({}),
            };
            let data = json!({ "requiredCapabilities": required, "run_id": outcome.run_id });
            let message = "Missing required client capability";
            Err(ErrorData::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, message, Some(data)))
        }
        code if is_denial(&details) => {
            Err(ErrorData::new(ErrorCode::INVALID_PARAMS, error.message.clone(), data(code)))
        }
        _ => {
            let output = step.map(StepResult::for_caller).filter(|output| !output.is_empty());
            let output = output.map(Object::to_serde);
            Ok(Gave::Failure(Failure { error: error.clone(), output }))
        }
    }
}

/// Says whether the call was not let through, rather than failed.
fn is_denial(details: &Value) -> bool {
    const DENIERS: [&str; 11] = [
        "rule",
        "default",
        "offer",
        "catalogue",
        "name",
        "role",
        "token",
        "secrets",
        "operator",
        "capability",
        "policy",
    ];
    details["denied_by"].as_str().is_some_and(|by| DENIERS.contains(&by))
}

/// Makes the result of a tool.
pub(super) fn result(
    outcome: &Outcome,
    content: bool,
    gave: Result<JsonObject, Failure>,
) -> Result<CallToolResult, ErrorData> {
    let mut result = match gave {
        Ok(output) if content => typed(output)?,
        Ok(output) => CallToolResult::structured(Value::Object(output)),
        Err(Failure { error, output }) => {
            let text = ContentBlock::text(format!("{}: {}", error.code, error.message));
            match output {
                None => CallToolResult::error(vec![text]),
                Some(output) => {
                    let upstream = content.then(|| typed::<CallToolResult>(output.clone()).ok());
                    upstream.flatten().unwrap_or_else(|| {
                        let mut result = CallToolResult::structured_error(Value::Object(output));
                        result.content.insert(0, text);
                        result
                    })
                }
            }
        }
    };
    result.result_type = Some(ResultType::COMPLETE);
    let meta = result.meta.get_or_insert_with(MetaObject::new);
    meta.insert("nexus-router/runId".to_owned(), outcome.run_id.as_str().into());
    if outcome.needs_review() {
        meta.insert("nexus-router/review".to_owned(), "required".into());
    }
    Ok(result)
}

/// Makes the result of a whole plan.
pub(super) fn whole(outcome: &Outcome) -> CallToolResult {
    CallToolResult::structured(outcome.to_json().to_serde())
}

/// Reads an output that is promised to be a result of the protocol.
pub(super) fn typed<T: DeserializeOwned>(output: JsonObject) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(output)).map_err(|error| {
        let message = format!("the adapter's output is not the result that it promises: {error}");
        ErrorData::internal_error(message, Some(json!({ "code": "OUTPUT_INVALID" })))
    })
}

/// Says whether an output looks like a `CallToolResult`.
pub(super) fn is_content(output: &Object) -> bool {
    let blocks = output.get("content").and_then(crate::json::Value::as_array);
    blocks.is_some_and(|blocks| blocks.iter().all(|block| block.get("type").is_some()))
}

/// Tells a failure that is no result of a tool.
pub(super) fn failure(outcome: &Outcome, error: &StepError, name: &str) -> ErrorData {
    let kind = match error.code.as_str() {
        code::NOT_FOUND => ErrorCode::RESOURCE_NOT_FOUND,
        code::INVALID_ARGUMENT | "ARGUMENTS_INVALID" => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let mut data = json!({ "code": error.code, "run_id": outcome.run_id });
    if kind == ErrorCode::RESOURCE_NOT_FOUND {
        data["uri"] = name.into();
    }
    ErrorData::new(kind, error.message.clone(), Some(data))
}
