//! What is malformed, huge or hostile: every finding is told, and nothing is written.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Desk, contract, greet};

#[test]
fn every_mistake_of_a_contract_is_told_with_its_place() {
    let desk = Desk::new();
    let mut bad = contract("1.0");
    bad["adapter_id"] = json!("Echo!");
    bad["surprise"] = json!(1);
    let hello = &mut bad["operations"]["hello"];
    hello["timeout_ms"] = json!(-1);
    hello["retry"] = json!({ "attempts": 0 });
    hello["input_schema"]["properties"]["a"] = json!({ "$ref": "https://example.com/x.json" });
    hello["input_schema"]["properties"]["b"] = json!({ "$ref": "#" });
    hello["output_schema"]["properties"]["c"] = json!({ "$ref": "#/$defs/none" });
    hello["output_schema"]["$id"] = json!("urn:x");
    hello["failure_modes"] = json!([{ "code": "bad code", "severity": "awful", "halts": 1 }]);
    hello["volatile"] = json!(["x"]);
    hello["examples"] = json!([{ "input": 1 }]);
    desk.contract(&bad);
    let report = desk.run("interface verify --format json");
    assert_eq!(report.code(), 1);
    let report = report.json();
    let found: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["pointer"].as_str().unwrap())
        .collect();
    for pointer in [
        "/version",
        "/adapter_id",
        "/surprise",
        "/operations/hello/timeout_ms",
        "/operations/hello/retry/attempts",
        "/operations/hello/input_schema/properties/a/$ref",
        "/operations/hello/input_schema/properties/b/$ref",
        "/operations/hello/output_schema/properties/c/$ref",
        "/operations/hello/output_schema/$id",
        "/operations/hello/failure_modes/0/code",
        "/operations/hello/failure_modes/0/severity",
        "/operations/hello/failure_modes/0/halts",
        "/operations/hello/volatile/0",
        "/operations/hello/examples/0",
    ] {
        assert!(found.contains(&pointer), "{pointer} is not in {found:#?}");
    }
    assert_eq!(desk.freeze().code(), 1);
    assert!(!desk.world.path("data/interfaces/interfaces.lock").exists());
}

#[test]
fn what_is_no_json_or_too_large_is_told_and_what_cannot_be_read_is_no_answer() {
    let desk = Desk::new();
    let path = desk.world.path("data/interfaces/echo.interface.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let twice = r#"{"format": 1, "format": 2}"#.to_owned();
    let mut many = String::from("{\"format\": [0");
    for n in 0..300_000 {
        write!(many, ",{n}").unwrap();
    }
    many.push_str("]}");
    for text in [
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "\u{feff}{}".to_owned(),
        deep,
        twice,
        many,
    ] {
        std::fs::write(&path, &text).unwrap();
        let told = desk.no("interface verify");
        assert!(told.contains("INTERFACE_MALFORMED"), "{told}");
    }
    std::fs::write(&path, vec![b' '; 5 << 20]).unwrap();
    assert!(desk.no("interface verify").contains("INTERFACE_MALFORMED"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(desk.run("interface verify").code(), 2);
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(desk.run("interface diff nothing.json also.json").code(), 2);
    assert_eq!(desk.run("tool check nothing.json").code(), 2);
}

#[test]
fn a_lock_that_was_tampered_with_is_found() {
    let desk = Desk::new();
    desk.frozen(&contract("1.0.0"));
    let mut newer = contract("1.0.1");
    newer["description"] = json!("Says it again.");
    desk.frozen(&newer);
    let path = desk.world.path("data/interfaces/interfaces.lock");
    let sound: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    type Change = (&'static str, fn(&mut Value), &'static str);
    let changes: [Change; 7] = [
        (
            "another digest",
            |lock| lock["revisions"][0]["sha256"] = "0".repeat(64).into(),
            "LOCK_BROKEN",
        ),
        (
            "another contract",
            |lock| lock["revisions"][0]["contract"]["description"] = "x".into(),
            "LOCK_BROKEN",
        ),
        (
            "a revision taken out",
            |lock| drop(lock["revisions"].as_array_mut().unwrap().remove(0)),
            "LOCK_BROKEN",
        ),
        (
            "a revision put in twice",
            |lock| {
                let again = lock["revisions"][1].clone();
                lock["revisions"].as_array_mut().unwrap().push(again);
            },
            "LOCK_BROKEN",
        ),
        ("another version", |lock| lock["revisions"][1]["version"] = "1.0.9".into(), "LOCK_BROKEN"),
        ("another format", |lock| lock["format"] = "x".into(), "LOCK_MALFORMED"),
        ("something more", |lock| lock["revisions"][0]["x"] = 1.into(), "LOCK_MALFORMED"),
    ];
    for (what, change, code) in changes {
        let mut lock = sound.clone();
        change(&mut lock);
        std::fs::write(&path, lock.to_string()).unwrap();
        let told = desk.no("interface verify");
        assert!(told.contains(code), "{what}: {told}");
    }
    std::fs::write(&path, sound.to_string()).unwrap();
    desk.yes("interface verify");
}

#[test]
fn every_mistake_of_a_tool_spec_is_told_and_recorded() {
    let desk = Desk::new();
    let mut bad = greet();
    bad["tool_id"] = json!("Greet Me");
    bad["timeout_seconds"] = json!(0);
    bad["surprise"] = json!(true);
    bad["side_effects"] = json!([{ "effect_type": "magic" }]);
    bad["input_schema"] = json!({ "type": "object", "pattern": "(" });
    desk.write("bad.json", &bad);
    let run = desk.run("tool check bad.json --format json");
    assert_eq!(run.code(), 1);
    let report = run.json();
    let found: Vec<&str> = report[0]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| violation["pointer"].as_str().unwrap())
        .collect();
    for pointer in ["/tool_id", "/timeout_seconds", "/surprise", "/side_effects/0/effect_type"] {
        assert!(found.contains(&pointer), "{pointer} is not in {found:?}");
    }
    let records = desk.yes("tool records");
    let record: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(record["run_id"], report[0]["record"]);
    assert_eq!((&record["status"], &record["critic_verdict"]), (&json!("failure"), &json!("fail")));
    assert!(desk.yes("store check").contains("0 findings"));
}
