//! Callers that wait for their answer.

use serde_json::{Value, json};

use super::{KNOWN, assert_recorded, assert_whole, daemon, expected, leak};
use crate::mcp::support::{Session, answer, modern};
use crate::support::Run;

#[test]
fn http_answers_are_unmodified() {
    let daemon = daemon("");
    let run = daemon.post("/v1/runs", &leak()).by("apply").ok();
    assert_whole(&run["results"][0]);
    let tool = daemon.post("/v1/tools/leak", &json!({})).by("apply").ok();
    assert_whole(&tool);
    let mut two = leak();
    let mut second = two["plan_override"][0].clone();
    second["step_id"] = json!("s2");
    two["plan_override"].as_array_mut().unwrap().push(second);
    let run = daemon.post("/v1/runs?wait=60", &two).by("apply").ok();
    run["results"].as_array().unwrap().iter().for_each(assert_whole);
    let own = json!({ "args": leak() });
    let own = daemon.post("/v1/tools/nexus-router.run", &own).ok();
    assert_whole(&own["output"]["results"][0]);
}

#[test]
fn mcp_answers_are_unmodified_in_both_eras() {
    let daemon = daemon("");
    let params = json!({ "name": "leak", "arguments": {} });
    let alone = answer(&modern(&daemon, "tools/call", params.clone(), &json!({})).by("apply"));
    let session = Session::open(&daemon, "apply");
    let in_session = answer(&session.ask("tools/call", &params));
    for answer in [alone, in_session] {
        let result = &answer["result"];
        assert_eq!(result["structuredContent"], expected(), "{answer}");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, expected());
    }
}

#[test]
fn command_line_answers_are_unmodified() {
    let daemon = daemon("");
    std::fs::write(daemon.stage.path("plan.json"), leak().to_string()).unwrap();
    let mut command = daemon.stage.program();
    command.args(["run", "plan.json", "--config-file", "router.toml", "--db", "own.db"]);
    let run = Run(command.args(["--format", "json"]).output().unwrap());
    assert_eq!(run.code(), 0, "{}", run.stderr());
    let run = run.json();
    assert_whole(&run["results"][0]);
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let mut command = daemon.stage.program();
    let shown = command.args(["runs", "show", run_id, "--db", "own.db"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("hunter2"));
}

#[test]
fn everybody_else_reads_the_recorded_form() {
    let mut daemon = daemon("");
    let run = daemon.post("/v1/runs", &leak()).by("apply").ok();
    let run_id = run["run"]["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run_id}");
    assert_recorded(&daemon.get(&path).ok()["results"][0]);
    for path in [format!("{path}/bundle"), format!("{path}/events")] {
        let text = daemon.get(&path).send().text();
        assert!(text.contains("[REDACTED]") && !text.contains("hunter2"), "{text}");
        assert!(!text.contains(KNOWN) && !text.contains("k-123456"), "{text}");
    }
    daemon.stop();
    for file in std::fs::read_dir(daemon.stage.path("data")).unwrap() {
        let file = file.unwrap().path();
        let bytes = std::fs::read(&file).unwrap_or_default();
        let holds = |text: &str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(!holds("hunter2") && !holds("k-123456") && !holds(KNOWN), "{file:?}");
    }
    assert!(!daemon.stderr().contains("hunter2"));
}

#[test]
fn hints_are_not_redacted() {
    let daemon = daemon("");
    let refused = daemon.get("/v1/runs").by_nobody().send().json();
    assert_eq!(refused["code"], "TOKEN_MISSING", "{refused}");
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("Bearer") && !hint.contains("[REDACTED]"), "{hint}");
}
