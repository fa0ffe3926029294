//! The built library, judged and called by the `nexus-router` binary.

use nexus_router_sdk::testing::Library;
use nexus_router_sdk::testing::passive::{assert_pure, retargeted};
use serde_json::{Value, json};

const DOCUMENT: &str =
    include_str!("../../../tests/golden/facet/canonical/a01_one_tool_string_messages.json");

fn binding() -> Value {
    json!({ "api_version": "v1", "model": "gemini-3-pro", "store": false })
}

#[test]
fn library_is_pure() {
    assert_pure(&Library::built(env!("CARGO_PKG_NAME")), &binding());
}

#[test]
fn library_renders_what_was_compiled_for_it_alone() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    let render = |document: &str| {
        let args = json!({ "document": document });
        library.try_call(&binding(), "translate", "render", &args)
    };
    let output = render(&retargeted(DOCUMENT, "gemini.interactions")).unwrap();
    assert_eq!(output["target"], "gemini.interactions");
    assert_eq!(output["binding"], binding());
    assert_eq!(render(DOCUMENT).unwrap_err().code, "X.nexus.TARGET_MISMATCH");
}

#[test]
fn nothing_of_the_binding_has_a_default() {
    let library = Library::built(env!("CARGO_PKG_NAME"));
    assert!(!library.validate(&json!({})).ok());
}
