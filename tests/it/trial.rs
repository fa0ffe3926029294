//! The trial of a library before it is loaded: what it finds, what it prevents, and what is remembered of it.

mod agreement;
mod checks;
mod effects;
mod memory;
mod pins;

use nexus_router::loader::{LoadRequest, Placement};
use nexus_router::{Adapter, AdapterLoadError, Loader};
use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::support::{Run, World};

/// The ref of the library that a test writes.
const MIMIC: &str = "mimic:create_adapter";

/// A place for one library, and the hosts that load it.
struct TrialWorld {
    world: World,
}

impl TrialWorld {
    /// Makes a place with a library, and a file that nobody may touch.
    fn new(mimic: &Mimic) -> Self {
        let made = Self { world: World::new() };
        std::fs::write(made.victim(), "untouched").unwrap();
        made.write(mimic);
        made
    }

    fn write(&self, mimic: &Mimic) {
        mimic.write(&self.world.path("libmimic.so"));
    }

    fn victim(&self) -> String {
        self.world.path("victim").to_str().unwrap().to_owned()
    }

    fn loader(&self, placement: Placement) -> Loader {
        Loader { placement, ..self.world.loader() }
    }

    fn load(&self, placement: Placement) -> Result<Adapter, AdapterLoadError> {
        load(&self.loader(placement))
    }

    /// Validates the library with the program.
    fn validate(&self, options: &[&str]) -> Run {
        let file = self.world.path("libmimic.so");
        let factory_ref = format!("{}:create_adapter", file.display());
        let arguments = ["adapter", "validate", &factory_ref, "--format", "json"];
        self.world.run(&[&arguments[..], options].concat())
    }

    /// Asserts that the file is as it was, and that nothing is beside it.
    fn assert_untouched(&self, after: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::read_to_string(self.victim()).unwrap(), "untouched", "{after}");
        let mode = std::fs::metadata(self.victim()).unwrap().permissions().mode();
        assert_ne!(mode & 0o777, 0o777, "{after}");
        assert!(!self.world.path("victim.other").exists(), "{after}");
    }
}

fn load(loader: &Loader) -> Result<Adapter, AdapterLoadError> {
    let config = json!({});
    loader.load(&request(&config))
}

fn request(config: &Value) -> LoadRequest<'_> {
    LoadRequest { factory_ref: MIMIC, adapter_id: None, config, pin: None }
}

/// Returns status and message of a check in a report.
fn check<'a>(report: &'a Value, id: &str) -> (&'a str, &'a str) {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id);
    let check = check.unwrap_or_else(|| panic!("{id} is not in {report:#}"));
    (check["status"].as_str().unwrap(), check["message"].as_str().unwrap())
}
