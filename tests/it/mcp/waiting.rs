//! Clients without tasks whose calls wait for a person: what they hear, and what is left when they give up.

use serde_json::{Value, json};

use super::approving::config;
use super::stdio::Server;
use super::support::{Session, answer, meta, modern, runs};
use crate::daemon::client::Wire;
use crate::daemon::support::{Daemon, Stage, until};
use crate::support::Run;

const KEY: &str = "nexus-router/idempotencyKey";

fn greet(more: &Value) -> Value {
    json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": more })
}

/// Waits for an open approval, and returns its id.
fn approval(daemon: &Daemon) -> String {
    until("the approval", || {
        let open = daemon.get("/v1/approvals").ok();
        open["approvals"][0]["approval_id"].as_str().map(str::to_owned)
    })
}

fn approve(daemon: &Daemon, approval_id: &str) {
    daemon.post(&format!("/v1/approvals/{approval_id}/approve"), &json!({})).ok();
}

/// Returns the runs of calls to `greet`.
fn greetings(daemon: &Daemon) -> Vec<Value> {
    runs(daemon).into_iter().filter(|run| run["goal"] == "call greet").collect()
}

/// Reads messages of a stream until one fits.
fn message(wire: &mut Wire, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let chunk = wire.chunk().expect("the stream ended");
        for line in String::from_utf8(chunk).unwrap().lines() {
            let data = line.strip_prefix("data: ").filter(|data| !data.is_empty());
            let Some(data) = data else { continue };
            let message: Value = serde_json::from_str(data).unwrap();
            if fits(&message) {
                return message;
            }
        }
    }
}

fn is_log(message: &Value) -> bool {
    message["method"] == "notifications/message"
}

/// Asserts that a text says which approval waits, until when, and how to get the result.
fn assert_notice(text: &str, approval_id: &str) {
    for part in [approval_id, "greet.hello", "greetings are final", " until 20", "goes on waiting"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("/v1/approvals/{approval_id}/approve")), "{text}");
    assert!(text.contains(KEY), "{text}");
}

/// Returns the command that a text prints between backticks.
fn command(text: &str) -> &str {
    text.split('`').nth(1).unwrap()
}

fn assert_completed(pasted: &Run) {
    assert_eq!(pasted.code(), 0, "{}", pasted.stderr());
    assert!(pasted.stdout().contains("COMPLETED run"), "{}", pasted.stdout());
}

fn assert_greeted(answer: &Value) {
    assert_eq!(answer["result"]["structuredContent"]["args"]["name"], "Ada", "{answer}");
}

#[test]
fn stateless_client_hears_progress_and_log_messages() {
    let daemon = Daemon::start(&config(false), &[]);
    let params =
        greet(&json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "warning" }));
    let mut wire = modern(&daemon, "tools/call", params, &json!({})).by("apply").begin();
    wire.head();
    let progress = message(&mut wire, |it| it["method"] == "notifications/progress");
    let approval_id = approval(&daemon);
    let text = progress["params"]["message"].as_str().unwrap();
    assert_notice(text, &approval_id);
    assert_eq!(progress["params"]["progressToken"], "p");
    let log = message(&mut wire, is_log);
    assert_eq!(log["params"]["level"], "warning");
    assert_eq!(log["params"]["data"]["message"], text);
    assert_eq!(log["params"]["data"]["fields"]["approval_id"], json!(approval_id));
    // The printed command works as pasted.
    assert_completed(&daemon.stage.paste(command(text)));
    assert_greeted(&message(&mut wire, |it| it["id"] == 1));
}

#[test]
fn stateless_client_hears_no_more_than_it_asked_for() {
    let daemon = Daemon::start(&config(false), &[]);
    let params = greet(&json!({ "io.modelcontextprotocol/logLevel": "error", "progressToken": 1 }));
    let mut wire = modern(&daemon, "tools/call", params, &json!({})).by("apply").begin();
    wire.head();
    message(&mut wire, |it| it["method"] == "notifications/progress");
    approve(&daemon, &approval(&daemon));
    let last = message(&mut wire, |it| is_log(it) || it["id"] == 1);
    assert_greeted(&last);
    let silent = modern(&daemon, "tools/call", greet(&json!({})), &json!({})).by("apply").begin();
    approve(&daemon, &approval(&daemon));
    let mut silent = silent;
    let answer: Value = serde_json::from_str(&silent.response().text()).unwrap();
    assert_greeted(&answer);
}

#[test]
fn session_client_hears_log_messages_without_asking() {
    let daemon = Daemon::start(&config(false), &[]);
    let session = Session::open(&daemon, "apply");
    let mut wire = session.ask("tools/call", &greet(&json!({}))).begin();
    wire.head();
    let log = message(&mut wire, is_log);
    let approval_id = approval(&daemon);
    let text = log["params"]["data"]["message"].as_str().unwrap();
    assert_notice(text, &approval_id);
    approve(&daemon, &approval_id);
    assert_greeted(&message(&mut wire, |it| it["id"] == 7));
}

#[test]
fn session_client_hears_progress_and_its_log_level() {
    let daemon = Daemon::start(&config(false), &[]);
    let session = Session::open(&daemon, "apply");
    let mut stream = session.stream();
    answer(&session.ask("logging/setLevel", &json!({ "level": "info" })));
    let mut wire = session.ask("tools/call", &greet(&json!({ "progressToken": "p" }))).begin();
    wire.head();
    let progress = message(&mut wire, |it| it["method"] == "notifications/progress");
    let approval_id = approval(&daemon);
    assert_notice(progress["params"]["message"].as_str().unwrap(), &approval_id);
    let log = message(&mut stream, is_log);
    assert_notice(log["params"]["data"]["message"].as_str().unwrap(), &approval_id);
    approve(&daemon, &approval_id);
    assert_greeted(&message(&mut wire, |it| it["id"] == 7));
}

#[test]
fn stateless_client_that_gives_up_finds_its_call_by_key() {
    let daemon = Daemon::start(&config(false), &[]);
    let begin = |more: &Value| {
        let mut said = json!({ KEY: "k1" });
        for (key, value) in more.as_object().unwrap() {
            said[key] = value.clone();
        }
        modern(&daemon, "tools/call", greet(&said), &json!({})).by("apply").begin()
    };
    // By both ways that a call takes: with and without the library.
    let mut approvals = Vec::new();
    for more in [json!({}), json!({ "progressToken": "p" }), json!({})] {
        let gone = begin(&more);
        approvals.push(approval(&daemon));
        drop(gone);
    }
    assert!(approvals.iter().all(|one| *one == approvals[0]), "{approvals:?}");
    // It waits again, and gets the answer.
    let mut wire = begin(&json!({}));
    approve(&daemon, &approvals[0]);
    assert_greeted(&serde_json::from_str(&wire.response().text()).unwrap());
    // What was decided meanwhile is answered at once.
    assert_greeted(&serde_json::from_str(&begin(&json!({})).response().text()).unwrap());
    let greetings = greetings(&daemon);
    assert_eq!((greetings.len(), &greetings[0]["status"]), (1, &json!("COMPLETED")));
}

#[test]
fn cancelled_session_call_leaves_the_approval_open() {
    let daemon = Daemon::start(&config(false), &[]);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7 } });
    let mut approvals = Vec::new();
    // By both ways that a call takes: with and without the library.
    for more in [json!({ KEY: "k1" }), json!({ KEY: "k1", "progressToken": "p" })] {
        let session = Session::open(&daemon, "apply");
        let mut wire = session.ask("tools/call", &greet(&more)).begin();
        wire.head();
        message(&mut wire, |it| it["method"].is_string());
        approvals.push(approval(&daemon));
        assert_eq!(session.send(&cancel).begin().response().status, 202);
        assert_eq!(session.end(), 204);
        // Nothing of the call is left when its stream ends.
        while wire.chunk().is_some() {}
    }
    assert_eq!(approvals[0], approvals[1]);
    approve(&daemon, &approvals[0]);
    let other = Session::open(&daemon, "apply");
    assert_greeted(&answer(&other.ask("tools/call", &greet(&json!({ KEY: "k1" })))));
    assert_eq!(greetings(&daemon).len(), 1);
    assert!(daemon.audit().iter().all(|event| event["kind"] != "run.cancelled"));
}

#[test]
fn http_and_task_cancellation_still_end_a_waiting_run() {
    let daemon = Daemon::start(&config(false), &[]);
    let gone = modern(&daemon, "tools/call", greet(&json!({})), &json!({})).by("apply").begin();
    approval(&daemon);
    drop(gone);
    let run_id = greetings(&daemon)[0]["run_id"].as_str().unwrap().to_owned();
    daemon.ask("POST", &format!("/v1/runs/{run_id}/cancel")).by("apply").send();
    assert_eq!(daemon.ended(&run_id)["error"]["code"], "RUN_CANCELLED");
    assert_eq!(daemon.get("/v1/approvals").ok()["total"], 0);
    let able = super::support::able();
    let task = answer(&modern(&daemon, "tools/call", greet(&json!({})), &able).by("apply"));
    let task_id = task["result"]["taskId"].as_str().unwrap();
    approval(&daemon);
    answer(&modern(&daemon, "tasks/cancel", json!({ "taskId": task_id }), &able).by("apply"));
    assert_eq!(daemon.ended(task_id)["error"]["code"], "RUN_CANCELLED");
}

#[test]
fn stdio_client_hears_and_finds_its_call_after_a_restart() {
    let stage = Stage::bare(&config(false));
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": greet(&json!({ KEY: "k1" })) });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let mut server = Server::start(&stage, &[]);
    server.ask("initialize", &hello);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(&call.to_string());
    let log = loop {
        let message = server.read();
        if is_log(&message) {
            break message;
        }
    };
    let text = log["params"]["data"]["message"].as_str().unwrap();
    let approval_id = log["params"]["data"]["fields"]["approval_id"].as_str().unwrap();
    assert_notice(text, approval_id);
    assert_eq!(server.end(), Some(0));
    assert_completed(&stage.paste(command(text)));
    let mut server = Server::start(&stage, &[]);
    let mut params = greet(&meta(&json!({})));
    params["_meta"][KEY] = json!("k1");
    assert_greeted(&server.ask("tools/call", &params));
}
