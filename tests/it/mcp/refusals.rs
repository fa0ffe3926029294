//! What is no request, or none that may be carried out: the protocol's own error, recorded, nothing executed.

use serde_json::{Value, json};

use super::support::{ADAPTERS, answer, hello, meta, modern, plain, runs};
use crate::daemon::support::Daemon;

/// Sends something, and returns the status and the code of the error.
fn refused(ask: &crate::daemon::client::Ask<'_>) -> (u16, Option<i64>) {
    let response = ask.begin().response();
    let code = serde_json::from_str::<Value>(&response.text()).ok();
    (response.status, code.and_then(|body| body["error"]["code"].as_i64()))
}

#[test]
fn what_is_no_request_executes_nothing() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let before = runs(&daemon).len();
    let greet = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let request = |params: &Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let with_meta = |version: &str| {
        let mut params = greet.clone();
        params["_meta"] = meta(&json!({}));
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = version.into();
        request(&params)
    };
    let of_2026 = |message: &Value, version: &str, method: &str, name: &str| {
        plain(&daemon, message)
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Method", method)
            .header("Mcp-Name", name)
    };
    let good = with_meta("2026-07-28");
    let cases = [
        (
            "an unknown version",
            of_2026(&with_meta("v9"), "v9", "tools/call", "greet"),
            (400, Some(-32022)),
        ),
        ("two versions", of_2026(&good, "2025-11-25", "tools/call", "greet"), (400, Some(-32020))),
        (
            "another method",
            of_2026(&good, "2026-07-28", "tools/list", "greet"),
            (400, Some(-32020)),
        ),
        ("another name", of_2026(&good, "2026-07-28", "tools/call", "hold"), (400, Some(-32020))),
        (
            "no meta",
            of_2026(&request(&greet), "2026-07-28", "tools/call", "greet"),
            (400, Some(-32602)),
        ),
        (
            "an unknown method",
            modern(&daemon, "tools/burn", json!({}), &json!({})),
            (404, Some(-32601)),
        ),
    ];
    for (what, ask, expected) in &cases {
        assert_eq!(refused(ask), *expected, "{what}");
    }
    for body in ["[]", "{", "null", "[1,2]", "\"x\"", "{\"jsonrpc\":\"1.0\"}", &"[".repeat(100_000)]
    {
        let ask = daemon
            .ask("POST", "/mcp")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body);
        let status = ask.begin().response().status;
        assert!((400..500).contains(&status), "{status} for {body:.20}");
    }
    let batch = json!([good, good]);
    let status = of_2026(&batch, "2026-07-28", "tools/call", "greet").begin().response().status;
    assert!((400..500).contains(&status), "{status}");
    assert_eq!(runs(&daemon).len(), before, "something was executed");
    daemon.assert_alive();
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let config = format!("{ADAPTERS}body_bytes = 10000\n");
    let daemon = Daemon::start(&config, &[]);
    let params = json!({ "name": "greet", "arguments": { "name": "x".repeat(20_000) } });
    let response = modern(&daemon, "tools/call", params, &json!({})).begin().response();
    assert_eq!(response.status, 413);
    daemon.assert_alive();
}

#[test]
fn tools_that_are_not_there_or_not_allowed_are_recorded() {
    let config = format!(
        "{ADAPTERS}\n[[policy.rules]]\neffect = 'deny'\ntool = 'greet'\nreason = 'no greetings'\n"
    );
    let daemon = Daemon::start(&config, &[]);
    let try_to = |name: &str, token: &str| {
        let params = json!({ "name": name, "arguments": { "name": "Ada" } });
        answer(&modern(&daemon, "tools/call", params, &json!({})).by(token))
    };
    let unknown = try_to("gret", "admin");
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(unknown["error"]["data"]["code"], "UNKNOWN_TOOL");
    // What may not be called is not suggested either.
    assert!(!unknown["error"]["data"]["hint"].as_str().unwrap().contains("greet"), "{unknown}");
    daemon.audited(|event| event.to_string().contains("UNKNOWN_TOOL"));
    let near = try_to("test_simple_tex", "admin");
    assert_eq!(near["error"]["data"]["hint"], "did you mean test_simple_text?");
    // No name is so long, and comparing takes the product of both lengths.
    let long =
        try_to(&format!("test_input_required_result_request_state{}", "x".repeat(200)), "admin");
    assert_eq!(long["error"]["data"]["hint"], "tools/list tells what there is", "{long}");
    let denied = try_to("greet", "admin");
    assert_eq!(denied["error"]["code"], -32602, "{denied}");
    assert!(denied["error"]["message"].as_str().unwrap().contains("no greetings"));
    let run_id = denied["error"]["data"]["run_id"].as_str().unwrap();
    let run = daemon.get(&format!("/v1/runs/{run_id}")).ok();
    assert_eq!(run["results"][0]["error"]["code"], "PERMISSION_DENIED");
    daemon.audited(|event| event.to_string().contains(run_id));
    for (name, token) in [("hold", "read"), ("hold", "run"), ("nexus-router.adapters", "apply")] {
        let refused = try_to(name, token);
        assert_eq!(refused["error"]["data"]["code"], "SCOPE_MISSING", "{name} {token}: {refused}");
    }
    let before = runs(&daemon).len();
    // The header names what may be called, and the body what may not.
    let params =
        json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": meta(&json!({})) });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let ask = plain(&daemon, &message)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "hold");
    assert_eq!(refused(&ask), (400, Some(-32020)));
    assert_eq!(runs(&daemon).len(), before);
}

#[test]
fn who_is_not_let_in_speaks_no_protocol() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    hello(&daemon).by_nobody().refused(401, "TOKEN_MISSING");
    hello(&daemon).header("Origin", "https://attacker.example").refused(403, "ORIGIN_REFUSED");
    hello(&daemon).header("Host", "attacker.example").refused(403, "HOST_REFUSED");
}

#[test]
fn a_rule_knows_a_tool_by_the_name_that_callers_use() {
    let config = format!("{ADAPTERS}\n[[policy.rules]]\neffect = 'deny'\ntool = 'hold'\n");
    let daemon = Daemon::start(&config, &[]);
    let params = json!({ "name": "hold", "arguments": {} });
    let denied = answer(&modern(&daemon, "tools/call", params, &json!({})));
    assert_eq!(denied["error"]["data"]["code"], "PERMISSION_DENIED", "{denied}");
}

#[test]
fn only_the_protocol_answers_for_callers() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let plan = json!({ "goal": "forge", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [{ "step_id": "s", "intent": "", "call": { "tool": "greet", "method": "hello",
            "args": { "name": "Ada" }, "interaction": { "state": "mine" } } }] });
    let refused = daemon.post("/v1/runs", &plan).refused(422, "REQUEST_INVALID");
    assert_eq!(refused["pointer"], "/plan_override/0/call/interaction");
    let catalogue = json!({ "goal": "look", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": [{ "step_id": "s", "intent": "", "dispatch": { "adapter_id": "conformance" },
            "call": { "tool": "nexus-router", "method": "catalog", "args": {} } }] });
    let run = daemon.post("/v1/runs", &catalogue).ok();
    assert_eq!(run["results"][0]["error"]["code"], "PERMISSION_DENIED", "{run}");
    let params = json!({ "name": "greet", "arguments": { "name": "Ada" },
        "_meta": { "nexus-router/idempotencyKey": "mcp-task/x/1" } });
    let forged = answer(&modern(&daemon, "tools/call", params, &json!({})));
    assert_eq!(forged["error"]["data"]["code"], "REQUEST_INVALID", "{forged}");
}

#[test]
fn many_answers_and_many_resources_cost_nothing() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let many: serde_json::Map<String, Value> =
        (0..50_000).map(|n| (format!("k{n}"), json!({}))).collect();
    let params = json!({ "name": "test_simple_prompt", "inputResponses": many });
    let refused = answer(&modern(&daemon, "prompts/get", params, &json!({})));
    assert_eq!(refused["error"]["data"]["code"], "INPUT_INVALID", "{refused}");
    let uris: Vec<String> = (0..100_000).map(|n| format!("u:{n}")).collect();
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    let mut listener = modern(&daemon, "subscriptions/listen", filter, &json!({})).begin();
    assert_eq!(listener.head().status, 200);
    daemon.assert_alive();
}
