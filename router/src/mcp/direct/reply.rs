//! Answers to calls: at once, or on a stream.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{Full, StreamBody};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use tokio::sync::mpsc;

use super::kept::{Answer, Kept};
use crate::mcp::Reply;

/// How often a stream shows that it is alive.
const BEAT: Duration = Duration::from_secs(15);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Answers with a message.
pub(super) fn whole(message: &ServerJsonRpcMessage) -> Reply {
    let text = serde_json::to_vec(message).unwrap_or_default();
    let mut reply = Response::new(BoxBody::new(Full::new(Bytes::from(text))));
    // The one error of a call that the protocol wants to be seen in the head as well.
    if let JsonRpcMessage::Error(error) = message
        && error.error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
    {
        *reply.status_mut() = StatusCode::BAD_REQUEST;
    }
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

/// Answers with a stream that has nothing to tell.
pub(super) fn nothing() -> Reply {
    events(BoxBody::default())
}

/// Answers with a stream on which the answer will come, and before it the notices about the call.
pub(super) fn later(mut call: Kept, notices: Option<mpsc::Receiver<Bytes>>) -> Reply {
    let Some(call) = call.call.take() else { return nothing() };
    let (call, beats) = (tokio::spawn(call), tokio::time::interval(BEAT));
    let body = futures_util::stream::unfold(Some((call, beats, notices)), |state| async {
        let (mut call, mut beats, mut notices) = state?;
        let (text, state) = tokio::select! {
            answer = &mut call => (last_event(answer.ok()), None),
            _ = beats.tick() => (Bytes::from_static(b":\n\n"), Some((call, beats, notices))),
            Some(notice) = next(&mut notices) => (notice, Some((call, beats, notices))),
        };
        Some((Ok::<_, Infallible>(http_body::Frame::data(text)), state))
    });
    events(BoxBody::new(StreamBody::new(body)))
}

async fn next(notices: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match notices {
        Some(notices) => notices.recv().await,
        None => None,
    }
}

/// Writes the event that ends a stream.
fn last_event(answer: Option<Answer>) -> Bytes {
    let message = match answer {
        Some(Answer::Message(message)) => serde_json::to_string(&message).ok(),
        Some(Answer::None) | None => None,
        Some(Answer::ByLibrary(id)) => {
            let message = "the tool asks its caller, and did not say before that it may";
            let error = ErrorData::internal_error(message, None);
            serde_json::to_string(&ServerJsonRpcMessage::error(error, Some(id))).ok()
        }
    };
    message.map(|message| format!("data: {message}\n\n").into()).unwrap_or_default()
}

fn events(body: BoxBody<Bytes, Infallible>) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, EVENTS);
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}
