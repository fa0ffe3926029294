//! What a person approves is shown with what the plan grants, and holds for nothing else.

use serde_json::{Value, json};

use super::{Stage, read, shell_granted};

/// A stage on which a person is asked about every shell.
fn asking() -> Stage {
    let rule = "[[policy.rules]]\neffect = \"approve\"\ntool = \"shell_exec\"";
    Stage::new("shell_exec = true", &format!("run = [\"/bin/sh\"]\n{rule}"))
}

#[test]
fn who_approves_a_shell_sees_that_the_plan_grants_it() {
    let stage = asking();
    let step = shell_granted(": > made");
    let told =
        stage.program(&stage.plan(std::slice::from_ref(&step)).each_ref().map(String::as_str));
    assert_eq!(told.code(), 3, "{}", told.stderr());
    assert!(told.stderr().contains("the plan grants shell_exec"), "{}", told.stderr());
    let waiting: Value = serde_json::from_slice(&told.0.stdout).unwrap();
    let id = waiting["waiting"]["approval_id"].as_str().unwrap();

    // Other processes than the one that asked.
    let list = |form: &[&str]| {
        let run = stage.program(&[&["approvals", "list", "--db", "runs.db"], form].concat());
        assert_eq!(run.code(), 0, "{}", run.stderr());
        run.stdout()
    };
    let table = list(&[]);
    let mut lines = table.lines();
    let column = lines.next().unwrap().find("GRANTS").unwrap();
    assert!(lines.next().unwrap()[column..].starts_with("shell_exec "), "{table}");
    let listed: Value = serde_json::from_str(&list(&["--format", "json"])).unwrap();
    assert_eq!(listed["approvals"][0]["grants"], step["grants"], "{listed}");

    let approve = ["approvals", "approve", id, "--config-file", "router.toml", "--db", "runs.db"];
    let approved = stage.program(&approve);
    assert_eq!(approved.code(), 0, "{}{}", approved.stdout(), approved.stderr());
    assert!(stage.workspace("made").exists());
    let bundle = stage.evidence(&waiting).join("step-1");
    assert_eq!(read(&bundle.join("outputs/parsed.json"))["exit_code"], json!(0));
    stage.assert_verified();
}
