//! The recorded calls of the Python router's subprocess adapter, made again.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helping functions too")]

use nexus_router_adapter_subprocess::{Subprocess, create_adapter};
use nexus_router_sdk::{Adapter, ErrorKind, testing};
use serde_json::{Value, json};

/// Cases where we decided otherwise, with our result.
fn differences() -> Vec<(&'static str, &'static str, Value)> {
    let digest = "44136fa355b3";
    vec![
        (
            "cwd missing",
            "every error carries the digest of the arguments",
            json!({
                "error_code": "CWD_NOT_FOUND",
                "message": "Working directory not found: /nonexistent-dir",
                "details": { "args_digest": digest },
            }),
        ),
        (
            "cwd is a file",
            "every error carries the digest of the arguments",
            json!({
                "error_code": "CWD_NOT_DIRECTORY",
                "message": "Working directory is not a directory: /etc/passwd",
                "details": { "args_digest": digest },
            }),
        ),
        (
            "env value not a string",
            "every error carries the digest of the arguments",
            json!({
                "error_code": "ENV_INVALID",
                "message": "Invalid env variable: key and value must be strings",
                "details": { "args_digest": digest, "key": "A", "value_type": "int" },
            }),
        ),
        (
            "NaN accepted",
            "NaN is not JSON",
            json!({
                "error_code": "INVALID_JSON_OUTPUT",
                "message":
                    "Invalid JSON output: NaN and Infinity are not JSON: line 1 column 6 (char 5)",
                "details": {
                    "args_digest": digest,
                    "stdout_len": 10,
                    "json_error": "NaN and Infinity are not JSON: line 1 column 6 (char 5)",
                    "stdout_head": "{\"a\":NaN}\n",
                },
            }),
        ),
    ]
}

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/nexus/subprocess.json");
    // One recorded result holds NaN, which no JSON reader but Python's takes.
    let text = std::fs::read_to_string(path).unwrap().replace("\"a\": NaN", "\"a\": \"NaN\"");
    serde_json::from_str(&text).unwrap()
}

fn make(base_cmd: &Value, config: &Value) -> Subprocess {
    let mut config = config.clone();
    config["base_cmd"] = base_cmd.clone();
    create_adapter(None, serde_json::from_value(config).unwrap()).unwrap()
}

#[test]
fn adapter_ids_are_derived_alike() {
    let golden = golden();
    let cases = golden["adapter_ids"].as_array().unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        assert_eq!(make(&case["base_cmd"], &json!({})).adapter_id(), case["adapter_id"]);
    }
    let config = serde_json::from_value(json!({ "base_cmd": ["true"] })).unwrap();
    assert_eq!(create_adapter(Some("mine"), config).unwrap().adapter_id(), "mine");
}

#[test]
fn args_digests_are_alike() {
    let golden = golden();
    let cases = golden["args_digests"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let adapter = make(&json!(["false"]), &json!({}));
        let error = testing::call(&adapter, "t", "m", case["args"].clone()).unwrap_err();
        assert_eq!(error.details["args_digest"], case["digest"]);
    }
}

#[test]
fn calls_end_alike() {
    let golden = golden();
    let (mut same, mut different) = (0, 0);
    let differences = differences();
    for case in golden["calls"].as_array().unwrap() {
        let adapter = make(&case["base_cmd"], &case["config"]);
        let call = &case["call"];
        let (tool, method) = (call["tool"].as_str().unwrap(), call["method"].as_str().unwrap());
        let mut result = made(&adapter, tool, method, &call["args"]);
        // A busy machine may not have started the shell when so short a time is over.
        for _ in 0..5 {
            if case["config"]["timeout_s"].is_null() || result == case["result"] {
                break;
            }
            result = made(&adapter, tool, method, &call["args"]);
        }
        match differences.iter().find(|(title, ..)| case["title"] == *title) {
            Some((title, reason, ours)) => {
                assert_ne!(case["result"], *ours, "{title} no longer differs: {reason}");
                assert_eq!(result, *ours, "{title}: {reason}");
                different += 1;
            }
            None => {
                assert_eq!(result, case["result"], "{}", case["title"]);
                same += 1;
            }
        }
    }
    assert_eq!((same, different), (21, differences.len()));
}

/// Makes a call and returns what the recording keeps of it.
fn made(adapter: &Subprocess, tool: &str, method: &str, args: &Value) -> Value {
    match testing::call(adapter, tool, method, args.clone()) {
        Ok(output) => json!({ "output": output }),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Operational);
            json!({ "error_code": error.code, "message": error.message, "details": error.details })
        }
    }
}
