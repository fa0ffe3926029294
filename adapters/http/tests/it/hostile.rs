//! Holds up that no bytes of a server make the adapter panic, hang or blame itself.

use nexus_router_sdk::{ErrorKind, testing};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::adapter;
use crate::canned::Canned;

/// Replies that are close enough to right ones to get deep into the parser.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let status = prop_oneof![
        Just("HTTP/1.1 200 OK"),
        Just("HTTP/1.0 200"),
        Just("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
        Just("HTTP/1.1 101 Switching Protocols"),
        Just("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK"),
        Just("HTTP/1.1 204 No Content"),
        Just("HTTP/1.1 302 Found\r\nLocation: /x"),
        Just("HTTP/1.1 304 Not Modified"),
        Just("HTTP/1.1 999 ?"),
        Just("HTTP/1.1 042 ?"),
        Just("HTTP/2 200"),
        Just(""),
    ];
    let header = prop_oneof![
        Just("Content-Length: 2"),
        Just("Content-Length: 0"),
        Just("Content-Length: -1"),
        Just("Content-Length: 99999999999999999999"),
        Just("Content-Length: 5\r\nContent-Length: 2"),
        Just("Transfer-Encoding: chunked"),
        Just("Transfer-Encoding: gzip, chunked"),
        Just("Content-Encoding: gzip"),
        Just("Connection: close"),
        Just("Connection: keep-alive"),
        Just("Location: :::"),
        Just(": x"),
        Just("X: \u{e9}\u{0}"),
    ];
    let body = prop_oneof![
        Just(b"{}".to_vec()),
        Just(b"2\r\n{}\r\n0\r\n\r\n".to_vec()),
        Just(b"ffffffffffffffff\r\n{}".to_vec()),
        Just(b"2;x=y\r\n{}\r\n0\r\nTrailer: x\r\n\r\n".to_vec()),
        vec(any::<u8>(), 0..40),
    ];
    let shaped =
        (status, vec(header, 0..4), body, 0_usize..400).prop_map(|(status, headers, body, cut)| {
            let mut bytes = [&[status][..], &headers[..]].concat().join("\r\n").into_bytes();
            bytes.extend_from_slice(b"\r\n\r\n");
            bytes.extend(body);
            // Most cuts lie behind the end and leave the reply whole.
            bytes.truncate(cut);
            bytes
        });
    prop_oneof![4 => shaped, 1 => vec(any::<u8>(), 0..64)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_reply_is_an_object_or_an_operational_error(bytes in reply()) {
        let server = Canned::replying(bytes);
        let config = json!({ "timeout_s": 10, "follow_redirects": 2, "max_response_bytes": 4096 });
        let adapter = adapter(&server.url(), config);
        if let Err(error) = testing::call(&adapter, "t", "m", json!({})) {
            prop_assert_eq!(error.kind, ErrorKind::Operational);
            prop_assert_ne!(error.code, "TIMEOUT");
        }
    }
}
