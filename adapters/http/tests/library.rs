//! Checks the built library as the router would.

use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({ "base_url": "https://example.com" })).assert_ok();
}
