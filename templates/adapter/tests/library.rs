//! The built library, judged and called by the `nexus-router` binary as the router would.

use nexus_router_sdk::ErrorKind;
use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({})).assert_ok();
    library.validate(&json!({ "prefix": "> " })).assert_ok();
}

#[test]
fn library_with_a_wrong_configuration_does_not_validate() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    assert!(!library.validate(&json!({ "prefix": 1 })).ok());
}

#[test]
fn library_answers_a_call() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let args = json!({ "text": "hello" });
    let output = library.try_call(&json!({}), "say", "once", &args).unwrap();
    assert_eq!(output["text"], "echo: hello", "the default of the manifest is filled in");
}

#[test]
fn library_reports_an_expected_failure_as_operational() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let error = library.try_call(&json!({}), "say", "once", &json!({})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operational);
    assert_eq!(error.code, "INVALID_ARGUMENT");
}
