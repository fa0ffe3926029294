//! Conditions of policy rules: on every path to a call, in listings, in records and as bad input.

mod bad_input;
mod listing;
mod paths;
mod record;

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, plan};

/// An adapter with two tools, without rules.
pub const TOOLS: &str = r#"
default_adapter = "echo"
[[adapters]]
id = "echo"
ref = "nexus_router_adapter_echo:create_adapter"
[[tools]]
name = "pay"
description = "Pays an amount."
adapter = "echo"
tool = "bank"
method = "pay"
[[tools]]
name = "look"
description = "Looks at an account."
adapter = "echo"
tool = "bank"
method = "look"
"#;

/// Small payments are allowed, larger ones need an approval, and the largest are denied.
pub const RULES: &str = r#"
[policy]
default = "deny"
[[policy.rules]]
id = "small"
effect = "allow"
adapter = "echo"
when = "args.amount <= 100"
[[policy.rules]]
effect = "approve"
adapter = "echo"
when = "args.amount <= 1000 && caller.name != 'admin'"
reason = "it is much"
[[policy.rules]]
id = "too-large"
effect = "deny"
adapter = "echo"
when = "args.amount <= 9000"
"#;

/// Returns the configuration of the tests.
pub fn config() -> String {
    format!("{TOOLS}{RULES}")
}

/// Returns a plan that pays.
pub fn payment(args: &Value) -> Value {
    let mut plan = plan("echo", "bank", "pay");
    plan["plan_override"][0]["call"]["args"] = args.clone();
    plan
}

/// Returns the decisions that a run recorded, by the kinds of their events.
pub fn decisions(daemon: &Daemon, run_id: &str) -> Vec<(String, Value)> {
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).ok();
    let mut found = Vec::new();
    collect(&bundle, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(object) => {
            let decision = object.get("payload").map(|payload| &payload["decision"]);
            if let (Some(kind), Some(decision)) = (object.get("type"), decision)
                && decision.is_object()
            {
                found.push((kind.as_str().unwrap().to_owned(), decision.clone()));
            }
            object.values().for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

/// Asserts that a run recorded one decision about its call.
pub fn assert_decided(daemon: &Daemon, run_id: &str, effect: &str, rule: Option<&str>) {
    let decisions = decisions(daemon, run_id);
    let (kind, decision) = decisions.last().unwrap_or_else(|| panic!("no decision in {run_id}"));
    assert_eq!(kind, "TOOL_CALL_REQUESTED", "{decisions:?}");
    assert_eq!(decision["effect"], effect, "{decisions:?}");
    assert_eq!(decision.get("rule"), rule.map(|rule| json!(rule)).as_ref(), "{decisions:?}");
    assert_eq!(decision["policy"].as_str().unwrap().len(), 32, "{decisions:?}");
}
