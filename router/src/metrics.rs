//! What is counted and timed, and its text for those who scrape it.
//!
//! Whatever becomes a label is bounded: adapters beyond [`MAX_ADAPTERS`] and names that are not known are
//! counted under `_other`.

mod adapter;
mod gauges;
mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use adapter::{Families, Handles};
use table::meaning;

pub use adapter::{CallInFlight, CallWaits};
pub use gauges::{Gauges, WorkerGauges};
pub use table::{METRICS, Metric};

/// The content type of [`Metrics::render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// So many adapters have metrics of their own.
pub const MAX_ADAPTERS: usize = 256;

/// The label of whatever is beyond the bounds.
const OTHER: &str = "_other";

const MODES: [&str; 2] = ["dry_run", "apply"];
const DECISIONS: [&str; 4] = ["approved", "denied", "expired", "void"];
const STATUSES: [&str; 3] = ["COMPLETED", "FAILED", "RUNNING"];

/// From a call inside the process to one that a person waits for, in seconds.
const BUCKETS: [f64; 19] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

fn times<L: Clone + std::hash::Hash + Eq>() -> Times<L> {
    Family::new_with_constructor(histogram)
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RunLabels {
    mode: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
    method: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabel {
    decision: &'static str,
}

/// Counters and timers. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Metrics(Arc<Shared>);

struct Shared {
    registry: Registry,
    runs: Times<RunLabels>,
    families: Families,
    /// The adapters that have metrics of their own, and those of all others.
    adapters: RwLock<HashMap<Arc<str>, Arc<Handles>>>,
    others: OnceLock<Arc<Handles>>,
    commits: Histogram,
    appends: Counter,
    written: Counter,
    failures: Counter,
    seals: Counter,
    seal_failures: Counter,
    refused: Family<ReasonLabel, Counter>,
    answers: Family<AnswerLabels, Counter>,
    requests: Times<RouteLabels>,
    reloads: Family<ResultLabel, Counter>,
    decisions: Family<DecisionLabel, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut shared = Shared {
            registry: Registry::default(),
            runs: times(),
            families: Families::new(),
            adapters: RwLock::default(),
            others: OnceLock::new(),
            commits: histogram(),
            appends: Counter::default(),
            written: Counter::default(),
            failures: Counter::default(),
            seals: Counter::default(),
            seal_failures: Counter::default(),
            refused: Family::default(),
            answers: Family::default(),
            requests: times(),
            reloads: Family::default(),
            decisions: Family::default(),
        };
        // There from the beginning, so that a rate can be asked for before the first decision.
        for decision in DECISIONS {
            drop(shared.decisions.get_or_create(&DecisionLabel { decision }));
        }
        shared.register();
        Self(Arc::new(shared))
    }
}

impl Shared {
    /// Registers everything, in the order of the table.
    fn register(&mut self) {
        let registry = &mut self.registry;
        add(registry, "nexus_router_run_duration_seconds", self.runs.clone());
        add(registry, "nexus_router_step_duration_seconds", self.families.steps.clone());
        add(registry, "nexus_router_call_wait_seconds", self.families.waits.clone());
        add(registry, "nexus_router_calls_waiting", self.families.waiting.clone());
        add(registry, "nexus_router_calls_in_flight", self.families.in_flight.clone());
        add(registry, "nexus_router_adapter_incidents_total", self.families.incidents.clone());
        add(registry, "nexus_router_call_retries_total", self.families.retries.clone());
        add(registry, "nexus_router_store_commit_duration_seconds", self.commits.clone());
        add(registry, "nexus_router_store_appends_total", self.appends.clone());
        add(registry, "nexus_router_store_written_bytes_total", self.written.clone());
        add(registry, "nexus_router_store_commit_failures_total", self.failures.clone());
        add(registry, "nexus_router_seals_total", self.seals.clone());
        add(registry, "nexus_router_seal_failures_total", self.seal_failures.clone());
        add(registry, "nexus_router_refused_total", self.refused.clone());
        add(registry, "nexus_router_http_requests_total", self.answers.clone());
        add(registry, "nexus_router_http_request_duration_seconds", self.requests.clone());
        add(registry, "nexus_router_config_reloads_total", self.reloads.clone());
        add(registry, "nexus_router_approvals_decided_total", self.decisions.clone());
    }

    fn handles(&self, adapter: &str) -> Arc<Handles> {
        let adapters = self.adapters.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handles) = adapters.get(adapter) {
            return Arc::clone(handles);
        }
        drop(adapters);
        let mut adapters = self.adapters.write().unwrap_or_else(PoisonError::into_inner);
        if adapters.len() >= MAX_ADAPTERS && !adapters.contains_key(adapter) {
            let make = || Arc::new(Handles::new(OTHER.into(), &self.families));
            return Arc::clone(self.others.get_or_init(make));
        }
        let name: Arc<str> = adapter.into();
        let make = || Arc::new(Handles::new(Arc::clone(&name), &self.families));
        Arc::clone(adapters.entry(Arc::clone(&name)).or_insert_with(make))
    }
}

/// Registers a metric under its name in the table. The format appends units and `_total` itself.
fn add(registry: &mut Registry, name: &str, metric: impl prometheus_client::registry::Metric) {
    let stem = name.trim_end_matches("_total");
    for unit in [Unit::Seconds, Unit::Bytes] {
        if let Some(stem) = stem.strip_suffix(unit.as_str()) {
            let stem = stem.trim_end_matches('_').to_owned();
            return registry.register_with_unit(stem, meaning(name), unit, metric);
        }
    }
    registry.register(stem, meaning(name), metric);
}

fn known(text: &str, names: &[&'static str]) -> &'static str {
    names.iter().find(|name| **name == text).copied().unwrap_or(OTHER)
}

impl Metrics {
    /// Counts a run that ended.
    pub fn run_ended(&self, mode: &str, status: &str, time: Duration) {
        let labels = RunLabels { mode: known(mode, &MODES), status: known(status, &STATUSES) };
        self.0.runs.get_or_create(&labels).observe(time.as_secs_f64());
    }

    /// Counts a step that ended: `ok`, `operational`, `bug`, `denied` or `simulated`.
    pub fn step_ended(&self, adapter: &str, outcome: &str, time: Duration) {
        self.0.handles(adapter).step_ended(outcome, time);
    }

    /// Counts a call that waits for its turn, until it begins or is given up.
    pub fn call_waits(&self, adapter: &str) -> CallWaits {
        CallWaits::new(self.0.handles(adapter))
    }

    /// Counts a call that is made without waiting.
    pub fn call_begins(&self, adapter: &str) -> CallInFlight {
        CallInFlight::new(self.0.handles(adapter))
    }

    /// Counts an incident of an adapter: `crashed`, `stuck`, `not_started`, `quarantined`, `released`, `circuit_opened` or
    /// `circuit_closed`.
    pub fn incident(&self, adapter: &str, kind: &str) {
        self.0.handles(adapter).incident(kind);
    }

    /// Counts a further attempt at a call that failed.
    pub fn call_retried(&self, adapter: &str) {
        self.0.handles(adapter).retried();
    }

    /// Counts a commit.
    pub fn commit(&self, appends: u64, bytes: u64, time: Duration) {
        self.0.commits.observe(time.as_secs_f64());
        self.0.appends.inc_by(appends);
        self.0.written.inc_by(bytes);
    }

    /// Counts a commit that could not be made.
    pub fn commit_failed(&self) {
        self.0.failures.inc();
    }

    /// Counts things that were sealed.
    pub fn seals(&self, count: u64) {
        self.0.seals.inc_by(count);
    }

    /// Counts an attempt to seal that failed.
    pub fn seals_failed(&self) {
        self.0.seal_failures.inc();
    }

    /// Counts a request that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.0.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts an answer over HTTP.
    pub fn request(&self, route: &'static str, method: &'static str, status: u16, time: Duration) {
        self.0.answers.get_or_create(&AnswerLabels { route, method, status }).inc();
        self.0.requests.get_or_create(&RouteLabels { route, method }).observe(time.as_secs_f64());
    }

    /// Counts an attempt to read the configuration again.
    pub fn reload(&self, result: &'static str) {
        self.0.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts an approval that was decided: `approved`, `denied`, `expired` or `void`.
    pub fn approval_decided(&self, decision: &str) {
        let decision = known(decision, &DECISIONS);
        self.0.decisions.get_or_create(&DecisionLabel { decision }).inc();
    }

    /// Forgets an adapter that is no longer there, and makes room for another.
    pub fn forget_adapter(&self, adapter: &str) {
        let mut adapters = self.0.adapters.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, _)) = adapters.remove_entry(adapter) {
            self.0.families.forget(&name);
        }
    }

    /// Returns everything as text of the OpenMetrics format, of content type [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self, gauges: &Gauges) -> String {
        let mut text = String::new();
        let written = text::encode_registry(&mut text, &self.0.registry)
            .and_then(|()| text::encode_registry(&mut text, &gauges.registry()))
            .and_then(|()| text::encode_eof(&mut text));
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn sample(text: &str, series: &str) -> Option<f64> {
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().unwrap())
    }

    fn one_of_each() -> Metrics {
        let metrics = Metrics::default();
        let time = Duration::from_millis(3);
        metrics.run_ended("apply", "COMPLETED", time);
        metrics.step_ended("echo", "ok", time);
        drop(metrics.call_waits("echo").begins());
        metrics.incident("echo", "crashed");
        metrics.call_retried("echo");
        metrics.commit(3, 400, time);
        metrics.commit_failed();
        metrics.refused("overloaded");
        metrics.request("/v1/runs", "POST", 200, time);
        metrics.reload("ok");
        metrics
    }

    #[test]
    fn what_is_rendered_is_what_the_table_says() {
        let echo = WorkerGauges { adapter: "echo".to_owned(), workers: 1, quarantined: false };
        let gauges = Gauges {
            version: "1.2.3".to_owned(),
            of_workers: vec![echo],
            undeclared_errors: vec![("echo".to_owned(), 2)],
            undeclared_failures: vec![("echo".to_owned(), 1)],
            circuits: vec![("echo".to_owned(), true)],
            ..Gauges::default()
        };
        let text = one_of_each().render(&gauges);
        let mut found = Vec::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            found.push((format!("{name}{suffix}"), kind.to_owned()));
        }
        let listed: Vec<_> =
            METRICS.iter().map(|row| (row.name.to_owned(), row.kind.to_owned())).collect();
        assert_eq!(found, listed);
        assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len());
        for row in METRICS {
            assert!(row.name.starts_with("nexus_router_"), "{}", row.name);
            assert!(text.contains(&format!(" {}.\n", row.meaning)), "{}", row.name);
            let count = if row.kind == "histogram" { "_count" } else { "" };
            let series = text
                .lines()
                .find(|line| {
                    let rest =
                        line.strip_prefix(row.name).and_then(|rest| rest.strip_prefix(count));
                    rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                })
                .unwrap_or_else(|| panic!("{} has no sample", row.name));
            let labels =
                series.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap());
            let names: Vec<&str> =
                labels.split(',').filter_map(|l| Some(l.split_once('=')?.0)).collect();
            assert_eq!(names, row.labels, "{}", row.name);
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# UNIT nexus_router_run_duration_seconds seconds\n"));
        assert!(text.contains("# UNIT nexus_router_resident_memory_bytes bytes\n"));
    }

    #[test]
    fn calls_are_counted_as_long_as_they_last() {
        let metrics = Metrics::default();
        let text = |metrics: &Metrics| metrics.render(&Gauges::default());
        let (waits, given_up) = (metrics.call_waits("a"), metrics.call_waits("a"));
        assert_eq!(sample(&text(&metrics), "nexus_router_calls_waiting{adapter=\"a\"}"), Some(2.0));
        let made = waits.begins();
        drop(given_up);
        assert_eq!(sample(&text(&metrics), "nexus_router_calls_waiting{adapter=\"a\"}"), Some(0.0));
        assert_eq!(
            sample(&text(&metrics), "nexus_router_calls_in_flight{adapter=\"a\"}"),
            Some(1.0)
        );
        drop(made);
        assert_eq!(
            sample(&text(&metrics), "nexus_router_calls_in_flight{adapter=\"a\"}"),
            Some(0.0)
        );
        assert_eq!(
            sample(&text(&metrics), "nexus_router_call_wait_seconds_count{adapter=\"a\"}"),
            Some(1.0)
        );
    }

    #[test]
    fn labels_are_bounded_and_a_forgotten_adapter_makes_room() {
        let metrics = Metrics::default();
        let count = |metrics: &Metrics, name: &str| {
            let text = metrics.render(&Gauges::default());
            sample(
                &text,
                &format!(
                    "nexus_router_step_duration_seconds_count{{adapter=\"{name}\",outcome=\"ok\"}}"
                ),
            )
        };
        for number in 0..MAX_ADAPTERS + 10 {
            metrics.step_ended(&format!("a{number}"), "ok", Duration::ZERO);
        }
        assert_eq!(count(&metrics, "a0"), Some(1.0));
        assert_eq!(count(&metrics, &format!("a{MAX_ADAPTERS}")), None);
        assert_eq!(count(&metrics, OTHER), Some(10.0));
        metrics.forget_adapter("a0");
        assert_eq!(count(&metrics, "a0"), None);
        metrics.step_ended("new", "ok", Duration::ZERO);
        assert_eq!(count(&metrics, "new"), Some(1.0));
        metrics.step_ended("new", "surprise", Duration::ZERO);
        metrics.run_ended("odd", "ODD", Duration::ZERO);
        let text = metrics.render(&Gauges::default());
        assert!(!text.contains("surprise") && !text.contains("ODD"));
        assert!(text.contains(
            "nexus_router_run_duration_seconds_count{mode=\"_other\",status=\"_other\"} 1"
        ));
    }

    #[test]
    fn text_of_others_makes_no_lines() {
        let metrics = Metrics::default();
        metrics.step_ended("x\"} 1\nforged 1", "ok", Duration::ZERO);
        let text = metrics.render(&Gauges::default());
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }
}
