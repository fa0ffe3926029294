//! Circuit breakers: when one opens, what callers and operators see, how it closes, and failures that no contract lists.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::stage;
use super::retries::{Operation, adapter, calls, events, fake, run_id, started};
use crate::daemon::support::{Daemon, plan, until};
use crate::mcp::support::call;
use crate::support::Run;

/// A pause that no test waits for.
const LONG: &str = "[breaker]\nfailures = 2\npause_ms = 600000\nmax_pause_ms = 600000\n";

/// A daemon whose operations `flaky` and `read` fail as long as a file is there.
fn daemon(breaker: &str, code: &str) -> Daemon {
    let read = Operation { read_only: true, ..Operation::new("read") };
    let stage = stage(&fake(&[Operation::new("flaky"), read]), "");
    fs::write(stage.path("broken"), "").unwrap();
    let broken =
        json!({ "fails_while": { "file": "BROKEN", "error_code": code, "message": "no" } });
    let adapter = adapter(&[("flaky", broken.clone()), ("read", broken)]);
    started(stage, &format!("{adapter}{breaker}"))
}

fn result(daemon: &Daemon, method: &str) -> Value {
    daemon.post("/v1/runs", &plan("fake", "t", method)).ok()["results"][0].clone()
}

fn code(daemon: &Daemon, method: &str) -> Value {
    result(daemon, method)["error"]["code"].clone()
}

fn shown(daemon: &Daemon) -> Value {
    daemon.get("/v1/adapters/fake").ok()
}

fn repair(daemon: &Daemon) {
    fs::remove_file(daemon.stage.path("broken")).unwrap();
}

#[test]
fn open_circuit_rejects_calls_at_once() {
    let daemon = daemon(LONG, "CONNECTION_FAILED");
    assert_eq!(shown(&daemon)["circuit"], "closed");
    for _ in 0..2 {
        assert_eq!(code(&daemon, "flaky"), "CONNECTION_FAILED");
    }
    let before = Instant::now();
    let run = daemon.post("/v1/runs", &plan("fake", "t", "flaky")).ok();
    assert!(before.elapsed() < Duration::from_secs(5));
    let error = &run["results"][0]["error"];
    assert_eq!(error["code"], "CIRCUIT_OPEN", "{run}");
    assert_eq!(
        (&error["details"]["called"], &error["details"]["failures"]),
        (&json!(false), &json!(2))
    );
    assert_eq!(error["details"]["last_error_code"], "CONNECTION_FAILED");
    assert!(error["details"]["retry_after_ms"].as_u64().unwrap() > 1_000, "{error}");
    let kinds: Vec<String> =
        events(&daemon, run_id(&run)).into_iter().map(|(kind, _)| kind).collect();
    assert!(
        kinds.contains(&"TOOL_CALL_REQUESTED".to_owned())
            && kinds.contains(&"TOOL_CALL_FAILED".to_owned())
    );
    // Nothing was called, over MCP neither.
    let told = call(&daemon, "flaky", &json!({})).to_string();
    assert!(told.contains("CIRCUIT_OPEN"), "{told}");
    let tool = daemon.post("/v1/tools/flaky", &json!({})).send();
    assert_eq!(tool.json()["error"]["code"], "CIRCUIT_OPEN", "{tool:?}");
    assert!(tool.header("retry-after").unwrap().parse::<u64>().unwrap() > 1, "{tool:?}");
    assert_eq!(calls(&daemon), 2);
}

#[test]
fn operators_see_and_close_an_open_circuit() {
    let daemon = daemon(LONG, "TIMEOUT");
    for _ in 0..2 {
        assert_eq!(code(&daemon, "flaky"), "TIMEOUT");
    }
    let adapter = shown(&daemon);
    assert_eq!(
        (&adapter["circuit"], &adapter["circuit_error"]),
        (&json!("open"), &json!("TIMEOUT"))
    );
    assert!(adapter["circuit_until"].is_string(), "{adapter}");
    let health = daemon.get("/v1/adapters/fake/health").ok();
    assert_eq!((&health["status"], health["until"].is_string()), (&json!("circuit_open"), true));
    assert_eq!(daemon.metric("nexus_router_adapter_circuit_open{adapter=\"fake\"}"), 1.0);
    let incident = "nexus_router_adapter_incidents_total{adapter=\"fake\",kind=\"circuit_opened\"}";
    assert_eq!(daemon.metric(incident), 1.0);
    let event = daemon.audited(|event| event["kind"] == "adapter.circuit_opened");
    assert!(event["payload"]["text"].as_str().unwrap().contains("TIMEOUT"), "{event}");
    let url = format!("http://{}", daemon.address);
    let mut list = daemon.stage.program();
    list.args(["adapter", "list", "--running", "--url", &url]);
    let list = Run(list.env("NEXUS_ROUTER_TOKEN", daemon.token("read")).output().unwrap()).stdout();
    assert!(list.contains("CIRCUIT") && list.contains("open until"), "{list}");

    repair(&daemon);
    assert_eq!(code(&daemon, "flaky"), "CIRCUIT_OPEN");
    let released = daemon.ask("POST", "/v1/adapters/fake/release").ok();
    assert_eq!((&released["released"], &released["circuit"]), (&json!(true), &json!("closed")));
    let event = daemon.audited(|event| event["kind"] == "adapter.circuit_closed");
    assert_eq!(event["payload"]["name"], "admin", "{event}");
    assert_eq!(result(&daemon, "flaky")["status"], "ok");
    assert_eq!(daemon.metric("nexus_router_adapter_circuit_open{adapter=\"fake\"}"), 0.0);
    assert_eq!(daemon.ask("POST", "/v1/adapters/fake/release").ok()["released"], false);
}

#[test]
fn good_probe_closes_the_circuit() {
    let daemon = daemon("[breaker]\nfailures = 1\npause_ms = 50\nmax_pause_ms = 100\n", "TIMEOUT");
    assert_eq!(code(&daemon, "flaky"), "TIMEOUT");
    // Probes that fail keep it open.
    until("a failed probe", || (code(&daemon, "read") == "TIMEOUT").then_some(()));
    repair(&daemon);
    until("a good probe", || (result(&daemon, "read")["status"] == "ok").then_some(()));
    assert_eq!(shown(&daemon)["circuit"], "closed");
    assert_eq!(result(&daemon, "flaky")["status"], "ok");
    let event = daemon.audited(|event| event["kind"] == "adapter.circuit_closed");
    assert_eq!(event["payload"].get("name"), None, "{event}");
}

#[test]
fn only_failures_of_the_service_open_the_circuit() {
    let daemon = daemon(LONG, "BAD_REQUEST");
    for _ in 0..4 {
        assert_eq!(code(&daemon, "flaky"), "BAD_REQUEST");
    }
    assert_eq!(shown(&daemon)["circuit"], "closed");
}

#[test]
fn callers_with_short_timeouts_do_not_open_the_circuit() {
    let read = Operation { read_only: true, ..Operation::new("read") };
    let stage = stage(&fake(&[Operation::new("flaky"), read]), "");
    let daemon =
        started(stage, &format!("{}{LONG}", adapter(&[("flaky", json!({ "sleep_ms": 60_000 }))])));
    let mut request = plan("fake", "t", "flaky");
    request["plan_override"][0]["timeout_ms"] = json!(20);
    for _ in 0..3 {
        let run = daemon.post("/v1/runs", &request).ok();
        assert_eq!(run["results"][0]["error"]["code"], "TIMEOUT", "{run}");
    }
    assert_eq!(shown(&daemon)["circuit"], "closed");
}

#[test]
fn circuit_breaker_can_be_switched_off() {
    let daemon = daemon("[breaker]\nenabled = false\nfailures = 1\n", "TIMEOUT");
    for _ in 0..3 {
        assert_eq!(code(&daemon, "flaky"), "TIMEOUT");
    }
    assert_eq!(calls(&daemon), 3);
}

#[test]
fn crashed_workers_open_the_circuit_before_quarantine() {
    let config = format!(
        "{LONG}[workers]\ncrashes = 9\n[[adapters]]\nref = \"probe_adapters:fake\"\nid = \"fake\"\n\
         [adapters.config]\nresponses = [{{ tool = \"t\", method = \"die\", behaviour = {{ process_dies = true }} }}]\n"
    );
    let daemon = Daemon::start(&config, &[]);
    let code = || daemon.post("/v1/runs", &plan("fake", "t", "die")).send().text();
    for _ in 0..2 {
        assert!(code().contains("ADAPTER_CRASHED"));
    }
    assert!(code().contains("CIRCUIT_OPEN"));
}

#[test]
fn failures_that_the_contract_does_not_list_are_reported() {
    let operation = |codes| Operation { codes, ..Operation::new("flaky") };
    let stage = stage(&fake(&[operation(&["TIMEOUT"])]), "");
    fs::write(stage.path("broken"), "").unwrap();
    let broken =
        json!({ "fails_while": { "file": "BROKEN", "error_code": "SOLD_OUT", "message": "no" } });
    let daemon = started(stage, &adapter(&[("flaky", broken)]));
    assert_eq!(shown(&daemon)["undeclared_failure_codes"], json!({}));
    for _ in 0..2 {
        assert_eq!(code(&daemon, "flaky"), "SOLD_OUT");
    }
    let counted = json!({ "flaky": { "SOLD_OUT": 2 } });
    assert_eq!(shown(&daemon)["undeclared_failure_codes"], counted);
    assert_eq!(daemon.metric("nexus_router_adapter_undeclared_failures{adapter=\"fake\"}"), 2.0);
    let told = until("the line in the log", || {
        let log = daemon.stderr();
        log.contains("does not list this failure").then_some(log)
    });
    assert_eq!(told.matches("does not list this failure").count(), 1, "{told}");
}
