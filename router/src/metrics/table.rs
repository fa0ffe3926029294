//! Every metric with its type, its labels and its meaning: what is rendered, and what is documented.

/// A row of the table of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name under which it is asked for. A histogram has `_bucket`, `_sum` and `_count` besides.
    pub name: &'static str,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// The labels, in order.
    pub labels: &'static [&'static str],
    /// What it says.
    pub meaning: &'static str,
}

const fn row(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric { name, kind, labels, meaning }
}

/// Every metric, in the order in which they are rendered. Names are added, never renamed.
pub const METRICS: &[Metric] = &[
    row(
        "nexus_router_run_duration_seconds",
        "histogram",
        &["mode", "status"],
        "The time from the acceptance of a run to its durable end",
    ),
    row(
        "nexus_router_step_duration_seconds",
        "histogram",
        &["adapter", "outcome"],
        "The time of a step, by what came of it: ok, operational, bug, denied or simulated",
    ),
    row(
        "nexus_router_call_wait_seconds",
        "histogram",
        &["adapter"],
        "The time that calls waited for their turn before they were made",
    ),
    row(
        "nexus_router_calls_waiting",
        "gauge",
        &["adapter"],
        "Calls that wait for their turn at an adapter",
    ),
    row(
        "nexus_router_calls_in_flight",
        "gauge",
        &["adapter"],
        "Calls that an adapter is carrying out",
    ),
    row(
        "nexus_router_adapter_incidents_total",
        "counter",
        &["adapter", "kind"],
        "Incidents of an adapter: crashed, stuck, not_started, quarantined, released, circuit_opened or circuit_closed",
    ),
    row(
        "nexus_router_call_retries_total",
        "counter",
        &["adapter"],
        "Further attempts at calls that failed, as the interface contract of the adapter allows",
    ),
    row(
        "nexus_router_store_commit_duration_seconds",
        "histogram",
        &[],
        "The time of a commit that was made, with its wait for the disk",
    ),
    row(
        "nexus_router_store_appends_total",
        "counter",
        &[],
        "Appends of events that were committed; many share one commit",
    ),
    row(
        "nexus_router_store_written_bytes_total",
        "counter",
        &[],
        "Bytes of events that were committed",
    ),
    row(
        "nexus_router_store_commit_failures_total",
        "counter",
        &[],
        "Commits that the disk or the store refused",
    ),
    row(
        "nexus_router_seals_total",
        "counter",
        &[],
        "Runs, executions, verifications and rejections that were sealed",
    ),
    row(
        "nexus_router_seal_failures_total",
        "counter",
        &[],
        "Attempts to seal that failed: the log, the keys or the disk refused",
    ),
    row(
        "nexus_router_refused_total",
        "counter",
        &["reason"],
        "Requests, and calls inside of runs, that were refused, by reason",
    ),
    row(
        "nexus_router_http_requests_total",
        "counter",
        &["route", "method", "status"],
        "Requests over HTTP, by route, method and status; 499 if the client left before the answer",
    ),
    row(
        "nexus_router_http_request_duration_seconds",
        "histogram",
        &["route", "method"],
        "The time from a request over HTTP to the head of its answer",
    ),
    row(
        "nexus_router_config_reloads_total",
        "counter",
        &["result"],
        "Attempts to read the configuration again, by result",
    ),
    row(
        "nexus_router_approvals_decided_total",
        "counter",
        &["decision"],
        "Approvals that were decided: approved, denied, expired, or void because their run ended",
    ),
    row("nexus_router_runs_in_flight", "gauge", &[], "Runs that are carried out now"),
    row("nexus_router_runs_limit", "gauge", &[], "How many runs may be carried out at a time"),
    row("nexus_router_approvals_open", "gauge", &[], "Approvals that runs wait for"),
    row("nexus_router_connections", "gauge", &[], "Connections that are open now"),
    row("nexus_router_streams", "gauge", &[], "Event streams that are open now"),
    row(
        "nexus_router_memory_reserved_bytes",
        "gauge",
        &[],
        "Bytes that requests and answers reserve in the memory budget",
    ),
    row("nexus_router_memory_limit_bytes", "gauge", &[], "The memory budget"),
    row("nexus_router_mcp_sessions", "gauge", &[], "Sessions of MCP clients that are open now"),
    row("nexus_router_adapters", "gauge", &[], "Adapters that are loaded"),
    row("nexus_router_adapters_loading", "gauge", &[], "Adapters that are being loaded"),
    row("nexus_router_adapters_failed", "gauge", &[], "Adapters that failed to load"),
    row(
        "nexus_router_adapter_workers",
        "gauge",
        &["adapter"],
        "Processes that serve an adapter; those that run in the router have none",
    ),
    row(
        "nexus_router_adapter_quarantined",
        "gauge",
        &["adapter"],
        "1 if no worker of an adapter is started after too many crashes, else 0",
    ),
    row(
        "nexus_router_adapter_undeclared_errors",
        "gauge",
        &["adapter"],
        "Errors that an adapter returned since it was loaded, with codes that its manifest does not list",
    ),
    row(
        "nexus_router_adapter_undeclared_failures",
        "gauge",
        &["adapter"],
        "Errors that an adapter returned since it was loaded, with codes that its interface contract does not list for the operation",
    ),
    row(
        "nexus_router_adapter_circuit_open",
        "gauge",
        &["adapter"],
        "1 while the circuit breaker of an adapter is open or half-open, else 0",
    ),
    row("nexus_router_ready", "gauge", &[], "1 if runs are accepted, else 0"),
    row(
        "nexus_router_draining",
        "gauge",
        &[],
        "1 if the daemon finishes its runs and stops, else 0",
    ),
    row(
        "nexus_router_store_displaced",
        "gauge",
        &[],
        "1 if a file of the store was moved, removed or replaced and runs are refused, else 0",
    ),
    row("nexus_router_resident_memory_bytes", "gauge", &[], "Memory of the process that is in RAM"),
    row("nexus_router_open_files", "gauge", &[], "File descriptors that are open"),
    row("nexus_router_start_time_seconds", "gauge", &[], "When the daemon was started, since 1970"),
    row("nexus_router_build_info", "info", &["version"], "The version of the program"),
];

/// Returns the meaning of a metric.
pub(super) fn meaning(name: &str) -> &'static str {
    METRICS.iter().find(|metric| metric.name == name).map_or("", |metric| metric.meaning)
}
