//! What is counted elsewhere, and set at the moment of a scrape.

use prometheus_client::encoding::EncodeGaugeValue;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::adapter::AdapterLabel;
use super::table::meaning;
use super::{MAX_ADAPTERS, OTHER};

/// The state of the daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Runs that are carried out.
    pub runs_in_flight: u64,
    /// How many there may be.
    pub runs_limit: u64,
    /// Approvals that runs wait for.
    pub approvals_open: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Event streams that are open.
    pub streams: u64,
    /// Bytes that requests and answers reserve in the memory budget.
    pub memory_reserved: u64,
    /// The memory budget in bytes.
    pub memory_limit: u64,
    /// Sessions of MCP clients that are open.
    pub mcp_sessions: u64,
    /// Adapters that are loaded.
    pub adapters: u64,
    /// Adapters that are being loaded.
    pub adapters_loading: u64,
    /// Adapters that failed to load.
    pub adapters_failed: u64,
    /// How the adapters do that have workers.
    pub of_workers: Vec<WorkerGauges>,
    /// Errors of each adapter whose codes it did not declare.
    pub undeclared_errors: Vec<(String, u64)>,
    /// Errors of each adapter whose codes its interface contract does not list.
    pub undeclared_failures: Vec<(String, u64)>,
    /// Whether the circuit of each adapter is open or half-open.
    pub circuits: Vec<(String, bool)>,
    /// Whether runs are accepted.
    pub ready: bool,
    /// Whether the daemon finishes its runs and stops.
    pub draining: bool,
    /// Whether a file of the store was moved, removed or replaced.
    pub store_displaced: bool,
    /// Memory of the process that is in RAM.
    pub resident_bytes: u64,
    /// File descriptors that are open.
    pub open_files: u64,
    /// When the daemon was started, in seconds since 1970.
    pub started_at: f64,
    /// The version of the program.
    pub version: String,
}

/// The workers of an adapter at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerGauges {
    /// The adapter.
    pub adapter: String,
    /// Processes that serve.
    pub workers: u64,
    /// Whether it is in quarantine.
    pub quarantined: bool,
}

impl Gauges {
    /// Makes a registry of its own for one scrape, so that two scrapes at once do not mix.
    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        add(&mut registry, "nexus_router_runs_in_flight", None, self.runs_in_flight);
        add(&mut registry, "nexus_router_runs_limit", None, self.runs_limit);
        add(&mut registry, "nexus_router_approvals_open", None, self.approvals_open);
        add(&mut registry, "nexus_router_connections", None, self.connections);
        add(&mut registry, "nexus_router_streams", None, self.streams);
        add(&mut registry, "nexus_router_memory_reserved_bytes", None, self.memory_reserved);
        add(&mut registry, "nexus_router_memory_limit_bytes", None, self.memory_limit);
        add(&mut registry, "nexus_router_mcp_sessions", None, self.mcp_sessions);
        add(&mut registry, "nexus_router_adapters", None, self.adapters);
        add(&mut registry, "nexus_router_adapters_loading", None, self.adapters_loading);
        add(&mut registry, "nexus_router_adapters_failed", None, self.adapters_failed);
        self.add_workers(&mut registry);
        add(&mut registry, "nexus_router_ready", None, u64::from(self.ready));
        add(&mut registry, "nexus_router_draining", None, u64::from(self.draining));
        let displaced = u64::from(self.store_displaced);
        add(&mut registry, "nexus_router_store_displaced", None, displaced);
        let (bytes, seconds) = (Some(Unit::Bytes), Some(Unit::Seconds));
        add(&mut registry, "nexus_router_resident_memory_bytes", bytes, self.resident_bytes);
        add(&mut registry, "nexus_router_open_files", None, self.open_files);
        add(&mut registry, "nexus_router_start_time_seconds", seconds, self.started_at);
        let version = Info::new(vec![("version", self.version.clone())]);
        // The type appends `_info`.
        registry.register("nexus_router_build", meaning("nexus_router_build_info"), version);
        registry
    }

    fn add_workers(&self, registry: &mut Registry) {
        let (workers, quarantined, undeclared) =
            (Family::default(), Family::default(), Family::default());
        let (failures, circuits) = (Family::default(), Family::default());
        let count =
            |family: &Family<AdapterLabel, Gauge>, (index, name): (usize, &str), number: u64| {
                let name = if index < MAX_ADAPTERS { name } else { OTHER };
                let gauge = family.get_or_create_owned(&AdapterLabel { adapter: name.into() });
                gauge.inc_by(i64::try_from(number).unwrap_or(i64::MAX));
            };
        for (index, one) in self.of_workers.iter().enumerate() {
            let name = one.adapter.as_str();
            count(&workers, (index, name), one.workers);
            count(&quarantined, (index, name), one.quarantined.into());
        }
        for (index, (name, errors)) in self.undeclared_errors.iter().enumerate() {
            count(&undeclared, (index, name), *errors);
        }
        for (index, (name, errors)) in self.undeclared_failures.iter().enumerate() {
            count(&failures, (index, name), *errors);
        }
        for (index, (name, is_open)) in self.circuits.iter().enumerate() {
            count(&circuits, (index, name), u64::from(*is_open));
        }
        for (name, family) in [
            ("nexus_router_adapter_workers", workers),
            ("nexus_router_adapter_quarantined", quarantined),
            ("nexus_router_adapter_undeclared_errors", undeclared),
            ("nexus_router_adapter_undeclared_failures", failures),
            ("nexus_router_adapter_circuit_open", circuits),
        ] {
            registry.register(name, meaning(name), family);
        }
    }
}

fn add<N>(registry: &mut Registry, name: &str, unit: Option<Unit>, value: N)
where
    N: EncodeGaugeValue + std::fmt::Debug + Send + Sync + 'static,
{
    let gauge = ConstGauge::new(value);
    match unit {
        None => registry.register(name, meaning(name), gauge),
        Some(unit) => {
            // The unit is appended to the name.
            let stem = name.trim_end_matches(unit.as_str()).trim_end_matches('_').to_owned();
            registry.register_with_unit(stem, meaning(name), unit, gauge);
        }
    }
}
