//! The built library, judged and called by the `nexus-router` binary.

use nexus_router_sdk::ErrorKind;
use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({})).assert_ok();
    let responses = json!([{ "tool": "*", "method": "*", "panic": "p", "delay_ms": 5 }]);
    library.validate(&json!({ "responses": responses, "delay_ms": 1.5 })).assert_ok();
}

#[test]
fn library_with_a_wrong_response_does_not_validate() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let config = json!({ "responses": [{ "tool": "*", "method": "*" }] });
    assert!(!library.validate(&config).ok());
}

#[test]
fn library_echoes_a_call() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let output = library.try_call(&json!({}), "mail", "send", &json!({ "to": "ada" })).unwrap();
    assert_eq!(
        serde_json::Value::Object(output),
        json!({ "echo": true, "tool": "mail", "method": "send", "args": { "to": "ada" } })
    );
}

#[test]
fn library_turns_a_configured_panic_into_a_bug() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let config = json!({ "responses": [{ "tool": "*", "method": "*", "panic": "out of {luck}" }] });
    let error = library.try_call(&config, "t", "m", &json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Bug);
    assert_eq!(error.to_string(), "ADAPTER_PANICKED: panicked in call: out of {luck}");
}
