//! How a call can fail, as the caller is told. No text here repeats a header, a variable or a query.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, Object, code, redact};
use serde_json::{Value, json};

/// The server answered a request with an error; `details` has its code, message and data.
pub(crate) const UPSTREAM_ERROR: &str = "UPSTREAM_ERROR";

/// The codes that calls end with, as the manifest lists them.
pub(crate) const CODES: &[&str] = &[
    UPSTREAM_ERROR,
    code::NOT_FOUND,
    code::CONNECTION_FAILED,
    code::HTTP_ERROR,
    code::TIMEOUT,
    code::CANCELLED,
    code::INVALID_JSON,
    code::INVALID_ARGUMENT,
    code::OUTPUT_TOO_LARGE,
    code::INPUT_REQUIRED,
    code::CLIENT_CAPABILITY_MISSING,
];

/// Codes of JSON-RPC and of the protocol.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const RESOURCE_NOT_FOUND: i64 = -32002;
const MISSING_CAPABILITY: i64 = -32021;

/// A failure, with what is known of the request and of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What the caller is told.
    pub(crate) error: AdapterError,
    /// Whether the server may have got the request.
    pub(crate) sent: bool,
    /// Whether another connection would do better.
    pub(crate) renew: bool,
}

impl Failure {
    /// An answer of the server, on a connection that is as good as before.
    pub(crate) fn answered(error: AdapterError) -> Self {
        Self { error, sent: true, renew: false }
    }

    /// The server was not reached.
    pub(crate) fn unreached(cause: &str) -> Self {
        let message = format!("the MCP server cannot be reached: {}", redact::text(cause));
        Self { error: connection(message), sent: false, renew: true }
    }

    /// The server is gone, or says things that cannot be understood.
    pub(crate) fn lost(cause: &str) -> Self {
        let message = format!("the connection to the MCP server is lost: {}", redact::text(cause));
        Self { error: connection(message), sent: true, renew: true }
    }

    /// The server no longer knows this client, and has done nothing.
    pub(crate) fn forgotten() -> Self {
        let message = "the MCP server has forgotten the session";
        Self { error: connection(message), sent: false, renew: true }
    }

    /// The server refused in the words of HTTP.
    pub(crate) fn status(status: u16, text: &str) -> Self {
        let text = redact::text(&short(text, 300));
        let error = AdapterError::operational(
            code::HTTP_ERROR,
            format!("the MCP server answered HTTP {status}"),
        )
        .details(json!({ "status_code": status, "text": text }));
        Self { error, sent: true, renew: status == 401 || status == 403 }
    }

    /// A message was larger than any may be.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the MCP server sent a message of more than {limit} bytes");
        let error = AdapterError::operational(code::OUTPUT_TOO_LARGE, message)
            .details(json!({ "max_bytes": limit }));
        Self { error, sent: true, renew: true }
    }

    /// An answer was none.
    pub(crate) fn malformed(what: &str) -> Self {
        let message = format!("the MCP server's answer {what}");
        Self::answered(AdapterError::operational(code::INVALID_JSON, message))
    }

    /// The server did not come up in time.
    pub(crate) fn not_up(time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let message = format!("the MCP server was not up after {millis} ms");
        let error = connection(message).details(json!({ "timeout_ms": millis }));
        Self { error, sent: false, renew: true }
    }

    /// Says when the next attempt is made.
    pub(crate) fn until(mut self, pause: Duration) -> Self {
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.error = self.error.details(json!({ "retry_in_ms": millis }));
        self.sent = false;
        self
    }

    /// Returns what the caller is told.
    pub(crate) fn into_error(self) -> AdapterError {
        if self.error.code == code::CONNECTION_FAILED {
            return self.error.details(json!({ "may_have_been_carried_out": self.sent }));
        }
        self.error
    }
}

fn connection(message: impl Into<String>) -> AdapterError {
    AdapterError::operational(code::CONNECTION_FAILED, message)
}

/// Says that the caller gave up.
pub(crate) fn cancelled() -> AdapterError {
    AdapterError::operational(code::CANCELLED, "the call was cancelled, and the MCP server told so")
}

/// Says that the time is over.
pub(crate) fn timed_out() -> AdapterError {
    let message = "the MCP server did not answer before the call's deadline, and was told so";
    AdapterError::operational(code::TIMEOUT, message)
}

/// Says that the adapter goes.
pub(crate) fn shut_down() -> AdapterError {
    connection("the adapter was shut down")
}

/// Says that the call is none that this adapter knows.
pub(crate) fn invalid(message: impl Into<String>) -> AdapterError {
    AdapterError::operational(code::INVALID_ARGUMENT, message)
}

/// Says that there is no such thing.
pub(crate) fn not_found(kind: &str, name: &str) -> AdapterError {
    AdapterError::operational(
        code::NOT_FOUND,
        format!("the MCP server has no {kind} {:?}", short(name, 200)),
    )
}

/// Makes an error of the one that the server answered with.
pub(crate) fn upstream(error: &Object, kind: &str) -> AdapterError {
    let number = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
    let data = error.get("data").cloned().unwrap_or_default();
    if number == MISSING_CAPABILITY {
        let required = data.get("requiredCapabilities").or_else(|| data.get("required"));
        return AdapterError::client_lacks(required.unwrap_or(&data));
    }
    let details = json!({ "code": number, "message": message, "data": data });
    let text = redact::text(&short(message, 1000));
    if number == RESOURCE_NOT_FOUND || (number == INVALID_PARAMS && says_unknown(message)) {
        let message = format!("the MCP server has no such {kind}: {text}");
        return AdapterError::operational(code::NOT_FOUND, message).details(details);
    }
    AdapterError::operational(UPSTREAM_ERROR, format!("the MCP server answered {number}: {text}"))
        .details(details)
}

/// Says whether a message is about something that is not there. The protocol has one code for that and
/// for every other mistake in parameters.
fn says_unknown(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["not found", "unknown tool", "unknown prompt", "unknown resource", "no such"]
        .iter()
        .any(|part| message.contains(part))
}

/// Shortens a text to so many characters.
pub(crate) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(error: &Value) -> AdapterError {
        upstream(error.as_object().unwrap(), "tool")
    }

    #[test]
    fn errors_of_the_server_keep_what_they_say() {
        let error = answered(&json!({ "code": -32000, "message": "busy", "data": { "n": 1 } }));
        assert_eq!(error.code, UPSTREAM_ERROR);
        assert_eq!(error.message, "the MCP server answered -32000: busy");
        let details = json!({ "code": -32000, "message": "busy", "data": { "n": 1 } });
        assert_eq!(json!(*error.details), details);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for error in [
            json!({ "code": -32602, "message": "Unknown tool: x" }),
            json!({ "code": -32602, "message": "Tool x not found" }),
            json!({ "code": -32002, "message": "?" }),
        ] {
            assert_eq!(answered(&error).code, code::NOT_FOUND, "{error}");
        }
        let wrong = json!({ "code": -32602, "message": "a must be a number" });
        assert_eq!(answered(&wrong).code, UPSTREAM_ERROR);
    }

    #[test]
    fn a_lacking_capability_is_told_as_one() {
        let error = answered(&json!({
            "code": -32021, "message": "?", "data": { "requiredCapabilities": { "elicitation": {} } },
        }));
        assert_eq!(error.code, code::CLIENT_CAPABILITY_MISSING);
        assert_eq!(error.details["required"], json!({ "elicitation": {} }));
    }

    #[test]
    fn a_lost_connection_says_whether_something_may_have_happened() {
        let told =
            |failure: Failure| failure.into_error().details["may_have_been_carried_out"].clone();
        assert_eq!(told(Failure::lost("?")), true);
        assert_eq!(told(Failure::unreached("?")), false);
        assert_eq!(told(Failure::lost("?").until(Duration::from_secs(1))), false);
    }

    #[test]
    fn texts_are_shortened_between_characters() {
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short("äöü", 3), "äöü");
    }
}
