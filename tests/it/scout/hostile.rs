//! Adapters that ask too much, too late, or for what is not theirs.

use serde_json::{Value, json};

use super::{Service, assert_genuine, broker_log, config, daemon, run};
use crate::daemon::support::{Daemon, until};

fn docs() -> Value {
    json!({ "type": "retrieve", "source": "docs", "input": { "id": 1 } })
}

fn answers(run: &Value) -> Vec<Value> {
    let answers = &run["results"][0]["output"]["result"]["answers"];
    answers.as_array().unwrap_or_else(|| panic!("{run}")).clone()
}

fn asked(daemon: &Daemon, args: Value) -> Value {
    run(daemon, "asker", "doc_retrieval", args)
}

/// Returns what the threads of the adapter were told after their call was over.
fn late(daemon: &Daemon) -> Vec<Value> {
    until("the late answers", || {
        let answers = answers(&asked(daemon, json!({ "how": "late" })));
        (!answers.is_empty()).then_some(answers)
    })
}

#[test]
fn a_call_asks_so_often_and_so_much_at_once_and_no_more() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let run = asked(&daemon, json!({ "asks": [docs()], "times": 300 }));
    let answers = answers(&run);
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]).collect();
    assert!(codes[..256].iter().all(|code| code.is_null()), "{codes:?}");
    assert!(codes[256..].iter().all(|code| **code == "ASK_LIMIT"), "{codes:?}");
    assert_eq!((service.asked().len(), broker_log(&daemon, &run).len()), (256, 256));
    // As many as fit at once are answered, one after the other; the rest is refused, and may ask again.
    let crowd = super::run(
        &daemon,
        "asker",
        "doc_retrieval",
        json!({ "asks": [docs()], "times": 64, "how": "at_once" }),
    );
    let crowd = self::answers(&crowd);
    let told = crowd.iter().filter(|answer| answer.get("told").is_some()).count();
    let limited = crowd.iter().filter(|answer| answer["error"] == "ASK_LIMIT").count();
    assert_eq!(told + limited, 64, "{crowd:?}");
    assert!(told >= 8, "{crowd:?}");
    assert_genuine(&daemon);
}

#[test]
fn nothing_is_asked_outside_of_a_call_or_after_it() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let run = asked(&daemon, json!({ "asks": [docs()], "how": "outside" }));
    assert_eq!(answers(&run)[0]["error"], "ASK_REFUSED", "{run}");
    let run = asked(&daemon, json!({ "asks": [docs()], "how": "after" }));
    assert_eq!(broker_log(&daemon, &run), Vec::<Value>::new());
    let late = late(&daemon);
    assert_eq!(late[0]["error"], "ASK_REFUSED", "{late:?}");
    assert!(late[0]["message"].as_str().unwrap().contains("before it ends"), "{late:?}");
    assert!(service.asked().is_empty());
}

#[test]
fn what_is_left_under_way_ends_with_the_call_and_is_on_record() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let slow = json!({ "type": "retrieve", "source": "slow" });
    let run = asked(&daemon, json!({ "asks": [slow], "how": "left" }));
    assert_eq!(run["status"], "COMPLETED", "{run}");
    let log = broker_log(&daemon, &run);
    assert_eq!((&log[0]["outcome"], &log[0]["code"]), (&json!("failed"), &json!("CANCELLED")));
    let late = late(&daemon);
    assert_eq!(late[0]["error"], "CANCELLED", "{late:?}");
    until("the end of the call", || (daemon.calls_in_flight("library") == 0).then_some(()));
}

#[test]
fn a_huge_request_is_refused_and_the_worker_lives() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let input = json!({ "id": "x".repeat(300_000) });
    let deep: Value = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for input in [input, json!({ "id": deep })] {
        let huge = json!({ "type": "retrieve", "source": "docs", "input": input });
        let run = asked(&daemon, json!({ "asks": [huge, docs()] }));
        let answers = answers(&run);
        assert_eq!(answers[0]["error"], "ASK_REFUSED", "{answers:?}");
        assert!(answers[1].get("told").is_some(), "{answers:?}");
    }
    assert_eq!(service.asked().len(), 2);
    let shown = daemon.get("/v1/adapters/asker").ok();
    assert_eq!(shown["restarts"], 0, "{shown}");
}

#[test]
fn calls_of_others_cannot_be_asked_for() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    // A call of another adapter that has the same sources is under way all the while.
    let slow = super::request("scout", "doc_retrieval", json!({ "source": "slow" }));
    let other = daemon.post("/v1/runs?wait=false", &slow).by("scout").send().run_id();
    until("the request", || (!service.asked().is_empty()).then_some(()));
    // The host puts in the call of whoever asks with its context; without it, any name can be written.
    let mut ask = docs();
    ask["call_id"] = json!(format!("{other}/0"));
    let run = asked(&daemon, json!({ "asks": [ask], "how": "outside" }));
    assert_eq!(answers(&run)[0]["error"], "ASK_REFUSED", "{run}");
    assert_eq!(service.asked().len(), 1);
    daemon.post(&format!("/v1/runs/{other}/cancel"), &json!({})).send();
}

#[test]
fn an_adapter_without_sources_is_answered_nothing() {
    let service = Service::start();
    let own = config(&service);
    let asker = "ref = \"probe_adapters:asker\"\nrole = \"scout\"\noffer = { tools = [\"*\"] }\n";
    let (before, after) = own.split_once(asker).unwrap();
    let (_, after) = after.split_once("[[adapters]]\nid = \"library\"").unwrap();
    let bare = format!("{before}{asker}[[adapters]]\nid = \"library\"{after}");
    let daemon = daemon(&bare);
    let run = asked(&daemon, json!({ "asks": [docs()] }));
    assert_eq!(answers(&run)[0]["error"], "UNSUPPORTED", "{run}");
    assert!(service.asked().is_empty());
}
