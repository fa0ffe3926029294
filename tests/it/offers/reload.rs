//! Permissions that a reload changes: audited, logged and shown.

use serde_json::{Value, json};

use super::CONFIG;
use crate::daemon::support::{Daemon, until};

const POLICY: &str = "[policy]\ndefault = \"deny\"\n[[policy.rules]]\neffect = \"allow\"\nadapter = \"*\"\n\
                      [[policy.rules]]\neffect = \"deny\"\ntool = \"delete_*\"\n";

const WEB: &str = "[[adapters]]\nid = \"web\"\nref = \"nexus_router_adapter_http:create_adapter\"\n\
                   config = { base_url = \"http://127.0.0.1:1\" }\ngrants = {}\n";

#[test]
fn changed_permissions_are_recorded() {
    let daemon = Daemon::start(&format!("{CONFIG}{WEB}{POLICY}"), &[]);
    let status = |token: &str| daemon.get("/v1/status").by(token).ok()["last_reload"].clone();
    assert_eq!(status("admin"), Value::Null);
    daemon.post("/v1/reload", &json!({})).ok();
    assert_eq!(status("admin")["permissions_changed"], 0);
    assert_eq!(status("admin")["permissions_verdict"], "equal");
    assert!(!daemon.audit().iter().any(|event| event["kind"] == "permissions.changed"));
    let policy = POLICY.replace("[[policy.rules]]\neffect = \"deny\"\ntool = \"delete_*\"\n", "");
    let policy = policy.replace("default = \"deny\"", "default = \"allow\"");
    let wider = CONFIG
        .replace("offer = { tools = [\"GET_*\"] }", "offer = { tools = [\"GET_*\", \"SET_*\"] }")
        .replace(", \"confirm_delete\"", "");
    let granted = WEB.replace("grants = {}", "grants = { connect = [\"127.0.0.1:1\"] }");
    daemon.stage.configure(&format!("{wider}{granted}{policy}"));
    daemon.post("/v1/reload", &json!({})).ok();
    let event = daemon.audited(|event| event["kind"] == "permissions.changed");
    let changes = event["payload"]["changes"].as_array().unwrap();
    let told = |change: &Value| {
        let text = |key: &str| change[key].as_str().unwrap().to_owned();
        format!("{} {} {} {}", change["widens"], text("area"), text("change"), text("subject"))
    };
    let told: Vec<String> = changes.iter().map(told).collect();
    for expected in [
        "true default changed deny to allow",
        "true grant added web: connect 127.0.0.1:1",
        "true offer added many/SET_*.*",
        "false offer removed conformance/confirm_delete.call",
    ] {
        assert!(told.iter().any(|change| change == expected), "{expected}: {told:?}");
    }
    let rule = told.iter().find(|change| change.starts_with("true rule removed ")).unwrap();
    assert!(rule.contains("delete_*"), "{rule}");
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!((&event["payload"]["total"], &event["payload"]["widened"]), (&json!(5), &json!(4)));
    assert_eq!(event["payload"]["name"], "admin");
    assert_eq!(event["payload"]["verdict"], "mixed", "{event}");
    let shown = status("admin");
    assert_eq!(shown["permissions_verdict"], "mixed");
    assert_eq!(shown["permission_changes"], event["payload"]["changes"]);
    // Others learn that something changed, and not what.
    let shown = status("read");
    assert_eq!(
        (&shown["permissions_changed"], &shown["permission_changes"]),
        (&json!(5), &Value::Null)
    );
    assert!(daemon.stderr().contains("permissions changed"), "{}", daemon.stderr());
}

#[test]
fn watched_file_records_withdrawn_offers() {
    let config = CONFIG.replace("\"slow_compute\"", "\"*\"");
    let daemon = Daemon::start(&config, &[]);
    daemon.stage.configure(&CONFIG.replace("\"slow_compute\"", "\"test_*\""));
    let event = until("the event", || {
        daemon.audit().into_iter().find(|event| event["kind"] == "permissions.changed")
    });
    assert_eq!(event["payload"]["cause"], "the file changed", "{event}");
    let changes = event["payload"]["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["change"] == "removed"), "{event}");
}
