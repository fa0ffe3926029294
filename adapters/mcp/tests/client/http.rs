//! A server that is an endpoint: both eras over HTTP, and what becomes of calls when it does not behave.

use std::net::TcpListener;

use nexus_router_sdk::{Adapter as _, code};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::stage::{Stage, until};

#[test]
fn an_answer_comes_through_as_the_server_gave_it() {
    for modern in [false, true] {
        let endpoint = Endpoint::new(modern);
        let stage = Stage::new(endpoint.config());
        let output = Value::Object(stage.call("echo", json!({ "a": 1 })).unwrap());
        assert_eq!(output["content"][1], json!({ "type": "hologram", "of": "tea" }));
        assert_eq!(output["x-own"], json!([1.5, null]));
        assert_eq!(output["structuredContent"]["arguments"], json!({ "a": 1 }));
        stage.call("progress", json!({})).unwrap();
        assert_eq!(stage.notices("progress").len(), 3);
        assert_eq!(stage.call("fail", json!({})).unwrap_err().code, "UPSTREAM_ERROR");
        assert_eq!(stage.call("garbage", json!({})).unwrap_err().code, code::INVALID_JSON);
        assert_eq!(stage.catalog().tools.len(), 15);
        let named = endpoint.seen(|seen| {
            let heads = seen.heads.iter().map(|head| head.to_ascii_lowercase());
            heads.filter(|head| head.contains("mcp-name: echo\r\n")).count()
        });
        assert_eq!(named, usize::from(modern));
    }
}

#[test]
fn a_server_is_told_of_calls_that_are_over() {
    for modern in [false, true] {
        let endpoint = Endpoint::new(modern);
        let stage = Stage::new(endpoint.config());
        stage.time_out();
        until("the cancellations", || {
            let (waiting, cancelled) = stage.abandoned();
            let closed = endpoint.seen(|seen| seen.closed);
            let told = if modern { u64::try_from(closed).unwrap() } else { cancelled };
            (told == waiting).then_some(())
        });
    }
}

#[test]
fn a_session_that_is_forgotten_is_begun_again_within_the_call() {
    let endpoint = Endpoint::new(false);
    let stage = Stage::new(endpoint.config());
    stage.call("echo", json!({})).unwrap();
    endpoint.seen(|seen| seen.sessions.clear());
    stage.call("echo", json!({})).unwrap();
    assert_eq!(endpoint.seen(|seen| seen.begun), 2);
}

#[test]
fn only_a_call_that_was_certainly_not_carried_out_is_made_again() {
    let error = |id: Value, code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    let cases = [
        ("400 Bad Request", error(Value::Null, -32000, "No valid session ID provided"), 2),
        ("400 Bad Request", error("server-error".into(), -32600, "Session is over"), 2),
        // These may come from the middle of the work.
        ("400 Bad Request", error(Value::Null, -32603, "the session broke"), 1),
        ("400 Bad Request", json!("the browser's session is locked"), 1),
        ("410 Gone", error(Value::Null, -32000, "the session is gone"), 1),
    ];
    for (status, body, calls) in cases {
        let endpoint = Endpoint::new(false);
        let stage = Stage::new(endpoint.config());
        stage.call("echo", json!({})).unwrap();
        endpoint.seen(|seen| (seen.calls, seen.refusal) = (0, Some((status, body.clone()))));
        let answer = stage.call("echo", json!({}));
        assert_eq!(endpoint.seen(|seen| seen.calls), calls, "{status} {body}");
        assert_eq!(answer.is_ok(), calls == 2, "{status} {body}");
    }
}

#[test]
fn a_server_that_goes_away_fails_calls_until_it_is_back() {
    for modern in [false, true] {
        let endpoint = Endpoint::new(modern);
        let address = endpoint.address;
        let stage = Stage::new(endpoint.config());
        stage.call("echo", json!({})).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stage.call("wait", json!({})));
            until("the call", || (stage.abandoned().0 > 0).then_some(()));
            drop(endpoint);
            let error = waiting.join().unwrap().unwrap_err();
            assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
            assert_eq!(error.details["may_have_been_carried_out"], true);
        });
        // The first may still meet a kept connection that is about to close.
        until("a call that is not sent", || {
            let error = stage.call("echo", json!({})).unwrap_err();
            assert_eq!(error.code, code::CONNECTION_FAILED);
            (error.details["may_have_been_carried_out"] == false).then_some(())
        });
        let endpoint = Endpoint::at(address, modern);
        until("the server", || stage.call("echo", json!({})).ok());
        drop(endpoint);
    }
}

#[test]
fn what_is_refused_or_too_large_is_told_so() {
    let endpoint = Endpoint::new(true);
    let mut config = endpoint.config();
    config["headers"] = json!({});
    let error = Stage::new(config).call("echo", json!({})).unwrap_err();
    assert_eq!(
        (error.code.as_str(), &error.details["status_code"]),
        (code::HTTP_ERROR, &json!(401))
    );
    let stage = Stage::new(endpoint.config());
    assert_eq!(stage.call("giant", json!({})).unwrap_err().code, code::OUTPUT_TOO_LARGE);
    stage.call("echo", json!({})).unwrap();
    let texts: String = stage.recorder.notices().iter().map(Value::to_string).collect();
    assert!(!texts.contains("very-secret-token"));
}

#[test]
fn a_server_that_is_down_fails_calls_and_not_the_adapter() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stage = Stage::new(json!({ "url": format!("http://{closed}/") }));
    let error = stage.call("echo", json!({})).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert_eq!(error.details["may_have_been_carried_out"], false);
    stage.adapter.shutdown();
    assert_eq!(stage.call("echo", json!({})).unwrap_err().code, code::CONNECTION_FAILED);
}
