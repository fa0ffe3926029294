//! Adapters that speak on the wire of their worker: what they say is not believed, and costs them their worker.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nexus_router::loader::{IncidentKind, Placement};
use nexus_router::{Adapter, Call};
use nexus_router_sdk::{AdapterError, Object, code};
use serde_json::{Value, json};

use super::{Shop, eventually, process_is_gone};

const ESCAPES: &str = "escape_adapters:escapes";
const CRASHED: &str = "ADAPTER_CRASHED";
const MB: usize = 1024 * 1024;

type Answer = Result<Object, AdapterError>;

fn start(adapter: &Adapter, method: &str, args: &Value) -> Receiver<Answer> {
    let (answer, answered) = channel();
    let args = args.as_object().cloned().unwrap();
    adapter.start(&Call::new("wire", method, &args), move |result| answer.send(result).unwrap());
    answered
}

fn ended(answered: &Receiver<Answer>) -> Answer {
    answered.recv_timeout(Duration::from_secs(60)).expect("the call ends")
}

/// Makes a bad call while another is under way in the same worker, and returns what came of both.
fn both(adapter: &Adapter, method: &str, args: &Value) -> (Answer, AdapterError) {
    let other = start(adapter, "hang", &json!({}));
    let bad = ended(&start(adapter, method, args));
    (bad, ended(&other).expect_err("nobody else ends it"))
}

/// Asserts that one crash was told, and that a new worker serves.
fn assert_replaced(shop: &Shop, adapter: &Adapter, before: &[u32], says: &str) {
    eventually("the incident", || !shop.incidents().is_empty());
    let incidents = shop.incidents();
    let kinds: Vec<_> = incidents.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [IncidentKind::Crashed], "{says}: {incidents:?}");
    assert!(incidents[0].text.contains(says), "{says}: {incidents:?}");
    let next = ended(&start(adapter, "speak", &json!({})));
    assert_eq!(next.unwrap_or_else(|error| panic!("{says}: {error}"))["errno"], 0);
    assert!(before.iter().all(|id| process_is_gone(*id)), "{says}");
    assert_ne!(adapter.workers().unwrap().processes, before);
}

/// The kinds of frames, by their numbers.
const ANSWER: u8 = 6;
const NOTICE: u8 = 8;
const ENDED: u8 = 10;
const ASK: u8 = 11;

/// The number of the bad call: the other one is the first.
const OWN: u64 = 2;

#[test]
fn whoever_breaks_the_rules_of_the_wire_loses_the_worker_and_its_calls() {
    let piece = |total: u64, offset: u64, length: usize| json!({ "kind": ANSWER, "id": OWN, "total": total, "offset": offset, "fill": length });
    let spoken = |frames: Value| ("speak", json!({ "frames": frames }));
    let router_only = "a frame that only a router sends";
    let cases = [
        (spoken(json!([{ "bytes": [255, 1, 2, 3] }])), "what is no frame"),
        (spoken(json!([{ "kind": 99, "id": OWN }])), "what is no frame"),
        (spoken(json!([{ "kind": ANSWER, "id": OWN, "fill": 65_536 }])), "what is no frame"),
        (spoken(json!([{ "bytes": [] }])), "it closed its socket"),
        (
            spoken(json!([{ "kind": ANSWER, "id": 77, "text": "{}" }])),
            "a call that it does not have",
        ),
        (spoken(json!([{ "kind": ANSWER, "id": u64::MAX }])), "a call that it does not have"),
        (spoken(json!([piece(0xffff_ffff, 0, 1)])), "a longer text than there may be"),
        (spoken(json!([piece(18 * MB as u64, 0, 1)])), "a longer text than there may be"),
        (spoken(json!([piece(100, 10, 10)])), "does not follow the one before"),
        (spoken(json!([piece(100, 0, 10), piece(100, 0, 10)])), "does not follow the one before"),
        (spoken(json!([piece(100, 0, 10), piece(90, 10, 10)])), "does not follow the one before"),
        (spoken(json!([{ "kind": 1, "id": 0, "text": "{}" }])), router_only),
        (spoken(json!([{ "kind": 2, "id": OWN, "text": "{}" }])), router_only),
        (spoken(json!([{ "kind": 3, "id": OWN }])), router_only),
        (spoken(json!([{ "kind": 4, "id": 0 }])), router_only),
        (spoken(json!([{ "kind": 5, "id": 0, "text": "{}" }])), router_only),
        (spoken(json!([{ "kind": 12, "id": 0, "text": "{}" }])), router_only),
        (spoken(json!([{ "kind": 13, "id": 0, "text": "{}" }])), router_only),
        (
            spoken(json!([{ "kind": ASK, "id": 0, "total": 600_000, "offset": 0, "fill": 10 }])),
            "a longer text than there may be",
        ),
        (spoken(json!([{ "kind": ENDED, "id": 0, "text": "stopped" }])), "only a guard sends"),
        (
            spoken(json!([{ "kind": ANSWER, "id": OWN, "text": [255, 254] }])),
            "an answer that is no text",
        ),
        (("close_wire", json!({})), "while it carried out the call"),
    ];
    for ((method, args), says) in cases {
        let shop = Shop::new();
        let adapter = shop.load(ESCAPES);
        let before = adapter.workers().unwrap().processes;
        let (bad, other) = both(&adapter, method, &args);
        for error in [bad.expect_err(says), other] {
            assert_eq!(error.code, CRASHED, "{says}: {error}");
            assert!(error.message.contains(says), "{says}: {error}");
        }
        let told = if method == "close_wire" { "calls lost: 2" } else { says };
        assert_replaced(&shop, &adapter, &before, told);
    }
}

#[test]
fn a_call_is_answered_once() {
    let shop = Shop::new();
    let adapter = shop.load(ESCAPES);
    let before = adapter.workers().unwrap().processes;
    let own = json!({ "kind": ANSWER, "id": OWN, "text": "{\"output\":{\"first\":true}}" });
    let (bad, other) = both(&adapter, "speak", &json!({ "frames": [own] }));
    assert_eq!(bad.unwrap()["first"], true);
    assert_eq!(other.code, CRASHED, "{other}");
    assert_replaced(&shop, &adapter, &before, "a call that it does not have");
}

#[test]
fn an_answer_for_another_call_is_that_calls_and_no_others() {
    // A worker may answer its calls as it likes; which of them it meant is its own affair.
    let shop = Shop::new();
    let adapter = shop.load(ESCAPES);
    let others = json!({ "kind": ANSWER, "id": 1, "text": "{\"output\":{\"for\":1}}" });
    let other = start(&adapter, "hang", &json!({}));
    assert_eq!(
        ended(&start(&adapter, "speak", &json!({ "frames": [others] }))).unwrap()["errno"],
        0
    );
    assert_eq!(ended(&other).unwrap()["for"], 1);
    assert_eq!(shop.incidents(), []);
}

#[test]
fn whoever_floods_the_log_is_ended() {
    let shop = Shop::new();
    let adapter = shop.load(ESCAPES);
    let before = adapter.workers().unwrap().processes;
    let notice = json!({ "kind": NOTICE, "id": 0, "fill": 60_000 });
    let flood = json!({ "frames": [notice], "times": 1_000_000 });
    let (bad, other) = both(&adapter, "speak", &flood);
    for error in [bad.unwrap_err(), other] {
        assert_eq!(error.code, code::OUTPUT_TOO_LARGE, "{error}");
        assert!(error.message.contains("more than anybody can read"), "{error}");
    }
    assert_replaced(&shop, &adapter, &before, "more than anybody can read");
}

#[test]
fn asking_for_calls_that_there_are_not_is_refused_and_a_flood_of_it_is_the_end() {
    let shop = Shop::new();
    let adapter = shop.load(ESCAPES);
    let before = adapter.workers().unwrap().processes;
    let asks = json!([
        { "kind": ASK, "id": 7, "text": "{\"type\":\"retrieve\",\"call_id\":\"somebody's\"}" },
        { "kind": ASK, "id": 7, "text": "{\"call_id\":\"\"" },
        { "kind": ASK, "id": u64::MAX, "text": [255, 254] },
        { "kind": ASK, "id": 0, "fill": 60_000 },
    ]);
    let spoken = ended(&start(&adapter, "speak", &json!({ "frames": asks })));
    assert_eq!(spoken.unwrap()["errno"], 0, "a few are only refused");
    assert_eq!(shop.incidents(), []);
    let (bad, other) = both(&adapter, "speak", &json!({ "frames": asks, "times": 1_000_000 }));
    for error in [bad.unwrap_err(), other] {
        assert_eq!(error.code, code::OUTPUT_TOO_LARGE, "{error}");
    }
    assert_replaced(&shop, &adapter, &before, "more than anybody can read");
}

#[test]
fn an_answer_as_long_as_the_wire_takes_is_too_long_for_a_caller() {
    let shop = Shop::new();
    let adapter = shop.load(ESCAPES);
    let (total, size) = (17 * MB, 60_000);
    let pieces: Vec<Value> = (0..total)
        .step_by(size)
        .map(|at| json!({ "kind": ANSWER, "id": 1, "total": total, "offset": at, "fill": size.min(total - at) }))
        .collect();
    let error = ended(&start(&adapter, "speak", &json!({ "frames": pieces }))).unwrap_err();
    assert_eq!(error.code, code::OUTPUT_TOO_LARGE, "{error}");
    assert!(error.message.contains(&format!("has {total} bytes")), "{error}");
}

#[test]
fn a_worker_with_a_guard_cannot_say_how_it_ends() {
    let shop = Shop::new();
    let mut placement = Placement::worker();
    placement.grants.run = vec![std::fs::canonicalize("/bin/sh").unwrap()];
    let adapter = shop.load_at("escape_adapters:escapes_external", placement);
    let before = adapter.workers().unwrap().processes;
    let says = json!({ "kind": ENDED, "id": 0, "text": "stopped" });
    let garbage = json!({ "bytes": [1] });
    let spoken = ended(&start(&adapter, "speak", &json!({ "frames": [says] })));
    assert_eq!(spoken.unwrap()["errno"], 0);
    let error = ended(&start(&adapter, "close_wire", &json!({}))).unwrap_err();
    assert_eq!(error.code, CRASHED, "{error}");
    // How it ends without its wire depends on the build; it was not stopped.
    assert!(!error.message.contains("was stopped"), "{error}");
    assert_replaced(&shop, &adapter, &before, "; calls lost: 1");
    shop.incidents.lock().unwrap().clear();
    let before = adapter.workers().unwrap().processes;
    let error = ended(&start(&adapter, "speak", &json!({ "frames": [garbage] }))).unwrap_err();
    assert!(error.message.contains("what is no frame"), "{error}");
    assert_replaced(&shop, &adapter, &before, "what is no frame");
}
