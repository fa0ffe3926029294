//! Sources and revocation: what a call asks for is checked like a step.

use serde_json::{Value, json};

use super::{Service, broker_log, config, daemon, request};
use crate::daemon::support::{Daemon, until};

/// Adds a source whose calls are held until they are released.
fn with_held_source(config: &str) -> String {
    let source = "[[adapters.sources]]\nname = \"held\"\nadapter = \"many\"\ntool = \"t\"\n\
                  method = \"hold\"\naction_class = \"doc_retrieval\"\n";
    let (before, asker) = config.split_once("id = \"asker\"").unwrap();
    let (keys, sources) = asker.split_once("[[adapters.sources]]").unwrap();
    let config = format!("{before}id = \"asker\"{keys}{source}[[adapters.sources]]{sources}");
    format!("{config}[[adapters]]\nid = \"many\"\nref = \"probe_adapters:many_calls\"\n")
}

/// Begins a call that asks for what is held, and then for a document.
fn begin(daemon: &Daemon) -> String {
    let ask = |source: &str| json!({ "type": "retrieve", "source": source, "input": {} });
    let args = json!({ "asks": [ask("held"), ask("docs")] });
    let request = request("asker", "doc_retrieval", args);
    let run_id = daemon.post("/v1/runs?wait=false", &request).by("scout").send().run_id();
    until("the held call", || (daemon.calls_in_flight("many") == 1).then_some(()));
    run_id
}

fn second(run: &Value) -> Value {
    run["results"][0]["output"]["result"]["answers"][1].clone()
}

#[test]
fn sources_are_not_asked_for_a_revoked_token() {
    let service = Service::start();
    let daemon = daemon(&with_held_source(&config(&service)));
    let run_id = begin(&daemon);
    let tokens = daemon.stage.path("data/tokens.json");
    nexus_router::access::revoke(&tokens, "scout").unwrap();
    let status = || daemon.get("/v1/runs").by("scout").begin().response().status;
    until("the token to be gone", || (status() == 401).then_some(()));
    daemon.release();
    let run = daemon.ended(&run_id);
    assert_eq!((&run["reason"], &run["error"]["code"]), (&json!("revoked"), &json!("REVOKED")));
    assert!(second(&run).to_string().contains("REVOKED"), "{run}");
    assert_eq!(broker_log(&daemon, &run)[1]["code"], "REVOKED");
    assert_eq!(service.asked().len(), 0, "nothing was fetched");
}

#[test]
fn a_new_deny_rule_applies_to_the_next_source() {
    let service = Service::start();
    let config = with_held_source(&config(&service));
    let daemon = daemon(&config);
    let run_id = begin(&daemon);
    let rule = "[[policy.rules]]\neffect = \"deny\"\nadapter = \"library\"\n";
    daemon.stage.configure(&format!("{config}{rule}"));
    daemon.ask("POST", "/v1/reload").ok();
    daemon.release();
    let run = daemon.ended(&run_id);
    assert!(second(&run).to_string().contains("PERMISSION_DENIED"), "{run}");
    assert_eq!((service.asked().len(), &run["status"]), (0, &json!("COMPLETED")));
}
