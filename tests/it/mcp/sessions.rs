//! Sessions of the older era: of one caller, so many at once, and gone when nobody speaks.

use serde_json::json;

use super::support::{ADAPTERS, Session, answer, call, hello, modern, plain, read};
use crate::daemon::support::{Daemon, until};

#[test]
fn a_session_is_of_one_caller() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let list = answer(&session.ask("tools/list", &json!({})));
    let result = &list["result"];
    assert!(result["tools"].as_array().unwrap().len() > 10, "{list}");
    assert!(result["resultType"].is_null(), "the older era has no such word");
    let stolen = session.ask("tools/list", &json!({})).by("admin").begin().response();
    assert_eq!(stolen.status, 404);
    assert_eq!(session.end(), 204);
    assert_eq!(session.ask("tools/list", &json!({})).begin().response().status, 404);
}

#[test]
fn there_are_so_many_sessions_and_silence_ends_them() {
    let config = format!("{ADAPTERS}\n[mcp]\nsessions = 6\nsession_idle_ms = 1000\n");
    let daemon = Daemon::start(&config, &[]);
    let sessions: Vec<Session<'_>> = (0..3).map(|_| Session::open(&daemon, "apply")).collect();
    let open = || daemon.metric("nexus_router_mcp_sessions");
    assert!(open() <= 3.0);
    // Nobody takes more than half of them; requests that stand alone need none.
    let refused = hello(&daemon).by("apply").begin().response().status;
    assert!(refused == 503 || open() < 3.0, "{refused}");
    assert_eq!(hello(&daemon).by("admin").begin().response().status, 200);
    call(&daemon, "greet", &json!({ "name": "Ada" }));
    until("all sessions to end", || (open() == 0.0).then_some(()));
    assert_eq!(sessions[0].ask("tools/list", &json!({})).begin().response().status, 404);
    Session::open(&daemon, "apply");
}

#[test]
fn who_needs_no_session_may_name_one_that_is_gone() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let list = || modern(&daemon, "tools/list", json!({}), &json!({}));
    // Neither one that is gone, nor one of somebody else.
    for id in ["gone", &session.id] {
        let list = answer(&list().by("admin").header("Mcp-Session-Id", id));
        assert!(list["result"]["tools"].is_array(), "{list}");
    }
    let old = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let old = plain(&daemon, &old).header("MCP-Protocol-Version", "2026-07-28");
    assert_eq!(old.header("Mcp-Session-Id", "gone").begin().response().status, 404);
}

#[test]
fn an_id_is_of_one_request_at_a_time() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let held = json!({ "name": "hold", "arguments": {} });
    let mut first = session.ask("tools/call", &held).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    let second = session.ask("tools/list", &json!({})).begin().response();
    assert_eq!(second.status, 400, "{second:?}");
    assert_eq!(second.json()["error"]["code"], -32600);
    // An answer of the client has the id of a question of ours.
    let answered = json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
    assert_eq!(session.send(&answered).begin().response().status, 202);
    let other = json!({ "jsonrpc": "2.0", "id": "7", "method": "tools/list" });
    assert!(answer(&session.send(&other))["result"]["tools"].is_array());
    daemon.release();
    let answered = read(&first.response()).pop().unwrap();
    assert!(answered["result"].is_object(), "{answered}");
    let again = answer(&session.ask("tools/list", &json!({})));
    assert!(again["result"]["tools"].is_array(), "{again}");
}

#[test]
fn calls_of_a_session_keep_their_memory_until_they_are_over() {
    let server = "body_bytes = 16384\nbundle_bytes = 16384\nmemory_bytes = 110000\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let session = Session::open(&daemon, "apply");
    let hold = |id: u64| {
        let params = json!({ "name": "hold", "arguments": { "name": "x".repeat(12_000) } });
        session
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    };
    let wires: Vec<_> = (1..=2)
        .map(|held| {
            let wire = hold(held).begin();
            until("the call", || (daemon.calls_in_flight("many") == held).then_some(()));
            wire
        })
        .collect();
    hold(3).refused(503, "OVERLOADED");
    // Also if nobody waits for the answers any more.
    drop(wires);
    hold(3).refused(503, "OVERLOADED");
    // What has many values takes more memory than its text.
    let many = vec![json!({ "a": [] }); 500];
    let params = json!({ "name": "greet", "arguments": { "name": "Ada", "many": many } });
    let ask = modern(&daemon, "tools/call", params, &json!({}));
    ask.refused(503, "OVERLOADED");
    assert_eq!(session.end(), 204);
    until("room", || (ask.begin().response().status == 200).then_some(()));
}

#[test]
fn a_call_that_nobody_waits_for_keeps_no_session() {
    let daemon = Daemon::start(&format!("{ADAPTERS}\n[mcp]\nsession_idle_ms = 1000\n"), &[]);
    let session = Session::open(&daemon, "apply");
    let wire = session.ask("tools/call", &json!({ "name": "hold", "arguments": {} })).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    drop(wire);
    // Its id is in use for as long as it goes on.
    assert_eq!(session.ask("tools/list", &json!({})).begin().response().status, 400);
    until("the end of the call", || (daemon.calls_in_flight("many") == 0).then_some(()));
    assert_eq!(session.ask("tools/list", &json!({})).begin().response().status, 404);
}
