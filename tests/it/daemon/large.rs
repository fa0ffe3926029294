//! Large requests and answers: redacted, recorded and answered on every path, off the threads that serve others.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::support::Daemon;
use crate::mcp::support::{ADAPTERS, Session, answer, call, modern};

/// Text that redaction changes, larger than what is handled at once.
fn large_text() -> String {
    let mut text = String::new();
    for index in 0..8_000 {
        // Writing to a string does not fail.
        let _ = writeln!(text, "line {index} password: hunter{index} Bearer abcdef{index}");
    }
    text
}

/// Asserts that the record of a run has the redacted text, as often as the text had a secret.
fn assert_recorded(daemon: &Daemon, run_id: &str) {
    let events = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok().to_string();
    assert!(!events.contains("hunter7999") && !events.contains("abcdef7999"), "{run_id}");
    assert!(events.matches("password=[REDACTED]").count() >= 8_000, "{run_id}");
}

fn plan(text: &str, mode: &str) -> Value {
    json!({ "goal": "try it", "mode": mode, "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": "echo" },
        "plan_override": [{ "step_id": "s1", "intent": "",
            "call": { "tool": "t", "method": "m", "args": { "text": text } } }] })
}

#[test]
fn large_runs_are_answered_and_redacted_over_http() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let text = large_text();
    let run = daemon.post("/v1/runs", &plan(&text, "apply")).ok();
    assert_eq!(run["results"][0]["output"]["args"]["text"], text, "the caller gets its own text");
    assert_recorded(&daemon, run["run"]["run_id"].as_str().unwrap());
    let dry = daemon.post("/v1/runs", &plan(&text, "dry_run")).ok();
    assert_eq!(dry["status"], "COMPLETED", "{}", dry["status"]);
    assert_recorded(&daemon, dry["run"]["run_id"].as_str().unwrap());
    let accepted = daemon.post("/v1/runs?wait=false", &plan(&text, "apply")).send();
    assert!([200, 202].contains(&accepted.status), "{}", accepted.status);
    let run_id = accepted.run_id();
    assert_eq!(daemon.ended(&run_id)["status"], "COMPLETED");
    assert_recorded(&daemon, &run_id);
    let called =
        daemon.post("/v1/tools/greet", &json!({ "args": { "name": "Ada", "text": text } })).ok();
    assert_eq!(called["output"]["args"]["text"], text);
    assert_recorded(&daemon, called["run_id"].as_str().unwrap());
}

#[test]
fn large_calls_are_answered_and_redacted_over_mcp() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let text = large_text();
    let arguments = json!({ "name": "Ada", "text": text });
    let result = call(&daemon, "greet", &arguments);
    assert_eq!(result["structuredContent"]["args"]["text"], text);
    assert_recorded(&daemon, result["_meta"]["nexus-router/runId"].as_str().unwrap());
    let session = Session::open(&daemon, "apply");
    let params = json!({ "name": "greet", "arguments": arguments });
    let result = answer(&session.ask("tools/call", &params));
    let result = &result["result"];
    assert_eq!(result["structuredContent"]["args"]["text"], text);
    assert_recorded(&daemon, result["_meta"]["nexus-router/runId"].as_str().unwrap());
    let mut followed = params;
    followed["_meta"]["progressToken"] = json!("p");
    let result = answer(&modern(&daemon, "tools/call", followed, &json!({})));
    assert_eq!(result["result"]["structuredContent"]["args"]["text"], text);
}

#[test]
fn large_problems_are_redacted() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let mut request = plan("x", "apply");
    request[format!("password: hunter22 {}", "x".repeat(200_000))] = json!(1);
    let refused = daemon.post("/v1/runs", &request).send();
    assert_eq!(refused.status, 422);
    let problem = refused.json();
    assert_eq!(problem["code"], "REQUEST_INVALID");
    assert!(!problem.to_string().contains("hunter22"));
}
