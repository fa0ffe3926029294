//! What ABI v1 carries, through real libraries in the host: progress, cancellation, many calls, logs, panics.

mod layout;

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_router::check::validate;
use nexus_router::loader::{LoadRequest, Notice};
use nexus_router::{Adapter, Call, Strictness};
use nexus_router_sdk::{AdapterError, ErrorKind, Object, code};
use serde_json::{Value, json};

use crate::support::World;

type Answer = Result<Object, AdapterError>;

/// Longer than anything here takes; only a call that is never answered waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Loads a probe; what it tells the host comes out of the receiver.
fn probe(function: &str) -> (Adapter, Receiver<Notice>) {
    let (sender, notices) = mpsc::channel();
    let sender = Mutex::new(sender);
    let world = World::new();
    let mut loader = world.loader();
    loader.notices = Arc::new(move |_, notice| drop(sender.lock().unwrap().send(notice)));
    let factory_ref = format!("probe_adapters:{function}");
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &json!({}), pin: None };
    (loader.load(&request).unwrap(), notices)
}

fn object(value: Value) -> Object {
    let Value::Object(members) = value else { panic!("not an object") };
    members
}

/// Starts a call and returns where its answer will come.
fn started(adapter: &Adapter, call: &Call<'_>) -> Receiver<Answer> {
    let (sender, answers) = mpsc::channel();
    adapter.start(call, move |answer| drop(sender.send(answer)));
    answers
}

fn assert_error(answer: Answer, kind: ErrorKind, code: &str) -> String {
    let error = answer.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (kind, code), "{error}");
    error.message
}

#[test]
fn probes_are_valid_adapters() {
    let world = World::new();
    let loader = world.loader();
    let file = crate::support::built_library("probe_adapters");
    let mut records = nexus_router::Loader::factories(&file).unwrap();
    // These depend on their configuration: `fake` has no manifest, and `replays` needs a contract.
    records.retain(|record| !["fake", "replays"].contains(&record.factory.as_str()));
    assert_eq!(records.len(), 10);
    for record in records {
        let factory_ref = format!("probe_adapters:{}", record.factory);
        let config = json!({});
        let request =
            LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
        let validation = validate(&loader, &request, Strictness::Strict).unwrap();
        assert!(validation.ok(), "{factory_ref}: {:?}", validation.checks);
    }
}

#[test]
fn progress_arrives_in_order_during_the_call() {
    let (adapter, notices) = probe("progress");
    let args = object(json!({ "count": 5 }));
    let call = Call { call_id: Some("p-1"), ..Call::new("t", "m", &args) };
    let answer = adapter.call(&call).unwrap();
    assert_eq!(answer, args);
    // The channel holds what came during the call: the sink is called by the adapter itself.
    let told: Vec<Notice> = notices.try_iter().collect();
    let expected: Vec<Notice> = (1..=5)
        .map(|done| Notice::Progress {
            done: f64::from(done),
            total: Some(5.0),
            message: "working".to_owned(),
            call_id: Some("p-1".to_owned()),
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn log_and_output_stream_in_order() {
    let (adapter, notices) = probe("streamed_log");
    let args = object(json!({ "count": 100 }));
    adapter.call(&Call { call_id: Some("s-1"), ..Call::new("t", "m", &args) }).unwrap();
    let told: Vec<String> = notices
        .try_iter()
        .map(|notice| match notice {
            Notice::Log { level, message, call_id, .. } => {
                assert_eq!((level.as_str(), call_id.as_deref()), ("info", Some("s-1")));
                message
            }
            Notice::Output { text, call_id } => {
                assert_eq!(call_id.as_deref(), Some("s-1"));
                text
            }
            _ => panic!("{notice:?}"),
        })
        .collect();
    let expected: Vec<String> =
        (1..=100).flat_map(|n| [format!("line {n}"), format!("text {n}\n")]).collect();
    assert_eq!(told, expected);
}

#[test]
fn cancel_ends_the_call() {
    let (adapter, notices) = probe("cancellable");
    let args = Object::new();
    let call = Call { call_id: Some("c-1"), ..Call::new("t", "m", &args) };
    let answer = std::thread::scope(|scope| {
        let called = scope.spawn(|| adapter.call(&call));
        // The call is under way when it has told so.
        assert!(matches!(notices.recv_timeout(PATIENCE), Ok(Notice::Progress { .. })));
        adapter.cancel("c-1");
        called.join().unwrap()
    });
    assert_error(answer, ErrorKind::Operational, code::CANCELLED);
}

#[test]
fn cancel_ends_a_started_call_and_no_other() {
    let (adapter, _notices) = probe("many_calls");
    let args = Object::new();
    let hold = |call_id| {
        started(&adapter, &Call { call_id: Some(call_id), ..Call::new("t", "hold", &args) })
    };
    let (one, two) = (hold("h-1"), hold("h-2"));
    adapter.cancel("h-1");
    let answer = one.recv_timeout(PATIENCE).unwrap();
    assert_error(answer, ErrorKind::Operational, code::CANCELLED);
    assert!(two.try_recv().is_err());
    adapter.call(&Call::new("t", "release", &args)).unwrap();
    assert_eq!(two.recv_timeout(PATIENCE).unwrap().unwrap(), args);
}

#[test]
fn cancel_reaches_calls_that_share_an_id() {
    let (adapter, _notices) = probe("many_calls");
    let args = Object::new();
    let hold = Call { call_id: Some("h"), ..Call::new("t", "hold", &args) };
    let short = Call { time: Some(Duration::from_millis(20)), ..hold };
    let (ended, one, two) =
        (started(&adapter, &short), started(&adapter, &hold), started(&adapter, &hold));
    let answer = ended.recv_timeout(PATIENCE).unwrap();
    assert_error(answer, ErrorKind::Operational, code::TIMEOUT);
    adapter.cancel("h");
    for answers in [one, two] {
        let answer = answers.recv_timeout(PATIENCE).unwrap();
        assert_error(answer, ErrorKind::Operational, code::CANCELLED);
    }
}

#[test]
fn deadline_ends_the_call() {
    for function in ["cancellable", "many_calls"] {
        let (adapter, _notices) = probe(function);
        let args = Object::new();
        let time = Some(Duration::from_millis(50));
        let call = Call { time, ..Call::new("t", "hold", &args) };
        assert_error(adapter.call(&call), ErrorKind::Operational, code::TIMEOUT);
        let answer = started(&adapter, &call).recv_timeout(PATIENCE).unwrap();
        assert_error(answer, ErrorKind::Operational, code::TIMEOUT);
    }
}

#[test]
fn cancelling_what_is_not_there_is_nothing() {
    let (adapter, _notices) = probe("progress");
    adapter.cancel("never started");
    let args = object(json!({ "count": 0 }));
    let call = Call { call_id: Some("x"), ..Call::new("t", "m", &args) };
    adapter.call(&call).unwrap();
    adapter.cancel("x");
    // A name is free again once its call is over, and a late cancel has not stuck to it.
    adapter.call(&call).unwrap();
    Adapter::null().cancel("x");
}

#[test]
fn hundreds_of_calls_in_flight_need_no_threads() {
    const CALLS: usize = 500;
    let (adapter, _notices) = probe("many_calls");
    let (sender, answers) = mpsc::channel();
    for number in 0..CALLS {
        let args = object(json!({ "number": number }));
        let sender = sender.clone();
        let done = move |answer| drop(sender.send(answer));
        adapter.start(&Call::new("t", "hold", &args), done);
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(answers.try_recv().is_err(), "all of them are in flight");
    assert!(threads < CALLS / 2, "{threads} threads for {CALLS} calls");
    adapter.call(&Call::new("t", "release", &Object::new())).unwrap();
    let mut numbers: Vec<u64> = (0..CALLS)
        .map(|_| answers.recv_timeout(PATIENCE).unwrap().unwrap()["number"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..CALLS as u64));
}

#[test]
fn adapter_can_be_dropped_with_calls_in_flight() {
    let (adapter, _notices) = probe("many_calls");
    let answer = started(&adapter, &Call::new("t", "hold", &Object::new()));
    drop(adapter);
    let answer = answer.recv_timeout(PATIENCE).unwrap();
    assert_error(answer, ErrorKind::Bug, code::BUG_ERROR);
}

#[test]
fn panic_in_start_is_a_bug_with_its_text_and_place() {
    let (adapter, _notices) = probe("panics_in_start");
    let args = object(json!({ "panic": true }));
    let answer = started(&adapter, &Call::new("t", "m", &args)).recv_timeout(PATIENCE).unwrap();
    let at = answer.clone().unwrap_err().details["at"].clone();
    let message = assert_error(answer, ErrorKind::Bug, code::ADAPTER_PANICKED);
    assert_eq!(message, "panicked in start: as was asked for");
    assert!(at.as_str().is_some_and(|at| at.contains("probes/src/lib.rs:")), "{at}");
}

#[test]
fn dropped_completion_is_a_bug() {
    let (adapter, _notices) = probe("drops_completion");
    let args = Object::new();
    let call = Call::new("t", "m", &args);
    let answer = started(&adapter, &call).recv_timeout(PATIENCE).unwrap();
    let message = assert_error(answer, ErrorKind::Bug, code::BUG_ERROR);
    assert!(message.contains("dropped a call"), "{message}");
    assert_error(adapter.call(&call), ErrorKind::Bug, code::BUG_ERROR);
}

#[test]
fn panicking_call_leaves_the_adapter_usable() {
    let (adapter, _notices) = probe("panics_in_start");
    let (bad, good) = (object(json!({ "panic": true })), object(json!({ "n": 1 })));
    for _ in 0..3 {
        let answer = adapter.call(&Call::new("t", "m", &bad));
        let message = assert_error(answer, ErrorKind::Bug, code::ADAPTER_PANICKED);
        assert!(message.contains("as was asked for"), "{message}");
        drop(started(&adapter, &Call::new("t", "m", &bad)));
        assert_eq!(adapter.call(&Call::new("t", "m", &good)).unwrap(), good);
    }
}

#[test]
fn panic_of_the_hosts_own_code_stays_in_the_host() {
    let world = World::new();
    let mut loader = world.loader();
    loader.notices = Arc::new(|_, _| panic!("the sink is broken"));
    let request = LoadRequest {
        factory_ref: "probe_adapters:progress",
        adapter_id: None,
        config: &json!({}),
        pin: None,
    };
    let adapter = loader.load(&request).unwrap();
    let args = object(json!({ "count": 1 }));
    let call = Call::new("t", "m", &args);
    assert_eq!(adapter.call(&call).unwrap(), args);
    adapter.start(&call, |_| panic!("the receiver is broken"));
    assert_eq!(adapter.call(&call).unwrap(), args);
}
