//! Reading a response: its bounded body, and the JSON object in it.

use std::io::Read;

use nexus_router_sdk::{AdapterError, Object, canonical, code, redact};
use serde_json::{Value, json};
use ureq::Body;

/// How many characters of a body that is not JSON are shown.
const PREVIEW_CHARS: usize = 200;

/// How much of an unwanted body is read for the sake of keeping the connection.
const MAX_DRAINED: u64 = 16 << 10;

/// Why a body could not be read.
pub(crate) enum Unread {
    /// It is larger than allowed.
    TooLarge,
    /// The connection failed.
    Broken(ureq::Error),
}

/// Reads a body, but no further than one byte over the limit.
pub(crate) fn read(body: Body, max_bytes: u64) -> Result<Vec<u8>, Unread> {
    let announced = body.content_length();
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(Unread::TooLarge);
    }
    let mut bytes = Vec::new();
    let mut reader = body.into_reader().take(max_bytes.saturating_add(1));
    reader.read_to_end(&mut bytes).map_err(|error| Unread::Broken(error.into()))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= max_bytes) {
        Ok(bytes)
    } else {
        Err(Unread::TooLarge)
    }
}

/// Reads a short body that nobody wants, so that its connection can serve another call.
pub(crate) fn drain(body: Body) {
    // Without a length the server may keep the caller waiting; closing the connection is cheaper.
    if body.content_length().is_some_and(|length| length <= MAX_DRAINED) {
        // A failure only means that the connection is not kept.
        drop(std::io::copy(&mut body.into_reader(), &mut std::io::sink()));
    }
}

/// Reads the JSON object in a body.
///
/// # Errors
/// `INVALID_JSON` when the body is not JSON, or not an object.
pub(crate) fn decode(body: &[u8], url: &str, status: u16) -> Result<Object, AdapterError> {
    // Some servers send a byte order mark, which JSON does not know.
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(invalid("Response JSON was not an object")
            .details(json!({ "url": url, "type": canonical::type_name(&other) }))),
        Err(_) => Err(invalid("Response was not valid JSON").details(json!({
            "url": url, "status_code": status, "body_preview": preview(body)
        }))),
    }
}

fn invalid(message: &str) -> AdapterError {
    AdapterError::operational(code::INVALID_JSON, message)
}

/// Returns the beginning of a body as it may be shown.
fn preview(body: &[u8]) -> String {
    // Redacted before it is cut to size, so that no cut hides what marks a secret.
    let head = body.get(..PREVIEW_CHARS * 16).unwrap_or(body);
    redact::text(&String::from_utf8_lossy(head)).chars().take(PREVIEW_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &[u8]) -> AdapterError {
        decode(body, "http://h/t/m", 200).unwrap_err()
    }

    #[test]
    fn members_keep_their_order_and_a_byte_order_mark_is_ignored() {
        let object = decode(b"\xef\xbb\xbf {\"b\":1,\"a\":2.0} ", "u", 200).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"b":1,"a":2.0}"#);
    }

    #[test]
    fn what_is_not_json_is_invalid_and_never_a_bug() {
        let deep = "[".repeat(100_000);
        for body in [
            &b""[..],
            b"\xff\xfe\xfa",
            b"{\"a\":\"\xff\xfe\xfa\"}",
            b"NaN",
            b"{\"a\":Infinity}",
            b"{\"a\":\"\\ud800\"}",
            b"{} x",
            b"{\"a\":1e999}",
            deep.as_bytes(),
        ] {
            let error = error(body);
            assert_eq!(error.code, code::INVALID_JSON);
            assert_eq!(error.kind, nexus_router_sdk::ErrorKind::Operational);
            assert_eq!(error.message, "Response was not valid JSON");
        }
    }

    #[test]
    fn other_types_are_named() {
        for (body, name) in
            [("1", "int"), ("1.5", "float"), ("true", "bool"), ("[]", "list"), ("null", "NoneType")]
        {
            assert_eq!(error(body.as_bytes()).details["type"], name);
        }
    }

    #[test]
    fn preview_is_short_and_without_secrets() {
        let shown = |body: &str| error(body.as_bytes()).details["body_preview"].clone();
        assert_eq!(shown(&"ü".repeat(500)), "ü".repeat(200));
        assert!(!shown("<p>token=SECRETVALUE</p>").to_string().contains("SECRETVALUE"));
        assert!(!shown("Authorization: Bearer abcdef").to_string().contains("abcdef"));
    }
}
