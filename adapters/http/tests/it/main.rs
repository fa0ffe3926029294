//! Calls the adapter against real servers on loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod canned;
mod ending;
mod golden;
mod hostile;
mod limits;
mod pool;
mod query;
mod redirects;
mod segments;

use nexus_router_adapter_http::{HttpAdapter, create_adapter};
use serde_json::{Value, json};

/// Makes an adapter for a base URL, with further configuration.
fn adapter(base_url: &str, mut config: Value) -> HttpAdapter {
    config["base_url"] = json!(base_url);
    create_adapter(None, serde_json::from_value(config).unwrap()).unwrap()
}
