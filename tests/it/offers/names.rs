//! Names of operations that an adapter does not have, and names that only look like others.

use serde_json::json;

use super::{CONFIG, code, dry, step};
use crate::daemon::support::{Daemon, Stage};
use crate::mcp::support::{answer, modern};

#[test]
fn unknown_operations_of_a_catalogue_are_refused() {
    let lost = "[[tools]]\nname = \"lost\"\ndescription = \"Is lost.\"\nadapter = \"conformance\"\n\
                method = \"call\"\n";
    let daemon = Daemon::start(&format!("{CONFIG}{lost}"), &[]);
    for (tool, method) in [
        ("nosuch", "call"),
        ("Test_Simple_Text", "call"),
        ("test_simple_text", "Call"),
        ("test_simple_text ", "call"),
    ] {
        let plan = step("conformance", tool, method, json!({}));
        assert_eq!(code(&daemon, "admin", &plan), "UNKNOWN_OPERATION", "{tool:?}.{method:?}");
        assert_eq!(code(&daemon, "admin", &dry(plan)), "UNKNOWN_OPERATION", "{tool:?}.{method:?}");
    }
    let known = dry(step("conformance", "test_simple_text", "call", json!({})));
    assert_eq!(code(&daemon, "admin", &known), "ok");
    // A tool that names no operation is not listed, and does nothing.
    let called = daemon.post("/v1/tools/lost", &json!({})).by("apply").ok();
    assert_eq!(called["error"]["code"], "UNKNOWN_OPERATION", "{called}");
    let params = json!({ "name": "lost", "arguments": {} });
    let called = answer(&modern(&daemon, "tools/call", params, &json!({})).by("apply"));
    assert!(called.to_string().contains("UNKNOWN_OPERATION"), "{called}");
    let listed = answer(&modern(&daemon, "tools/list", json!({}), &json!({})));
    assert!(!listed.to_string().contains("\"lost\""), "{listed}");
}

#[test]
fn names_without_a_catalogue_are_plain() {
    let daemon = Daemon::start(CONFIG, &[]);
    for (tool, method, expected) in [
        ("ask", "m", "ok"),
        ("a/b.c:d-e_f", "m", "ok"),
        ("ask ", "m", "OPERATION_NAME_INVALID"),
        ("a\u{200b}sk", "m", "OPERATION_NAME_INVALID"),
        ("ask", "m\u{0}", "OPERATION_NAME_INVALID"),
        (&"a".repeat(129), "m", "OPERATION_NAME_INVALID"),
        // Another case of a tool that is configured would lose its class and its schema.
        ("Greeter", "hello", "UNKNOWN_OPERATION"),
    ] {
        let plan = step("echo", tool, method, json!({}));
        assert_eq!(code(&daemon, "admin", &plan), expected, "{tool:?}.{method:?}");
        assert_eq!(code(&daemon, "admin", &dry(plan)), expected, "{tool:?}.{method:?}");
    }
    let plan = step("echo", "ask ", "m", json!({}));
    std::fs::write(daemon.stage.path("plan.json"), plan.to_string()).unwrap();
    let mut command = daemon.stage.program();
    command.args(["run", "plan.json", "--config", "router.toml", "--db", "own.db"]);
    let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(told.contains("OPERATION_NAME_INVALID"), "{told}");
}

#[test]
fn rules_fire_in_any_case() {
    let rules = "[[policy.rules]]\neffect = \"approve\"\ntool = \"ask\"\n\
                 [[policy.rules]]\neffect = \"deny\"\ntool = \"forbidden\"\n\
                 [[policy.rules]]\neffect = \"deny\"\nadapter = \"MANY\"\n";
    let daemon = Daemon::start(&format!("{CONFIG}{rules}"), &[]);
    for tool in ["ask", "Ask", "ASK"] {
        let run = daemon.post("/v1/runs", &step("secret", tool, "m", json!({}))).send().json();
        assert_eq!(run["status"], "RUNNING", "{run}");
        assert!(run["waiting"]["approval_id"].is_string(), "{run}");
    }
    for tool in ["forbidden", "FORBIDDEN", "Forbidden"] {
        let plan = step("secret", tool, "m", json!({}));
        assert_eq!(code(&daemon, "admin", &plan), "PERMISSION_DENIED", "{tool}");
    }
    let plan = step("many", "get_all", "any", json!({}));
    assert_eq!(code(&daemon, "apply", &plan), "PERMISSION_DENIED");
}

#[test]
fn annotation_rules_believe_only_trusted_hints() {
    let program = std::env::current_exe().unwrap();
    let adapter = |trust: &str| {
        format!(
            "[[adapters]]\nid = \"server\"\nref = \"nexus_router_adapter_mcp:create_adapter\"\n\
             grants = {{ run = [{program:?}] }}\noffer = {{ tools = [\"*\"] }}\n{trust}\
             [adapters.config]\n\
             command = [{program:?}, \"--exact\", \"mcp_client::serve\", \"--nocapture\", \"hints\"]\n\
             env = {{ {} = \"modern\", RUST_TEST_THREADS = \"1\" }}\n\
             [[policy.rules]]\neffect = \"approve\"\nannotation = \"not_read_only\"\n",
            crate::mcp_client::server::ROLE
        )
    };
    for (trust, status) in [
        ("", "RUNNING"),
        ("trust_hints = false\n", "RUNNING"),
        ("trust_hints = true\n", "COMPLETED"),
    ] {
        let daemon = Stage::new(&adapter(trust)).start(&[]);
        // The server says that its tool only reads.
        let listed = answer(&modern(&daemon, "tools/list", json!({}), &json!({})).by("apply"));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
        assert_eq!(echo["annotations"]["readOnlyHint"], true, "{echo}");
        let plan = step("server", "echo", "call", json!({}));
        let run = daemon.post("/v1/runs", &plan).by("apply").send().json();
        assert_eq!(run["status"], status, "{trust}: {run}");
        let called = daemon.post("/v1/tools/echo", &json!({})).by("apply").send().json();
        assert_eq!(called["status"], status, "{trust}: {called}");
    }
}
