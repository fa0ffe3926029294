//! What callers are told there is: just what they may call.

use nexus_router::access::Scope;
use serde_json::{Value, json};

use super::support::{ADAPTERS, answer, modern, result};
use crate::daemon::support::{Daemon, Stage};

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn tools(daemon: &Daemon, token: &str) -> Value {
    let answer = answer(&modern(daemon, "tools/list", json!({}), &json!({})).by(token));
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].clone()
}

#[test]
fn tools_are_told_with_schemas_and_honest_hints() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let list = tools(&daemon, "apply");
    assert_eq!(list["cacheScope"], "private");
    assert!(list["ttlMs"].is_u64());
    let all = list["tools"].as_array().unwrap();
    let find = |name: &str| all.iter().find(|tool| tool["name"] == name).unwrap();
    let greet = find("greet");
    assert_eq!(greet["title"], "Greet");
    assert_eq!(greet["inputSchema"]["required"], json!(["name"]));
    // The adapter reaches nothing outside, and so changes nothing there.
    assert_eq!(greet["annotations"]["readOnlyHint"], true);
    assert_eq!(greet["annotations"]["openWorldHint"], false);
    assert_eq!(
        find("json_schema_2020_12_tool")["inputSchema"]["$defs"]["address"]["type"],
        "object"
    );
    let sorted = names(&list);
    assert!(sorted.is_sorted(), "{sorted:?}");
    assert_eq!(tools(&daemon, "apply"), list);
}

#[test]
fn each_caller_sees_what_it_may_call() {
    let config = format!(
        "{ADAPTERS}\n[[policy.rules]]\neffect = 'deny'\ntool = 'greet'\ntoken = 'apply'\n\
         [[policy.rules]]\neffect = 'deny'\ntool = 'resources'\ntoken = 'apply'\n\
         [[tokens]]\nname = 'scout'\nrole = 'scout'\n"
    );
    let mut stage = Stage::new(&config);
    stage.token("scout", Scope::Apply);
    let daemon = stage.start(&[]);
    let seen = |token| {
        let list = tools(&daemon, token);
        let owned: Vec<String> = names(&list).into_iter().map(str::to_owned).collect();
        owned
    };
    let admin = seen("admin");
    assert!(admin.contains(&"greet".to_owned()) && admin.contains(&"nexus-router.run".to_owned()));
    let apply = seen("apply");
    assert!(!apply.contains(&"greet".to_owned()) && apply.contains(&"hold".to_owned()));
    assert!(apply.iter().all(|name| !name.starts_with("nexus-router.")), "{apply:?}");
    // No tool has a class that a scout may carry out, and a reader carries out nothing.
    assert!(seen("scout").is_empty() && seen("read").is_empty() && seen("run").is_empty());
    let resources = |token: &str| {
        let answer = answer(&modern(&daemon, "resources/list", json!({}), &json!({})).by(token));
        answer["result"]["resources"].as_array().unwrap().len()
    };
    assert!(resources("admin") > 0 && resources("apply") == 0);
}

#[test]
fn a_cursor_of_nobody_is_refused() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    for cursor in ["%%%", "_w"] {
        let params = json!({ "cursor": cursor });
        let refused = answer(&modern(&daemon, "tools/list", params, &json!({})));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["data"]["code"], "CURSOR_INVALID");
    }
    let all = result(&daemon, "tools/list", json!({ "cursor": "" }), &json!({}));
    assert!(all["tools"].as_array().unwrap().len() > 10);
}
