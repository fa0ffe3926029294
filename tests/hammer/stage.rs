//! Where it all happens: one directory, one file of traces, the same two adapters in every process.

use std::path::{Path, PathBuf};

use nexus_router::config::Environment;
use nexus_router::router::{Options, Router};
use nexus_router::store::Store;
use nexus_router::{LoadRequest, Loader, Registry};
use serde_json::{Value, json};

/// The adapter whose calls must be on record before they are made, and are made once.
pub const EXTERNAL: &str = "external";
const QUIET: &str = "quiet";

#[derive(Clone, Debug)]
pub struct Stage {
    pub directory: PathBuf,
}

impl Stage {
    pub fn traces(&self) -> PathBuf {
        self.directory.join("traces")
    }

    /// Loads the adapters; the quiet one is the default.
    pub fn registry(&self) -> Registry {
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let environment = Environment {
            adapter_path: vec![built],
            cache_dir: self.directory.join("cache"),
            helper: Some(env!("CARGO_BIN_EXE_nexus-router").into()),
            ..Environment::default()
        };
        let loader = Loader::from_environment(&environment);
        let responses = json!([
            answers("slow", &json!({ "sleep_ms": 3 })),
            // Long enough that the run becomes visible to others while it waits.
            answers("lazy", &json!({ "sleep_ms": 70 })),
            answers(
                "bad",
                &json!({ "operational_error": { "error_code": "TOOL_ERROR", "message": "no" } })
            ),
            answers(
                "bug",
                &json!({ "bug_error": { "error_code": "ADAPTER_BUG", "message": "no" } })
            ),
        ]);
        let external = json!({ "capabilities": ["apply", "external"], "responses": responses,
            "traces": self.traces() });
        let quiet = json!({ "responses": responses });
        let mut registry = Registry::new(QUIET);
        for (adapter_id, config) in [(QUIET, quiet), (EXTERNAL, external)] {
            let request = LoadRequest {
                factory_ref: "probe_adapters:fake",
                adapter_id: Some(adapter_id),
                config: &config,
                pin: None,
            };
            registry.register(loader.load(&request).unwrap()).unwrap();
        }
        registry
    }
}

/// Opens a store and puts a router before it.
pub fn router(store: &Path, registry: Registry) -> Router {
    let store = Store::open(store).unwrap();
    let options = Options { threads: Some(2), ..Options::default() };
    Router::new(store, registry, options).unwrap()
}

fn answers(method: &str, behaviour: &Value) -> Value {
    json!({ "tool": "t", "method": method, "behaviour": behaviour })
}
