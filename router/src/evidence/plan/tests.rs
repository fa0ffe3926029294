//! Plans held to their one text, and executions to what a plan grants.

use super::*;
use crate::evidence::{Inputs, Kind, SpecFields};

fn step(step_id: &str, action: ActionClass) -> PlanStep {
    let (step_id, task_id) = (step_id.to_owned(), "t1".to_owned());
    PlanStep { step_id, role: action.role(), action, task_id }
}

fn grant(exec_id: &str, grant: Permission, targets: &[&str]) -> Grant {
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    Grant { exec_id: exec_id.to_owned(), grant, targets }
}

fn spec(exec_id: &str, action: ActionClass) -> ExecutionSpec {
    ExecutionSpec::new(SpecFields {
        action,
        cmd_argv: vec!["x".to_owned()],
        cwd: ".".to_owned(),
        env_allowlist: Vec::new(),
        exec_id: exec_id.to_owned(),
        inputs_manifest_sha256: Inputs::new().digest(),
        kind: Kind::Shell,
        note: None,
        paths_allowlist: Vec::new(),
        role: action.role(),
        task_id: "t1".to_owned(),
        timeout_s: 1,
    })
    .unwrap()
}

fn plan() -> Plan {
    let steps = [
        step("s1", ActionClass::ShellExec),
        step("s2", ActionClass::BuildExec),
        step("s3", ActionClass::WebSearch),
    ];
    let grants = [
        grant("e1", Permission::ShellExec, &[]),
        grant("e2", Permission::Network, &["b.example:443", "a.example:443"]),
    ];
    Plan::new("p1", &steps, &grants).unwrap()
}

#[test]
fn a_plan_has_one_text() {
    let plan = plan();
    assert_eq!(
        plan.text(),
        "{\"grants\":[{\"exec_id\":\"e1\",\"grant\":\"shell_exec\",\"targets\":[]},\
         {\"exec_id\":\"e2\",\"grant\":\"network\",\"targets\":[\"a.example:443\",\"b.example:443\"]}],\
         \"plan_id\":\"p1\",\"steps\":[\
         {\"action\":\"shell_exec\",\"role\":\"envoy\",\"step_id\":\"s1\",\"task_id\":\"t1\"},\
         {\"action\":\"build_exec\",\"role\":\"envoy\",\"step_id\":\"s2\",\"task_id\":\"t1\"},\
         {\"action\":\"web_search\",\"role\":\"scout\",\"step_id\":\"s3\",\"task_id\":\"t1\"}]}"
    );
    assert_eq!(plan.digest(), Digest::of(plan.text().as_bytes()));
    assert_eq!(Plan::parse_canonical(plan.text().as_bytes()).unwrap(), plan);
    let spaced = plan.text().replace(':', ": ");
    let spaced = spaced.replace(".example: ", ".example:");
    assert_eq!(Plan::parse(spaced.as_bytes()).unwrap(), plan);
    assert!(Plan::parse_canonical(spaced.as_bytes()).is_err());
}

#[test]
fn mistakes_are_told_with_their_place() {
    let text = plan().text().to_owned();
    for (from, to, reason, pointer) in [
        ("\"s2\"", "\"s1\"", "bad_value:step_id", "/steps/1/step_id"),
        (
            "\"action\":\"web_search\"",
            "\"action\":\"file_write\"",
            "bad_value:action",
            "/steps/2/action",
        ),
        ("\"scout\"", "\"pilot\"", "bad_value:role", "/steps/2/role"),
        ("\"grant\":\"network\"", "\"grant\":\"root\"", "bad_value:grant", "/grants/1/grant"),
        ("a.example", "c.example", "bad_order:targets", "/grants/1/targets/1"),
        ("a.example", "a example", "bad_value:targets", "/grants/1/targets/0"),
        ("\"targets\":[]", "\"target\":[]", "missing_key:targets", "/grants/0/targets"),
        ("\"p1\"", "\"P1\"", "bad_value:plan_id", "/plan_id"),
        ("\"plan_id\"", "\"id\"", "missing_key:plan_id", "/plan_id"),
    ] {
        let findings = Plan::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        let first = &findings.list()[0];
        assert_eq!((&*first.reason, &*first.pointer), (reason, pointer));
    }
    let twice = [grant("e1", Permission::Network, &[]), grant("e1", Permission::Network, &["x"])];
    assert_eq!(Plan::new("p1", &[], &twice).unwrap_err().reason(), "bad_value:grant");
}

#[test]
fn a_shell_needs_a_grant_and_an_open_gate() {
    let plan = plan();
    let shell = |exec_id, gate| plan.authorize(&spec(exec_id, ActionClass::ShellExec), false, gate);
    assert!(shell("e1", true).unwrap().shell);
    assert_eq!(shell("e1", false).unwrap_err().reasons(), ["gate_closed:shell_exec"]);
    assert_eq!(shell("e2", true).unwrap_err().reasons(), ["grant_missing:shell_exec"]);
    let both = shell("e3", false).unwrap_err();
    assert_eq!(both.reasons(), ["grant_missing:shell_exec", "gate_closed:shell_exec"]);
}

#[test]
fn a_network_needs_a_grant_and_is_logged_as_such() {
    let plan = plan();
    let build =
        |exec_id, wants, gate| plan.authorize(&spec(exec_id, ActionClass::BuildExec), wants, gate);
    let decisions = build("e2", true, true).unwrap().decisions();
    let text = canonical::text(&decisions.into(), Domain::Control).unwrap();
    assert_eq!(
        text,
        "{\"network_granted\":true,\"network_targets\":[\"a.example:443\",\"b.example:443\"],\
         \"shell_granted\":false}"
    );
    // What is granted and not asked for is not given.
    assert_eq!(build("e2", false, false).unwrap(), Authorization::default());
    assert_eq!(build("e1", true, true).unwrap_err().reasons(), ["grant_missing:network"]);
    assert_eq!(build("e2", true, false).unwrap_err().reasons(), ["gate_closed:network"]);
    let scout = plan.authorize(&spec("e9", ActionClass::WebSearch), true, false).unwrap();
    assert_eq!(scout.network, None);
}

#[test]
fn what_is_no_step_must_not_begin() {
    let findings = plan().authorize(&spec("e1", ActionClass::FileWrite), false, true).unwrap_err();
    assert_eq!(findings.reasons(), ["not_in_plan:file_write"]);
}
