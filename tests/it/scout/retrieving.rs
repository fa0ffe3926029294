//! The six classes of actions, through a real worker and the real `http` adapter.

use nexus_router::digest::Digest;
use serde_json::{Value, json};

use super::{KEY, Service, assert_genuine, broker_log, config, daemon, evidence, run};
use crate::confinement::lacking::assert_errata;

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
        .unwrap()
}

#[test]
fn local_functions_answer_in_the_form_of_the_role_and_leave_evidence() {
    let daemon = daemon(&config(&Service::start()));
    for (tool, args, pointer, expected) in [
        (
            "transform_text",
            json!({ "text": "b\na", "operations": ["sort_lines", "upper"] }),
            "/result/text",
            json!("A\nB"),
        ),
        (
            "extract_entities",
            json!({ "text": "see https://x.example/" }),
            "/result/entities/0/kind",
            json!("url"),
        ),
        (
            "summarize_sources",
            json!({ "sources": ["One sea. Two seas."], "sentences": 1 }),
            "/result/sentences/0/source",
            json!(1),
        ),
    ] {
        let run = run(&daemon, "scout", tool, args);
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert_eq!(run["results"][0]["output"].pointer(pointer), Some(&expected), "{run}");
        let step = evidence(&daemon, &run);
        let sealed = read(&step.join("outputs/parsed.json"));
        let keys: Vec<&str> = sealed.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "action_class",
                "adapter_role",
                "adapter_version",
                "errors",
                "ok",
                "result",
                "sources"
            ]
        );
        assert_eq!((&sealed["action_class"], &sealed["ok"]), (&json!(tool), &json!(true)));
        assert_eq!(std::fs::read_to_string(step.join("outputs/broker.jsonl")).unwrap(), "");
    }
    assert_genuine(&daemon);
}

#[test]
fn a_document_is_retrieved_by_the_router_and_the_log_of_that_is_sealed() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let args = json!({ "source": "docs", "input": { "id": 7 } });
    let first = run(&daemon, "scout", "doc_retrieval", args.clone());
    assert_eq!(first["status"], "COMPLETED", "{first}");
    let output = &first["results"][0]["output"];
    assert_eq!(output["result"], json!({ "text": "Document 7" }));
    assert_eq!(
        service.asked(),
        [("/documents/get".to_owned(), json!({ "language": "en", "id": 7 }))]
    );
    let log = broker_log(&daemon, &first);
    let [line] = &log[..] else { panic!("{log:?}") };
    for (name, expected) in [
        ("source", json!("docs")),
        ("adapter_id", json!("library")),
        ("tool", json!("documents")),
        ("method", json!("get")),
        ("action_class", json!("doc_retrieval")),
        ("type", json!("retrieve")),
        ("seq", json!(1)),
        ("outcome", json!("ok")),
        ("code", Value::Null),
        ("input", json!({ "language": "en", "id": 7 })),
    ] {
        assert_eq!(line[name], expected, "{name}: {line}");
    }
    assert_eq!(output["sources"][0]["sha256"], line["output_sha256"]);
    let input = Digest::of(br#"{"id":7,"language":"en"}"#).to_string();
    assert_eq!(line["input_sha256"], json!(input));
    // What may be asked for is signed with the rest, and the worker itself was granted nothing.
    let step = evidence(&daemon, &first);
    let statement = statement(&step);
    let sandbox = &statement["predicate"]["environment"]["sandbox"];
    assert_eq!((&sandbox["confinement"], &sandbox["missing"]), (&json!("full"), &json!([])));
    assert!(sandbox["landlock_abi"].as_u64() >= Some(3), "{sandbox}");
    assert_errata(sandbox);
    let grants = &sandbox["grants"];
    let granted: Vec<&String> = grants.as_object().unwrap().keys().collect();
    assert_eq!(granted, ["sources"], "{statement}");
    assert_eq!(grants["sources"][0]["name"], "docs");
    // What differs between equal answers differs only where nobody compares.
    let second = run(&daemon, "scout", "doc_retrieval", args);
    let other = evidence(&daemon, &second);
    for name in ["outputs/parsed.json", "outputs/broker.jsonl"] {
        let [one, two] = [&step, &other].map(|step| std::fs::read(step.join(name)).unwrap());
        assert_eq!(one, two, "{name}");
    }
    let volatile = std::fs::read_to_string(step.join("volatile/broker.jsonl")).unwrap();
    let volatile: Value = serde_json::from_str(volatile.trim_end()).unwrap();
    assert_eq!(volatile["removed"], json!(["/meta/served", "/request_id"]));
    assert_eq!(volatile["removed_count"], 2);
    let values = volatile["removed_values"].as_object().unwrap();
    assert!(values.len() == 2 && values.values().all(|value| !value.is_null()), "{volatile}");
    assert!(volatile["duration_us"].as_u64().unwrap() > 0);
    assert_genuine(&daemon);
}

/// Returns the statement that is signed with a bundle.
fn statement(step: &std::path::Path) -> Value {
    let lines = std::fs::read_to_string(step.join("attestation.intoto.jsonl")).unwrap();
    let envelope: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let payload = base64(envelope["payload"].as_str().unwrap());
    serde_json::from_slice(&payload).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

#[test]
fn tools_that_are_offered_have_their_class_and_leave_evidence() {
    let daemon = daemon(&config(&Service::start()));
    let args = json!({ "args": { "source": "docs", "input": { "id": 3 } } });
    let called = |token: &str| daemon.post("/v1/tools/scout.doc_retrieval", &args).by(token).send();
    let answer = called("scout").json();
    assert_eq!(answer["output"]["result"]["text"], "Document 3", "{answer}");
    let run_id = answer["run_id"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let step = daemon.stage.path("data/sealed/evidence").join(run_id).join("step-1");
    assert!(step.join("outputs/broker.jsonl").is_file(), "{step:?}");
    let refused = called("envoy").json();
    assert!(refused.to_string().contains("ROLE_REFUSED"), "{refused}");
    let wrong = json!({ "args": { "text": "x", "operations": ["eval"] } });
    let wrong = daemon.post("/v1/tools/scout.transform_text", &wrong).by("scout").send().json();
    assert!(wrong.to_string().contains("ARGUMENTS_INVALID"), "held to what is told: {wrong}");
}

#[test]
fn a_search_gives_sources_by_rank_and_data_is_looked_up() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let search = run(&daemon, "scout", "web_search", json!({ "query": "sea", "limit": 2 }));
    let output = &search["results"][0]["output"];
    assert_eq!(
        output["sources"],
        json!([
            { "rank": 1, "url": "https://2.example/", "title": "Hit 2", "snippet": "sea" },
            { "rank": 2, "url": "https://1.example/", "title": "Hit 1", "snippet": "sea" },
        ])
    );
    assert_eq!(output["result"]["source"], "web", "the only one of its class");
    assert_eq!(service.asked()[0].1, json!({ "q": "sea", "limit": 2 }));
    let kinds: Vec<Value> =
        broker_log(&daemon, &search).iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["sources", "retrieve"]);
    let data = run(&daemon, "scout", "data_lookup", json!({}));
    let rows = json!({ "data": { "rows": [[1, "a"], [2, "b"]], "created_at": 2 } });
    assert_eq!(data["results"][0]["output"]["result"], rows, "the caller's answer is whole");
    let step = evidence(&daemon, &data);
    let sealed = std::fs::read(step.join("outputs/parsed.json")).unwrap();
    let sealed: Value = serde_json::from_slice(&sealed).unwrap();
    assert_eq!(sealed["result"], json!({ "data": { "rows": [[1, "a"], [2, "b"]] } }));
    let removed = std::fs::read(step.join("volatile/removed.json")).unwrap();
    let removed: Value = serde_json::from_slice(&removed).unwrap();
    assert_eq!(removed["/result/data/created_at"], 2);
    assert_genuine(&daemon);
}

#[test]
fn answers_of_sources_reach_the_caller_whole() {
    let daemon = daemon(&config(&Service::start()));
    let ask = json!({ "type": "retrieve", "source": "notes", "input": {} });
    let asked = run(&daemon, "asker", "doc_retrieval", json!({ "asks": [ask] }));
    let told = &asked["results"][0]["output"]["result"]["answers"][0]["told"];
    let told: Value =
        told.as_str().map_or_else(|| told.clone(), |it| serde_json::from_str(it).unwrap());
    let whole = json!({ "text": "The password: hunter2 applies.", "model": "m1", "cost": 3,
        "seed": 1, "meta": {} });
    assert_eq!(told["output"], whole, "without the source's own volatile member: {asked}");
    let text = run(&daemon, "scout", "doc_retrieval", json!({ "source": "notes" }));
    let output = &text["results"][0]["output"];
    assert_eq!(output["result"]["text"], "The password: hunter2 applies.", "{text}");
    let step = evidence(&daemon, &text);
    let sealed = std::fs::read_to_string(step.join("outputs/parsed.json")).unwrap();
    assert!(sealed.contains("password=[REDACTED]") && !sealed.contains("hunter2"), "{sealed}");
    let removed = std::fs::read_to_string(step.join("volatile/broker.jsonl")).unwrap();
    let removed: Value = serde_json::from_str(removed.trim_end()).unwrap();
    let values = json!({ "/meta/served": 2, "/model": "m1", "/cost": 3, "/seed": 2 });
    assert_eq!(removed["removed_values"], values, "kept beside the evidence");
    assert_genuine(&daemon);
}

#[test]
fn a_scout_never_sees_the_credentials_of_its_sources() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let ask = json!({ "type": "retrieve", "source": "docs", "input": { "id": 1 } });
    let run = run(&daemon, "asker", "doc_retrieval", json!({ "asks": [ask] }));
    let told = run["results"][0]["output"]["result"]["answers"][0]["told"].to_string();
    assert!(told.contains("you sent") && !told.contains(KEY), "{told}");
    let sealed = daemon.stage.path("data/sealed");
    let found = std::process::Command::new("grep").arg("-rl").arg(KEY).arg(&sealed).output();
    assert_eq!(String::from_utf8_lossy(&found.unwrap().stdout), "");
}

#[test]
fn a_source_that_fails_is_an_operational_error_with_evidence() {
    let daemon = daemon(&config(&Service::start()));
    for (source, code) in [("closed", "HTTP_ERROR"), ("large", "OUTPUT_TOO_LARGE")] {
        let run = run(&daemon, "scout", "doc_retrieval", json!({ "source": source }));
        let error = &run["results"][0]["error"];
        assert_eq!(
            (&error["kind"], &error["code"]),
            (&json!("operational"), &json!(code)),
            "{run}"
        );
        let log = broker_log(&daemon, &run);
        assert_eq!((&log[0]["outcome"], &log[0]["code"]), (&json!("failed"), &json!(code)));
        let summary = read(&evidence(&daemon, &run).join("run_summary.json"));
        assert_eq!(summary["outcome"], "FAILED");
    }
    assert_genuine(&daemon);
}
