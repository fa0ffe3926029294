//! Every path of a caller to an operation that is not offered.

use nexus_router::access::Scope;
use serde_json::{Value, json};

use super::{CONFIG, code, dry, step, step_code};
use crate::daemon::support::{Daemon, Stage};
use crate::mcp::support::{Session, answer, modern};

/// Operations, with whether callers below admin scope may call them.
fn operations() -> Vec<(Value, bool)> {
    let nothing = || json!({});
    vec![
        (step("echo", "greeter", "hello", json!({ "name": "Ada" })), true),
        (step("echo", "greeter", "bye", nothing()), false),
        (step("echo", "hello", "call", nothing()), false),
        (step("many", "get_all", "any", nothing()), true),
        (step("many", "set_all", "any", nothing()), false),
        (step("secret", "greeter", "hello", nothing()), false),
        (step("conformance", "test_simple_text", "call", nothing()), true),
        (step("conformance", "test_image_content", "call", nothing()), false),
        (step("conformance", "resources", "read", json!({ "uri": "test://static-text" })), true),
        (step("conformance", "resources", "read", json!({ "uri": "test://static-binary" })), false),
        (step("conformance", "prompts", "get", json!({ "name": "test_simple_prompt" })), true),
        (step("conformance", "prompts", "get", json!({ "name": "test_prompt_with_image" })), false),
    ]
}

#[test]
fn plans_reach_only_offered_operations() {
    let daemon = Daemon::start(CONFIG, &[]);
    for (plan, offered) in operations() {
        let expected = if offered { "ok" } else { "NOT_OFFERED" };
        assert_eq!(code(&daemon, "apply", &plan), expected, "{plan}");
        assert_eq!(code(&daemon, "run", &dry(plan.clone())), expected, "{plan}");
        assert_eq!(code(&daemon, "admin", &plan), "ok", "{plan}");
        // The step may name its adapter itself.
        let mut own = plan.clone();
        let dispatch = own.as_object_mut().unwrap().remove("dispatch").unwrap();
        own["plan_override"][0]["dispatch"] = dispatch;
        assert_eq!(code(&daemon, "apply", &own), expected, "{own}");
        let accepted = daemon.post("/v1/runs?wait=false", &plan).by("apply").send();
        assert_eq!(step_code(&daemon.ended(&accepted.run_id())), expected, "{plan}");
    }
    let unoffered = step("secret", "greeter", "hello", json!({}));
    let run = daemon.post("/v1/runs", &unoffered).by("apply").ok();
    let error = &run["results"][0]["error"];
    assert_eq!(
        (&error["kind"], &error["details"]["denied_by"]),
        (&json!("operational"), &json!("offer"))
    );
    let run_id = &run["run"]["run_id"];
    let event = daemon.audited(|event| event["payload"]["run_id"] == *run_id);
    assert_eq!(event["kind"], "access.refused");
    assert_eq!(
        event["payload"],
        json!({ "reason": "NOT_OFFERED", "run_id": run_id, "name": "apply", "adapter": "secret",
            "tool": "greeter", "method": "hello" })
    );
    assert!(daemon.metric("nexus_router_refused_total{reason=\"NOT_OFFERED\"}") > 1.0);
}

#[test]
fn tools_over_http_and_mcp_are_the_offered_ones() {
    let daemon = Daemon::start(CONFIG, &[]);
    let session = Session::open(&daemon, "apply");
    for (name, args, offered) in [
        ("hello", json!({ "name": "Ada" }), true),
        ("c.test_simple_text", json!({}), true),
        ("c.test_image_content", json!({}), false),
        ("test_image_content", json!({}), false),
        ("greeter", json!({}), false),
    ] {
        let called =
            daemon.post(&format!("/v1/tools/{name}"), &json!({ "args": args })).by("apply");
        let params = json!({ "name": name, "arguments": args });
        let stateless = modern(&daemon, "tools/call", params.clone(), &json!({})).by("apply");
        let answers = [answer(&stateless), answer(&session.ask("tools/call", &params))];
        if offered {
            assert_eq!(called.ok()["status"], "COMPLETED", "{name}");
            for answer in answers {
                assert!(answer["result"]["content"].is_array(), "{name}: {answer}");
            }
        } else {
            called.refused(404, "UNKNOWN_TOOL");
            for answer in answers {
                assert_eq!(answer["error"]["data"]["code"], "UNKNOWN_TOOL", "{name}: {answer}");
            }
        }
    }
    for (method, params, offered) in [
        ("resources/read", json!({ "uri": "test://static-text" }), true),
        ("resources/read", json!({ "uri": "test://static-binary" }), false),
        ("prompts/get", json!({ "name": "c.test_simple_prompt" }), true),
        ("prompts/get", json!({ "name": "c.test_prompt_with_image" }), false),
    ] {
        let stateless = modern(&daemon, method, params.clone(), &json!({})).by("apply");
        for answer in [answer(&stateless), answer(&session.ask(method, &params))] {
            assert_eq!(answer["result"].is_object(), offered, "{method} {params}: {answer}");
        }
    }
}

#[test]
fn router_tools_stay_for_administrators() {
    let daemon = Daemon::start(CONFIG, &[]);
    let plan = step("secret", "greeter", "hello", json!({}));
    let body = json!({ "args": plan });
    let call = daemon.post("/v1/tools/nexus-router.run", &body);
    call.clone().by("apply").refused(403, "SCOPE_MISSING");
    assert_eq!(call.ok()["output"]["status"], "COMPLETED");
    let params = json!({ "name": "nexus-router.run", "arguments": plan });
    let call = modern(&daemon, "tools/call", params, &json!({}));
    let refused = answer(&call.clone().by("apply"));
    assert_eq!(refused["error"]["data"]["code"], "SCOPE_MISSING", "{refused}");
    let done = answer(&call);
    assert_eq!(done["result"]["structuredContent"]["status"], "COMPLETED", "{done}");
}

#[test]
fn command_line_reaches_every_operation() {
    let stage = Stage::new(CONFIG);
    for plan in [
        step("secret", "greeter", "hello", json!({})),
        step("conformance", "test_image_content", "call", json!({})),
    ] {
        std::fs::write(stage.path("plan.json"), plan.to_string()).unwrap();
        let mut command = stage.program();
        command.args(["run", "plan.json", "--config", "router.toml", "--db", "own.db"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn unknown_adapter_error_lists_only_offered_adapters() {
    let daemon = Daemon::start(CONFIG, &[]);
    let plan = step("nosuch", "t", "m", json!({}));
    let listed = |token: &str| {
        let answer = daemon.post("/v1/runs", &plan).by(token).send();
        assert_eq!(answer.json()["error"]["code"], "UNKNOWN_ADAPTER", "{answer:?}");
        let record = daemon.get(&format!("/v1/runs/{}/bundle", answer.run_id())).send().text();
        assert!(
            record.contains("available_adapters") && record.contains("conformance"),
            "{record}"
        );
        answer.text().contains("secret") || record.contains("secret")
    };
    assert!(listed("admin") && !listed("apply"));
}

#[test]
fn steps_may_name_an_offered_tool() {
    let daemon = Daemon::start(CONFIG, &[]);
    let by_name = |tool: &str, method: &str, args: Value| {
        let mut plan = step("", tool, method, args);
        plan.as_object_mut().unwrap().remove("dispatch");
        plan
    };
    let named = by_name("c.test_simple_text", "call", json!({}));
    for token in ["apply", "admin"] {
        let run = daemon.post("/v1/runs", &named).by(token).ok();
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert_eq!(run["summary"]["adapter_id"], "conformance");
        let call = &run["plan"][0]["call"];
        assert_eq!((&call["tool"], &call["method"]), (&json!("test_simple_text"), &json!("call")));
    }
    // The schema of the operation holds, and its own method names it, too.
    let wrong = by_name("hello", "hello", json!({ "name": 1 }));
    assert_eq!(code(&daemon, "apply", &wrong), "ARGUMENTS_INVALID");
    assert_eq!(code(&daemon, "run", &dry(wrong)), "ARGUMENTS_INVALID");
    let right = by_name("hello", "hello", json!({ "name": "Ada" }));
    assert_eq!(code(&daemon, "apply", &right), "ok");
    // Anything else is a step of the default adapter, which does not offer it.
    for (tool, method) in [("hello", "bye"), ("nosuch", "call")] {
        let plan = by_name(tool, method, json!({ "name": "Ada" }));
        assert_eq!(code(&daemon, "apply", &plan), "NOT_OFFERED", "{tool}.{method}");
    }
    // The same request under one key is one run.
    let keyed = daemon.post("/v1/runs", &named).by("apply").header("Idempotency-Key", "k");
    assert_eq!(keyed.send().run_id(), keyed.send().run_id());
    std::fs::write(daemon.stage.path("plan.json"), named.to_string()).unwrap();
    let mut command = daemon.stage.program();
    command.args(["run", "plan.json", "--config", "router.toml", "--db", "own.db"]);
    assert!(command.output().unwrap().status.success());
}

#[test]
fn roles_and_rules_hold_for_steps_that_name_a_tool() {
    let rule = "[[policy.rules]]\neffect = \"deny\"\nadapter = \"conformance\"\ntool = \"TEST_simple_*\"\n";
    let mut stage = Stage::new(&format!("{CONFIG}{rule}"));
    stage.token_as(nexus_router::access::NewToken {
        name: "envoy".to_owned(),
        scope: Scope::Apply,
        role: Some(nexus_router::role::Role::Envoy),
        sees: nexus_router::access::Visibility::Own,
        expires_at: None,
    });
    let daemon = stage.start(&[]);
    let mut plan = step("", "c.test_simple_text", "call", json!({}));
    plan.as_object_mut().unwrap().remove("dispatch");
    assert_eq!(code(&daemon, "apply", &plan), "PERMISSION_DENIED");
    plan["plan_override"][0]["call"] =
        json!({ "tool": "hello", "method": "call", "args": { "name": "Ada" } });
    assert_eq!(code(&daemon, "envoy", &plan), "ROLE_REFUSED");
    assert_eq!(code(&daemon, "apply", &plan), "ok");
}

#[test]
fn discovered_adapters_are_offered() {
    for config in [Some("discover = true\n"), None] {
        let stage = Stage::new(config.unwrap_or_default());
        if config.is_none() {
            std::fs::remove_file(stage.path("router.toml")).unwrap();
        }
        let daemon = stage.start_beside(&["nexus_router_adapter_echo", "conformance_adapter"]);
        assert_discovered(&daemon);
    }
}

fn assert_discovered(daemon: &Daemon) {
    assert_eq!(code(daemon, "apply", &step("echo", "any", "thing", json!({}))), "ok");
    let listed = step("conformance", "test_simple_text", "call", json!({}));
    assert_eq!(code(daemon, "apply", &listed), "ok");
    let params = json!({ "name": "test_simple_text", "arguments": {} });
    let called = answer(&modern(daemon, "tools/call", params, &json!({})).by("apply"));
    assert!(called["result"]["content"].is_array(), "{called}");
    // The built-in adapter answers dry runs of everybody.
    assert_eq!(code(daemon, "run", &dry(step("null", "t", "m", json!({})))), "ok");
}
