//! Every path on which a caller may send a reference: runs, tools, MCP in both eras, tasks, sources, command line.

use serde_json::{Value, json};

use super::{ADAPTERS, BINDING, BOUND, PLAIN, assert_kept_secret, daemon, refers, secrets};
use crate::daemon::support::Daemon;
use crate::mcp::support::{Session, able, answer, modern};
use crate::run_cli::write;
use crate::scout;
use crate::support::World;

const NOT_BOUND: &str = "SECRET_NOT_BOUND";

/// Calls that must not resolve the secret: token, adapter, tool, name of the tool, secret.
const REFUSED: [(&str, &str, &str, &str, &str); 4] = [
    ("apply", "other", "orders", "leak", "BOUND"),
    ("apply", "shop", "refunds", "refund", "BOUND"),
    ("admin", "shop", "orders", "order", "BOUND"),
    ("apply", "shop", "orders", "order", "PLAIN"),
];

fn dry(mut request: Value) -> Value {
    request["mode"] = json!("dry_run");
    request
}

#[test]
fn runs_resolve_bound_secrets_and_nothing_else() {
    let daemon = daemon(BINDING);
    let run = daemon.post("/v1/runs", &refers("shop", "orders", "BOUND")).by("apply").ok();
    assert_eq!(run["results"][0]["output"]["args"]["key"], "[REDACTED]", "{run}");
    let simulated = dry(refers("shop", "orders", "BOUND"));
    assert_eq!(daemon.post("/v1/runs", &simulated).by("run").ok()["status"], "COMPLETED");
    for (token, adapter_id, tool, _, secret) in REFUSED {
        let request = refers(adapter_id, tool, secret);
        for request in [request.clone(), dry(request)] {
            let run = daemon.post("/v1/runs", &request).by(token).ok();
            assert_eq!(run["status"], "FAILED", "{run}");
            let error = &run["results"][0]["error"];
            assert_eq!(error["code"], NOT_BOUND, "{run}");
            assert_eq!(error["details"]["denied_by"], "secrets", "{run}");
            assert_eq!(error["details"]["pointer"], "/key", "{run}");
        }
    }
    let denied = |event: &Value| event.to_string().contains(NOT_BOUND);
    assert!(daemon.audited(denied).to_string().contains("other"));
    assert_kept_secret(&daemon);
}

#[test]
fn later_steps_and_nested_references_are_checked_too() {
    let daemon = daemon(BINDING);
    let mut request = refers("shop", "orders", "BOUND");
    let mut second = request["plan_override"][0].clone();
    second["step_id"] = json!("s2");
    second["dispatch"] = json!({ "adapter_id": "other" });
    second["call"]["args"] = json!({ "list": [{ "deep": { "$secret": "BOUND" } }] });
    request["plan_override"].as_array_mut().unwrap().push(second);
    let run = daemon.post("/v1/runs", &request).by("apply").ok();
    assert_eq!(run["results"][0]["status"], "ok", "{run}");
    let error = &run["results"][1]["error"];
    assert_eq!(
        (&error["code"], &error["details"]["pointer"]),
        (&json!(NOT_BOUND), &json!("/list/0/deep"))
    );
    assert!(!run.to_string().contains(BOUND), "{run}");
}

#[test]
fn tools_over_http_are_checked() {
    let daemon = daemon(BINDING);
    let args = |secret: &str| json!({ "args": { "key": { "$secret": secret } } });
    let called = daemon.post("/v1/tools/order", &args("BOUND")).by("apply").ok();
    assert_eq!(called["output"]["args"]["key"], "[REDACTED]", "{called}");
    for (token, _, _, name, secret) in REFUSED {
        let mut body = args(secret);
        let path = format!("/v1/tools/{name}");
        for mode in ["apply", "dry_run"] {
            body["mode"] = json!(mode);
            let answer = daemon.post(&path, &body).by(token).send();
            assert!(answer.text().contains(NOT_BOUND), "{name}: {}", answer.text());
            assert!(!answer.text().contains(BOUND) && !answer.text().contains(PLAIN));
        }
    }
}

#[test]
fn mcp_calls_of_both_eras_and_tasks_are_checked() {
    let daemon = daemon(BINDING);
    let session = |token: &str| Session::open(&daemon, token);
    let call = |name: &str, secret: &str| json!({ "name": name, "arguments": { "key": { "$secret": secret } } });
    for client in [json!({}), able()] {
        let done =
            answer(&modern(&daemon, "tools/call", call("order", "BOUND"), &client).by("apply"));
        assert!(done.to_string().contains("REDACTED"), "{done}");
        for (token, _, _, name, secret) in REFUSED {
            let asked = modern(&daemon, "tools/call", call(name, secret), &client).by(token);
            let refused = answer(&asked).to_string();
            assert!(refused.contains(NOT_BOUND), "{name} {token}: {refused}");
            assert!(!refused.contains(BOUND) && !refused.contains(PLAIN), "{refused}");
        }
    }
    let done = answer(&session("apply").ask("tools/call", &call("order", "BOUND")));
    assert!(done.to_string().contains("REDACTED"), "{done}");
    for (token, _, _, name, secret) in REFUSED {
        let refused = answer(&session(token).ask("tools/call", &call(name, secret))).to_string();
        assert!(refused.contains(NOT_BOUND), "{name} {token}: {refused}");
    }
    assert_kept_secret(&daemon);
}

/// Tries schemas on a secret, in every mode and door, and returns the messages.
fn misfits(daemon: &Daemon) -> Vec<String> {
    let request = refers("shop", "strict", "BOUND");
    let mut messages = Vec::new();
    for (request, token) in
        [(request.clone(), "apply"), (dry(request.clone()), "run"), (dry(request), "apply")]
    {
        let run = daemon.post("/v1/runs", &request).by(token).ok();
        let error = &run["results"][0]["error"];
        assert_eq!(error["code"], "ARGUMENTS_INVALID", "{run}");
        messages.push(error.to_string());
    }
    let args = json!({ "args": { "key": { "$secret": "BOUND" } } });
    messages.push(daemon.post("/v1/tools/strict", &args).by("apply").send().text());
    let call = json!({ "name": "strict", "arguments": { "key": { "$secret": "BOUND" } } });
    messages.push(answer(&modern(daemon, "tools/call", call, &json!({})).by("apply")).to_string());
    messages
}

#[test]
fn schema_errors_show_no_property_of_a_secret() {
    let daemon = daemon(BINDING);
    for text in misfits(&daemon) {
        assert!(text.contains("/key: the secret does not fit the schema"), "{text}");
        for property in ["got", "length", "pattern", "^x", "string", BOUND] {
            assert!(!text.contains(property), "{property}: {text}");
        }
    }
    // A plain value is described as before.
    let mut plain = refers("shop", "strict", "BOUND");
    plain["plan_override"][0]["call"]["args"] = json!({ "key": "far too long" });
    let run = daemon.post("/v1/runs", &plain).by("apply").ok();
    assert!(run["results"][0]["error"]["message"].as_str().unwrap().contains("got 12"), "{run}");
}

#[test]
fn operator_secrets_reach_sources_without_a_binding() {
    let service = scout::Service::start();
    let config = scout::config(&service).replace(
        "args = { language = \"en\" }",
        "args = { language = { \"$secret\" = \"PLAIN\" } }",
    );
    let stage = super::stage(&format!("{config}{}", secrets("")));
    let daemon = stage.start(&[]);
    let ask = json!({ "type": "retrieve", "source": "docs", "input": { "id": 1 } });
    let run = daemon
        .post("/v1/runs", &scout::request("asker", "doc_retrieval", json!({ "asks": [ask] })))
        .ok();
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let asked = service.asked();
    assert_eq!(asked[0].1["language"], PLAIN, "{asked:?}");
    assert!(!run.to_string().contains(PLAIN), "{run}");
    // A caller of the same operation has no such right.
    let mut direct =
        scout::request("library", "documents", json!({ "language": { "$secret": "PLAIN" } }));
    direct["plan_override"][0]["call"]["method"] = json!("get");
    let run = daemon.post("/v1/runs", &direct).ok();
    assert_eq!(run["results"][0]["error"]["code"], NOT_BOUND, "{run}");
    assert_eq!(service.asked().len(), 1);
}

#[test]
fn command_line_needs_the_binding() {
    let world = World::new();
    std::fs::write(world.path("bound.txt"), BOUND).unwrap();
    std::fs::write(world.path("plain.txt"), PLAIN).unwrap();
    let run = |binding: &str, request: &Value| {
        let config = format!("{ADAPTERS}{}", secrets(binding));
        std::fs::write(world.path("router.toml"), config).unwrap();
        let file = write(&world, "request.json", request);
        world.run(&["run", &file, "--db", "runs.db", "--format", "json"])
    };
    let request = refers("shop", "orders", "BOUND");
    assert_eq!(run(BINDING, &request).code(), 0);
    for binding in ["", "adapters = ['other']", "adapters = ['shop']\ntokens = ['ci']"] {
        for request in [request.clone(), dry(request.clone())] {
            let refused = run(binding, &request);
            assert_eq!(refused.code(), 1, "{binding}: {}", refused.stderr());
            assert_eq!(refused.json()["results"][0]["error"]["code"], NOT_BOUND, "{binding}");
        }
    }
}

#[test]
fn config_show_and_check_know_bindings() {
    let world = World::new();
    std::fs::write(world.path("bound.txt"), BOUND).unwrap();
    std::fs::write(world.path("plain.txt"), PLAIN).unwrap();
    std::fs::write(world.path("router.toml"), format!("{ADAPTERS}{}", secrets(BINDING))).unwrap();
    let shown = world.run(&["config", "show"]);
    assert_eq!(shown.code(), 0, "{}", shown.stderr());
    for part in
        ["[secrets.BOUND]", "adapters = [\"SHOP\"]", "tokens = [\"apply\", \"run\", \"local\"]"]
    {
        assert!(shown.stdout().contains(part), "{part}: {}", shown.stdout());
    }
    assert!(!shown.stdout().contains(BOUND) && !shown.stdout().contains(PLAIN));
    assert_eq!(world.run(&["config", "check"]).code(), 0);
    std::fs::write(world.path("router.toml"), secrets("tools = [\"x\"]")).unwrap();
    let checked = world.run(&["config", "check"]);
    assert_ne!(checked.code(), 0);
    let said = checked.stdout() + &checked.stderr();
    assert!(said.contains("secrets.BOUND.adapters is missing") && said.contains("line"), "{said}");
}
