//! Adapters in workers: the same results, and what becomes of a worker that fails.

mod calls;
mod own_calls;
mod wire;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nexus_router::loader::{Incident, Placement};
use nexus_router::{Adapter, LoadRequest, Loader};
use serde_json::json;

use crate::support::World;

const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

/// A loader that puts adapters into workers, and what befell them.
pub struct Shop {
    pub world: World,
    pub incidents: Arc<Mutex<Vec<Incident>>>,
}

impl Shop {
    pub fn new() -> Self {
        Self { world: World::new(), incidents: Arc::default() }
    }

    pub fn loader(&self, placement: Placement) -> Loader {
        let incidents = Arc::clone(&self.incidents);
        let sink = move |incident: &Incident| incidents.lock().unwrap().push(incident.clone());
        Loader { placement, incidents: Arc::new(sink), ..self.world.loader() }
    }

    pub fn load(&self, factory_ref: &str) -> Adapter {
        self.load_at(factory_ref, Placement::worker())
    }

    pub fn load_at(&self, factory_ref: &str, placement: Placement) -> Adapter {
        let config = json!({});
        let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
        self.loader(placement).load(&request).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn incidents(&self) -> Vec<Incident> {
        self.incidents.lock().unwrap().clone()
    }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within 20 seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn process_is_gone(id: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{id}")).exists()
}
