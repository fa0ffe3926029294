//! A shell is a shell in whatever adapter it runs: the plan grants it, or it does not run.

use serde_json::{Value, json};

use super::{Stage, read};

/// Adapters that are no envoy: one without a role, and one that answers as an envoy. What the tools of both do is
/// called a shell, by a tool spec or by the name of the tool.
const CONFIG: &str = r#"
default_adapter = "ADAPTER"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
id = "worker"
role = "envoy"
[[tools]]
name = "commands"
description = "Runs commands."
adapter = "echo"
tool = "commands"
method = "run"
action_class = "shell_exec"
[[tools]]
name = "tests"
description = "Runs tests."
adapter = "echo"
tool = "tests"
method = "run"
action_class = "test_exec"
"#;

fn stage(adapter: &str) -> Stage {
    let stage = Stage::usual();
    let config = CONFIG.replace("ADAPTER", adapter);
    std::fs::write(stage.world.path("router.toml"), config).unwrap();
    stage
}

fn step(tool: &str, grants: &[Value]) -> Value {
    json!({ "tool": tool, "args": { "line": "ls" }, "grants": grants })
}

fn shell() -> Value {
    json!({ "grant": "shell_exec" })
}

fn network() -> Value {
    json!({ "grant": "network", "targets": ["127.0.0.1:80"] })
}

#[test]
fn without_the_plans_grant_it_is_refused_and_that_is_sealed() {
    for (adapter, tool) in [("echo", "commands"), ("worker", "shell_exec")] {
        let stage = stage(adapter);
        let run = stage.run(&[step(tool, &[])]);
        let error = &run["results"][0]["error"];
        assert_eq!(error["code"], "ROLE_REFUSED", "{run}");
        assert_eq!(error["details"]["denied_by"], "role", "{run}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(r#""grants": [{"grant": "shell_exec"}]"#), "{message}");
        assert_eq!(stage.rejection(&run), "plan_grant_missing:shell_exec");
        assert!(!stage.evidence(&run).join("step-1").exists(), "nothing was executed");
        stage.assert_verified();
    }
}

#[test]
fn with_the_plans_grant_it_runs_and_the_evidence_says_that_it_was_granted() {
    let stage = stage("echo");
    let run = stage.run(&[step("commands", &[shell()])]);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let summary = read(&stage.evidence(&run).join("step-1/run_summary.json"));
    let decided = stage.world.path("sealed/evidence/verify");
    let decided =
        decided.join(summary["spec_sha256"].as_str().unwrap()).join("manifest.sha256.json");
    assert_eq!(read(&decided)["decisions"]["shell_granted"], json!(true));
    stage.assert_verified();
}

#[test]
fn grants_without_a_use_are_refused_as_ever() {
    let stage = stage("echo");
    for (tool, grants, reason) in [
        ("tests", vec![shell()], "grants_unused"),
        ("commands", vec![shell(), network()], "policy_gate_closed:network"),
        ("tests", vec![network()], "policy_gate_closed:network"),
    ] {
        let run = stage.run(&[step(tool, &grants)]);
        assert_eq!(run["results"][0]["error"]["code"], "ROLE_REFUSED", "{run}");
        assert_eq!(stage.rejection(&run), reason, "{run}");
    }
    let run = stage.run(&[step("tests", &[])]);
    assert_eq!(run["status"], "COMPLETED", "{run}");
}
