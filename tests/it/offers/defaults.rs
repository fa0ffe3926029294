//! The default of the policy: the decision about calls that no rule fits.

use serde_json::json;

use super::{CONFIG, code, dry, step};
use crate::daemon::support::{Daemon, Stage};
use crate::mcp::support::{answer, modern};

const DENY: &str =
    "[policy]\ndefault = \"deny\"\n[[policy.rules]]\neffect = \"allow\"\nadapter = \"echo\"\n";

#[test]
fn calls_that_no_rule_allows_are_denied() {
    let daemon = Daemon::start(&format!("{CONFIG}{DENY}"), &[]);
    let allowed = step("echo", "greeter", "hello", json!({ "name": "Ada" }));
    let denied = step("conformance", "test_simple_text", "call", json!({}));
    for token in ["apply", "admin"] {
        assert_eq!(code(&daemon, token, &allowed), "ok");
        assert_eq!(code(&daemon, token, &denied), "PERMISSION_DENIED");
        assert_eq!(code(&daemon, token, &dry(denied.clone())), "PERMISSION_DENIED");
    }
    let called = daemon.post("/v1/tools/c.test_simple_text", &json!({})).by("apply").ok();
    assert_eq!(called["error"]["details"]["denied_by"], "default", "{called}");
    let params = json!({ "name": "c.test_simple_text", "arguments": {} });
    let called = answer(&modern(&daemon, "tools/call", params, &json!({})).by("apply"));
    assert_eq!(called["error"]["data"]["code"], "PERMISSION_DENIED", "{called}");
    let listed = answer(&modern(&daemon, "tools/list", json!({}), &json!({})).by("apply"));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["hello"]);
    let params = json!({ "uri": "test://static-text" });
    let read = answer(&modern(&daemon, "resources/read", params, &json!({})).by("apply"));
    assert_eq!(read["error"]["data"]["code"], "PERMISSION_DENIED", "{read}");
    daemon.audited(|event| event["payload"]["reason"] == "PERMISSION_DENIED");
    for (plan, fits) in [(&allowed, true), (&denied, false)] {
        std::fs::write(daemon.stage.path("plan.json"), plan.to_string()).unwrap();
        let mut command = daemon.stage.program();
        command.args(["run", "plan.json", "--config", "router.toml", "--db", "own.db"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), fits, "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn missing_default_allows_and_is_logged() {
    let text = "policy.default is not set";
    let daemon = Daemon::start(CONFIG, &[]);
    let plan = step("conformance", "test_simple_text", "call", json!({}));
    assert_eq!(code(&daemon, "apply", &plan), "ok");
    assert!(daemon.stderr().contains(text), "{}", daemon.stderr());
    for default in ["allow", "deny"] {
        let daemon = Daemon::start(&format!("{CONFIG}[policy]\ndefault = \"{default}\"\n"), &[]);
        assert!(!daemon.stderr().contains(text), "{}", daemon.stderr());
    }
}

#[test]
fn written_configuration_denies_all_but_its_example() {
    let stage = Stage::new("");
    std::fs::remove_file(stage.path("router.toml")).unwrap();
    let written = stage.program().args(["config", "init"]).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let daemon = stage.start_beside(&["nexus_router_adapter_echo", "conformance_adapter"]);
    for token in ["apply", "admin"] {
        assert_eq!(code(&daemon, token, &step("echo", "greeter", "hello", json!({}))), "ok");
        let denied = step("conformance", "test_simple_text", "call", json!({}));
        assert_eq!(code(&daemon, token, &denied), "PERMISSION_DENIED");
    }
}
