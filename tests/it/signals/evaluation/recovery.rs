//! Runs that are judged and whose process is gone: cut off anywhere, they are judged once, and come to the same end.

use std::sync::Arc;

use nexus_router::json::{Limits, parse};
use nexus_router::policy::Law;
use nexus_router::router::{Options, Resumable, Router};
use nexus_router::signal::{AcceptancePolicy, Judge, Registry};
use nexus_router::store::{Log, Store};
use serde_json::{Value, json};

use super::{CI_GATE, green, policy};
use crate::engine::recovery::cut;
use crate::engine::{Bench, answers, assert_clean, payloads, plan, registry};
use crate::support::World;

fn options() -> Options {
    let policy = parse(policy().to_string().as_bytes(), Limits::REQUEST).unwrap();
    let judge = Judge {
        registry: Arc::new(Registry::open(None)),
        contract_id: CI_GATE.to_owned(),
        version: None,
        pointer: String::new(),
        policy: Some(Arc::new(AcceptancePolicy::of(&policy).unwrap())),
    };
    let signals = [("one".to_owned(), Arc::new(judge))].into();
    Options { law: Law { signals, ..Law::default() }, ..Options::default() }
}

fn kinds(log: &Log) -> Vec<String> {
    payloads(log).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn a_judged_run_that_is_cut_off_anywhere_is_judged_once() {
    let world = Arc::new(World::new());
    let with = |field: &str, value: Value| {
        let mut fields = green();
        fields[field] = value;
        json!({ "return": fields })
    };
    let responses = json!([
        answers("green", with("coverage_met", json!(true))),
        answers("grey", with("lint_clean", json!("?"))),
        answers("red", with("all_tests_passed", json!(false))),
    ]);
    let registry = registry(&world, &[("one", json!({ "responses": responses }))]);
    let bench =
        Bench::with(Arc::clone(&world), Store::in_memory().unwrap(), registry.clone(), options());
    let mut cuts = 0;
    for (methods, course, review) in [
        (["green", "green"], "S Q + signals C S Q + signals C provenance completed", false),
        (["grey", "green"], "S Q + signals C S Q + signals C provenance completed", true),
        (["red", "green"], "S Q + signals C provenance failed", false),
    ] {
        let outcome = bench.run(&plan(&methods)).unwrap();
        let expected = format!("started plan selected {course}");
        assert_eq!(bench.course(&outcome.run_id), expected, "{methods:?}");
        assert_eq!(outcome.needs_review(), review, "{methods:?}");
        let whole = bench.log(&outcome.run_id);
        for count in 2..whole.lines().count() {
            let case = format!("{methods:?}, cut off after {count} events");
            let path = world.path(&format!("judged-{cuts}.db"));
            cut(&whole, count, &path);
            let store = Store::open(&path).unwrap();
            let router = Router::new(store.clone(), registry.clone(), options()).unwrap();
            router.recover_blocking(Resumable::Resume).unwrap();
            let log = store.log(&outcome.run_id).unwrap().unwrap();
            assert_clean(&log);
            let mut expected = kinds(&whole);
            if expected[count - 1] == "TOOL_CALL_REQUESTED" {
                expected.insert(count, "TOOL_CALL_REQUESTED".to_owned());
            }
            assert_eq!(kinds(&log), expected, "{case}");
            let again = nexus_router::outcome::Outcome::of_log(&log);
            assert_eq!(again.needs_review(), review, "{case}");
            assert_eq!(again.status, outcome.status, "{case}");
            cuts += 1;
        }
    }
    assert!(cuts > 25, "{cuts}");
}
