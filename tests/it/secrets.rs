//! Secrets in arguments: they resolve only in the calls that the operator bound them to, on every path.

mod binding;
mod lasting;
mod paths;

use serde_json::{Value, json};

use crate::daemon::support::{Daemon, Stage};

/// The value of `BOUND`.
pub const BOUND: &str = "bound-value-7391";
/// The value of `PLAIN`, which only the configuration may use.
pub const PLAIN: &str = "plain-value-1846";

/// Two adapters that echo, with tools for the same operations, and a secret that is bound to one of them.
pub const ADAPTERS: &str = r#"
default_adapter = "shop"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
id = "shop"
[[adapters]]
ref = "nexus_router_adapter_echo:create_adapter"
id = "other"
[[tools]]
name = "order"
description = "Orders."
adapter = "shop"
tool = "orders"
method = "buy"
input_schema = { type = "object", properties = { key = { type = "string", maxLength = 40 } } }
[[tools]]
name = "strict"
description = "Orders with a short key."
adapter = "shop"
tool = "strict"
method = "buy"
input_schema = { type = "object", properties = { key = { type = "string", maxLength = 7, pattern = "^x" } } }
[[tools]]
name = "refund"
description = "Refunds."
adapter = "shop"
tool = "refunds"
method = "buy"
[[tools]]
name = "leak"
description = "Another adapter."
adapter = "other"
tool = "orders"
method = "buy"
"#;

/// The secrets: one for the configuration, one that is bound.
pub fn secrets(binding: &str) -> String {
    format!(
        "[secrets]\nPLAIN = \"file:plain.txt\"\n[secrets.BOUND]\nfrom = \"file:bound.txt\"\n{binding}\n"
    )
}

/// The binding of most tests.
pub const BINDING: &str = "adapters = [\"SHOP\"]\ntools = [\"Orders\", \"str*\"]\ntokens = [\"apply\", \"run\", \"local\"]";

pub fn stage(config: &str) -> Stage {
    let stage = Stage::new(config);
    std::fs::write(stage.path("plain.txt"), PLAIN).unwrap();
    std::fs::write(stage.path("bound.txt"), BOUND).unwrap();
    stage
}

pub fn daemon(binding: &str) -> Daemon {
    stage(&format!("{ADAPTERS}{}", secrets(binding))).start(&[])
}

/// A request for one call with a reference to a secret.
pub fn refers(adapter_id: &str, tool: &str, secret: &str) -> Value {
    let mut plan = crate::daemon::support::plan(adapter_id, tool, "buy");
    plan["plan_override"][0]["call"]["args"] = json!({ "key": { "$secret": secret } });
    plan
}

/// Asserts that nothing that the daemon keeps or logs has a secret.
pub fn assert_kept_secret(daemon: &Daemon) {
    let mut kept = daemon.stderr() + &daemon.stdout();
    for file in ["data/runs.db", "data/runs.db-wal"] {
        let bytes = std::fs::read(daemon.stage.path(file)).unwrap_or_default();
        kept += &String::from_utf8_lossy(&bytes);
    }
    assert!(kept.contains("orders") && !kept.contains(BOUND) && !kept.contains(PLAIN));
}
