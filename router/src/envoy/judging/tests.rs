//! Conditions, gates and grants, without carrying anything out.

use super::*;
use crate::envoy::settings::Settings;
use crate::envoy::staging::Staging;
use crate::json;
use crate::sandbox::Confinement;
use serde_json::json;

/// An envoy that was not tried: judging needs no sandbox.
fn envoy(shell_exec: bool, connect: &[&str]) -> (tempfile::TempDir, Envoy) {
    let place = tempfile::tempdir().unwrap();
    let config = json!({ "workspace": place.path(), "shell_exec": shell_exec });
    let grants = Grants {
        connect: connect.iter().map(|text| text.parse().unwrap()).collect(),
        run: vec!["/bin/sh".into(), "/usr/bin/git".into()],
        env: vec!["PATH".to_owned()],
        ..Grants::default()
    };
    let envoy = Envoy {
        adapter_id: "envoy".to_owned(),
        settings: Settings::read(&config).unwrap(),
        grants,
        memory: 1 << 30,
        helper: "nexus-router".into(),
        staging: Staging::open(&place.path().join("staging")).unwrap(),
        confinement: Confinement::default(),
        calls: Default::default(),
    };
    (place, envoy)
}

fn judged(
    envoy: &Envoy,
    tool: &str,
    args: &serde_json::Value,
    grants: &serde_json::Value,
) -> String {
    let value = |value: &serde_json::Value| {
        json::parse(value.to_string().as_bytes(), json::Limits::REQUEST).unwrap()
    };
    let (args, grants) = (value(args), PlanGrant::read_all(&value(grants)));
    let args = args.as_object().unwrap();
    match envoy.judge(&Asked { tool, method: METHOD, args, grants: &grants }) {
        Ok(()) => "ok".to_owned(),
        Err(refusal) => {
            let reason = refusal.details.get("reason").and_then(Value::as_str);
            reason.unwrap_or(refusal.code).to_owned()
        }
    }
}

#[test]
fn a_shell_needs_the_plan_and_the_operator() {
    let args = json!({ "argv": ["sh", "-c", "true"] });
    let (shell, none) = (json!([{ "grant": "shell_exec" }]), json!([]));
    let (_place, closed) = envoy(false, &[]);
    assert_eq!(judged(&closed, "shell_exec", &args, &none), "plan_grant_missing:shell_exec");
    assert_eq!(judged(&closed, "shell_exec", &args, &shell), "policy_gate_closed:shell_exec");
    let (_place, open) = envoy(true, &[]);
    assert_eq!(judged(&open, "shell_exec", &args, &none), "plan_grant_missing:shell_exec");
    assert_eq!(judged(&open, "shell_exec", &args, &shell), "ok");
    assert_eq!(judged(&closed, "test_exec", &args, &none), "ok");
}

#[test]
fn a_network_needs_the_plan_and_the_operator_for_every_target() {
    let args = json!({ "argv": ["sh"] });
    let network = |targets: &[&str]| json!([{ "grant": "network", "targets": targets }]);
    let (_place, envoy) = envoy(true, &["a.example:443", "*:80"]);
    let judged = |grants: &serde_json::Value| judged(&envoy, "build_exec", &args, grants);
    assert_eq!(judged(&network(&["a.example:443", "b.example:80"])), "ok");
    assert_eq!(judged(&network(&["a.example:443", "b.example:443"])), "policy_gate_closed:network");
    assert_eq!(judged(&network(&["*:443"])), "policy_gate_closed:network");
    assert_eq!(judged(&network(&["nonsense"])), "ARGUMENTS_INVALID");
    // A grant of the network is none of a shell.
    let (_place, open) = super::tests::envoy(true, &["*:80"]);
    let shell = super::tests::judged(&open, "shell_exec", &args, &network(&["a:80"]));
    assert_eq!(shell, "plan_grant_missing:shell_exec");
}

#[test]
fn only_granted_programs_and_variables_are_had() {
    let (_place, envoy) = envoy(false, &[]);
    for (tool, args, expected) in [
        ("test_exec", json!({ "argv": ["/bin/sh"] }), "ok"),
        ("test_exec", json!({ "argv": ["bash"] }), "program_not_granted"),
        ("test_exec", json!({ "argv": ["/usr/bin/sh"] }), "program_not_granted"),
        ("test_exec", json!({ "argv": ["./sh"] }), "program_not_granted"),
        ("test_exec", json!({ "argv": ["../bin/sh"] }), "program_not_granted"),
        ("test_exec", json!({ "argv": ["sh"], "env": ["PATH", "TMPDIR"] }), "ok"),
        ("test_exec", json!({ "argv": ["sh"], "env": ["HOME"] }), "variable_not_granted"),
        ("repo_ops", json!({ "argv": ["git", "log"] }), "ok"),
        ("repo_ops", json!({ "argv": ["hg", "log"] }), "program_not_granted"),
        ("file_write", json!({ "path": "a", "text": "x" }), "ok"),
        ("web_search", json!({}), "UNKNOWN_OPERATION"),
        ("format_disk", json!({}), "UNKNOWN_OPERATION"),
    ] {
        assert_eq!(judged(&envoy, tool, &args, &json!([])), expected, "{tool} {args}");
    }
}

#[test]
fn an_execution_is_granted_what_the_plan_has_and_no_more() {
    let (_place, envoy) = envoy(true, &["*:80"]);
    let value = json::parse(br#"{"argv":["sh"],"env":["PATH"]}"#, json::Limits::REQUEST).unwrap();
    let args = value.as_object().unwrap();
    let (_, without) = envoy.describe(ActionClass::TestExec, args, &[]).unwrap();
    assert!(without.connect.is_empty() && without.write.is_empty());
    let plan = [PlanGrant { grant: Permission::Network, targets: vec!["a:80".to_owned()] }];
    let (_, with) = envoy.describe(ActionClass::TestExec, args, &plan).unwrap();
    assert_eq!(with.connect, ["a:80".parse().unwrap()]);
    assert_eq!((with.run.len(), with.env), (2, vec!["PATH".to_owned()]));
}
