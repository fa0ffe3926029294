//! The built library, judged and called by the `nexus-router` binary.

use nexus_router_sdk::code;
use nexus_router_sdk::testing::Library;
use serde_json::json;

#[test]
fn library_validates() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    library.validate(&json!({})).assert_ok();
    let searches = json!({ "web": { "query": "q", "hits": "/hits" } });
    library.validate(&json!({ "searches": searches })).assert_ok();
    assert!(!library.validate(&json!({ "searches": { "web": { "hits": "x" } } })).ok());
}

#[test]
fn library_transforms_a_text() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let args = json!({ "text": "b\na", "operations": ["sort_lines", "upper"] });
    let output = library.try_call(&json!({}), "transform_text", "call", &args).unwrap();
    assert_eq!(output["result"]["text"], "A\nB");
    assert_eq!(output["adapter_role"], "scout");
}

#[test]
fn library_asks_nobody_outside_of_a_router() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let args = json!({ "source": "docs" });
    let error = library.try_call(&json!({}), "doc_retrieval", "call", &args).unwrap_err();
    assert_eq!(error.code, code::UNSUPPORTED);
}
