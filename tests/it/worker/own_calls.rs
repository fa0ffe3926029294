//! A worker that fails costs its own calls and no others: crashes, hangs, late answers, memory, more processes.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nexus_router::loader::{Incident, IncidentKind, Placement};
use nexus_router::{Adapter, Call};
use nexus_router_sdk::{AdapterError, Object, code};
use serde_json::{Value, json};

use super::{Shop, eventually, process_is_gone};
use crate::corpus::factories::factory_ref;

const ESCAPES: &str = "escape_adapters:escapes";
const CRASHED: &str = "ADAPTER_CRASHED";

type Answered = Receiver<Result<Object, AdapterError>>;

fn start(adapter: &Adapter, method: &str, args: &Value) -> Answered {
    let (answer, answered) = channel();
    let args = args.as_object().cloned().unwrap();
    adapter.start(&Call::new("t", method, &args), move |result| answer.send(result).unwrap());
    answered
}

fn ended(answered: &Answered) -> Result<Object, AdapterError> {
    answered.recv_timeout(Duration::from_secs(60)).expect("the call ends")
}

/// Starts calls that go on until they are released.
fn hold(adapter: &Adapter, count: usize) -> Vec<Answered> {
    (0..count).map(|_| start(adapter, "hold", &json!({}))).collect()
}

fn kinds(incidents: &[Incident]) -> Vec<IncidentKind> {
    incidents.iter().map(|one| one.kind).collect()
}

#[test]
fn a_crash_ends_the_calls_of_its_worker_and_no_others() {
    let shop = Shop::new();
    let (other, crashing) = (shop.load("probe_adapters:many_calls"), shop.load(ESCAPES));
    let held = hold(&other, 5);
    let lost: Vec<_> = (0..5).map(|_| start(&crashing, "hang", &json!({}))).collect();
    let garbage = json!({ "frames": [{ "bytes": [0] }] });
    let bad = start(&crashing, "speak", &garbage);
    for answered in lost.iter().chain([&bad]) {
        assert_eq!(ended(answered).unwrap_err().code, CRASHED);
    }
    eventually("the incident", || !shop.incidents().is_empty());
    assert!(shop.incidents()[0].text.contains("calls lost: 6"), "{:?}", shop.incidents());
    // Those of the other adapter go on, in the same process as before.
    assert!(held.iter().all(|answered| answered.try_recv().is_err()));
    ended(&start(&other, "release", &json!({}))).unwrap();
    for answered in &held {
        ended(answered).unwrap();
    }
    assert_eq!(other.workers().unwrap().restarts, 0);
    assert_eq!(kinds(&shop.incidents()), [IncidentKind::Crashed]);
}

#[test]
fn calls_are_spread_over_processes_and_a_crash_leaves_the_others_alone() {
    let shop = Shop::new();
    let placement = Placement { processes: 3, ..Placement::worker() };
    let adapter = shop.load_at(ESCAPES, placement);
    let mut calls = Vec::new();
    // The second and the third worker are started when those before them have something to do.
    eventually("three workers", || {
        calls.push(start(&adapter, "hang", &json!({})));
        std::thread::sleep(Duration::from_millis(20));
        adapter.workers().unwrap().processes.len() == 3
    });
    for _ in 0..6 {
        calls.push(start(&adapter, "hang", &json!({})));
    }
    let processes = adapter.workers().unwrap().processes;
    let bad = start(&adapter, "speak", &json!({ "frames": [{ "bytes": [0] }] }));
    assert_eq!(ended(&bad).unwrap_err().code, CRASHED);
    eventually("one of three is gone", || {
        processes.iter().filter(|id| process_is_gone(**id)).count() == 1
    });
    eventually("the incident", || !shop.incidents().is_empty());
    let ended: Vec<_> = calls.iter().filter_map(|answered| answered.try_recv().ok()).collect();
    assert!(!ended.is_empty() && ended.len() < calls.len(), "{} of {}", ended.len(), calls.len());
    let lost = format!("calls lost: {}", ended.len() + 1);
    assert!(shop.incidents()[0].text.ends_with(&lost), "{lost}: {:?}", shop.incidents());
    assert_eq!(kinds(&shop.incidents()), [IncidentKind::Crashed]);
    // Those that live take more.
    assert_eq!(super::own_calls::ended(&start(&adapter, "speak", &json!({}))).unwrap()["errno"], 0);
}

#[test]
fn memory_and_stack_are_the_workers_own() {
    let shop = Shop::new();
    let placement = Placement { memory: 256 * 1024 * 1024, ..Placement::worker() };
    for function in ["call_allocates_without_end", "call_overflows_the_stack"] {
        let adapter = shop.load_at(&factory_ref(function), placement.clone());
        for _ in 0..2 {
            let error = ended(&start(&adapter, "m", &json!({}))).unwrap_err();
            assert_eq!(error.code, CRASHED, "{function}: {error}");
            assert!(error.details["signal"].is_number(), "{function}: {error:?}");
        }
    }
}

#[test]
fn calls_under_way_end_when_their_adapter_is_let_go() {
    let shop = Shop::new();
    let adapter = shop.load("probe_adapters:many_calls");
    let deaf = shop.load(ESCAPES);
    let (held, hung) = (hold(&adapter, 3), start(&deaf, "hang", &json!({})));
    let processes = [&adapter, &deaf].map(|one| one.workers().unwrap().processes).concat();
    drop((adapter, deaf));
    for answered in held.iter().chain([&hung]) {
        let error = ended(answered).unwrap_err();
        assert!(
            [code::CANCELLED, CRASHED, code::BUG_ERROR].contains(&error.code.as_str()),
            "{error}"
        );
    }
    eventually("the workers are gone", || processes.iter().all(|id| process_is_gone(*id)));
    assert_eq!(shop.incidents(), []);
}

#[test]
fn a_quarantine_ends_by_itself_and_one_more_crash_brings_it_back() {
    let shop = Shop::new();
    let quarantine = Duration::from_millis(300);
    let placement = Placement { crashes: 3, quarantine, ..Placement::worker() };
    let adapter = shop.load_at(&factory_ref("call_exits_7"), placement);
    let crash = || ended(&start(&adapter, "m", &json!({}))).unwrap_err();
    for _ in 0..3 {
        assert_eq!(crash().code, CRASHED);
    }
    let count = |kind| kinds(&shop.incidents()).into_iter().filter(|one| *one == kind).count();
    eventually("quarantine", || count(IncidentKind::Quarantined) == 1);
    eventually("its end", || count(IncidentKind::Released) == 1);
    assert_eq!(adapter.workers().unwrap().state, "idle");
    // One is enough now.
    assert_eq!(crash().code, CRASHED);
    eventually("quarantine again", || count(IncidentKind::Quarantined) == 2);
    eventually("its end again", || count(IncidentKind::Released) == 2);
    // Whoever is released starts anew.
    assert!(!adapter.release());
    assert_eq!(crash().code, CRASHED);
    assert_eq!(crash().code, CRASHED);
    eventually("both crashes", || count(IncidentKind::Crashed) == 6);
    assert_eq!(count(IncidentKind::Quarantined), 2);
    use IncidentKind::{Crashed, Quarantined, Released};
    let order = [
        Crashed,
        Crashed,
        Crashed,
        Quarantined,
        Released,
        Crashed,
        Quarantined,
        Released,
        Crashed,
        Crashed,
    ];
    assert_eq!(kinds(&shop.incidents()), order);
    // The second quarantine continues the first: the crash that brought it back is one more.
    let incidents = shop.incidents();
    let quarantines = incidents.iter().filter(|one| one.kind == Quarantined);
    let texts: Vec<&str> = quarantines.map(|one| one.text.as_str()).collect();
    let expected =
        [3, 4].map(|crashes| format!("is in quarantine for 300ms after {crashes} crashes"));
    assert_eq!(texts, expected);
}

#[test]
fn a_single_crash_is_told_in_the_singular() {
    let shop = Shop::new();
    let placement = Placement { crashes: 1, ..Placement::worker() };
    let adapter = shop.load_at(&factory_ref("call_exits_7"), placement);
    assert_eq!(ended(&start(&adapter, "m", &json!({}))).unwrap_err().code, CRASHED);
    let refused = ended(&start(&adapter, "m", &json!({}))).unwrap_err();
    assert!(refused.message.contains(" after 1 crash; the last: "), "{refused}");
    eventually("quarantine", || shop.incidents().len() == 2);
    assert!(shop.incidents()[1].text.ends_with(" after 1 crash"), "{:?}", shop.incidents());
}
