//! The built library, judged and called by the `nexus-router` binary.

use nexus_router_sdk::testing::Library;
use serde_json::{Value, json};

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({})).assert_ok();
    library.validate(&json!({ "prefix": "", "json_output": true })).assert_ok();
}

#[test]
fn library_returns_the_call_without_its_secrets() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let args = json!({ "to": "ada", "password": "hunter2" });
    let output = library.try_call(&json!({}), "mail", "send", &args).unwrap();
    assert_eq!(
        Value::Object(output),
        json!({
            "echoed": true, "tool": "mail", "method": "send",
            "args": { "to": "ada", "password": "[REDACTED]" }, "adapter_id": "stdout",
        })
    );
}
