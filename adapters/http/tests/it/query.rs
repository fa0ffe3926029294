//! Services that are asked with GET.

use nexus_router_sdk::{code, testing};
use serde_json::json;

use crate::adapter;
use crate::canned::{Canned, reply};

#[test]
fn arguments_are_the_query_of_a_get_without_a_body() {
    let server = Canned::replying(reply("200 OK", "", r#"{"found":1}"#));
    let asked =
        adapter(&server.url(), json!({ "http_method": "GET", "headers": { "x-key": "k" } }));
    let args = json!({ "q": "sea & salt", "page": 2 });
    assert_eq!(testing::call(&asked, "web", "search", args).unwrap()["found"], 1);
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.body.as_str()), ("GET", ""));
    assert_eq!(seen.path, "/web/search?q=sea+%26+salt&page=2");
    assert_eq!((seen.header("x-key"), seen.header("content-type")), (Some("k"), None));
}

#[test]
fn nothing_is_sent_that_cannot_stand_in_a_query_and_errors_do_not_repeat_it() {
    let server = Canned::replying(reply("404 Not Found", "", ""));
    let asked = adapter(&server.url(), json!({ "http_method": "GET" }));
    let error = testing::call(&asked, "t", "m", json!({ "a": { "b": 1 } })).unwrap_err();
    assert_eq!(error.code, code::INVALID_ARGUMENT);
    assert!(server.seen().is_empty());
    let error = testing::call(&asked, "t", "m", json!({ "token": "hush" })).unwrap_err();
    assert_eq!(error.code, code::HTTP_ERROR);
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
}
