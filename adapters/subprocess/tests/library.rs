//! The built library, judged by the `nexus-router` binary.

use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({ "base_cmd": ["true"] })).assert_ok();
}

#[test]
fn library_refuses_an_empty_command() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    assert!(!library.validate(&json!({ "base_cmd": [] })).ok());
    assert!(!library.validate(&json!({})).ok());
}
