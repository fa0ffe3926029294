//! Holds up which redirects are followed, and what goes along.

use std::io::Write;

use nexus_router_sdk::{AdapterError, Object, code, testing};
use serde_json::{Value, json};

use crate::adapter;
use crate::canned::{Canned, Seen, reply};

/// Redirects the tool `t` with this status to this location, and answers everything else.
fn redirecting(
    status: &'static str,
    location: impl Fn(&Seen) -> String + Send + Sync + 'static,
) -> Canned {
    Canned::new(move |seen, mut stream| {
        let bytes = if seen.path == "/t/m" {
            reply(status, &format!("Location: {}\r\n", location(seen)), "")
        } else {
            reply("200 OK", "", r#"{"found":true}"#)
        };
        drop(stream.write_all(bytes.as_bytes()));
    })
}

fn call(server: &Canned, config: Value) -> Result<Object, AdapterError> {
    testing::call(&adapter(&server.url(), config), "t", "m", json!({ "a": 1 }))
}

/// Returns the same server under another host name.
fn by_name(seen: &Seen) -> String {
    format!("http://{}", seen.header("host").unwrap().replace("127.0.0.1", "localhost"))
}

#[test]
fn a_redirect_is_an_error_by_default_and_shows_only_its_host() {
    let server =
        redirecting("302 Found", |_| "http://me:hush@Elsewhere.example/x?token=hush".into());
    let error = call(&server, json!({})).unwrap_err();
    assert_eq!(error.code, code::HTTP_ERROR);
    assert_eq!(error.message, "HTTP 302: Found (redirects followed: 0 of 0)");
    let url = format!("{}/t/m", server.url());
    assert_eq!(
        Value::Object(*error.details),
        json!({ "url": url, "status_code": 302, "reason": "Found", "location_host": "elsewhere.example" })
    );
}

#[test]
fn failure_behind_a_redirect_says_that_the_call_may_be_done() {
    // Nobody listens there.
    let server = redirecting("307 Temporary Redirect", |_| "http://127.0.0.1:1/".to_owned());
    let error = call(&server, json!({ "follow_redirects": 1 })).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
    assert_eq!(error.details["may_have_been_carried_out"], true, "{error:?}");
}

#[test]
fn a_status_like_a_redirect_without_a_location_is_judged_by_its_body() {
    let server = Canned::replying(reply("302 Found", "", ""));
    assert_eq!(call(&server, json!({})).unwrap_err().code, code::INVALID_JSON);
    let server = Canned::replying(reply("300 Choose", "Location: /x\r\n", r#"{"ok":true}"#));
    assert_eq!(call(&server, json!({ "follow_redirects": 3 })).unwrap()["ok"], true);
}

#[test]
fn temporary_and_permanent_redirects_repeat_the_request() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect"] {
        let server = redirecting(status, |_| "/other?x=1#y".to_owned());
        let config = json!({ "follow_redirects": 1, "headers": { "X-Key": "hush" } });
        assert_eq!(call(&server, config).unwrap()["found"], true);
        let request = server.last();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/other?x=1"));
        assert_eq!(request.body, r#"{"a":1}"#);
        assert_eq!(request.header("x-key"), Some("hush"));
    }
}

#[test]
fn other_redirects_become_a_get() {
    for status in ["301 Moved Permanently", "302 Found", "303 See Other"] {
        let server = redirecting(status, |_| "other".to_owned());
        assert_eq!(call(&server, json!({ "follow_redirects": 1 })).unwrap()["found"], true);
        let request = server.last();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/t/other"));
        assert_eq!((request.body.as_str(), request.header("content-type")), ("", None));
        assert_eq!(request.header("accept"), Some("application/json"));
    }
}

#[test]
fn a_host_that_is_not_allowed_is_never_reached() {
    let server = redirecting("307 Temporary Redirect", by_name);
    let error = call(&server, json!({ "follow_redirects": 5 })).unwrap_err();
    assert_eq!(error.code, "HOST_NOT_ALLOWED");
    assert_eq!(error.details["location_host"], "localhost");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn another_host_gets_no_credentials_and_neither_does_the_way_back() {
    let server = Canned::new(|seen, mut stream| {
        let host = seen.header("host").unwrap();
        let location = match seen.path.as_str() {
            "/t/m" => format!("{}/away", by_name(seen)),
            "/away" => format!("http://{}/back", host.replace("localhost", "127.0.0.1")),
            _ => return drop(stream.write_all(reply("200 OK", "", "{}").as_bytes())),
        };
        let bytes = reply("307 Away", &format!("Location: {location}\r\n"), "");
        drop(stream.write_all(bytes.as_bytes()));
    });
    let base_url = server.url().replace("http://", "http://me:hush@");
    let config = json!({
        "follow_redirects": 2,
        "allowed_hosts": ["127.0.0.1", "LOCALHOST"],
        "headers": { "X-Key": "hush", "Cookie": "hush", "Accept": "a/b" }
    });
    testing::call(&adapter(&base_url, config), "t", "m", json!({ "a": 1 })).unwrap();
    let seen = server.seen();
    let paths: Vec<_> = seen.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/t/m", "/away", "/back"]);
    for (request, expected) in seen.iter().zip([Some("hush"), None, None]) {
        assert_eq!(request.header("x-key"), expected);
        assert_eq!(request.header("cookie"), expected);
        assert_eq!(request.header("authorization").is_some(), expected.is_some());
        assert_eq!(request.header("accept"), Some("a/b"));
        assert_eq!(request.body, r#"{"a":1}"#);
    }
}

#[test]
fn another_port_is_another_origin() {
    let other = Canned::replying(reply("200 OK", "", "{}"));
    let location = other.url();
    let server = redirecting("307 Away", move |_| location.clone());
    let config = json!({ "follow_redirects": 1, "headers": { "X-Key": "hush" } });
    call(&server, config).unwrap();
    assert_eq!(server.last().header("x-key"), Some("hush"));
    assert_eq!(other.last().header("x-key"), None);
}

#[test]
fn a_loop_ends_at_the_limit() {
    let server = redirecting("307 Again", |_| "/t/m".to_owned());
    let error = call(&server, json!({ "follow_redirects": 3 })).unwrap_err();
    assert_eq!(error.message, "HTTP 307: Again (redirects followed: 3 of 3)");
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn a_location_that_leads_nowhere_is_an_error() {
    for location in ["javascript:alert(1)", "file:///etc/passwd", "http://", "http://a b/"] {
        let server = redirecting("307 Away", |_| location.to_owned());
        let error = call(&server, json!({ "follow_redirects": 3 })).unwrap_err();
        assert_eq!(error.message, "HTTP 307: Away (Location is not an http or https URL)");
    }
}
