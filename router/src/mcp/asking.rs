//! Questions of a call to its caller: sent back with a sealed state, or asked on the session's stream.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    ErrorCode, ErrorData, InputRequest, InputRequiredResult, InputResponses, JsonObject,
    ProtocolVersion, SealOptions, ServerRequest,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::answer::Questions;
use super::{Asker, Handler, refused};
use crate::digest::Digest;
use crate::json::Object;

/// For how long a caller may keep a state.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// No call asks so much at once.
const ANSWERS: usize = 100;
/// A call may ask so often before it is given up.
pub(super) const ROUNDS: usize = 10;
/// How long a caller may take to answer on its session.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a caller says besides the arguments.
#[derive(Default)]
pub(super) struct Said {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

/// What a state belongs to: nobody else can use it, and for nothing else.
pub(super) struct Bound<'a> {
    pub(super) asker: &'a Asker,
    pub(super) method: &'a str,
    pub(super) name: &'a str,
    pub(super) args: &'a Object,
}

impl Bound<'_> {
    fn bytes(&self) -> Vec<u8> {
        let caller = &self.asker.bearer.caller;
        let args = crate::json::to_canonical(&self.args.clone().into());
        let parts = json!([
            caller.token_id,
            caller.name,
            self.method,
            self.name,
            Digest::of(args.as_bytes()).to_string(),
        ]);
        parts.to_string().into_bytes()
    }
}

/// Says whether questions are answers to the request, and not requests of their own.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Handler {
    /// Puts together what an adapter is told of the caller.
    pub(super) fn interaction(
        &self,
        context: &RequestContext<RoleServer>,
        bound: &Bound<'_>,
        said: Said,
        interactive: bool,
    ) -> Result<Option<Object>, ErrorData> {
        if !interactive && said.responses.is_none() && said.state.is_none() {
            return Ok(None);
        }
        let mut interaction = Object::new();
        if let Some(sealed) = said.state {
            let state = self.shared.seal.open_with(&sealed, &bound.bytes());
            let state = state.ok().and_then(|state| String::from_utf8(state).ok());
            let state = state.ok_or_else(|| {
                let message = "requestState is not one of this call";
                refused(ErrorCode::INVALID_PARAMS, "REQUEST_STATE_INVALID", message)
            })?;
            interaction.insert("state", state);
        }
        if let Some(responses) = said.responses {
            if responses.len() > ANSWERS {
                let message = format!("there are more than {ANSWERS} answers");
                return Err(refused(ErrorCode::INVALID_PARAMS, "INPUT_INVALID", message));
            }
            let mut inputs = Object::new();
            for (name, response) in &responses {
                if !response.is_object() {
                    let message = format!("inputResponses.{name} is not an object");
                    return Err(refused(ErrorCode::INVALID_PARAMS, "INPUT_INVALID", message));
                }
                inputs.insert(name.as_str(), crate::json::Value::from(response));
            }
            interaction.insert("inputs", inputs);
        }
        let client = context.client_capabilities();
        let client = client.and_then(|client| serde_json::to_value(client).ok());
        if let Some(client) = client.as_ref().and_then(Value::as_object) {
            interaction.insert("client", Object::from(client));
        }
        Ok(Some(interaction))
    }

    /// Sends questions back as the answer.
    pub(super) fn ask_back(&self, bound: &Bound<'_>, questions: Questions) -> InputRequiredResult {
        let state = questions.state.map(|state| {
            let bytes = bound.bytes();
            let options = SealOptions::new().associated_data(&bytes).ttl(FRESH);
            self.shared.seal.seal_with(state.as_bytes(), &options)
        });
        InputRequiredResult::new(Some(questions.requests), state)
    }

    /// Asks on the session's stream, all at once, and waits for the answers.
    pub(super) async fn ask_now(
        &self,
        context: &RequestContext<RoleServer>,
        questions: &Questions,
    ) -> Result<JsonObject, ErrorData> {
        let client = context.client_capabilities().unwrap_or_default();
        for request in questions.requests.values() {
            let (able, lacks) = match request {
                InputRequest::CreateMessage(_) => (client.sampling.is_some(), "sampling"),
                InputRequest::Elicitation(_) => (client.elicitation.is_some(), "elicitation"),
                _ => (client.roots.is_some(), "roots"),
            };
            if !able {
                let data = json!({ "requiredCapabilities": { lacks: {} } });
                let message = "Missing required client capability";
                let code = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
                return Err(ErrorData::new(code, message, Some(data)));
            }
        }
        let asked = questions.requests.iter().map(|(name, request)| async move {
            let request = match request.clone() {
                InputRequest::CreateMessage(request) => {
                    ServerRequest::CreateMessageRequest(request)
                }
                InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
                InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
                _ => return Err(ErrorData::internal_error("this cannot be asked", None)),
            };
            let answered = tokio::time::timeout(PATIENCE, context.peer.send_request(request));
            let answer = tokio::select! {
                answer = answered => answer,
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
            };
            match answer {
                Ok(Ok(answer)) => {
                    let answer = serde_json::to_value(answer).unwrap_or_default();
                    Ok((name.clone(), answer))
                }
                Ok(Err(error)) => {
                    let message = format!("the caller does not answer {name}: {error}");
                    Err(ErrorData::internal_error(message, None))
                }
                Err(_) => {
                    let message = format!("the caller does not answer {name} in time");
                    Err(ErrorData::internal_error(message, None))
                }
            }
        });
        let answers = futures_util::future::try_join_all(asked).await?;
        Ok(answers.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }
}

/// Adds answers to what an adapter is told.
pub(super) fn add_answers(interaction: &mut Object, answers: &JsonObject, state: Option<&str>) {
    let mut inputs = match interaction.remove("inputs") {
        Some(crate::json::Value::Object(inputs)) => inputs,
        _ => Object::new(),
    };
    for (name, answer) in answers {
        inputs.insert(name.as_str(), crate::json::Value::from(answer));
    }
    interaction.insert("inputs", inputs);
    match state {
        Some(state) => interaction.insert("state", state),
        None => drop(interaction.remove("state")),
    }
}
