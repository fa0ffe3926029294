//! Holds up the limits of time and size, and what failed connections are called.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, Object, code, testing};
use serde_json::{Value, json};

use crate::adapter;
use crate::canned::{Canned, deserted, reply};

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn call(server: &Canned, config: Value) -> Result<Object, AdapterError> {
    testing::call(&adapter(&server.url(), config), "t", "m", json!({}))
}

/// Writes the bytes again and again, until the peer has gone.
fn endless(stream: &mut TcpStream, bytes: &[u8], pause: Duration) {
    while stream.write_all(bytes).is_ok() {
        std::thread::sleep(pause);
    }
}

#[test]
fn the_time_limit_is_for_the_whole_call() {
    let pause = Duration::from_millis(20);
    for (head, drop_by_drop) in [
        (&b"HTTP/1.1 200 OK\r\n"[..], &b"A: b\r\n"[..]),
        (CHUNKED, b"1\r\n \r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    ] {
        let server = Canned::new(move |_, mut stream| {
            stream.write_all(head).unwrap();
            endless(&mut stream, drop_by_drop, pause);
        });
        let error = call(&server, json!({ "timeout_s": 0.3 })).unwrap_err();
        assert_eq!(error.message, "HTTP request timed out after 0.3s");
        assert_eq!(error.code, code::TIMEOUT);
    }
}

#[test]
fn redirects_do_not_renew_the_time() {
    let server = Canned::new(|_, mut stream| {
        std::thread::sleep(Duration::from_millis(60));
        drop(stream.write_all(reply("307 Again", "Location: /t/m\r\n", "").as_bytes()));
    });
    let error = call(&server, json!({ "timeout_s": 0.3, "follow_redirects": 20 })).unwrap_err();
    assert_eq!(error.code, code::TIMEOUT);
}

#[test]
fn an_endless_body_is_not_read_on() {
    let chunk = format!("400\r\n{}\r\n", " ".repeat(0x400));
    let server = Canned::new(move |_, mut stream| {
        stream.write_all(CHUNKED).unwrap();
        endless(&mut stream, chunk.as_bytes(), Duration::ZERO);
    });
    let error = call(&server, json!({ "max_response_bytes": 100_000 })).unwrap_err();
    assert_eq!(error.code, code::OUTPUT_TOO_LARGE);
    assert_eq!(error.message, "Response is larger than 100000 bytes");
    assert_eq!(error.details["max_response_bytes"], 100_000);
}

#[test]
fn a_large_announced_body_is_not_waited_for() {
    let server = Canned::new(|_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n").unwrap();
        endless(&mut stream, b"", Duration::from_secs(60));
    });
    assert_eq!(call(&server, json!({})).unwrap_err().code, code::OUTPUT_TOO_LARGE);
}

#[test]
fn a_body_of_the_exact_size_is_taken() {
    let server = Canned::replying(reply("200 OK", "", r#"{"a":1}"#));
    assert_eq!(call(&server, json!({ "max_response_bytes": 7 })).unwrap()["a"], 1);
    assert_eq!(
        call(&server, json!({ "max_response_bytes": 6 })).unwrap_err().code,
        code::OUTPUT_TOO_LARGE
    );
}

#[test]
fn an_error_status_is_reported_without_waiting_for_its_body() {
    let server = Canned::new(|_, mut stream| {
        stream.write_all(b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        endless(&mut stream, b"1\r\n \r\n", Duration::from_millis(20));
    });
    assert_eq!(call(&server, json!({})).unwrap_err().message, "HTTP 503: Busy");
}

#[test]
fn a_large_head_is_refused() {
    let server = Canned::new(|_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        endless(&mut stream, b"Abc: def\r\n", Duration::ZERO);
    });
    assert_eq!(call(&server, json!({})).unwrap_err().code, code::HTTP_ERROR);
}

#[test]
fn a_connection_that_ends_early_is_an_http_error() {
    for bytes in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"] {
        let server = Canned::replying(bytes);
        let error = call(&server, json!({})).unwrap_err();
        assert_eq!(error.code, code::HTTP_ERROR);
        assert_eq!(
            error.message,
            "HTTP error: server closed the connection before the response was complete"
        );
        assert_eq!(error.details["url"], format!("{}/t/m", server.url()));
    }
}

#[test]
fn a_refused_connection_is_named_without_the_password() {
    let address = deserted();
    let base_url = format!("http://me:pa55w0rd@{address}");
    let config = json!({ "headers": { "X-Key": "pa55w0rd" } });
    let error = testing::call(&adapter(&base_url, config), "t", "m", json!({})).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert_eq!(error.message, format!("Failed to connect to http://{address}/t/m"));
    assert_eq!(error.details["url"], format!("http://{address}/t/m"));
    assert!(!serde_json::to_string(&error).unwrap().contains("pa55w0rd"));
}

#[test]
fn userinfo_is_sent_as_basic_authorization() {
    let server = Canned::replying(reply("500 Oops", "", ""));
    let base_url = server.url().replace("http://", "http://me:p%40ss@");
    let error = testing::call(&adapter(&base_url, json!({})), "t", "m", json!({})).unwrap_err();
    // "me:p@ss"
    assert_eq!(server.last().header("authorization"), Some("Basic bWU6cEBzcw=="));
    assert!(!serde_json::to_string(&error).unwrap().contains("ss@"), "{error:?}");
}

#[test]
fn a_large_body_is_sent_whole() {
    let server = Canned::new(|seen, mut stream| {
        let body = json!({ "length": seen.body.len() }).to_string();
        drop(stream.write_all(reply("200 OK", "", &body).as_bytes()));
    });
    let args = json!({ "text": "ä".repeat(2_000_000) });
    let length = args.to_string().len();
    let output = testing::call(&adapter(&server.url(), json!({})), "t", "m", args).unwrap();
    assert_eq!(output["length"], length);
}

#[test]
fn servers_say_when_to_ask_again() {
    for (header, expected) in [
        ("Retry-After: 7\r\n", json!(7)),
        ("Retry-After:  12 \r\n", json!(12)),
        ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", Value::Null),
        ("Retry-After: -1\r\n", Value::Null),
        ("", Value::Null),
    ] {
        let server = Canned::replying(reply("503 Service Unavailable", header, ""));
        let error = call(&server, json!({})).unwrap_err();
        let said = error.details.get("retry_after").cloned().unwrap_or_default();
        assert_eq!((error.code.as_str(), said), (code::HTTP_ERROR, expected), "{header}");
    }
}
