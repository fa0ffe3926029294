//! Callers hear of what is offered when it changes.

use serde_json::json;

use super::support::{ADAPTERS, Session, answer, call, heard, modern, runs};
use crate::daemon::support::{Daemon, until};

/// A resource that can be followed.
const WATCHED: &str = "test://watched-resource";

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

#[test]
fn a_session_that_says_twice_that_it_is_ready_hears_everything_once() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let session = Session::open(&daemon, "apply");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    for _ in 0..10 {
        assert_eq!(session.send(&ready).begin().response().status, 202);
    }
    let mut stream = session.stream();
    let follow = json!({ "uri": WATCHED });
    assert!(answer(&session.ask("resources/subscribe", &follow))["error"].is_null());
    for _ in 0..2 {
        call(&daemon, "test_trigger_prompt_change", &json!({}));
        let methods = heard(&mut stream, "notifications/prompts/list_changed");
        assert_eq!(methods.len(), 1, "{methods:?}");
    }
    daemon.ask("POST", "/v1/reload").ok();
    let methods = heard(&mut stream, "notifications/tools/list_changed");
    assert_eq!(methods.len(), 1, "{methods:?}");
}

#[test]
fn a_resource_is_followed_as_long_as_somebody_follows_it() {
    let daemon = Daemon::start(ADAPTERS, &[]);
    let [first, second] = [(); 2].map(|()| Session::open(&daemon, "apply"));
    let follow = json!({ "uri": WATCHED });
    let left = || {
        let goal = format!("unsubscribe {WATCHED}");
        runs(&daemon).iter().filter(|run| run["goal"] == goal.as_str()).count()
    };
    for session in [&first, &second] {
        assert!(answer(&session.ask("resources/subscribe", &follow))["error"].is_null());
    }
    let filter = json!({ "notifications": { "resourceSubscriptions": [WATCHED] } });
    let listen = || {
        let ask = modern(&daemon, "subscriptions/listen", filter.clone(), &json!({}));
        let mut listener = ask.by("apply").begin();
        assert_eq!(listener.head().status, 200);
        heard(&mut listener, "notifications/subscriptions/acknowledged");
        listener
    };
    let followed = || {
        let goal = format!("subscribe {WATCHED}");
        runs(&daemon).iter().filter(|run| run["goal"] == goal.as_str()).count()
    };
    let listener = listen();
    until("the listener", || (followed() == 3).then_some(()));
    assert!(answer(&first.ask("resources/unsubscribe", &follow))["error"].is_null());
    assert_eq!(second.end(), 204);
    assert_eq!(left(), 0);
    // The last one goes without a word.
    drop(listener);
    until("the end", || (left() == 1).then_some(()));
    assert!(answer(&first.ask("resources/subscribe", &follow))["error"].is_null());
    assert_eq!(first.end(), 204);
    until("the end", || (left() == 2).then_some(()));
}
