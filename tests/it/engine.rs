//! The run engine through its public surface: real adapters, real stores.

mod callers;
mod concurrency;
mod large;
mod paths;
pub mod recovery;
mod scenarios;

use std::sync::Arc;

use nexus_router::event::Line;
use nexus_router::json;
use nexus_router::outcome::Outcome;
use nexus_router::replay;
use nexus_router::request::Request;
use nexus_router::router::{Error, Options, Router};
use nexus_router::store::{Log, Store};
use nexus_router::{Adapter, LoadRequest, Registry};
use serde_json::{Value, json};

use crate::support::World;

/// A router in a world of its own.
pub struct Bench {
    pub router: Router,
    /// Kept: its directory holds what the adapters were loaded from.
    _world: Arc<World>,
}

/// An adapter of the kind that does what its configuration says.
pub fn fake(world: &World, adapter_id: &str, config: &Value) -> Adapter {
    let request = LoadRequest {
        factory_ref: "probe_adapters:fake",
        adapter_id: Some(adapter_id),
        config,
        pin: None,
    };
    world.loader().load(&request).unwrap()
}

/// A registry of such adapters; the first is the default.
pub fn registry(world: &World, adapters: &[(&str, Value)]) -> Registry {
    let mut registry = Registry::new(adapters[0].0);
    for (adapter_id, config) in adapters {
        registry.register(fake(world, adapter_id, config)).unwrap();
    }
    registry
}

impl Bench {
    /// A router over a store in memory.
    pub fn new(adapters: &[(&str, Value)]) -> Self {
        let world = Arc::new(World::new());
        Self::among(&world, registry(&world, adapters))
    }

    /// A router over a store in memory, with these adapters of this world.
    pub fn among(world: &Arc<World>, registry: Registry) -> Self {
        Self::with(Arc::clone(world), Store::in_memory().unwrap(), registry, Options::default())
    }

    pub fn with(world: Arc<World>, store: Store, registry: Registry, options: Options) -> Self {
        let router = Router::new(store, registry, options).unwrap();
        Self { router, _world: world }
    }

    pub fn run(&self, request: &Value) -> Result<Outcome, Error> {
        self.router.run_blocking(Request::parse(request.to_string().as_bytes()).unwrap())
    }

    pub fn log(&self, run_id: &str) -> Log {
        self.router.store().log(run_id).unwrap().unwrap()
    }

    /// The events of a run: kind and payload. Their replay must be clean.
    pub fn events(&self, run_id: &str) -> Vec<(String, Value)> {
        let log = self.log(run_id);
        assert_clean(&log);
        payloads(&log)
    }

    /// The kinds of a run's events, abbreviated.
    pub fn course(&self, run_id: &str) -> String {
        let short = |kind: &str| match kind {
            "RUN_STARTED" => "started",
            "PLAN_CREATED" => "plan",
            "DISPATCH_SELECTED" => "selected",
            "STEP_STARTED" => "S",
            "APPROVAL_REQUESTED" => "ask",
            "APPROVAL_DECIDED" => "said",
            "TOOL_CALL_REQUESTED" => "Q",
            "TOOL_CALL_RETRIED" => "again",
            "TOOL_CALL_SUCCEEDED" => "+",
            "TOOL_CALL_FAILED" => "-",
            "SIGNALS_EVALUATED" => "signals",
            "STEP_COMPLETED" => "C",
            "PROVENANCE_EMITTED" => "provenance",
            "RUN_COMPLETED" => "completed",
            "RUN_FAILED" => "failed",
            other => panic!("{other}"),
        };
        let events = self.events(run_id);
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| short(kind)).collect();
        kinds.join(" ")
    }
}

pub fn payloads(log: &Log) -> Vec<(String, Value)> {
    log.lines()
        .map(|line| Line::read(line).unwrap())
        .map(|line| {
            let payload = json::parse(line.payload.as_bytes(), json::Limits::BUNDLE).unwrap();
            (line.kind.into_owned(), payload.to_serde())
        })
        .collect()
}

/// A run of ours replays without a violation.
pub fn assert_clean(log: &Log) {
    let replayed = replay::replay(log);
    let shown = json::to_pretty(&replayed.to_json(replay::Strictness::Strict));
    assert!(replayed.violations.is_empty() && replayed.warnings.is_empty(), "{shown}");
}

/// A plan of calls to `t.METHOD`, in apply mode, that is allowed.
pub fn plan(methods: &[&str]) -> Value {
    let step = |(index, method): (usize, &&str)| {
        json!({ "step_id": format!("s{}", index + 1), "intent": "do",
            "call": { "tool": "t", "method": method, "args": {} } })
    };
    let steps: Vec<Value> = methods.iter().enumerate().map(step).collect();
    json!({ "goal": "test", "mode": "apply", "policy": { "allow_apply": true },
        "plan_override": steps })
}

/// A response of the fake adapter.
#[expect(clippy::needless_pass_by_value, reason = "it is called with literals")]
pub fn answers(method: &str, behaviour: Value) -> Value {
    json!({ "tool": "t", "method": method, "behaviour": behaviour })
}

/// Sets a member that a pointer names.
pub fn set(mut request: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    request.pointer_mut(parent).unwrap()[key] = value;
    request
}
