//! What the audit log tells of the daemon: who was refused, and who did what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use nexus_router::access::Scope;
use nexus_router::audit::KINDS;
use nexus_router::store::Store;
use serde_json::{Value, json};

use super::support::{ADAPTERS, Daemon, Stage, plan, until};
use super::workers::{FRAGILE, failing};

#[test]
fn a_loud_address_does_not_hide_quiet_ones() {
    let daemon = Daemon::usual();
    let guess = |address| {
        let ask = daemon.get("/v1/runs").by_nobody().from(address);
        ask.header("Authorization", "Bearer wrong").refused(401, "TOKEN_INVALID");
    };
    for _ in 0..30 {
        guess([127, 0, 0, 9]);
    }
    guess([127, 0, 0, 77]);
    guess([127, 0, 0, 78]);
    for from in ["127.0.0.9", "127.0.0.77", "127.0.0.78"] {
        let event = daemon.audited(|event| event["payload"]["from"] == from);
        assert_eq!(event["payload"]["reason"], "TOKEN_INVALID", "{event}");
    }
}

#[test]
fn calls_that_are_denied_inside_a_run_are_recorded_and_counted() {
    let rule = "[[policy.rules]]\neffect = \"deny\"\ntool = \"shop\"\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{rule}"), &[]);
    let request = plan("echo", "shop", "buy");
    let run_id = daemon.post("/v1/runs", &request).by("apply").send().run_id();
    // Also when nobody waits for the end.
    let later = daemon.post("/v1/runs?wait=false", &request).send().run_id();
    for (run_id, name) in [(run_id, "apply"), (later, "admin")] {
        let event = daemon.audited(|event| event["payload"]["run_id"] == run_id.as_str());
        assert_eq!(event["kind"], "access.refused");
        let payload = json!({ "reason": "PERMISSION_DENIED", "run_id": run_id, "name": name,
            "adapter": "echo", "tool": "shop", "method": "buy" });
        assert_eq!(event["payload"], payload);
    }
    let counted = "nexus_router_refused_total{reason=\"PERMISSION_DENIED\"}";
    assert_eq!(daemon.metric(counted), 2.0);
    // What the caller itself does not allow is no refusal.
    let mut own = plan("echo", "t", "m");
    own["policy"]["allow_apply"] = false.into();
    assert_eq!(daemon.post("/v1/runs", &own).ok()["status"], "FAILED");
    assert_eq!(daemon.metric(counted), 2.0);
}

#[test]
fn what_is_too_much_is_counted() {
    let server = "[server]\nbody_bytes = 1024\n[limits]\nruns_in_flight = 1\n";
    let daemon = Daemon::start(&format!("{ADAPTERS}{server}"), &[]);
    let counted = |code| daemon.metric(&format!("nexus_router_refused_total{{reason=\"{code}\"}}"));
    daemon.ask("POST", "/v1/runs").body(" ".repeat(1025)).refused(413, "BODY_TOO_LARGE");
    assert_eq!(counted("BODY_TOO_LARGE"), 1.0);
    daemon.hold();
    daemon.post("/v1/runs", &plan("echo", "t", "m")).refused(503, "ROUTER_BUSY");
    until("the count", || (counted("ROUTER_BUSY") == 1.0).then_some(()));
}

#[test]
fn every_request_is_counted_also_without_a_route_or_an_answer() {
    let daemon = Daemon::usual();
    let counted = |route: &str, method: &str, status: u16| {
        daemon.metric(&format!(
            "nexus_router_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}}"
        ))
    };
    daemon.get("/nothing").refused(404, "NO_SUCH_ROUTE");
    daemon.ask("DELETE", "/healthz").refused(405, "METHOD_NOT_ALLOWED");
    daemon.ask("BREW", "/healthz").refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(counted("_other", "GET", 404), 1.0);
    assert_eq!(counted("_other", "DELETE", 405), 1.0);
    assert_eq!(counted("_other", "_other", 405), 1.0);
    let wire = daemon.post("/v1/runs", &plan("many", "t", "hold")).begin();
    until("the call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    drop(wire);
    until("the count", || (counted("/v1/runs", "POST", 499) == 1.0).then_some(()));
}

#[test]
fn what_is_recorded_is_what_the_table_says() {
    let rules = "[[policy.rules]]\neffect = \"deny\"\ntool = \"shop\"\n\
                 [[policy.rules]]\neffect = \"approve\"\ntool = \"risk\"\n\
                 [breaker]\nfailures = 2\n";
    let changing = "[[adapters]]\nref = \"conformance_adapter:create_adapter\"\n\
                    [adapters.offer]\ntools = [\"test_trigger_*\"]\n";
    let failing_one = "[[adapters]]\nid = \"fails\"\nref = \"bad_adapters:factory_segfaults\"\n";
    let contracted =
        "[[adapters]]\nid = \"contracted\"\nref = \"nexus_router_adapter_echo:create_adapter\"\n";
    let changing = format!("{changing}{failing_one}{contracted}");
    let stage = Stage::new(&format!("{ADAPTERS}{FRAGILE}{changing}{rules}"));
    let cache = stage.path("cache");
    std::fs::create_dir(&cache).unwrap();
    std::fs::set_permissions(&cache, Permissions::from_mode(0o700)).unwrap();
    let contract = stage.path("data/interfaces/contracted.interface.json");
    std::fs::create_dir_all(contract.parent().unwrap()).unwrap();
    std::fs::write(&contract, "{").unwrap();
    let mut daemon = stage.start(&[]);
    daemon.audited(|event| event["kind"] == "contract.disabled");
    std::fs::remove_file(&contract).unwrap();
    daemon.ask("POST", "/v1/reload").ok();
    daemon.audited(|event| event["kind"] == "contract.restored");
    daemon.get("/v1/runs").by_nobody().header("Authorization", "Bearer wrong").send();
    daemon.post("/v1/runs", &plan("echo", "t", "m")).by("read").refused(403, "SCOPE_MISSING");
    assert_eq!(failing(&daemon, "hangs"), "TIMEOUT");
    for _ in 0..2 {
        assert_eq!(failing(&daemon, "breaks"), "ADAPTER_CRASHED");
    }
    daemon.audited(|event| event["kind"] == "adapter.quarantined");
    assert_eq!(daemon.ask("POST", "/v1/adapters/fails/retry").send().status, 202);
    daemon.audited(|event| event["kind"] == "adapter.retried");
    until("the second failure", || {
        (daemon.get("/v1/adapters/fails").ok()["state"] == "failed").then_some(())
    });
    assert_eq!(daemon.ask("POST", "/v1/adapters/breaks/release").ok()["released"], true);
    let run_id = daemon.post("/v1/runs", &plan("echo", "shop", "buy")).send().run_id();
    let bundle = daemon.get(&format!("/v1/runs/{run_id}/bundle")).send().body;
    daemon.ask("POST", "/v1/bundles?mode=new_run_id").body(bundle).ok();
    let held = daemon.hold();
    assert_eq!(daemon.ask("POST", &format!("/v1/runs/{held}/cancel")).send().status, 202);
    let waiting = daemon.post("/v1/runs", &plan("echo", "risk", "buy")).send().json();
    let approval_id = waiting["waiting"]["approval_id"].as_str().unwrap();
    let approve = format!("/v1/approvals/{approval_id}/approve");
    daemon.post(&approve, &json!({ "reason": "it is cheap" })).ok();
    daemon.ask("POST", &approve).refused(409, "APPROVAL_ALREADY_DECIDED");
    daemon.post("/v1/tools/test_trigger_tool_change", &json!({})).ok();
    daemon.audited(|event| event["kind"] == "tools.changed");
    daemon.ask("PUT", "/v1/log").json(&json!({ "level": "warn" })).ok();
    daemon.stage.configure(&format!("{ADAPTERS}{FRAGILE}{changing}"));
    daemon.ask("POST", "/v1/reload").ok();
    daemon.stage.configure("nonsense = true\n");
    assert_eq!(daemon.ask("POST", "/v1/reload").send().status, 422);
    for kind in ["config.reloaded", "config.refused"] {
        daemon.audited(|event| event["kind"] == kind && event["payload"]["name"] == "admin");
    }
    daemon.stage.token("late", Scope::Read);
    daemon.audited(|event| event["kind"] == "tokens.changed");
    let tokens = daemon.stage.path("data/tokens.json");
    std::fs::set_permissions(&tokens, Permissions::from_mode(0o644)).unwrap();
    daemon.audited(|event| event["kind"] == "tokens.refused");
    // Without the copy of its library no worker can be started.
    std::fs::remove_dir_all(&cache).unwrap();
    assert_eq!(failing(&daemon, "breaks"), "ADAPTER_UNAVAILABLE");
    daemon.audited(|event| event["kind"] == "adapter.not_started");
    daemon.stop();
    daemon.stage.configure(ADAPTERS);
    std::fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    // Accidents of the store are found in what is saved of it.
    for name in ["runs.db-wal", "runs.db"] {
        let mut daemon = daemon.again();
        std::fs::remove_file(daemon.stage.path("data").join(name)).unwrap();
        until("what was acknowledged is safe", || {
            let rescue = daemon.get("/v1/status").ok()["store"]["rescue"].clone();
            (rescue == "in_place" || rescue == "copied").then_some(())
        });
        daemon.kill();
    }

    let store = Store::open_read_only(&daemon.stage.path("data/runs.db")).unwrap();
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in store.audit_page(0, usize::MAX).unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap();
        let members = event["payload"].as_object().unwrap().keys().cloned();
        told.entry(event["kind"].as_str().unwrap().to_owned()).or_default().extend(members);
    }
    for (kind, doc) in KINDS.iter().filter(|(kind, _)| *kind != "audit.dropped") {
        let named: BTreeSet<String> =
            doc.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(told.get(*kind), Some(&named), "{kind}");
    }
}
