//! Calls through workers: results, crashes, hangs, floods.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use nexus_router::loader::{IncidentKind, Placement};
use nexus_router::{Call, LoadRequest, Loader};
use nexus_router_sdk::{ErrorKind, Object, code};
use serde_json::json;

use super::{ECHO, Shop, eventually, process_is_gone};
use crate::corpus::factories::factory_ref;

fn args(value: &serde_json::Value) -> Object {
    value.as_object().cloned().unwrap()
}

#[test]
fn a_worker_answers_what_the_same_library_answers_inline() {
    let shop = Shop::new();
    let (worker, inline) = (shop.load(ECHO), shop.load_at(ECHO, Placement::inline()));
    for args in [json!({}), json!({"text": "ü\u{0}\"\\", "n": [1, 2.5, null, {"a": true}]})] {
        let args = args.as_object().cloned().unwrap();
        let call = Call::new("tool", "method", &args);
        assert_eq!(worker.call(&call).unwrap(), inline.call(&call).unwrap());
    }
    assert_eq!(worker.capabilities(), inline.capabilities());
    assert_eq!(worker.confined().confinement, "full");
    assert_eq!(inline.confined().confinement, "none");
}

#[test]
fn long_requests_and_answers_arrive_whole() {
    let shop = Shop::new();
    let adapter = shop.load(ECHO);
    for length in [65_000, 65_536, 70_000, 1_000_000, 5_000_000] {
        let text: String = ('a'..='z').cycle().take(length).collect();
        let args = args(&json!({ "text": text }));
        let output = adapter.call(&Call::new("tool", "method", &args)).unwrap();
        let shown = serde_json::to_string(&output).unwrap();
        assert!(shown.contains(&text), "{length}");
    }
}

#[test]
fn many_calls_are_in_flight_in_one_worker() {
    let shop = Shop::new();
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let notices = Arc::new(move |_: &str, _| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let loader = Loader { notices, ..shop.loader(Placement::worker()) };
    let factory_ref = "probe_adapters:cancellable";
    let config = json!({});
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let adapter = loader.load(&request).unwrap();
    let (answer, answers) = channel();
    let nothing = Object::new();
    let ids: Vec<String> = (0..40).map(|index| format!("call-{index}")).collect();
    for id in &ids {
        let call = Call { call_id: Some(id), ..Call::new("tool", "method", &nothing) };
        let answer = answer.clone();
        adapter.start(&call, move |result| answer.send(result).unwrap());
    }
    // Each of them says that it waits, on a thread of its own, and all are told.
    eventually("all calls wait", || begun.load(Ordering::SeqCst) == ids.len());
    for id in &ids {
        adapter.cancel(id);
    }
    for _ in &ids {
        let error = answers.recv_timeout(Duration::from_secs(10)).unwrap().unwrap_err();
        assert_eq!(error.code, code::CANCELLED, "{error}");
    }
    assert_eq!(adapter.workers().unwrap().processes.len(), 1);
}

#[test]
fn a_worker_that_crashes_is_named_and_replaced() {
    let shop = Shop::new();
    let adapter = shop.load(&factory_ref("call_segfaults"));
    let nothing = Object::new();
    let before = adapter.workers().unwrap().processes;
    let error = adapter.call(&Call::new("tool", "method", &nothing)).unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Bug, "ADAPTER_CRASHED"), "{error}");
    assert!(error.message.contains("SIGSEGV (signal 11)"), "{error}");
    assert_eq!(error.details["signal"], 11);
    eventually("a new worker serves", || {
        let now = adapter.workers().unwrap();
        now.state == "serving" && now.processes != before
    });
    let workers = adapter.workers().unwrap();
    assert_eq!((workers.restarts, workers.last_end.is_some()), (1, true));
    assert_eq!(shop.incidents()[0].kind, IncidentKind::Crashed);
    assert!(before.iter().all(|id| process_is_gone(*id)));
}

#[test]
fn repeated_crashes_end_in_quarantine_until_it_is_released() {
    let shop = Shop::new();
    let adapter = shop.load(&factory_ref("call_exits_7"));
    let nothing = Object::new();
    let call = Call::new("tool", "method", &nothing);
    for _ in 0..5 {
        let error = adapter.call(&call).unwrap_err();
        assert_eq!(error.code, "ADAPTER_CRASHED", "{error}");
        assert_eq!(error.details["exit_code"], 7);
    }
    let error = adapter.call(&call).unwrap_err();
    assert_eq!(error.code, "ADAPTER_QUARANTINED", "{error}");
    assert_eq!(error.kind, ErrorKind::Operational);
    let count = "the adapter is in quarantine after 5 crashes; the last: ";
    assert!(error.message.starts_with(count), "{error}");
    let workers = adapter.workers().unwrap();
    assert_eq!((workers.state, workers.processes.len()), ("quarantined", 0));
    assert!(adapter.release());
    assert_eq!(adapter.call(&call).unwrap_err().code, "ADAPTER_CRASHED");
    let kinds: Vec<IncidentKind> = shop.incidents().iter().map(|one| one.kind).collect();
    assert!(kinds.contains(&IncidentKind::Quarantined) && kinds.contains(&IncidentKind::Released));
}

#[test]
fn workers_end_with_their_adapter() {
    let shop = Shop::new();
    let adapter = shop.load_at(ECHO, Placement { processes: 3, ..Placement::worker() });
    let nothing = Object::new();
    assert!(adapter.call(&Call::new("tool", "method", &nothing)).is_ok());
    let processes = adapter.workers().unwrap().processes;
    assert!(!processes.is_empty());
    drop(adapter);
    eventually("the workers are gone", || processes.iter().all(|id| process_is_gone(*id)));
}
