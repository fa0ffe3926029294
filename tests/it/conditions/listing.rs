//! Listings show a tool unless every outcome of the conditions denies it.

use serde_json::{Value, json};

use super::TOOLS;
use crate::daemon::support::Daemon;
use crate::mcp::support::{Session, answer, modern};

/// Returns the tools that every listing shows to a token.
fn listed(daemon: &Daemon) -> Vec<String> {
    let names = |tools: &Value| -> Vec<String> {
        let tools = tools.as_array().unwrap_or_else(|| panic!("{tools}")).iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> =
            names.filter(|name| ["pay", "look"].contains(&name.as_str())).collect();
        names.sort();
        names
    };
    let http = names(&daemon.get("/v1/tools").by("apply").ok()["tools"]);
    let stateless = answer(&modern(daemon, "tools/list", json!({}), &json!({})).by("apply"));
    let session = answer(&Session::open(daemon, "apply").ask("tools/list", &json!({})));
    for other in [stateless, session] {
        assert_eq!(names(&other["result"]["tools"]), http);
    }
    http
}

#[test]
fn tool_is_hidden_only_if_every_outcome_denies_it() {
    let rule = |effect: &str, when: &str| {
        format!("[[policy.rules]]\neffect = '{effect}'\nmethod = 'pay'\n{when}\n")
    };
    let when = "when = 'args.amount > 10'";
    let deny = "[policy]\ndefault = 'deny'\n";
    for (rules, is_listed) in [
        (rule("deny", when), true),
        (rule("deny", ""), false),
        (rule("deny", when) + &rule("deny", ""), false),
        (rule("allow", when) + &rule("deny", ""), true),
        (rule("approve", when) + &rule("deny", ""), true),
        (rule("deny", "") + &rule("allow", when), false),
        (format!("{deny}{}", rule("allow", when)), true),
        (format!("{deny}{}", rule("deny", when)), false),
        (format!("{deny}{}", rule("deny", when) + &rule("allow", when)), true),
    ] {
        let daemon = Daemon::start(&format!("{TOOLS}{rules}"), &[]);
        assert_eq!(listed(&daemon).contains(&"pay".to_owned()), is_listed, "{rules}");
    }
}
