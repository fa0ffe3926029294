//! What befalls workers: recorded as it happens, and measured when somebody looks.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::app::App;
use crate::audit::Audit;
use crate::json::Object;
use crate::loader::IncidentKind;
use crate::metrics::WorkerGauges;
use crate::registry::Registry;

/// Records what befalls workers from now on.
pub(super) fn witness(app: &App, audit: &Audit) {
    let audit = audit.clone();
    app.watchman().tell(move |incident| {
        let kind = match incident.kind {
            IncidentKind::Crashed => "adapter.crashed",
            IncidentKind::Stuck => "adapter.stuck",
            IncidentKind::NotStarted => "adapter.not_started",
            IncidentKind::Quarantined => "adapter.quarantined",
            IncidentKind::Released => "adapter.released",
            IncidentKind::CircuitOpened => "adapter.circuit_opened",
            IncidentKind::CircuitClosed => "adapter.circuit_closed",
        };
        let mut payload = Object::new();
        payload.insert("adapter", incident.adapter_id.as_str());
        payload.insert("text", incident.text.as_str());
        if let Some(name) = &incident.by {
            payload.insert("name", name.as_str());
        }
        audit.record(kind, payload);
    });
}

/// Returns how the adapters do that have workers.
pub(super) fn gauges(registry: &Registry) -> Vec<WorkerGauges> {
    let of = registry.adapters().filter_map(|adapter| {
        let workers = adapter.workers()?;
        Some(WorkerGauges {
            adapter: adapter.adapter_id().to_owned(),
            workers: workers.processes.len() as u64,
            quarantined: workers.state == "quarantined",
        })
    });
    of.collect()
}

/// Returns how many errors of each adapter had codes that its interface contract does not list.
pub(super) fn undeclared_failures(registry: &Registry) -> Vec<(String, u64)> {
    let counted = registry.adapters().map(|adapter| {
        let operations = adapter.undeclared_failures();
        let errors = operations.values().flat_map(BTreeMap::values);
        (adapter.adapter_id().to_owned(), errors.fold(0, |sum, count| count.saturating_add(sum)))
    });
    counted.collect()
}

/// Returns whether the circuit of each adapter that has one is open or half-open.
pub(super) fn circuits(registry: &Registry) -> Vec<(String, bool)> {
    let now = Instant::now();
    let of = registry.adapters().filter_map(|adapter| {
        let is_open = adapter.breaker()?.status(now).state != "closed";
        Some((adapter.adapter_id().to_owned(), is_open))
    });
    of.collect()
}

/// Returns how many errors of each adapter had codes that it did not declare.
pub(super) fn undeclared_errors(registry: &Registry) -> Vec<(String, u64)> {
    let counted = registry.adapters().map(|adapter| {
        let errors = adapter.undeclared_codes().into_values().fold(0, u64::saturating_add);
        (adapter.adapter_id().to_owned(), errors)
    });
    counted.collect()
}
