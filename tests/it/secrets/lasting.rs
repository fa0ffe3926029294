//! Bindings that change while runs last: reloads, approvals, restarts and runs that are resumed.

use std::collections::BTreeMap;
use std::sync::Arc;

use nexus_router::config::{Effect, Pattern, Rule, SecretBinding};
use nexus_router::policy::Law;
use nexus_router::router::{How, Options, Resumable, Router};
use nexus_router::secret::{Secrets, Source};
use nexus_router::store::{Status, Store};
use serde_json::{Value, json};

use super::{ADAPTERS, BINDING, refers, secrets, stage};
use crate::daemon::support::Daemon;
use crate::engine::{Bench, plan, recovery, registry, set};
use crate::support::World;

const ASKS: &str = "[[policy.rules]]\neffect = \"approve\"\ntool = \"orders\"\n";

fn configure(daemon: &Daemon, binding: &str) {
    daemon.stage.configure(&format!("{ADAPTERS}{ASKS}{}", secrets(binding)));
}

/// Submits a run that waits for an approval, and returns both ids.
fn waits(daemon: &Daemon) -> (String, String) {
    let run = daemon.post("/v1/runs", &refers("shop", "orders", "BOUND")).by("apply").send().json();
    let approval_id = run["waiting"]["approval_id"].as_str().unwrap_or_else(|| panic!("{run}"));
    (run["run"]["run_id"].as_str().unwrap().to_owned(), approval_id.to_owned())
}

fn approve(daemon: &Daemon, (run_id, approval_id): &(String, String)) -> Value {
    daemon.ask("POST", &format!("/v1/approvals/{approval_id}/approve")).ok();
    daemon.ended(run_id)
}

/// The approval of a call whose secret is not bound any more is refused, and stays open.
fn refuses(daemon: &Daemon, (_, approval_id): &(String, String)) {
    let approve = daemon.ask("POST", &format!("/v1/approvals/{approval_id}/approve"));
    let refused = approve.refused(409, "APPROVAL_NOT_EXECUTABLE");
    assert!(refused["detail"].as_str().unwrap().contains("is not bound"), "{refused}");
}

#[test]
fn approved_call_resolves_its_secret() {
    let daemon = stage(&format!("{ADAPTERS}{ASKS}{}", secrets(BINDING))).start(&[]);
    let run = approve(&daemon, &waits(&daemon));
    assert_eq!(run["results"][0]["output"]["args"]["key"], "[REDACTED]", "{run}");
}

#[test]
fn approval_does_not_outlast_the_binding() {
    let daemon = stage(&format!("{ADAPTERS}{ASKS}{}", secrets(BINDING))).start(&[]);
    let waiting = waits(&daemon);
    configure(&daemon, "adapters = [\"other\"]");
    daemon.ask("POST", "/v1/reload").ok();
    refuses(&daemon, &waiting);
    // Nobody is asked about what the binding forbids.
    let refused = daemon.post("/v1/runs", &refers("shop", "orders", "BOUND")).by("apply").ok();
    assert_eq!(refused["results"][0]["error"]["code"], "SECRET_NOT_BOUND", "{refused}");
}

#[test]
fn restart_checks_the_binding_again() {
    let mut daemon = stage(&format!("{ADAPTERS}{ASKS}{}", secrets(BINDING))).start(&[]);
    let waiting = waits(&daemon);
    daemon.kill();
    configure(&daemon, "");
    let daemon = daemon.again();
    refuses(&daemon, &waiting);
    // The refusal did not use up the approval.
    configure(&daemon, BINDING);
    daemon.ask("POST", "/v1/reload").ok();
    assert_eq!(approve(&daemon, &waiting)["status"], "COMPLETED");
}

#[test]
fn reload_binds_and_unbinds() {
    let daemon = stage(&format!("{ADAPTERS}{}", secrets(""))).start(&[]);
    let status = |daemon: &Daemon| {
        let run = daemon.post("/v1/runs", &refers("shop", "orders", "BOUND")).by("apply").ok();
        run["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&daemon), "FAILED");
    for (binding, expected) in [(BINDING, "COMPLETED"), ("adapters = [\"other\"]", "FAILED")] {
        daemon.stage.configure(&format!("{ADAPTERS}{}", secrets(binding)));
        daemon.ask("POST", "/v1/reload").ok();
        assert_eq!(status(&daemon), expected, "{binding}");
    }
}

fn law(adapters: &[&str]) -> Law {
    let adapters: Vec<Pattern> = adapters.iter().filter_map(|id| Pattern::new(id)).collect();
    let binding = SecretBinding { adapters, ..SecretBinding::default() };
    Law { secrets: BTreeMap::from([("KEY".to_owned(), binding)]), ..Law::default() }
}

fn known() -> Secrets {
    let sources = BTreeMap::from([("KEY".to_owned(), Source::Env("KEY".to_owned()))]);
    Secrets::from_sources(&sources, |_| Some("embedded-s3cret".into())).unwrap()
}

fn options(law: Law) -> Options {
    Options { law, secrets: known(), ..Options::default() }
}

#[test]
fn embedding_host_needs_the_binding_too() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({}))]);
    let request =
        set(plan(&["a"]), "/plan_override/0/call/args", json!({ "k": { "$secret": "KEY" } }));
    for (law, code) in [
        (law(&["one"]), None),
        (law(&["two"]), Some("SECRET_NOT_BOUND")),
        (Law::default(), Some("SECRET_NOT_BOUND")),
    ] {
        let bench = Bench::with(
            Arc::clone(&world),
            Store::in_memory().unwrap(),
            registry.clone(),
            options(law),
        );
        for request in [request.clone(), set(request.clone(), "/mode", json!("dry_run"))] {
            let outcome = bench.run(&request).unwrap();
            let error = outcome.results[0].error.as_ref().map(|error| error.code.as_str());
            assert_eq!(error, code);
        }
    }
}

#[test]
fn resumed_run_is_checked_with_the_present_bindings() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({}))]);
    let request =
        set(plan(&["a", "b"]), "/plan_override/1/call/args", json!({ "k": { "$secret": "KEY" } }));
    let store = Store::in_memory().unwrap();
    let bench = Bench::with(Arc::clone(&world), store, registry.clone(), options(law(&["one"])));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let whole = bench.log(&outcome.run_id);
    // Before the second step, after its start, and during its call.
    for count in [7, 8, 9] {
        for (law, status) in [(law(&["one"]), Status::Completed), (Law::default(), Status::Failed)]
        {
            let path = world.path(&format!("{count}-{}.db", status.name()));
            recovery::cut(&whole, count, &path);
            let store = Store::open(&path).unwrap();
            let router = Router::new(store.clone(), registry.clone(), options(law)).unwrap();
            let recovered = router.recover_blocking(Resumable::Resume).unwrap();
            assert_eq!((recovered[0].how.clone(), recovered[0].status), (How::Resumed, status));
            let log = store.log(&outcome.run_id).unwrap().unwrap();
            let refused = log.lines().any(|line| line.contains("SECRET_NOT_BOUND"));
            assert_eq!(refused, status == Status::Failed);
        }
    }
}

#[test]
fn rules_do_not_replace_a_binding() {
    let world = Arc::new(World::new());
    let registry = registry(&world, &[("one", json!({}))]);
    let law = Law { rules: vec![Rule::any(Effect::Allow)], ..Law::default() };
    let bench = Bench::with(world, Store::in_memory().unwrap(), registry, options(law));
    let request =
        set(plan(&["a"]), "/plan_override/0/call/args", json!({ "k": { "$secret": "KEY" } }));
    let outcome = bench.run(&request).unwrap();
    assert_eq!(outcome.results[0].error.as_ref().unwrap().code, "SECRET_NOT_BOUND");
}
