//! Large requests and answers leave the thread of an asynchronous host.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use nexus_router::request::Request;
use nexus_router::router::{Options, Router};
use nexus_router::store::{Status, Store};
use serde_json::{Value, json};

use super::{answers, plan, registry, set};
use crate::support::World;

const ARGS: &str = "/plan_override/0/call/args";

fn request(request: &Value) -> Request {
    Request::parse(request.to_string().as_bytes()).unwrap()
}

fn large() -> String {
    // It takes long enough that no poll finds the run over at once.
    "Bearer abcdefghijk ".repeat(100_000)
}

fn router(world: &World) -> Router {
    let answer = answers("large", json!({ "return": { "text": large() } }));
    let registry = registry(world, &[("fake", json!({ "responses": [answer] }))]);
    Router::new(Store::in_memory().unwrap(), registry, Options::default()).unwrap()
}

#[test]
fn large_requests_leave_the_thread_of_the_host() {
    let world = World::new();
    let router = router(&world);
    let small = plan(&["m"]);
    let large = set(small, ARGS, json!({ "text": large() }));
    // The first poll of a large run only hands it over.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut run = pin!(router.run(request(&large)));
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        let outcome = run.await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        let recorded = outcome.plan[0].clone();
        assert!(!format!("{recorded:?}").contains("abcdefghijk"), "the record is redacted");
    });
}

#[test]
fn large_answers_do_not_panic_on_any_runtime() {
    let world = World::new();
    let router = router(&world);
    let answer_of = |runtime: tokio::runtime::Runtime| {
        let local = tokio::task::LocalSet::new();
        let run = router.run(request(&plan(&["large"])));
        let outcome = runtime.block_on(local.run_until(run)).unwrap();
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        assert!(format!("{:?}", outcome.results[0].output).contains("[REDACTED]"));
    };
    answer_of(tokio::runtime::Builder::new_current_thread().build().unwrap());
    answer_of(tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap());
    let outcome = router.run_blocking(request(&plan(&["large"]))).unwrap();
    assert_eq!(outcome.status, Status::Completed);
}

#[test]
fn large_runs_continue_when_nobody_waits() {
    let world = World::new();
    let router = router(&world);
    let large = set(plan(&["m"]), ARGS, json!({ "text": large() }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut run = Box::pin(router.run(request(&large)));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(run);
        while router.runs_in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    });
    let counted = router.store().list(&Default::default()).unwrap().counted;
    assert_eq!((counted.completed, counted.running), (1, 0));
}
