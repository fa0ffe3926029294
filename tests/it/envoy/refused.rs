//! What is refused before anything runs, and that a rejection is kept of it.

use serde_json::{Value, json};

use super::{Stage, read, test};

/// Carries out a step that must be refused, and returns the code and the reason that is sealed.
fn refused(stage: &Stage, step: Value) -> (String, String) {
    let run = stage.run(&[step]);
    assert_eq!(run["status"], "FAILED", "{run}");
    let error = &run["results"][0]["error"];
    let executed = stage.evidence(&run).join("step-1").exists();
    assert!(!executed, "nothing was executed");
    (error["code"].as_str().unwrap().to_owned(), stage.rejection(&run))
}

#[test]
fn conditions_are_met_by_plan_and_operator_together() {
    let shell = |grants: Value| {
        json!({ "tool": "shell_exec", "args": { "argv": ["sh", "-c", "touch made"] },
        "grants": grants })
    };
    let granted = || json!([{ "grant": "shell_exec" }]);
    let closed = Stage::new("", "run = [\"/bin/sh\"]\nconnect = [\"127.0.0.1:80\"]");
    let code = |reason: &str| ("ROLE_REFUSED".to_owned(), reason.to_owned());
    assert_eq!(refused(&closed, shell(json!([]))), code("plan_grant_missing:shell_exec"));
    assert_eq!(refused(&closed, shell(granted())), code("policy_gate_closed:shell_exec"));
    let mut step = test(&["sh", "-c", "touch made"]);
    step["grants"] = json!([{ "grant": "network", "targets": ["127.0.0.1:81"] }]);
    assert_eq!(refused(&closed, step), code("policy_gate_closed:network"));
    assert!(!closed.workspace("made").exists());
    closed.assert_verified();
}

#[test]
fn bad_arguments_never_become_a_process() {
    let stage = Stage::usual();
    std::os::unix::fs::symlink("/etc", stage.workspace("link")).unwrap();
    for (args, code, reason) in [
        (
            json!({ "argv": ["sh", "-c", "touch made\0"] }),
            "ARGUMENTS_INVALID",
            "arguments_invalid:envoy:test_exec",
        ),
        (json!({ "argv": [] }), "ARGUMENTS_INVALID", "arguments_invalid:envoy:test_exec"),
        (
            json!({ "argv": ["sh"], "cwd": "/" }),
            "ARGUMENTS_INVALID",
            "arguments_invalid:envoy:test_exec",
        ),
        (
            json!({ "argv": ["sh"], "cwd": "a/../../.." }),
            "ARGUMENTS_INVALID",
            "arguments_invalid:envoy:test_exec",
        ),
        (json!({ "argv": ["touch", "made"] }), "PROGRAM_NOT_GRANTED", "program_not_granted"),
        (
            json!({ "argv": ["sh"], "env": ["SECRET"] }),
            "VARIABLE_NOT_GRANTED",
            "variable_not_granted",
        ),
    ] {
        let step = json!({ "tool": "test_exec", "args": args });
        assert_eq!(refused(&stage, step), (code.to_owned(), reason.to_owned()), "{args}");
    }
    // What only shows when it is looked at is refused by the child, before the program is started.
    let run = stage.run(&[
        json!({ "tool": "test_exec", "args": { "argv": ["sh", "-c", "pwd"], "cwd": "link" } }),
    ]);
    let output = &run["results"][0]["output"];
    assert_eq!((&output["exit_code"], &output["stdout"]), (&json!(125), &json!("")), "{run}");
    let summary = read(&stage.evidence(&run).join("step-1/run_summary.json"));
    assert_eq!(summary["reason"], "executor_failed");
    assert!(!stage.workspace("made").exists());
    stage.assert_verified();
}

#[test]
fn what_is_no_class_of_the_role_is_refused() {
    let stage = Stage::usual();
    for tool in ["web_search", "format_disk"] {
        let (code, _) = refused(&stage, json!({ "tool": tool, "args": {} }));
        assert_eq!(code, "ROLE_REFUSED", "{tool}");
    }
}

#[test]
fn a_plan_says_its_grants_rightly_or_not_at_all() {
    let stage = Stage::usual();
    for (grants, told) in [
        (json!([{ "grant": "root" }]), "shell_exec or network"),
        (json!([{ "grant": "network" }]), "by its targets"),
        (json!([{ "grant": "shell_exec", "targets": ["a:1"] }]), "no targets"),
        (json!([{ "grant": "shell_exec" }, { "grant": "shell_exec" }]), "once"),
        (json!([{ "grant": "shell_exec", "exec_id": "x" }]), "unknown key"),
        (json!({ "grant": "shell_exec" }), "must be an array"),
    ] {
        let mut step = test(&["sh"]);
        step["grants"] = grants;
        let run = stage.program(&stage.plan(&[step]).each_ref().map(String::as_str));
        assert_eq!(run.code(), 2);
        assert!(run.stderr().contains(told), "{told}: {}", run.stderr());
    }
}

#[test]
fn a_dry_run_tells_what_would_be_refused_and_runs_nothing() {
    let stage = Stage::usual();
    drop(stage.plan(&[test(&["sh", "-c", "touch made"])]));
    let text = std::fs::read_to_string(stage.world.path("plan.json")).unwrap();
    std::fs::write(stage.world.path("plan.json"), text.replace("\"apply\"", "\"dry_run\""))
        .unwrap();
    let arguments =
        ["run", "plan.json", "--config-file", "router.toml", "--db", "runs.db", "--format", "json"];
    let run = stage.program(&arguments).json();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    assert_eq!(run["results"][0]["simulated"], true);
    let text = text.replace("\"apply\"", "\"dry_run\"").replace("test_exec", "shell_exec");
    std::fs::write(stage.world.path("plan.json"), text).unwrap();
    let run = stage.program(&arguments).json();
    assert_eq!(run["results"][0]["error"]["code"], "ROLE_REFUSED", "{run}");
    assert!(!stage.workspace("made").exists());
}

#[test]
fn an_envoy_cannot_be_configured_to_be_less_than_one() {
    for (settings, grants, told) in [
        ("shell = true", "run = [\"/bin/sh\"]", "unknown field"),
        ("", "write = [\"outside\"]", "nowhere else"),
        ("timeout_s = 0", "", "timeout_s"),
    ] {
        let stage = Stage::new(settings, grants);
        let run = stage.program(&stage.plan(&[test(&["sh"])]).each_ref().map(String::as_str));
        assert_eq!(run.code(), 2, "{settings} {grants}");
        assert!(run.stderr().contains(told), "{told}: {}", run.stderr());
    }
}
