//! What a message means for sessions, as far as that has to be known before the library reads it.

use std::borrow::Cow;

use bytes::Bytes;
use rmcp::model::{ErrorCode, RequestId};

use crate::mcp::STATELESS;

/// What a message is. That stands in the body, whatever its headers say.
#[derive(serde::Deserialize)]
pub(super) struct Message<'a> {
    /// Empty in an answer of the client.
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    params: Option<Params>,
}

#[derive(serde::Deserialize)]
struct Params {
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
    /// What a cancellation takes back; elsewhere it may be anything.
    #[serde(default, rename = "requestId")]
    request_id: Option<serde_json::Value>,
}

#[derive(serde::Deserialize)]
struct Meta {
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<serde_json::Value>,
}

/// What a message means for sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is of the stateless era.
    Standalone,
    /// It begins a session.
    Initialize,
    /// It ends the handshake.
    Initialized,
    /// It asks for log lines.
    SetsLevel,
    /// It takes a request back.
    Cancels(RequestId),
    /// Anything else of the older era.
    Other,
}

impl<'a> Message<'a> {
    /// Reads a message, or tells the error of the protocol.
    pub(super) fn read(body: &'a Bytes) -> Result<Self, (ErrorCode, &'static str)> {
        // A list would be taken for the members of a message in their order.
        let object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let none = (ErrorCode::INVALID_REQUEST, "this is no message; batches are not taken");
        match serde_json::from_slice(body) {
            Ok(message) if object => Ok(message),
            Err(error) if error.is_syntax() || error.is_eof() => {
                Err((ErrorCode::PARSE_ERROR, "this is no JSON"))
            }
            _ => Err(none),
        }
    }

    /// Returns the id of a request. An answer has that of a question of ours.
    pub(super) fn asked(self) -> Option<RequestId> {
        self.id.filter(|_| !self.method.is_empty())
    }

    pub(super) fn meaning(&self) -> Meaning {
        let params = self.params.as_ref();
        let meta = params.and_then(|params| params.meta.as_ref());
        let version = meta.and_then(|meta| meta.version.as_ref()?.as_str());
        match (&*self.method, version) {
            ("initialize", _) => Meaning::Initialize,
            (_, Some(version)) if version >= STATELESS => Meaning::Standalone,
            ("notifications/initialized", _) => Meaning::Initialized,
            ("logging/setLevel", _) => Meaning::SetsLevel,
            ("notifications/cancelled", _) => {
                let taken_back = params.and_then(|params| params.request_id.clone());
                let taken_back = taken_back.and_then(|id| serde_json::from_value(id).ok());
                taken_back.map_or(Meaning::Other, Meaning::Cancels)
            }
            _ => Meaning::Other,
        }
    }
}
