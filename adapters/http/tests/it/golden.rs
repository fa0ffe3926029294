//! Compares with what the Python router's adapter did, case by case.

use std::io::Write;
use std::time::Duration;

use nexus_router_sdk::{Adapter, testing};
use serde_json::{Value, json};
use ureq::http::StatusCode;

use crate::adapter;
use crate::canned::Canned;

const GOLDEN: &str = include_str!("../../../../tests/golden/nexus/http_adapter.json");

/// A case in which this adapter must differ: what it expects instead, and why.
struct Difference {
    name: &'static str,
    applies: fn(&Value) -> bool,
    path: Option<&'static str>,
    result: fn() -> Value,
    why: &'static str,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "tool that climbs out of the base",
        applies: |case| case["call"]["tool"] == "..",
        path: None,
        result: || {
            json!({
                "error_code": "INVALID_ARGUMENT",
                "message": "tool cannot stand in a URL path: it is a step through the path",
                "details": { "argument": "tool", "length": 2 }
            })
        },
        why: "flaw H2: names must not change the path",
    },
    Difference {
        name: "method with a query",
        applies: |case| case["call"]["method"] == "ü?q=1",
        path: Some("/a%20b/%C3%BC%3Fq%3D1"),
        result: || json!({ "output": {} }),
        why: "flaw H2: names are one encoded segment each",
    },
    Difference {
        name: "NaN as a body",
        applies: |case| case["reply"]["body"] == "NaN",
        path: Some("/t/m"),
        result: || {
            json!({
                "error_code": "INVALID_JSON",
                "message": "Response was not valid JSON",
                "details": { "url": "{BASE}/t/m", "status_code": 200, "body_preview": "NaN" }
            })
        },
        why: "flaw H5: NaN is not JSON",
    },
];

fn golden() -> Value {
    serde_json::from_str(GOLDEN).unwrap()
}

#[test]
fn adapter_ids_are_the_same() {
    let golden = golden();
    let cases = golden["adapter_ids"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let adapter = adapter(case["base_url"].as_str().unwrap(), json!({}));
        assert_eq!(adapter.adapter_id(), case["adapter_id"].as_str().unwrap());
    }
}

#[test]
fn calls_are_the_same_but_for_the_named_differences() {
    let golden = golden();
    let cases = golden["calls"].as_array().unwrap();
    assert_eq!(cases.len(), 17);
    let mut met: Vec<&str> = Vec::new();
    for case in cases {
        let difference = DIFFERENCES.iter().find(|difference| (difference.applies)(case));
        met.extend(difference.map(|difference| difference.name));
        check(case, difference);
    }
    let named: Vec<_> = DIFFERENCES.iter().map(|difference| difference.name).collect();
    met.sort_by_key(|name| named.iter().position(|other| other == name));
    assert_eq!(met, named);
}

fn check(case: &Value, difference: Option<&Difference>) {
    let about = difference.map_or_else(|| case.to_string(), |d| format!("{}: {}", d.name, d.why));
    let server = serve(&case["reply"]);
    let base = server.url();
    let base_url = format!("{base}{}", case["base_path"].as_str().unwrap());
    let adapter = adapter(&base_url, case["config"].clone());
    let call = &case["call"];
    let text = |key: &str| call[key].as_str().unwrap();
    let answer = testing::call(&adapter, text("tool"), text("method"), call["args"].clone());

    let result = match answer {
        Ok(output) => json!({ "output": output }),
        Err(error) => {
            assert_eq!(error.kind, nexus_router_sdk::ErrorKind::Operational, "{about}");
            json!({ "error_code": error.code, "message": error.message, "details": error.details })
        }
    };
    let expected = difference.map_or_else(|| case["result"].clone(), |d| (d.result)());
    let expected: Value =
        serde_json::from_str(&expected.to_string().replace("{BASE}", &base)).unwrap();
    assert_eq!(result, expected, "{about}");

    let seen = &case["request_seen"];
    let path = difference.map_or_else(|| seen["path"].as_str(), |d| d.path);
    let Some(path) = path else {
        assert!(server.seen().is_empty(), "{about}");
        return;
    };
    let request = server.last();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path), "{about}");
    assert_eq!(request.body, seen["body"].as_str().unwrap(), "{about}");
    for (name, value) in seen["headers"].as_object().unwrap() {
        assert_eq!(request.header(name), value.as_str(), "{about}: {name}");
    }
}

fn serve(reply: &Value) -> Canned {
    let status = u16::try_from(reply["status"].as_u64().unwrap()).unwrap();
    let known = StatusCode::from_u16(status).unwrap().canonical_reason().unwrap_or_default();
    let reason = reply["reason"].as_str().unwrap_or(known).to_owned();
    let body = reply["body"].as_str().unwrap();
    let bytes = crate::canned::reply(&format!("{status} {reason}"), "", body);
    let delay = Duration::from_secs_f64(reply["delay"].as_f64().unwrap_or_default());
    Canned::new(move |_, mut stream| {
        std::thread::sleep(delay);
        drop(stream.write_all(bytes.as_bytes()));
    })
}
