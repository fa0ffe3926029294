//! Approvals by people: runs that wait, whoever dies meanwhile, and decisions that work once.

mod cli;
mod copied;
mod deciding;
mod lasting;
mod moving;
mod pasted;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router::Registry;
use nexus_router::caller::Caller;
use nexus_router::clock::Clock;
use nexus_router::config::{Effect, Pattern, Rule};
use nexus_router::outcome::{Outcome, StepError};
use nexus_router::policy::Law;
use nexus_router::request::Request;
use nexus_router::router::{Answer, Decider, Options, Router, Submission};
use nexus_router::store::{ApprovalFilter, Log, Status, Store};
use serde_json::{Value, json};

use crate::engine::{answers, assert_clean, payloads, plan, registry, set};
use crate::support::World;

/// So long is waited for what must come, and on a good machine comes at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place with a store, and adapters: `quiet` has no effects, `external` leaves a trace of every call.
pub struct Office {
    world: World,
    registry: Registry,
}

impl Office {
    fn new() -> Self {
        let world = World::new();
        let responses = json!([answers("sleeps", json!({ "sleep_ms": 200 }))]);
        let external = json!({ "capabilities": ["apply", "external"], "responses": responses,
            "traces": world.path("traces") });
        let quiet = json!({ "responses": responses });
        let registry = registry(&world, &[("external", external), ("quiet", quiet)]);
        Self { world, registry }
    }

    fn db(&self) -> PathBuf {
        self.world.path("runs.db")
    }

    /// A router on the store of the place, as another process would have one.
    fn router(&self, law: Law) -> Router {
        self.router_at(law, Clock::System)
    }

    fn router_at(&self, law: Law, clock: Clock) -> Router {
        let options = Options { law, clock, threads: Some(2), ..Options::default() };
        Router::new(Store::open(&self.db()).unwrap(), self.registry.clone(), options).unwrap()
    }

    /// How many calls with effects were made.
    fn calls(&self) -> usize {
        std::fs::read_to_string(self.world.path("traces")).map_or(0, |text| text.lines().count())
    }

    /// The log of a run, which must be sound, in a store that is.
    fn log(&self, run_id: &str) -> Log {
        let store = Store::open_read_only(&self.db()).unwrap();
        assert_eq!(store.check(|_, _| ()).unwrap().findings, []);
        let log = store.log(run_id).unwrap().unwrap();
        if log.record.progress.status != Status::Running {
            assert_clean(&log);
        }
        log
    }

    /// The kinds of a run's events from its first step on, abbreviated.
    fn course(&self, run_id: &str) -> String {
        let kinds = payloads(&self.log(run_id)).into_iter().skip(3);
        let short = kinds.map(|(kind, payload)| match kind.as_str() {
            "STEP_STARTED" => "S".to_owned(),
            "APPROVAL_REQUESTED" => "ask".to_owned(),
            "APPROVAL_DECIDED" => payload["decision"].as_str().unwrap().to_owned(),
            "TOOL_CALL_REQUESTED" => "Q".to_owned(),
            "TOOL_CALL_SUCCEEDED" => "+".to_owned(),
            "TOOL_CALL_FAILED" => "-".to_owned(),
            "STEP_COMPLETED" => "C".to_owned(),
            "PROVENANCE_EMITTED" => "provenance".to_owned(),
            "RUN_COMPLETED" => "completed".to_owned(),
            "RUN_FAILED" => "failed".to_owned(),
            other => panic!("{other}"),
        });
        short.collect::<Vec<_>>().join(" ")
    }
}

/// A law that has a person asked about methods of this pattern.
fn asks(method: &str) -> Law {
    Law { rules: vec![rule(Effect::Approve, method)], ..Law::default() }
}

fn rule(effect: Effect, method: &str) -> Rule {
    let reason = Some("it is risky".to_owned());
    Rule { method: Pattern::new(method), reason, ..Rule::any(effect) }
}

/// A request by a token of this name, whose id is the name too.
fn by(name: &str, request: &Value) -> Submission {
    let caller =
        Caller { name: name.to_owned(), token_id: Some(name.to_owned()), ..Caller::local() };
    Submission::from(Request::parse(request.to_string().as_bytes()).unwrap()).by(Arc::new(caller))
}

fn run(router: &Router, request: &Value) -> Outcome {
    router.run_blocking(by("agent", request)).unwrap()
}

/// Runs a plan that comes to wait, and returns the run's id and the approval's.
fn waits(router: &Router, request: &Value) -> (String, String) {
    let outcome = run(router, request);
    assert_eq!(outcome.status, Status::Running, "{:?}", outcome.error);
    let waiting = outcome.waiting.unwrap();
    (outcome.run_id, waiting.approval_id)
}

fn ada() -> Decider {
    Decider { name: "ada".to_owned(), token_id: Some("ada".to_owned()), admin: true }
}

/// Decides, and waits for what comes of the run.
fn decide(router: &Router, approval_id: &str, answer: Answer) -> Outcome {
    let decided = router.decide_blocking(approval_id, answer, &ada(), Some("because")).unwrap();
    router.outcome_blocking(decided.run).unwrap()
}

/// The code with which a decision is refused.
fn refused(router: &Router, approval_id: &str, answer: Answer, decider: &Decider) -> String {
    router.decide_blocking(approval_id, answer, decider, None).unwrap_err().code().to_owned()
}

fn open(store: &Store) -> Vec<String> {
    let (open, total) = store.approvals(&ApprovalFilter::default()).unwrap();
    assert_eq!((open.len() as u64, total), (total, store.approvals_open().unwrap()));
    open.into_iter().map(|approval| approval.approval_id).collect()
}

fn step_error(outcome: &Outcome) -> &StepError {
    outcome.results.iter().find_map(|result| result.error.as_ref()).unwrap()
}

/// Waits until a run is over.
fn ended(router: &Router, run_id: &str) -> Outcome {
    let end = Instant::now() + PATIENCE;
    loop {
        let log = router.store().log(run_id).unwrap().unwrap();
        if log.record.progress.status != Status::Running {
            return Outcome::of_log(&log);
        }
        assert!(Instant::now() < end, "run {run_id} goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn risky() -> Value {
    set(plan(&["risky"]), "/plan_override/0/call/args", json!({ "name": "Ada" }))
}
