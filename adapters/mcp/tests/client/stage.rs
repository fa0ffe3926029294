//! An adapter under test, and what it tells its host.

use std::time::{Duration, Instant};

use nexus_router_adapter_mcp::{McpAdapter, create_adapter};
use nexus_router_sdk::testing::Recorder;
use nexus_router_sdk::{Adapter as _, AdapterError, CallContext, Catalog, Object};
use serde_json::{Value, json};

use crate::server::ROLE;

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The eras of programs.
pub(crate) const ERAS: [&str; 2] = ["legacy", "modern"];

/// Looks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An adapter and its host.
pub(crate) struct Stage {
    pub(crate) adapter: McpAdapter,
    pub(crate) recorder: Recorder,
}

impl Stage {
    pub(crate) fn new(config: Value) -> Self {
        let recorder = Recorder::default();
        let config = serde_json::from_value(config).unwrap();
        Self { adapter: create_adapter(None, config, recorder.host()).unwrap(), recorder }
    }

    /// Returns an adapter whose server is this program, started again.
    pub(crate) fn program(role: &str) -> Self {
        Self::new(program(role))
    }

    pub(crate) fn call(&self, tool: &str, args: Value) -> Result<Object, AdapterError> {
        self.operation(tool, "call", args)
    }

    pub(crate) fn operation(
        &self,
        tool: &str,
        method: &str,
        args: Value,
    ) -> Result<Object, AdapterError> {
        self.call_with(&self.recorder.context(), tool, method, args)
    }

    pub(crate) fn call_with(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Value,
    ) -> Result<Object, AdapterError> {
        let Value::Object(args) = args else { panic!("args must be an object") };
        self.adapter.call(context, tool, method, args)
    }

    /// Returns how many calls are never answered, and how many were cancelled, as far as the server knows.
    pub(crate) fn abandoned(&self) -> (u64, u64) {
        let output = Value::Object(self.call("cancelled", json!({})).unwrap());
        let count = |what: &str| output["structuredContent"][what].as_u64().unwrap();
        (count("waiting"), count("cancelled"))
    }

    /// Makes a call that is never answered, with so little time that it ends, but is sent.
    pub(crate) fn time_out(&self) {
        until("a call that is sent", || {
            let context = self.recorder.context_with_time(Duration::from_millis(200));
            let error = self.call_with(&context, "wait", "call", json!({})).unwrap_err();
            assert_eq!(error.code, nexus_router_sdk::code::TIMEOUT);
            (self.abandoned().0 > 0).then_some(())
        });
    }

    pub(crate) fn catalog(&self) -> Catalog {
        self.adapter.catalog(&self.recorder.context()).unwrap()
    }

    /// Returns the notices of a type so far.
    pub(crate) fn notices(&self, kind: &str) -> Vec<Value> {
        self.recorder.notices().into_iter().filter(|notice| notice["type"] == kind).collect()
    }

    /// Waits for a notice.
    pub(crate) fn told(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        until(what, || self.recorder.notices().into_iter().find(&is_it))
    }
}

/// Returns the configuration of an adapter whose server is this program, started again.
pub(crate) fn program(role: &str) -> Value {
    let program = std::env::current_exe().unwrap();
    let command = json!([program, "--exact", "serve", "--nocapture", "--test-threads=1"]);
    json!({ "command": command, "env": { ROLE: role, "TOKEN": "very-secret-token" } })
}
