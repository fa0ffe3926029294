//! Instances that load and fail when they are called, tried in the confined child.

use nexus_router::loader::{LoadRequest, Trial};
use nexus_router::{Call, Loader};
use nexus_router_sdk::{ErrorKind, Object, code};
use serde_json::json;

use super::factories::factory_ref;
use super::{Corpus, SECRET};

/// The error that a call must end with.
pub enum Expected {
    Bug(&'static str),
    Operational(&'static str),
}

pub use Expected::{Bug, Operational};

/// A case: the factory, the end of the call, and what the error says.
pub type Case = (&'static str, Expected, &'static str);

const CRASHED: &str = "ADAPTER_CRASHED";

pub const CALLED: &[Case] = &[
    ("call_panics", Bug(code::ADAPTER_PANICKED), "the call gave up"),
    ("call_panics_with_a_bomb", Bug(code::ADAPTER_PANICKED), "no message"),
    ("call_panics_unguarded", Bug(CRASHED), "exit code 1 in a call"),
    ("call_aborts", Bug(CRASHED), "SIGABRT (signal 6) in a call"),
    ("call_segfaults", Bug(CRASHED), "SIGSEGV (signal 11) in a call"),
    ("call_overflows_the_stack", Bug(CRASHED), "in a call"),
    ("call_allocates_without_end", Bug(CRASHED), "in a call"),
    ("call_exits_0", Bug(CRASHED), "exit code 0 in a call"),
    ("call_exits_7", Bug(CRASHED), "exit code 7 in a call"),
    ("call_returns_an_array", Bug(code::BUG_ERROR), "output is not an object"),
    ("call_returns_null", Bug(code::BUG_ERROR), "not the answer of the ABI"),
    ("call_returns_no_output", Bug(code::BUG_ERROR), "not the answer of the ABI"),
    ("call_returns_no_json", Bug(code::BUG_ERROR), "not the answer of the ABI"),
    ("call_returns_nothing", Bug(code::BUG_ERROR), "not the answer of the ABI"),
    ("call_returns_deep_json", Bug(code::BUG_ERROR), "not the answer of the ABI"),
    ("call_error_is_no_error_object", Bug(code::BUG_ERROR), "not the error object of the ABI"),
    ("call_returns_100_mb", Operational(code::OUTPUT_TOO_LARGE), "has 104857600 bytes"),
    ("call_error_is_100_mb", Operational(code::OUTPUT_TOO_LARGE), "has 104857600 bytes"),
    ("call_tells_a_secret", Operational(code::CONNECTION_FAILED), "could not log in with"),
    ("drop_segfaults", Bug(CRASHED), "while its instance was dropped"),
];

/// Factories whose instances never answer.
pub const HANGING: &[&str] = &["call_hangs", "call_prints_without_end"];

/// Factories whose instances tell the host too much, too long or too often.
pub const FLOODING: [&str; 2] = ["call_sends_large_notices", "call_sends_many_notices"];

/// Returns the factories that only a call brings down.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let called = CALLED.iter().map(|case| case.0).filter(|function| *function != "drop_segfaults");
    called.chain(HANGING.iter().copied()).chain(FLOODING)
}

fn tried(loader: &Loader, function: &str) -> Trial {
    let factory_ref = factory_ref(function);
    let config = json!({ "token": SECRET });
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
    let args = Object::from_iter([("secret".to_owned(), SECRET.into())]);
    let trial = loader.try_call(&request, &Call::new("tool", "method", &args));
    trial.unwrap_or_else(|error| panic!("{function}: {error}"))
}

fn assert_ends(corpus: &Corpus, loader: &Loader, (function, expected, says): &Case) {
    let error = match tried(loader, function).answer {
        Err(error) => error,
        Ok(output) => panic!("{function} answered {output:?}"),
    };
    let (kind, code) = match expected {
        Bug(code) => (ErrorKind::Bug, *code),
        Operational(code) => (ErrorKind::Operational, *code),
    };
    assert_eq!((error.kind, error.code.as_str()), (kind, code), "{function}: {error}");
    assert!(error.message.contains(says), "{function}: {error}");
    let shown = format!("{error:?}");
    assert!(!shown.contains(SECRET), "{function} tells a secret: {shown}");
    corpus.assert_host_goes_on(function);
}

#[test]
fn bad_calls_end_in_the_child() {
    let corpus = Corpus::new();
    for case in CALLED {
        assert_ends(&corpus, &corpus.loader, case);
    }
}

#[test]
fn calls_that_never_come_back_are_ended() {
    let corpus = Corpus::new();
    let loader = corpus.impatient();
    std::thread::scope(|scope| {
        for function in HANGING {
            let (corpus, loader) = (&corpus, &loader);
            let case = (*function, Operational(code::TIMEOUT), "did not answer within 3s");
            scope.spawn(move || assert_ends(corpus, loader, &case));
        }
    });
}

#[test]
fn flood_of_notices_is_cut_off() {
    let corpus = Corpus::new();
    let [large, many] = FLOODING.map(|function| tried(&corpus.loader, function));
    assert!(large.answer.is_ok() && many.answer.is_ok());
    let bytes: usize = large.notices.iter().map(|notice| format!("{notice:?}").len()).sum();
    assert!(!large.notices.is_empty() && bytes < 4 * 1024 * 1024, "{bytes} bytes are kept");
    assert_eq!(many.notices.len(), 1000);
}

#[test]
fn memory_limit_is_the_loaders() {
    let corpus = Corpus::new();
    let mut loader = corpus.loader.clone();
    loader.limits.memory = 256 * 1024 * 1024;
    assert_ends(&corpus, &loader, &("call_allocates_without_end", Bug(CRASHED), "in a call"));
    // The same loader still has room for a good adapter.
    let request = LoadRequest {
        factory_ref: "good:create_adapter",
        adapter_id: None,
        config: &json!({}),
        pin: None,
    };
    assert!(
        loader.try_call(&request, &Call::new("t", "m", &Object::new())).unwrap().answer.is_ok()
    );
}
