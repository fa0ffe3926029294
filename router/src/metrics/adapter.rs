//! The metrics of one adapter, with handles that are kept, so that counting costs no allocation.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{OTHER, Times};

/// What can come of a step.
pub(super) const OUTCOMES: [&str; 5] = ["ok", "operational", "bug", "denied", "simulated"];

/// What can befall workers.
pub(super) const INCIDENTS: [&str; 7] = [
    "crashed",
    "stuck",
    "not_started",
    "quarantined",
    "released",
    "circuit_opened",
    "circuit_closed",
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct AdapterLabel {
    pub(super) adapter: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct IncidentLabels {
    adapter: Arc<str>,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct StepLabels {
    adapter: Arc<str>,
    outcome: &'static str,
}

/// The metrics that have an adapter as label.
#[derive(Clone, Debug)]
pub(super) struct Families {
    pub(super) steps: Times<StepLabels>,
    pub(super) waits: Times<AdapterLabel>,
    pub(super) waiting: Family<AdapterLabel, Gauge>,
    pub(super) in_flight: Family<AdapterLabel, Gauge>,
    pub(super) incidents: Family<IncidentLabels, Counter>,
    pub(super) retries: Family<AdapterLabel, Counter>,
}

impl Families {
    pub(super) fn new() -> Self {
        Self {
            steps: super::times(),
            waits: super::times(),
            waiting: Family::default(),
            in_flight: Family::default(),
            incidents: Family::default(),
            retries: Family::default(),
        }
    }

    /// Removes what is known of an adapter.
    pub(super) fn forget(&self, adapter: &Arc<str>) {
        for outcome in OUTCOMES.into_iter().chain([OTHER]) {
            self.steps.remove(&StepLabels { adapter: Arc::clone(adapter), outcome });
        }
        for kind in INCIDENTS.into_iter().chain([OTHER]) {
            self.incidents.remove(&IncidentLabels { adapter: Arc::clone(adapter), kind });
        }
        let label = AdapterLabel { adapter: Arc::clone(adapter) };
        self.waits.remove(&label);
        self.waiting.remove(&label);
        self.in_flight.remove(&label);
        self.retries.remove(&label);
    }
}

/// The handles of one adapter. Histograms come into being with their first value.
#[derive(Debug)]
pub(super) struct Handles {
    adapter: Arc<str>,
    families: Families,
    steps: [OnceLock<Histogram>; OUTCOMES.len() + 1],
    waits: OnceLock<Histogram>,
    waiting: Gauge,
    in_flight: Gauge,
    retries: Counter,
}

impl Handles {
    pub(super) fn new(adapter: Arc<str>, families: &Families) -> Self {
        let label = AdapterLabel { adapter: Arc::clone(&adapter) };
        Self {
            adapter,
            families: families.clone(),
            steps: Default::default(),
            waits: OnceLock::new(),
            waiting: families.waiting.get_or_create_owned(&label),
            in_flight: families.in_flight.get_or_create_owned(&label),
            retries: families.retries.get_or_create_owned(&label),
        }
    }

    pub(super) fn step_ended(&self, outcome: &str, time: Duration) {
        let index = OUTCOMES.iter().position(|known| *known == outcome).unwrap_or(OUTCOMES.len());
        let histogram = self.steps[index].get_or_init(|| {
            let outcome = OUTCOMES.get(index).copied().unwrap_or(OTHER);
            let labels = StepLabels { adapter: Arc::clone(&self.adapter), outcome };
            self.families.steps.get_or_create_owned(&labels)
        });
        histogram.observe(time.as_secs_f64());
    }

    pub(super) fn incident(&self, kind: &str) {
        let kind = super::known(kind, &INCIDENTS);
        let labels = IncidentLabels { adapter: Arc::clone(&self.adapter), kind };
        self.families.incidents.get_or_create(&labels).inc();
    }

    pub(super) fn retried(&self) {
        self.retries.inc();
    }

    fn waited(&self, time: Duration) {
        let histogram = self.waits.get_or_init(|| {
            let label = AdapterLabel { adapter: Arc::clone(&self.adapter) };
            self.families.waits.get_or_create_owned(&label)
        });
        histogram.observe(time.as_secs_f64());
    }
}

/// A call that waits for its turn, counted as long as this is there.
#[derive(Debug)]
#[must_use = "the call is counted as waiting only as long as this is there"]
pub struct CallWaits {
    handles: Arc<Handles>,
    since: Instant,
}

impl CallWaits {
    pub(super) fn new(handles: Arc<Handles>) -> Self {
        handles.waiting.inc();
        Self { handles, since: Instant::now() }
    }

    /// Counts the call as made from now on, and the time that it waited.
    pub fn begins(self) -> CallInFlight {
        self.handles.waited(self.since.elapsed());
        CallInFlight::new(Arc::clone(&self.handles))
    }
}

impl Drop for CallWaits {
    fn drop(&mut self) {
        self.handles.waiting.dec();
    }
}

/// A call that is made, counted as long as this is there.
#[derive(Debug)]
#[must_use = "the call is counted as in flight only as long as this is there"]
pub struct CallInFlight {
    handles: Arc<Handles>,
}

impl CallInFlight {
    pub(super) fn new(handles: Arc<Handles>) -> Self {
        handles.in_flight.inc();
        Self { handles }
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.handles.in_flight.dec();
    }
}
