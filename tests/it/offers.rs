//! Offers as the boundary of callers below admin scope, names of operations, and the default of the policy.

mod boundary;
mod check;
mod defaults;
mod names;
mod reload;
mod withdrawn;

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, plan};

/// An adapter with a catalogue, of which a part is offered, and adapters without one: `many` offers by a pattern, `echo`
/// by a tool, and `secret` nothing.
pub const CONFIG: &str = r#"
default_adapter = "echo"
[[adapters]]
id = "echo"
ref = "nexus_router_adapter_echo:create_adapter"
[[adapters]]
id = "many"
ref = "probe_adapters:many_calls"
offer = { tools = ["GET_*"] }
[[adapters]]
id = "secret"
ref = "nexus_router_adapter_echo:create_adapter"
[[adapters]]
id = "conformance"
ref = "conformance_adapter:create_adapter"
[adapters.offer]
tools = ["test_simple_*", "slow_compute", "confirm_delete"]
resources = ["test://static-text"]
prompts = ["test_simple_prompt"]
prefix = "c."
[[tools]]
name = "hello"
description = "Greets somebody."
adapter = "echo"
tool = "greeter"
method = "hello"
action_class = "data_lookup"
timeout_ms = 20000
input_schema = { type = "object", required = ["name"], properties = { name = { type = "string" } } }
"#;

/// Returns a plan of one step with arguments.
pub fn step(adapter_id: &str, tool: &str, method: &str, args: Value) -> Value {
    let mut plan = plan(adapter_id, tool, method);
    plan["plan_override"][0]["call"]["args"] = args;
    plan
}

/// Returns the same plan as a dry run.
pub fn dry(mut plan: Value) -> Value {
    plan["mode"] = json!("dry_run");
    plan
}

/// Runs a plan by a token, and returns the code of its step: `ok`, or that of the error.
pub fn code(daemon: &Daemon, token: &str, plan: &Value) -> String {
    let run = daemon.post("/v1/runs", plan).by(token).ok();
    step_code(&run)
}

/// Returns the code of the first step of a run.
pub fn step_code(run: &Value) -> String {
    let result = &run["results"][0];
    let code = if result["status"] == "ok" { &result["status"] } else { &result["error"]["code"] };
    code.as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}
