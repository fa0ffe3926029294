//! Adapters and tools over HTTP, and what policy and roles leave of them.

use nexus_router::access::{NewToken, Scope};
use nexus_router::role::Role;
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use crate::support::built_library;

const TOOLS: &str = r#"
[[tools]]
name = "greet"
description = "Greets somebody."
adapter = "echo"
tool = "greeter"
method = "hello"
action_class = "data_lookup"
[[tools]]
name = "write"
description = "Writes a file."
adapter = "echo"
tool = "files"
method = "write"
action_class = "file_write"
[[tools]]
name = "plain"
description = "Does something."
adapter = "echo"
method = "do"
[[tools]]
name = "refuse"
description = "Never works."
adapter = "fake"
tool = "t"
method = "refuse"
[[tools]]
name = "break"
description = "Is broken."
adapter = "fake"
tool = "t"
method = "break"
[[tokens]]
name = "configured"
role = "scout"
[[policy.rules]]
effect = "allow"
token = "apply"
method = "delete_mine"
[[policy.rules]]
effect = "deny"
method = "delete_*"
reason = "nobody deletes"
"#;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn with_tools() -> Daemon {
    let mut stage = Stage::new(&format!("{ADAPTERS}{TOOLS}"));
    stage.token("configured", Scope::Apply);
    stage.token_as(NewToken {
        name: "scout".to_owned(),
        scope: Scope::Apply,
        role: Some(Role::Scout),
        sees: nexus_router::access::Visibility::Own,
        expires_at: None,
    });
    stage.start(&[])
}

#[test]
fn adapters_are_listed_and_shown() {
    let daemon = with_tools();
    let listed = daemon.get("/v1/adapters").by("read").ok();
    assert_eq!((&listed["total"], &listed["default_adapter_id"]), (&json!(4), &json!("echo")));
    let ids: Vec<&Value> =
        listed["adapters"].as_array().unwrap().iter().map(|one| &one["adapter_id"]).collect();
    assert_eq!(ids, ["echo", "fake", "many", "null"]);
    let simulating = daemon.get("/v1/adapters?capability=dry_run").ok();
    assert!(simulating["total"].as_u64().unwrap() < 4, "{simulating}");
    assert_eq!(daemon.get("/v1/adapters?capability=flying").ok()["total"], 0);
    let echo = daemon.get("/v1/adapters/echo").by("read").ok();
    assert_eq!(echo["factory_ref"], "nexus_router_adapter_echo:create_adapter");
    assert_eq!(echo["tools"], json!(["greet", "plain", "write"]));
    assert_eq!(echo["library"].as_str().unwrap().len(), 64);
    for path in ["/v1/adapters/nobody", "/v1/adapters/nobody/health", "/v1/adapters/%00"] {
        daemon.get(path).refused(404, "UNKNOWN_ADAPTER");
    }
}

#[test]
fn health_tells_the_calls_of_an_adapter() {
    let config = ADAPTERS.replace("id = \"many\"", "id = \"many\"\ncalls = 2");
    let daemon = Daemon::start(&config, &[]);
    let health = || daemon.get("/v1/adapters/many/health").by("read").ok();
    let state = |status: &str, busy: u64| json!({ "adapter_id": "many", "status": status, "calls_in_flight": busy, "calls_limit": 2 });
    assert_eq!(health(), state("ok", 0));
    let first = daemon.hold();
    assert_eq!(health(), state("ok", 1));
    let second = daemon.hold();
    assert_eq!(health(), state("busy", 2));
    for run_id in [first, second] {
        assert_eq!(
            daemon.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).send().status,
            202
        );
        daemon.ended(&run_id);
    }
    until("rest", || (health() == state("ok", 0)).then_some(()));
}

#[test]
fn libraries_on_the_adapter_path_are_examined_and_no_others() {
    let daemon = Daemon::usual();
    let echo = json!({ "factory_ref": "nexus_router_adapter_echo:create_adapter" });
    let report = daemon.post("/v1/adapters/validate", &echo).ok();
    assert_eq!(report["ok"], true, "{report}");
    let report = daemon.post("/v1/adapters/inspect", &echo).ok();
    assert_eq!(report["ok"], true, "{report}");
    assert!(report.get("rendered").is_none());
    let mut rendered = echo;
    rendered["render"] = true.into();
    let report = daemon.post("/v1/adapters/inspect", &rendered).ok();
    assert!(report["rendered"].as_str().is_some_and(|text| text.contains("echo")), "{report}");
    let absent = json!({ "factory_ref": "no_such_library:create_adapter" });
    let report = daemon.post("/v1/adapters/validate", &absent).ok();
    assert_eq!(report["ok"], false, "{report}");

    let file = built_library("nexus_router_adapter_echo");
    let file = file.to_str().unwrap();
    for (body, pointer) in [
        (json!({ "factory_ref": format!("{file}:create_adapter") }), "/factory_ref"),
        (json!({ "factory_ref": "./lib.so:create_adapter" }), "/factory_ref"),
        (json!({ "factory_ref": "../x/lib.so:create_adapter" }), "/factory_ref"),
        (json!({ "factory_ref": 7 }), "/factory_ref"),
        (json!({}), "/factory_ref"),
        (json!([]), ""),
        (json!({ "factory_ref": "a:b", "config": 1 }), "/config"),
        (json!({ "factory_ref": "a:b", "a/b~": 1 }), "/a~1b~0"),
    ] {
        for path in ["/v1/adapters/validate", "/v1/adapters/inspect"] {
            let problem = daemon.post(path, &body).refused(422, "REQUEST_INVALID");
            assert_eq!(problem["pointer"], pointer, "{problem}");
            let tool = path.replace("/adapters/", "/tools/nexus-router.") + "_adapter";
            daemon.post(&tool, &json!({ "args": body })).send();
        }
    }
    let by_tool = json!({ "args": { "factory_ref": format!("{file}:create_adapter") } });
    let by_tool = daemon.post("/v1/tools/nexus-router.validate_adapter", &by_tool);
    by_tool.refused(422, "REQUEST_INVALID");
}

#[test]
fn tools_are_called_by_their_names() {
    let daemon = with_tools();
    let answer =
        daemon.post("/v1/tools/greet", &json!({ "args": { "name": "Ada" } })).by("apply").send();
    let told = answer.json();
    assert_eq!((answer.status, &told["status"]), (200, &json!("COMPLETED")), "{told}");
    assert_eq!(
        (&told["simulated"], &told["output"]["args"]["name"]),
        (&json!(false), &json!("Ada"))
    );
    let run_id = told["run_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(&*format!("/v1/runs/{run_id}")));
    assert_eq!(daemon.get(&format!("/v1/runs/{run_id}")).ok()["goal"], "call greet");
    assert_eq!(daemon.ask("POST", "/v1/tools/plain").ok()["output"]["tool"], "plain");
    let dry = daemon.post("/v1/tools/greet", &json!({ "mode": "dry_run" })).by("run").ok();
    assert_eq!(dry["simulated"], true, "{dry}");
    daemon.ask("POST", "/v1/tools/greet").by("run").refused(403, "SCOPE_MISSING");
    daemon.ask("POST", "/v1/tools/greet").by("read").refused(403, "SCOPE_MISSING");
    let failed = daemon.ask("POST", "/v1/tools/refuse").ok();
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("FAILED"), &json!("TIMEOUT"))
    );
    daemon.ask("POST", "/v1/tools/break").refused(502, "BUG_ERROR");
    let once = || daemon.ask("POST", "/v1/tools/greet").header("Idempotency-Key", "k").ok();
    assert_eq!(once()["run_id"], once()["run_id"]);
    let problem = daemon.ask("POST", "/v1/tools/gret").refused(404, "UNKNOWN_TOOL");
    assert_eq!(problem["hint"], "did you mean greet?");
    for (body, pointer) in [
        (json!({ "mode": "maybe" }), "/mode"),
        (json!({ "mode": 1 }), "/mode"),
        (json!({ "args": [] }), "/args"),
        (json!({ "arguments": {} }), "/arguments"),
        (json!([]), ""),
    ] {
        let problem = daemon.post("/v1/tools/greet", &body).refused(422, "REQUEST_INVALID");
        assert_eq!(problem["pointer"], pointer, "{problem}");
    }
}

#[test]
fn the_tools_of_the_router_are_for_administrators() {
    let daemon = with_tools();
    let call = |name: &str, args: Value| {
        daemon.post(&format!("/v1/tools/nexus-router.{name}"), &json!({ "args": args }))
    };
    let run = call("run", plan("echo", "t", "m")).ok();
    assert_eq!(run["output"]["status"], "COMPLETED", "{run}");
    let run_id = run["output"]["run"]["run_id"].as_str().unwrap().to_owned();
    let once = || call("run", plan("echo", "t", "m")).header("Idempotency-Key", "k").ok();
    assert_eq!(once()["output"]["run"], once()["output"]["run"]);
    let tried = json!({ "args": plan("echo", "t", "m"), "mode": "dry_run" });
    let tried = daemon.post("/v1/tools/nexus-router.run", &tried).refused(422, "REQUEST_INVALID");
    assert_eq!(tried["pointer"], "/mode");
    let listed = call("inspect", json!({})).ok();
    assert_eq!(listed["output"]["runs"][1]["run_id"], run_id.as_str(), "{listed}");
    assert_eq!(call("replay", json!({ "run_id": run_id })).ok()["output"]["ok"], true);
    assert_eq!(call("adapters", json!({})).ok()["output"]["total"], 4);
    let elsewhere = call("inspect", json!({ "db_path": "/tmp/other.db" }));
    elsewhere.refused(422, "REQUEST_INVALID");
    let mut elsewhere = plan("echo", "t", "m");
    elsewhere["db_path"] = "/tmp/other.db".into();
    assert_eq!(call("run", elsewhere).refused(422, "REQUEST_INVALID")["pointer"], "/args/db_path");
    call("inspekt", json!({})).refused(404, "UNKNOWN_TOOL");
    for name in ["run", "inspect", "inspekt"] {
        call(name, json!({})).by("apply").refused(403, "SCOPE_MISSING");
    }
}

#[test]
fn a_role_narrows_what_a_token_may_call() {
    let daemon = with_tools();
    for token in ["scout", "configured"] {
        let listed = daemon.get("/v1/tools").by(token).ok();
        assert_eq!(names(&listed["tools"]), ["greet"], "{listed}");
        let allowed = daemon.ask("POST", "/v1/tools/greet").by(token).ok();
        assert_eq!(allowed["status"], "COMPLETED", "{allowed}");
        for tool in ["write", "plain"] {
            let denied = daemon.ask("POST", &format!("/v1/tools/{tool}")).by(token).ok();
            assert_eq!(
                (&denied["status"], &denied["error"]["code"]),
                (&json!("FAILED"), &json!("ROLE_REFUSED"))
            );
        }
        // The way around the tools leads to the same gate.
        let denied = daemon.post("/v1/runs", &plan("echo", "files", "write")).by(token).ok();
        let error = &denied["results"][0]["error"];
        assert_eq!(
            (&error["code"], &error["details"]["role"]),
            (&json!("ROLE_REFUSED"), &json!("scout"))
        );
    }
    let all = ["break", "greet", "plain", "refuse", "write"];
    assert_eq!(names(&daemon.get("/v1/tools").by("apply").ok()["tools"]), all);
    assert_eq!(daemon.get("/v1/tools").by("read").ok()["total"], 0);
    let admin = daemon.get("/v1/tools").ok();
    assert!(names(&admin["tools"]).contains(&"nexus-router.run"), "{admin}");
}

#[test]
fn the_operators_policy_bounds_every_run() {
    let daemon = with_tools();
    for token in ["apply", "admin"] {
        let run = daemon.post("/v1/runs", &plan("echo", "shop", "delete_all")).by(token).ok();
        let error = &run["results"][0]["error"];
        assert_eq!(
            (&run["status"], &error["code"]),
            (&json!("FAILED"), &json!("PERMISSION_DENIED"))
        );
        assert!(error["message"].as_str().unwrap().ends_with("nobody deletes"), "{error}");
    }
    let allowed = daemon.post("/v1/runs", &plan("echo", "shop", "delete_mine"));
    assert_eq!(allowed.clone().by("apply").ok()["status"], "COMPLETED");
    assert_eq!(allowed.ok()["status"], "FAILED");

    let strict = Daemon::start(&format!("{ADAPTERS}[policy]\napply = false\nmax_steps = 1\n"), &[]);
    let run = strict.post("/v1/runs", &plan("echo", "t", "m")).ok();
    assert_eq!(run["status"], "FAILED", "{run}");
    assert_eq!(run["results"][0]["error"]["code"], "PERMISSION_DENIED", "{run}");
    let mut dry = plan("echo", "t", "m");
    dry["mode"] = "dry_run".into();
    assert_eq!(strict.post("/v1/runs", &dry).ok()["status"], "COMPLETED");
    let mut second = dry["plan_override"][0].clone();
    second["step_id"] = "s2".into();
    dry["plan_override"].as_array_mut().unwrap().push(second);
    // Its own policy allows more than the operator's.
    dry["policy"]["max_steps"] = 10.into();
    let run = strict.post("/v1/runs", &dry).ok();
    assert_eq!(run["status"], "FAILED", "{run}");
    assert!(run["error"]["message"].as_str().unwrap().contains("allows 1"), "{run}");
}
