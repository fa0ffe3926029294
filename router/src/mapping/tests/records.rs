//! Run records: what is built fits the published schema, and says what happened.

use super::*;
use crate::clock::Timestamp;
use crate::conform::Schema;
use crate::digest::Digest;

fn record(report: &Report, document: &Value) -> RunRecord {
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    RunRecord::of_failure(&Failure {
        report,
        intent_id: Some("6D6B2053-0680-4f11-af3b-3f7e3f3fccff"),
        tool_id: text("tool_id"),
        tool_version: text("version"),
        intent: &Value::Null,
        toolspec: document,
        inputs: &Value::Null,
        started: Timestamp::from_millis(0),
        finished: Timestamp::from_millis(7),
        logs_ref: "audit",
    })
}

#[track_caller]
fn fits(record: &RunRecord) -> serde_json::Value {
    let schema = crate::schema::find("run_record.v1").unwrap();
    let schema = Schema::read(&serde_json::from_str(schema.text).unwrap()).unwrap();
    let value: serde_json::Value = record.document().to_serde().into();
    assert_eq!(schema.check(&value), Ok(()));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&record.text()).unwrap(), value);
    assert!(!record.text().contains('\n'));
    value
}

#[test]
fn a_refusal_is_recorded_with_every_rule_and_every_error() {
    let interfaces = frozen();
    let broken = with(
        with(remote(), "/adapter_operation", json!("drop_all_collections")),
        "/resource_class",
        json!("control"),
    );
    let document = read(&broken);
    let report = gate_4(&document, &Known::new(&interfaces, BUILTINS));
    let made = record(&report, &document.document);
    let value = fits(&made);
    assert_eq!(value["run_id"], made.run_id());
    assert_eq!(value["intent_id"], "6d6b2053-0680-4f11-af3b-3f7e3f3fccff");
    assert_eq!(
        (&value["tool_id"], &value["tool_version"]),
        (&json!("vector-search"), &json!("1.2.3"))
    );
    assert_eq!((&value["status"], &value["critic_verdict"]), (&json!("failure"), &json!("fail")));
    assert_eq!(value["finished_at"], "1970-01-01T00:00:00.007Z");
    assert_eq!(value["metadata"]["gate"], "GATE_4_TOOLSPEC_VALIDATION");
    assert_eq!(
        (&value["metadata"]["rule"], &value["metadata"]["check_id"]),
        (&json!(3), &json!("remote_not_control"))
    );
    let codes: Vec<_> =
        value["errors"].as_array().unwrap().iter().map(|error| &error["code"]).collect();
    assert_eq!(codes, ["BOUNDARY_VIOLATION", "INVALID_ADAPTER_OPERATION"]);
    assert_eq!(value["metadata"]["violations"][1]["pointer"], "/adapter_operation");
    let checks = value["critic_details"]["checks_performed"].as_array().unwrap();
    let of_gate = RULES.iter().filter(|rule| rule.gates.contains(&Gate::ToolSpec)).count();
    assert_eq!(checks.len(), of_gate);
    let result =
        |id: &str| checks.iter().find(|it| it["check_name"] == id).unwrap()["result"].clone();
    assert_eq!(result("invalid_adapter_operation"), "fail");
    assert_eq!(result("unknown_adapter"), "pass");
    assert_eq!(result("local_control_only"), "skip");
    // Anyone can say what was judged, with a program that writes RFC 8785.
    let judged = format!(
        r#"{{"inputs":null,"intent":null,"toolspec":{}}}"#,
        crate::json::to_jcs(&document.document).unwrap()
    );
    assert_eq!(value["inputs_hash"], Digest::of(judged.as_bytes()).to_string());
}

#[test]
fn a_document_that_cannot_be_read_is_recorded_too() {
    let findings = ToolDocument::read(br#"{"tool_id": "x y", "version": 1}"#).unwrap_err();
    let report = unreadable(&findings);
    assert!(!report.passed());
    let unread = value(&json!({ "tool_id": "x y", "version": "one" }));
    let told = fits(&record(&report, &unread));
    assert_eq!((&told["tool_id"], &told["tool_version"]), (&json!(null), &json!(null)));
    assert_eq!(told["errors"].as_array().unwrap().len(), findings.len());
    assert_eq!(
        (&told["metadata"]["rule"], &told["metadata"]["check_id"]),
        (&json!(null), &json!("toolspec_schema"))
    );
    let checks = told["critic_details"]["checks_performed"].as_array().unwrap();
    assert_eq!(checks[0]["result"], "fail");
    assert!(checks[1..].iter().all(|check| check["result"] == "skip"));
    // An integer that has no canonical text is no reason not to record.
    let inexact = value(&json!({ "metadata": { "n": u64::MAX } }));
    let told = fits(&record(&report, &inexact));
    assert_eq!(told["metadata"]["inputs_form"], "canonical");
}

#[test]
fn every_broken_rule_makes_a_record_of_its_own() {
    let interfaces = frozen();
    let document = read(&with(remote(), "/adapter_id", json!("none")));
    let report = gate_6(&document, &Known::new(&interfaces, BUILTINS));
    let [one, other] = [(); 2].map(|()| record(&report, &document.document));
    assert_ne!(one.run_id(), other.run_id());
    let told = fits(&one);
    assert_eq!(told["metadata"]["gate"], "GATE_6_TOOL_REGISTRATION");
    assert_eq!(told["metadata"]["rule"], 8);
}
