//! Calls that want an answer and nothing else: answered without the library, and no otherwise than by it.

use serde_json::{Value, json};

use super::support::{ADAPTERS, Session, answer, heard, meta, modern, plain, read, runs};
use crate::daemon::support::{Daemon, until};

/// Tools that fail in one way each.
const FAILING: &str = r#"
[[tools]]
name = "liar"
description = "Promises a number."
adapter = "echo"
method = "lie"
output_schema = { type = "object", required = ["number"] }
[[tools]]
name = "forbidden"
description = "Nobody may."
adapter = "echo"
method = "forbidden"
[[adapters]]
ref = "conformance_adapter:create_adapter"
id = "asking"
[[tools]]
name = "asker"
description = "Asks its caller, and does not say before that it may."
adapter = "asking"
tool = "test_input_required_result_request_state"
method = "call"
[[policy.rules]]
effect = "deny"
tool = "forbidden"
reason = "nobody may"
"#;

/// Calls that end well, badly, not at all, and in a question.
fn calls() -> Vec<Value> {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    vec![
        call("greet", json!({ "name": "Ada", "big": 12_345_678_901_234_567_890_u64, "half": 0.5 })),
        call("greet", json!({ "name": 1 })),
        json!({ "name": "greet" }),
        call("test_simple_text", json!({})),
        call("test_error_handling", json!({})),
        call("test_multiple_content_types", json!({})),
        call("liar", json!({})),
        call("forbidden", json!({})),
        call("asker", json!({})),
        call("nowhere", json!({})),
    ]
}

/// Leaves out what no two answers share.
fn comparable(answer: &Value) -> Value {
    let run_ids = ["/result/_meta/nexus-router~1runId", "/error/data/run_id"];
    let run_id = run_ids.iter().find_map(|pointer| answer.pointer(pointer)?.as_str());
    let text = answer.to_string();
    let text = run_id.map_or(text.clone(), |run_id| text.replace(run_id, "<run>"));
    serde_json::from_str(&text).unwrap()
}

/// Returns the same call as the library answers it: its caller wants to hear how it goes on.
fn by_library(params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"]["progressToken"] = json!("p");
    params
}

#[test]
fn answers_are_those_of_the_library() {
    let daemon = Daemon::start(&format!("{ADAPTERS}{FAILING}"), &[]);
    let session = Session::open(&daemon, "apply");
    for params in calls() {
        let alone = |params: Value| {
            let response = modern(&daemon, "tools/call", params, &json!({})).begin().response();
            (response.status, comparable(&read(&response).pop().unwrap()))
        };
        assert_eq!(alone(params.clone()), alone(by_library(&params)), "{params}");
        let in_session = |params: &Value| {
            let response = session.ask("tools/call", params).begin().response();
            (response.status, comparable(&read(&response).pop().unwrap()))
        };
        assert_eq!(in_session(&params), in_session(&by_library(&params)), "{params}");
    }
    // Each is recorded alike, but for the tool that nobody knows.
    let goals: Vec<Value> = runs(&daemon).iter().map(|run| run["goal"].clone()).collect();
    for goal in ["call liar", "call forbidden", "call test_simple_text"] {
        assert_eq!(goals.iter().filter(|known| *known == goal).count(), 4, "{goal}: {goals:?}");
    }
}

#[test]
fn a_call_of_a_session_is_answered_at_once_or_on_a_stream() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let greet = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let quick = session.ask("tools/call", &greet).begin().response();
    assert_eq!(quick.header("content-type"), Some("application/json"));
    assert_eq!(quick.header("content-length"), Some(quick.body.len().to_string().as_str()));
    assert!(quick.json()["result"]["resultType"].is_null(), "{quick:?}");
    let mut slow = session.ask("tools/call", &json!({ "name": "hold", "arguments": {} })).begin();
    let head = slow.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    daemon.release();
    let message = until("the answer", || {
        let text = String::from_utf8(slow.chunk()?).unwrap();
        text.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned))
    });
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message["id"], 7);
    assert!(message["result"]["structuredContent"].is_object(), "{message}");
}

#[test]
fn a_session_that_wants_to_hear_hears() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let mut stream = session.stream();
    let level = answer(&session.ask("logging/setLevel", &json!({ "level": "debug" })));
    assert!(level["result"].is_object(), "{level}");
    let call = json!({ "name": "test_tool_with_logging", "arguments": {} });
    assert!(answer(&session.ask("tools/call", &call))["result"].is_object());
    heard(&mut stream, "notifications/message");
}

#[test]
fn a_call_that_is_taken_back_has_no_answer() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let mut wire = session.ask("tools/call", &json!({ "name": "hold", "arguments": {} })).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7 } });
    assert_eq!(session.send(&cancel).begin().response().status, 202);
    assert_eq!(read(&wire.response()), Vec::<Value>::new());
    until("the call to be gone", || (daemon.calls_in_flight("many") == 0).then_some(()));
    // Its id can be used again.
    let greet = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    assert!(answer(&session.ask("tools/call", &greet))["result"].is_object());
}

#[test]
fn a_session_that_is_ended_ends_its_calls() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let mut wire = session.ask("tools/call", &json!({ "name": "hold", "arguments": {} })).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    assert_eq!(session.end(), 204);
    until("the call to be gone", || (daemon.calls_in_flight("many") == 0).then_some(()));
    assert_eq!(read(&wire.response()), Vec::<Value>::new());
}

#[test]
fn a_session_calls_nothing_before_its_handshake_is_over() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let hello = super::support::hello(&daemon).by("apply").begin().response();
    let id = hello.header("mcp-session-id").unwrap();
    let greet = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "greet", "arguments": { "name": "Ada" } } });
    let call = plain(&daemon, &greet).by("apply").header("Mcp-Session-Id", id);
    let mut wire = call.header("MCP-Protocol-Version", "2025-11-25").begin();
    let head = wire.head();
    assert_ne!(head.header("content-type"), Some("application/json"), "{head:?}");
    assert!(runs(&daemon).iter().all(|run| run["goal"] != "call greet"));
}

#[test]
fn what_headers_say_of_a_call_must_be_so() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let greet =
        json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": meta(&json!({})) });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": greet });
    let said = |version: &str, method: &str, name: &str| {
        let ask = plain(&daemon, &message).header("MCP-Protocol-Version", version);
        ask.header("Mcp-Method", method).header("Mcp-Name", name).begin().response().status
    };
    assert_eq!(said("2026-07-28", "tools/call", "greet"), 200);
    for (version, method, name) in [
        ("2025-11-25", "tools/call", "greet"),
        ("2026-07-28", "tools/list", "greet"),
        ("2026-07-28", "tools/call", "hold"),
    ] {
        assert_eq!(said(version, method, name), 400, "{version} {method} {name}");
    }
    assert_eq!(runs(&daemon).iter().filter(|run| run["goal"] == "call greet").count(), 1);
}
