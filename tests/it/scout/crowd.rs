//! Many who ask at once, and workers that end in the middle of it.

use serde_json::{Value, json};

use super::{Service, assert_genuine, broker_log, config, daemon, run};
use crate::daemon::support::until;

fn ask(id: usize) -> Value {
    json!({ "type": "retrieve", "source": "docs", "input": { "id": id } })
}

#[test]
fn every_call_of_a_crowd_gets_its_own_answers() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    std::thread::scope(|scope| {
        for caller in 0..12 {
            let daemon = &daemon;
            scope.spawn(move || {
                for round in 0..5 {
                    let ids: Vec<usize> = (0..6).map(|n| caller * 1000 + round * 10 + n).collect();
                    let how = if round % 2 == 0 { "at_once" } else { "" };
                    let asks: Vec<Value> = ids.iter().map(|id| ask(*id)).collect();
                    let run =
                        run(daemon, "asker", "doc_retrieval", json!({ "asks": asks, "how": how }));
                    let answers = &run["results"][0]["output"]["result"]["answers"];
                    for (id, answer) in ids.iter().zip(answers.as_array().unwrap()) {
                        let text = &answer["told"]["output"]["text"];
                        assert_eq!(*text, json!(format!("Document {id}")), "{run}");
                    }
                    // Calls that ask nothing go on in the same worker.
                    let plain = super::run(daemon, "asker", "transform_text", json!({}));
                    assert_eq!(plain["status"], "COMPLETED", "{plain}");
                }
            });
        }
    });
    assert_eq!(service.asked().len(), 12 * 5 * 6);
    let shown = daemon.get("/v1/adapters/asker").ok();
    assert_eq!((&shown["workers"], &shown["restarts"]), (&json!(1), &json!(0)), "{shown}");
    assert_genuine(&daemon);
}

#[test]
fn a_worker_that_dies_while_it_waits_leaves_evidence_of_what_it_asked() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let slow = json!({ "asks": [{ "type": "retrieve", "source": "slow" }], "how": "dies" });
    let answer = run(&daemon, "asker", "doc_retrieval", slow);
    assert!(answer.to_string().contains("ADAPTER_CRASHED"), "{answer}");
    let log = broker_log(&daemon, &answer["run"]);
    assert_eq!((&log[0]["outcome"], &log[0]["code"]), (&json!("failed"), &json!("CANCELLED")));
    until("the end of the call", || (daemon.calls_in_flight("library") == 0).then_some(()));
    let again = run(&daemon, "asker", "doc_retrieval", json!({ "asks": [ask(1)] }));
    assert_eq!(again["status"], "COMPLETED", "{again}");
    assert_eq!(daemon.get("/v1/adapters/asker").ok()["restarts"], 1);
    assert_genuine(&daemon);
}
