//! Many who ask at once, and workers that end in the middle of it.

use serde_json::{Value, json};

use super::{Service, assert_genuine, broker_log, config, daemon, request, run};
use crate::daemon::support::{Daemon, until};

fn ask(id: usize) -> Value {
    json!({ "type": "retrieve", "source": "docs", "input": { "id": id } })
}

/// Returns the processes of an adapter.
fn processes(daemon: &Daemon, adapter_id: &str) -> Vec<Value> {
    let health = daemon.get(&format!("/v1/adapters/{adapter_id}/health")).ok();
    health["workers"]["processes"].as_array().unwrap_or_else(|| panic!("{health}")).clone()
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
    assert_eq!(processes(&daemon, "asker").len(), 1);
    assert_genuine(&daemon);
}

#[test]
fn a_scout_that_is_killed_while_it_waits_leaves_evidence_of_what_it_asked() {
    let service = Service::start();
    let daemon = daemon(&config(&service));
    let slow = request("scout", "doc_retrieval", json!({ "source": "slow" }));
    let run_id = daemon.post("/v1/runs?wait=false", &slow).by("scout").send().run_id();
    until("the request", || (!service.asked().is_empty()).then_some(()));
    let worker = processes(&daemon, "scout")[0].as_i64().and_then(|id| i32::try_from(id).ok());
    let worker = rustix::process::Pid::from_raw(worker.unwrap()).unwrap();
    rustix::process::kill_process(worker, rustix::process::Signal::KILL).unwrap();
    let ended = daemon.ended(&run_id);
    assert_eq!(ended["status"], "FAILED", "{ended}");
    assert!(ended.to_string().contains("ADAPTER_CRASHED"), "{ended}");
    let log = broker_log(&daemon, &json!({ "run": { "run_id": run_id } }));
    assert_eq!((&log[0]["outcome"], &log[0]["code"]), (&json!("failed"), &json!("CANCELLED")));
    until("the end of the call", || (daemon.calls_in_flight("library") == 0).then_some(()));
    let again = run(&daemon, "scout", "doc_retrieval", json!({ "source": "docs" }));
    assert_eq!(again["status"], "COMPLETED", "{again}");
    assert_genuine(&daemon);
}
