//! Normalization held to its golden values and its law: a second time changes nothing.

use proptest::prelude::*;

use super::*;
use crate::interface;
use crate::json::Limits;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), Limits::REQUEST).unwrap()
}

fn scout(text: &str) -> Normalized {
    normalize(Role::Scout, None, Redactor::Nothing, value(text)).unwrap()
}

#[test]
fn table_is_pinned() {
    let text = canonical::text(&table(), Domain::Control).unwrap();
    assert_eq!(Digest::of(text.as_bytes()).to_string(), TABLE_SHA256, "{text}");
    for (why, names) in NAMES {
        assert!(names.is_sorted(), "{why}");
    }
    let all: Vec<&str> = NAMES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!((all.len(), unique.len()), (53, 53));
    for content in ["date", "id", "version", "Model", "usages", "time"] {
        assert!(!table::is_removed(content), "{content}");
    }
}

#[test]
fn table_says_what_the_frozen_contracts_say() {
    let mut operations = 0;
    for contract in interface::frozen() {
        for (name, operation) in &contract.operations {
            let operation_name = format!("{}.{name}", contract.adapter_id);
            let ours = pointers(&operation_name).unwrap();
            let mut ours: Vec<&str> = ours.iter().map(|(pointer, _)| *pointer).collect();
            let mut theirs: Vec<&str> = operation.volatile.iter().map(String::as_str).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            assert_eq!(ours, theirs, "{operation_name}");
            operations += 1;
        }
        let health = pointers(&format!("{}.health_check", contract.adapter_id)).unwrap();
        assert_eq!(health, [("/latency_ms", table::Means::Remove)]);
    }
    assert_eq!(operations, 14);
    assert_eq!(pointers("other.health_check"), None);
    assert_eq!(pointers("qdrant-vector.drop"), None);
}

#[test]
fn golden_scout_output_comes_out() {
    let given = r#"{"adapter_role": "scout", "adapter_version": "1.0.0", "action_class": "web_search",
        "ok": true, "result": {"answer": "x", "latency_ms": 12, "usage": {"total_tokens": 3}, "model": "m"},
        "sources": [{"url": "https://b.example/", "fetched_at": "2026-01-01"}, {"url": "https://a.example/"}],
        "errors": []}"#;
    let normalized = scout(given);
    assert_eq!(
        normalized.text(),
        r#"{"action_class":"web_search","adapter_role":"scout","adapter_version":"1.0.0","errors":[],"ok":true,"result":{"answer":"x"},"sources":[{"url":"https://a.example/"},{"url":"https://b.example/"}]}"#
    );
    assert_eq!(
        Digest::of(normalized.text().as_bytes()).to_string(),
        "64e96824d0106680cc713b077465379a74717036345f445d76db7e6c183e6b6a"
    );
    assert_eq!(
        normalized.removed_text().unwrap(),
        r#"{"/result/latency_ms":12,"/result/model":"m","/result/usage":{"total_tokens":3},"/sources/0/fetched_at":"2026-01-01"}"#
    );
    assert_eq!(scout(normalized.text()).removed_text(), None);
}

#[test]
fn names_go_at_any_depth_and_frozen_keys_never() {
    let normalized = scout(
        r#"{"model": "kept", "ok": true, "result": {"a/b": [{"seed": 1, "keep": [[{"ts": 2}]]}]},
            "errors": [{"code": "X", "trace_id": "t"}, "text"]}"#,
    );
    assert_eq!(
        normalized.text(),
        r#"{"errors":[{"code":"X"},"text"],"model":"kept","ok":true,"result":{"a/b":[{"keep":[[{}]]}]}}"#
    );
    let places: Vec<&str> = normalized.removed().iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(places, ["/result/a~1b/0/seed", "/result/a~1b/0/keep/0/0/ts", "/errors/0/trace_id"]);
}

#[test]
fn sources_are_sorted_and_each_is_there_once() {
    let normalized =
        scout(r#"{"sources": [{"u": 2, "ts": 1}, {"u": 10}, {"ts": 3, "u": 2}, "a", 1]}"#);
    assert_eq!(normalized.text(), r#"{"sources":["a",1,{"u":10},{"u":2}]}"#);
    let duplicate = &normalized.removed()[2];
    assert_eq!(duplicate, &("/sources/2".to_owned(), value(r#"{"u": 2}"#)));
}

#[test]
fn services_are_trimmed_by_pointers_and_not_by_names() {
    let given = r#"{"result": {"time": 0.1, "status": "ok", "results": [{"payload": {"model": "kept"}}]},
        "errors": [{"latency_ms": 1}]}"#;
    let operation = Some("qdrant-vector.search");
    let normalized = normalize(Role::Scout, operation, Redactor::Nothing, value(given)).unwrap();
    assert_eq!(
        normalized.text(),
        r#"{"errors":[{}],"result":{"results":[{"payload":{"model":"kept"}}],"status":"ok"}}"#
    );
    assert_eq!(
        normalized.removed_text().unwrap(),
        r#"{"/errors/0/latency_ms":1,"/result/time":0.1}"#
    );
    let logs = value(r#"{"result": [{"ts": 1}]}"#);
    assert_eq!(normalize_service("loki.query_logs", logs.clone()).unwrap().value(), &logs);
}

#[test]
fn a_token_leaves_its_digest_and_is_nowhere_else() {
    let given = value(r#"{"room": "r", "token": "abc", "expires_at": "soon"}"#);
    let normalized = normalize_service("livekit.join_room", given).unwrap();
    let digest = Digest::of(b"abc");
    assert_eq!(normalized.text(), format!("{{\"room\":\"r\",\"token_sha256\":\"{digest}\"}}"));
    let removed = normalized.removed_text().unwrap();
    assert_eq!(removed, r#"{"/expires_at":"soon","/token":"withheld: a credential"}"#);
    let again = normalize_service("livekit.join_room", normalized.value().clone()).unwrap();
    assert_eq!(again.text(), normalized.text());
}

#[test]
fn an_envoys_texts_change_only_by_its_redactor() {
    let given =
        value(r#"{"stdout": "ok in 1.5s", "stderr": "", "artifacts": [{"model": "kept"}]}"#);
    let plain = normalize(Role::Envoy, None, Redactor::Nothing, given.clone()).unwrap();
    assert_eq!((plain.value(), plain.removed_text()), (&given, None));
    let clean = normalize(Role::Envoy, None, Redactor::AnsiAndDurations, given).unwrap();
    assert_eq!(
        clean.text(),
        r#"{"artifacts":[{"model":"kept"}],"stderr":"","stdout":"ok in <duration>"}"#
    );
    assert_eq!(clean.removed_text().unwrap(), r#"{"/stdout":"ok in 1.5s"}"#);
}

#[test]
fn numbers_that_programs_disagree_about_may_only_be_in_what_is_removed() {
    let normalized = scout(r#"{"result": {"ts": 1767225600000000000}}"#);
    assert_eq!(normalized.removed_text().unwrap(), r#"{"/result/ts":1767225600000000000}"#);
    for (given, reason) in [
        (r#"{"result": {"n": 1767225600000000000}}"#, "inexact_number:/result/n"),
        (r#"{"sources": [1, {"n": 1767225600000000000}]}"#, "inexact_number:/sources/1/n"),
    ] {
        let finding = normalize(Role::Scout, None, Redactor::Nothing, value(given)).unwrap_err();
        assert_eq!((finding.reason.as_str(), &*finding.pointer), (reason, &reason[15..]));
    }
}

/// Values in which names of the table turn up often.
fn any_payload() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1000..1000_i64).prop_map(Value::from),
        any::<f64>().prop_map(|float| Value::float(float).into()),
        "[a-c1-3 s\\x1b\\[]{0,6}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("model"),
        Just("ts"),
        Just("usage"),
        Just("latency_ms"),
        Just("time"),
        Just("token"),
        Just("token_sha256"),
        Just("expires_at"),
        Just("a"),
        Just("b/c"),
        Just("~"),
        Just("é"),
    ];
    scalar.prop_recursive(4, 40, 6, move |inner| {
        let members = prop::collection::vec((name.clone(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| Value::Object(
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn a_second_time_changes_nothing(
        result in any_payload(),
        sources in prop::collection::vec(any_payload(), 0..6),
        errors in any_payload(),
        text in "[a1-3ms .\\x1b\\[]{0,20}",
        operation in prop::sample::select(vec![
            None, Some("livekit.join_room"), Some("qdrant-vector.search"), Some("loki.query_logs"),
        ]),
        role in prop::sample::select(Role::ALL.to_vec()),
        redactor in prop::sample::select(Redactor::ALL.to_vec()),
    ) {
        let mut object = Object::new();
        object.insert("result", result);
        object.insert("sources", sources);
        object.insert("errors", errors);
        object.insert("stdout", text);
        let once = match normalize(role, operation, redactor, object.into()) {
            Ok(once) => once,
            // The one thing that cannot be sealed: a double that is written as a long integer.
            Err(finding) => {
                prop_assert!(finding.reason.starts_with("inexact_number:/"), "{finding}");
                return Ok(());
            }
        };
        // What was sealed is read from its text, as a verifier reads it.
        let read = json::parse(once.text().as_bytes(), Limits::REQUEST).unwrap();
        let twice = normalize(role, operation, redactor, read).unwrap();
        prop_assert_eq!(once.text(), twice.text());
        prop_assert_eq!(twice.removed(), &[]);
    }
}

#[test]
fn answers_of_sources_lose_listed_and_named_members_only() {
    let read = |text: &str| json::parse(text.as_bytes(), json::Limits::REQUEST).unwrap();
    let given =
        r#"{"took":1,"a":{"b~/":2,"c":3},"list":[{"n":1,"ts":9},{"n":2}],"model":"m","date":"d"}"#;
    let mut answer = read(given);
    let volatile = ["/took", "/a/b~0~1", "/list/1/n", "/absent/x", "/list"].map(str::to_owned);
    let pointers = |removed: Vec<(String, Value)>| -> Vec<String> {
        removed.into_iter().map(|(pointer, _)| pointer).collect()
    };
    let removed = remove_volatile(&mut answer, &volatile[..4]);
    assert_eq!(removed[0].1, 1.into());
    assert_eq!(pointers(removed), ["/took", "/a/b~0~1", "/list/1/n"]);
    let whole = r#"{"a":{"c":3},"list":[{"n":1,"ts":9},{}],"model":"m","date":"d"}"#;
    assert_eq!(answer, read(whole));
    assert_eq!(pointers(remove_named(&mut answer)), ["/model", "/list/0/ts"]);
    assert_eq!(answer, read(r#"{"a":{"c":3},"list":[{"n":1},{}],"date":"d"}"#));
    assert!(remove_volatile(&mut answer, &volatile[..4]).is_empty(), "once is enough");
    assert_eq!(pointers(remove_volatile(&mut answer, &volatile[4..])), ["/list"]);
}
