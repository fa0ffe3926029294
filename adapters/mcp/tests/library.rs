//! The built library, judged by the `nexus-router` binary.

use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({ "command": ["/bin/server", "--stdio"] })).assert_ok();
    library.validate(&json!({ "url": "https://example.com/mcp" })).assert_ok();
}

#[test]
fn library_without_a_server_does_not_validate() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    assert!(!library.validate(&json!({})).ok());
    assert!(!library.validate(&json!({ "command": ["a"], "url": "http://h" })).ok());
}
