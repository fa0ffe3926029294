//! Dry runs: every step is checked, people see the forecast, and `policy.simulate` calls adapters without effects.

mod confined;
mod forecast;

use serde_json::{Value, json};

/// Makes a dry run of a request, which calls adapters that declare `dry_run`.
fn simulated(mut request: Value) -> Value {
    request["mode"] = json!("dry_run");
    request["policy"] = json!({ "simulate": true });
    request
}

/// The output that the router itself gives for a call that it does not make.
fn as_today(adapter_id: &str, tool: &str, method: &str) -> Value {
    json!({ "simulated": true, "adapter_id": adapter_id, "tool": tool, "method": method })
}
