//! Callers hear of what is offered when it changes.

use serde_json::json;

use super::support::{ADAPTERS, Session, call, heard, modern};
use crate::daemon::support::Daemon;

#[test]
fn sessions_and_listeners_hear_of_a_reload() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let mut stream = session.stream();
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut listener = modern(&daemon, "subscriptions/listen", filter, &json!({})).begin();
    assert_eq!(listener.head().status, 200);
    heard(&mut listener, "notifications/subscriptions/acknowledged");
    daemon.ask("POST", "/v1/reload").ok();
    heard(&mut stream, "notifications/tools/list_changed");
    let methods = heard(&mut listener, "notifications/tools/list_changed");
    assert!(!methods.iter().any(|method| method.contains("prompts")), "{methods:?}");
}

#[test]
fn an_adapter_that_changes_its_catalogue_is_asked_again() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let mut stream = session.stream();
    call(&daemon, "test_trigger_prompt_change", &json!({}));
    let methods = heard(&mut stream, "notifications/prompts/list_changed");
    assert!(!methods.iter().any(|method| method.contains("tools")), "{methods:?}");
    daemon.audited(|event| event.to_string().contains("tools.changed"));
}
