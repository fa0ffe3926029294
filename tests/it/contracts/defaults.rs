//! Defaults of arguments: applied before anything looks at the arguments, and recorded as they are called.

use serde_json::{Value, json};

use super::calls::stage;
use super::contract;
use super::retries::{events, run_id};
use crate::daemon::support::{Daemon, Stage, plan, until};
use crate::mcp::support::call;
use crate::support::Run;

const ECHO: &str = r#"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
isolation = "inline"
[[tools]]
name = "greet"
description = "Greets somebody."
adapter = "echo"
tool = "greeter"
method = "hello"
"#;

/// Returns a contract whose operation needs a member that has a default.
fn with_defaults() -> Value {
    let mut contract = contract("1.0.0");
    contract["operations"]["hello"]["input_schema"] = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "greeting": { "type": "string", "default": "Hello" },
            "voice": {
                "type": "object",
                "properties": { "loud": { "type": "boolean", "default": false } },
                "required": ["loud"],
            },
        },
        "required": ["name", "greeting"],
        "additionalProperties": false,
    });
    contract["operations"]["hello"]["examples"] = json!([]);
    contract
}

fn given() -> Value {
    json!({ "name": "Ada", "voice": {} })
}

fn filled() -> Value {
    json!({ "name": "Ada", "voice": { "loud": false }, "greeting": "Hello" })
}

fn request() -> Value {
    let mut request = plan("echo", "greeter", "hello");
    request["plan_override"][0]["call"]["args"] = given();
    request
}

fn started(config: &str) -> Daemon {
    stage(&with_defaults(), &format!("{ECHO}{config}")).start(&[])
}

fn payload(daemon: &Daemon, run_id: &str, kind: &str) -> Value {
    let found = events(daemon, run_id).into_iter().find(|(known, _)| known == kind);
    found.unwrap_or_else(|| panic!("{kind}")).1
}

#[test]
fn plan_has_given_arguments_and_call_has_defaults() {
    let daemon = started("");
    let run = daemon.post("/v1/runs", &request()).ok();
    assert_eq!(run["results"][0]["output"]["args"], filled(), "{run}");
    let run_id = run_id(&run);
    let planned = payload(&daemon, run_id, "PLAN_CREATED");
    assert_eq!(planned["plan"][0]["call"]["args"], given());
    assert_eq!(payload(&daemon, run_id, "TOOL_CALL_REQUESTED")["call"]["args"], filled());
    let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
    assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
    // What the caller says holds.
    let mut said = request();
    said["plan_override"][0]["call"]["args"]["greeting"] = json!("Hi");
    let run = daemon.post("/v1/runs", &said).ok();
    assert_eq!(run["results"][0]["output"]["args"]["greeting"], "Hi");
}

#[test]
fn tools_mcp_and_command_line_apply_defaults() {
    let daemon = started("");
    let tool = daemon.post("/v1/tools/greet", &json!({ "args": given() })).ok();
    assert_eq!(tool["output"]["args"], filled(), "{tool}");
    let result = call(&daemon, "greet", &given());
    assert!(
        result.to_string().contains("\\\"greeting\\\"")
            || result.to_string().contains("\"greeting\""),
        "{result}"
    );
    let stage: &Stage = &daemon.stage;
    std::fs::write(stage.path("request.json"), request().to_string()).unwrap();
    let run = stage
        .program()
        .args([
            "run",
            "request.json",
            "--config",
            "router.toml",
            "--db",
            "other.db",
            "--format",
            "json",
        ])
        .output();
    let run = Run(run.unwrap());
    assert_eq!(run.json()["results"][0]["output"]["args"], filled(), "{}", run.stderr());
}

#[test]
fn arguments_are_validated_with_their_defaults() {
    let daemon = started("");
    let mut wrong = request();
    wrong["plan_override"][0]["call"]["args"] = json!({ "voice": {} });
    let run = daemon.post("/v1/runs", &wrong).ok();
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "ARGUMENTS_INVALID", "{run}");
    assert!(error["message"].as_str().unwrap().contains("name"), "{error}");
    let mut dry = request();
    dry["mode"] = json!("dry_run");
    assert_eq!(daemon.post("/v1/runs", &dry).ok()["results"][0]["status"], "ok");
}

#[test]
fn conditions_see_defaults() {
    let rule = "[[policy.rules]]\neffect = \"deny\"\nadapter = \"echo\"\n\
                when = 'args.greeting == \"Hello\" && !args.voice.loud'\n";
    let daemon = started(rule);
    let run = daemon.post("/v1/runs", &request()).by("apply").ok();
    assert_eq!(run["results"][0]["error"]["code"], "PERMISSION_DENIED", "{run}");
    let mut loud = request();
    loud["plan_override"][0]["call"]["args"]["voice"]["loud"] = json!(true);
    let run = daemon.post("/v1/runs", &loud).by("apply").ok();
    assert_eq!(run["results"][0]["status"], "ok", "{run}");
}

#[test]
fn people_are_asked_about_the_call_with_its_defaults() {
    let rule = "[[policy.rules]]\neffect = \"approve\"\nadapter = \"echo\"\n";
    let daemon = started(rule);
    let run = daemon.post("/v1/runs", &request()).send().json();
    let run_id = run_id(&run);
    let asked = until("the question", || {
        let asked = daemon.get("/v1/approvals").ok()["approvals"][0].clone();
        (!asked.is_null()).then_some(asked)
    });
    assert_eq!(payload(&daemon, run_id, "APPROVAL_REQUESTED")["call"]["args"], filled());
    let approve = format!("/v1/approvals/{}/approve", asked["approval_id"].as_str().unwrap());
    daemon.post(&approve, &json!({})).ok();
    let run = daemon.ended(run_id);
    assert_eq!(
        (&run["status"], &run["results"][0]["output"]["args"]),
        (&json!("COMPLETED"), &filled()),
        "{run}"
    );
}

#[test]
fn idempotency_key_is_held_to_the_request_as_given() {
    let daemon = started("");
    let keyed =
        |request: &Value| daemon.post("/v1/runs", request).header("Idempotency-Key", "k").send();
    let (first, again) = (keyed(&request()).json(), keyed(&request()).json());
    assert_eq!(run_id(&first), run_id(&again));
    let mut written = request();
    written["plan_override"][0]["call"]["args"] = filled();
    assert_ne!(keyed(&written).status, 200);
}
