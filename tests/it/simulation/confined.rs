//! Simulated calls: with the dry-run flag, in workers without network or writes, even if the operator grants more.

use std::net::TcpListener;
use std::sync::Arc;

use nexus_router::loader::{DryRun, LoadRequest};
use nexus_router::policy::Law;
use nexus_router::router::{How, Options, Resumable, Router};
use nexus_router::store::{Status, Store};
use nexus_router::{Loader, Registry};
use serde_json::{Value, json};

use super::{as_today, simulated};
use crate::daemon::support::{ADAPTERS, Daemon, Stage, plan};
use crate::engine::{self, Bench, recovery};
use crate::support::World;

fn attempt(method: &str, args: &Value) -> Value {
    let mut plan = plan("escapes", "escape", method);
    plan["plan_override"][0]["call"]["args"] = args.clone();
    plan
}

#[test]
fn grants_of_the_adapter_do_not_reach_simulated_calls() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let stage = Stage::new("");
    let files = stage.path("files");
    std::fs::create_dir(&files).unwrap();
    let (file, other) = (files.join("file"), files.join("other"));
    std::fs::write(&file, "untouched").unwrap();
    stage.configure(&format!(
        "[[adapters]]\nref = \"escape_adapters:escapes_simulated\"\nid = \"escapes\"\n\
         grants = {{ write = [{files:?}], connect = [\"127.0.0.1:{port}\"] }}\n\
         offer = {{ tools = [\"*\"] }}\n"
    ));
    let daemon = stage.start(&[]);
    let effects = [
        ("tcp_connect", json!({ "port": port })),
        ("write", json!({ "path": file, "text": "changed" })),
        ("create", json!({ "path": other })),
        ("truncate", json!({ "path": file })),
        ("remove", json!({ "path": file })),
        ("udp", json!({})),
        ("tcp_listen", json!({})),
    ];
    for (method, args) in &effects {
        let run = daemon.post("/v1/runs", &simulated(attempt(method, args))).by("run").ok();
        let result = &run["results"][0];
        assert_eq!(result["simulated"], true, "{run}");
        let output = &result["output"];
        assert_eq!(
            (&output["simulated"], &output["dry_run"]),
            (&json!(true), &json!(true)),
            "{method}: {run}"
        );
        assert!(output["errno"].as_i64().is_some_and(|errno| errno != 0), "{method}: {run}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "untouched");
    assert!(!other.exists());
    // Reading a writable file is not an effect.
    let read = simulated(attempt("read", &json!({ "path": file })));
    let run = daemon.post("/v1/runs", &read).by("run").ok();
    assert_eq!(run["results"][0]["output"]["data"], "untouched", "{run}");
    // Outside of a dry run the grants hold.
    for (method, args) in &effects[..3] {
        let run = daemon.post("/v1/runs", &attempt(method, args)).ok();
        assert_eq!(run["results"][0]["output"]["errno"], 0, "{method}: {run}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed");
    drop(service);
}

#[test]
fn adapters_that_declare_dry_run_are_called_with_the_flag() {
    let daemon = Daemon::start(
        &format!(
            "{ADAPTERS}[[adapters]]\nref = \"nexus_router_adapter_echo:create_adapter\"\nid = \"inline\"\nisolation = \"inline\"\n\
             offer = {{ tools = [\"*\"] }}\n"
        ),
        &[],
    );
    for adapter_id in ["echo", "inline"] {
        let run = daemon.post("/v1/runs", &simulated(plan(adapter_id, "t", "m"))).by("run").ok();
        assert_eq!(run["status"], "COMPLETED", "{run}");
        let output = &run["results"][0]["output"];
        assert_eq!(
            (&output["dry_run"], &output["simulated"]),
            (&json!(true), &json!(true)),
            "{run}"
        );
        assert_eq!(output["args"]["name"], "Ada", "{run}");
        assert_eq!(run["summary"]["outputs_applied"], 0);
        let run_id = run["run"]["run_id"].as_str().unwrap();
        let replay = daemon.get(&format!("/v1/runs/{run_id}/replay")).ok();
        assert_eq!((&replay["ok"], &replay["violations"]), (&json!(true), &json!([])));
    }
    // Without the wish nothing is called.
    let mut dry = plan("echo", "t", "m");
    dry["mode"] = json!("dry_run");
    let run = daemon.post("/v1/runs", &dry).by("run").ok();
    assert_eq!(run["results"][0]["output"], as_today("echo", "t", "m"));
}

#[test]
fn adapters_without_dry_run_are_simulated_by_the_router() {
    let config = format!(
        "{ADAPTERS}[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"real\"\nconfig = {{ capabilities = [\"apply\"] }}\n"
    );
    let daemon = Daemon::start(&config, &[]);
    let run = daemon.post("/v1/runs", &simulated(plan("real", "t", "m"))).ok();
    assert_eq!(run["results"][0]["output"], as_today("real", "t", "m"), "{run}");
}

#[test]
fn calls_that_need_approval_are_not_simulated() {
    let config = format!("{ADAPTERS}[[policy.rules]]\neffect = \"approve\"\nmethod = \"risky\"\n");
    let daemon = Daemon::start(&config, &[]);
    let run = daemon.post("/v1/runs", &simulated(plan("echo", "t", "risky"))).by("run").ok();
    let mut expected = as_today("echo", "t", "risky");
    expected["approval_required"] = json!(true);
    assert_eq!(run["results"][0]["output"], expected, "{run}");
}

#[test]
fn inline_adapter_is_never_called_in_this_process() {
    let stage = Stage::new("");
    let (traces, life) = (stage.path("traces"), stage.path("life"));
    stage.configure(&format!(
        "{ADAPTERS}[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"tracer\"\nisolation = \"inline\"\n\
         offer = {{ tools = [\"*\"] }}\n\
         config = {{ traces = {traces:?}, life = {life:?} }}\n\
         [workers]\n# It writes that file when it is made.\nrequire_valid = false\n"
    ));
    let daemon = stage.start(&[]);
    let answer = daemon.post("/v1/runs", &simulated(plan("tracer", "t", "m"))).by("run").send();
    // It panics because it cannot leave its trace there.
    assert_eq!(answer.json()["code"], "ADAPTER_PANICKED", "{}", answer.text());
    assert!(!traces.exists(), "{:?}", std::fs::read_to_string(&traces));
    let made = std::fs::read_to_string(&life).unwrap();
    assert_eq!(made.lines().count(), 1, "{made}");
    let run = daemon.post("/v1/runs", &plan("tracer", "t", "m")).ok();
    assert_eq!((&run["status"], traces.exists()), (&json!("COMPLETED"), true));
}

fn echo(loader: &Loader) -> Registry {
    let request = LoadRequest {
        factory_ref: "nexus_router_adapter_echo:create_adapter",
        adapter_id: Some("echo"),
        config: &json!({}),
        pin: None,
    };
    let mut registry = Registry::new("echo");
    registry.register(loader.load(&request).unwrap()).unwrap();
    registry
}

#[test]
fn output_says_why_an_adapter_was_not_called() {
    let world = Arc::new(World::new());
    let mut loader = world.loader();
    loader.dry_run = DryRun::Off;
    let bench = Bench::among(&world, echo(&loader));
    let outcome = bench.run(&simulated(engine::plan(&["m"]))).unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let output = Value::from(outcome.results[0].output.to_serde());
    assert_eq!(output["not_called"], "the adapter has no confined worker for simulated calls");
    let mut rest = output;
    rest.as_object_mut().unwrap().shift_remove("not_called");
    assert_eq!(rest, as_today("echo", "t", "m"));
}

#[test]
fn simulated_run_is_resumed_with_its_wish() {
    let world = Arc::new(World::new());
    let registry = echo(&world.loader());
    let bench = Bench::among(&world, registry.clone());
    let outcome = bench.run(&simulated(engine::plan(&["a", "b"]))).unwrap();
    let whole = bench.log(&outcome.run_id);
    // Between the steps, and during the second call.
    for count in [7, 9] {
        let path = world.path(&format!("{count}.db"));
        recovery::cut(&whole, count, &path);
        let store = Store::open(&path).unwrap();
        let router = Router::new(store.clone(), registry.clone(), Options::default()).unwrap();
        let recovered = router.recover_blocking(Resumable::Resume).unwrap();
        assert_eq!((&recovered[0].how, recovered[0].status), (&How::Resumed, Status::Completed));
        let log = store.log(&outcome.run_id).unwrap().unwrap();
        let (_, last) = engine::payloads(&log)
            .into_iter()
            .rfind(|(kind, _)| kind == "TOOL_CALL_SUCCEEDED")
            .unwrap();
        assert_eq!((&last["simulated"], &last["output"]["dry_run"]), (&json!(true), &json!(true)));
    }
}

#[test]
fn simulated_arguments_are_checked_and_secrets_stay_bound() {
    let daemon = crate::secrets::daemon(crate::secrets::BINDING);
    let request =
        |tool: &str, secret: &str| simulated(crate::secrets::refers("shop", tool, secret));
    let run = daemon.post("/v1/runs", &request("orders", "BOUND")).by("run").ok();
    assert_eq!(run["results"][0]["output"]["args"]["key"], "[REDACTED]", "{run}");
    assert_eq!(run["results"][0]["output"]["dry_run"], true, "{run}");
    for (tool, secret, code) in [
        ("orders", "PLAIN", "SECRET_NOT_BOUND"),
        ("refunds", "BOUND", "SECRET_NOT_BOUND"),
        ("strict", "BOUND", "ARGUMENTS_INVALID"),
    ] {
        let run = daemon.post("/v1/runs", &request(tool, secret)).by("run").ok();
        assert_eq!(run["results"][0]["error"]["code"], code, "{run}");
    }
    crate::secrets::assert_kept_secret(&daemon);
}

#[test]
fn rejects_simulation_of_an_apply() {
    let daemon = Daemon::usual();
    let mut request = plan("echo", "t", "m");
    request["policy"]["simulate"] = json!(true);
    let refused = daemon.post("/v1/runs", &request).refused(422, "REQUEST_INVALID");
    assert!(refused.to_string().contains("/policy/simulate"), "{refused}");
}

#[test]
fn operator_policy_binds_simulated_calls() {
    let world = Arc::new(World::new());
    let rule = nexus_router::config::Rule {
        method: nexus_router::config::Pattern::new("b"),
        ..nexus_router::config::Rule::any(nexus_router::config::Effect::Deny)
    };
    let options =
        Options { law: Law { rules: vec![rule], ..Law::default() }, ..Options::default() };
    let store = Store::in_memory().unwrap();
    let bench = Bench::with(Arc::clone(&world), store, echo(&world.loader()), options);
    let outcome = bench.run(&simulated(engine::plan(&["a", "b", "c"]))).unwrap();
    let codes: Vec<Option<&str>> = outcome
        .results
        .iter()
        .map(|result| result.error.as_ref().map(|error| error.code.as_str()))
        .collect();
    assert_eq!(codes, [None, Some("PERMISSION_DENIED"), None]);
    assert_eq!(outcome.status, Status::Failed);
    bench.events(&outcome.run_id);
}
