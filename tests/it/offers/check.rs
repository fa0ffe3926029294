//! `config check` about settings that match nothing.

use serde_json::{Value, json};

use super::CONFIG;
use crate::daemon::support::Stage;

/// Checks a configuration, and returns the exit code and the answer.
fn check(stage: &Stage, more: &[&str]) -> (Option<i32>, Value) {
    let mut command = stage.program();
    command.args(["config", "check", "--format", "json"]).args(more);
    command.env("NEXUS_ROUTER__DATA_DIR", stage.path("data"));
    let output = command.output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), answer)
}

#[test]
fn check_names_settings_that_match_nothing() {
    let rule = |keys: &str| format!("[[policy.rules]]\neffect = \"deny\"\n{keys}\n");
    let rules = [
        rule("adapter = \"nosuch\""),
        rule("token = \"nobody\""),
        rule("action_class = \"shell_exec\""),
        rule("adapter = \"conformance\"\ntool = \"nosuch_*\""),
        rule("adapter = \"conformance\"\nmethod = \"nosuch\""),
        rule("adapter = \"conformance\"\naction_class = \"data_lookup\""),
        rule("adapter = \"CONFORMANCE\"\ntool = \"c.test_simple_*\"\ntoken = \"apply\""),
        rule("tool = \"any\""),
    ];
    let lost = "[[tools]]\nname = \"lost\"\ndescription = \"d\"\nadapter = \"conformance\"\nmethod = \"call\"\n";
    let offer = CONFIG
        .replace("\"slow_compute\"", "\"nosuch_tool\"")
        .replace("\"test://static-text\"", "\"nosuch://*\"");
    let stage = Stage::new(&format!("{offer}{lost}{}", rules.concat()));
    let expected = [
        "policy.rules[0].adapter matches no adapter: \"nosuch\"",
        "policy.rules[1].token matches no token: \"nobody\"",
        "policy.rules[2].action_class matches no operation: \"shell_exec\"",
        "policy.rules[3].tool matches no tool: \"nosuch_*\"",
        "policy.rules[4].method matches no method: \"nosuch\"",
        "policy.rules[5] fits no operation that is known",
        "tools[1]: adapter 'conformance' has no operation lost.call",
        "adapters[2]: adapter 'secret' is offered to nobody",
        "adapters[3].offer.tools[1] matches nothing of adapter 'conformance': \"nosuch_tool\"",
        "adapters[3].offer.resources[0] matches nothing of adapter 'conformance': \"nosuch://*\"",
    ];
    let (code, answer) = check(&stage, &["--load"]);
    assert_eq!((code, &answer["ok"]), (Some(0), &json!(true)), "{answer}");
    let warnings = answer["warnings"].as_array().unwrap();
    let messages: Vec<&str> = warnings.iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert_eq!(messages, expected);
    for warning in warnings {
        assert!(warning["line"].is_u64() && warning["hint"].is_string(), "{warning}");
    }
    let (code, answer) = check(&stage, &["--load", "--strict"]);
    assert_eq!((code, &answer["ok"]), (Some(1), &json!(false)), "{answer}");
    // The file alone tells some of it.
    let (code, answer) = check(&stage, &["--strict"]);
    assert_eq!(code, Some(1), "{answer}");
    let warnings = answer["warnings"].as_array().unwrap();
    let messages: Vec<&str> = warnings.iter().map(|one| one["message"].as_str().unwrap()).collect();
    let known = [0, 1, 2, 5, 7].map(|index| expected[index]);
    assert_eq!(messages, known);
}

#[test]
fn check_is_content_when_everything_matches() {
    let stage = Stage::new(&CONFIG.replace(
        "[[adapters]]\nid = \"secret\"\nref = \"nexus_router_adapter_echo:create_adapter\"\n",
        "",
    ));
    for more in [&["--load", "--strict"][..], &["--strict"]] {
        let (code, answer) = check(&stage, more);
        assert_eq!((code, &answer["warnings"]), (Some(0), &json!([])), "{answer}");
    }
}
