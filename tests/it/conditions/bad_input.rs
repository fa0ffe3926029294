//! Bad rules: the error names file and line, and the former configuration stays.

use serde_json::json;

use super::{RULES, TOOLS, config, payment};
use crate::daemon::support::{Daemon, Stage};
use crate::offers::code;

/// Checks a configuration that must be refused, and returns the output.
fn refused(text: &str) -> String {
    let stage = Stage::new(text);
    let mut command = stage.program();
    command.args(["config", "check", "--config", "router.toml"]);
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{text}");
    let lines =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    lines.concat()
}

#[test]
fn wrong_conditions_are_refused_with_file_and_line() {
    for (when, problem) in [
        ("args.amount >", "is not a CEL expression"),
        ("adapter > 3", "orders values of type string and int"),
        ("caller.nme == 'x'", "unknown member caller.nme"),
        ("amount > 3", "unknown variable amount"),
        ("siz(args.l) > 3", "unknown function siz"),
        ("adapter.matches('(')", "invalid pattern"),
        ("args.a.all(x, x.all(y, y.all(z, z)))", "more than 2 macros"),
        ("size(args)", "is of type int, not bool"),
        ("tool == 'Greeter'", "compares a name with a text that has upper case"),
        ("args.a.matches('[ab]{1,1000}a[ab]{1000}c')", "a pattern that is too large"),
    ] {
        let text = format!("db = 'a.db'\n[[policy.rules]]\neffect = 'deny'\nwhen = \"{when}\"\n");
        let output = refused(&text);
        assert!(output.contains("policy.rules[0].when") && output.contains(problem), "{output}");
        assert!(output.contains("router.toml") && output.contains("line 4"), "{output}");
    }
    let long = format!(
        "[[policy.rules]]\neffect = 'deny'\nwhen = \"adapter == '{}'\"\n",
        "x".repeat(4096)
    );
    let output = refused(&long);
    assert!(output.contains("bytes") && output.contains("line 3"), "{output}");
    let wrong_type = refused("[[policy.rules]]\neffect = 'deny'\nwhen = true\n");
    assert!(wrong_type.contains("must be a text"), "{wrong_type}");
}

#[test]
fn wrong_ids_are_refused_with_file_and_line() {
    let rule = |id: &str| format!("[[policy.rules]]\neffect = 'deny'\n{id}\n");
    for (text, problem, line) in [
        (rule("id = 'No'"), "policy.rules[0].id is not an id", "line 3"),
        (rule("id = '-a'"), "policy.rules[0].id is not an id", "line 3"),
        (rule(&format!("id = '{}'", "a".repeat(65))), "policy.rules[0].id is not an id", "line 3"),
        (
            rule("id = 'a'") + &rule("id = 'a'"),
            "policy.rules[1].id is also the id of policy.rules[0]",
            "line 6",
        ),
        (
            rule("id = 'rule-2'") + &rule(""),
            "policy.rules[0].id is also the id of policy.rules[1]",
            "line 3",
        ),
        (
            rule("") + &rule("id = 'rule-1'"),
            "policy.rules[1].id is also the id of policy.rules[0]",
            "line 6",
        ),
    ] {
        let output = refused(&text);
        assert!(output.contains(problem) && output.contains(line), "{output}");
    }
}

#[test]
fn too_many_rules_are_refused_with_file_and_line() {
    let rules = "[[policy.rules]]\neffect = 'deny'\nwhen = 'args.a == 1'\n".repeat(10_000);
    let output = refused(&rules);
    assert!(output.contains("policy.rules[1000] is rule 1001 of 10000"), "{output}");
    assert!(output.contains("line 3001"), "{output}");
}

#[test]
fn reload_with_a_wrong_condition_changes_nothing() {
    let daemon = Daemon::start(&config(), &[]);
    let small = payment(&json!({ "amount": 50 }));
    assert_eq!(code(&daemon, "apply", &small), "ok");
    daemon.stage.configure(&config().replace("args.amount <= 100\"", "args.amount <=\""));
    let refused = daemon.post("/v1/reload", &json!({})).send();
    assert_ne!(refused.status, 200, "{refused:?}");
    assert!(refused.text().contains("policy.rules[0].when"), "{refused:?}");
    assert_eq!(code(&daemon, "apply", &small), "ok");
    daemon.stage.configure(&config().replace("args.amount <= 100\"", "args.amount <= 10\""));
    daemon.post("/v1/reload", &json!({})).ok();
    assert_eq!(code(&daemon, "apply", &payment(&json!({ "amount": 5 }))), "ok");
    let run = daemon.post("/v1/runs", &small).by("apply").send();
    assert_eq!(run.status, 202, "{run:?}");
}

#[test]
fn configuration_shows_ids_and_conditions() {
    let stage = Stage::new(&format!("{TOOLS}{RULES}"));
    let mut command = stage.program();
    command.args(["config", "show", "--config", "router.toml"]);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(text.contains("too-large") && text.contains("args.amount <= 9000"), "{text}");
}
