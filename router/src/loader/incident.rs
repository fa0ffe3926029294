//! What befalls the workers of an adapter, for the log, the metrics and the audit.

use std::sync::Arc;
use std::time::Duration;

use crate::breaker::CircuitChange;
use crate::worker;

/// Incident of an adapter: of its workers, or of its circuit breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// The adapter.
    pub adapter_id: String,
    /// What it was.
    pub kind: IncidentKind,
    /// What happened, for people. No secrets.
    pub text: String,
    /// Who brought it about, if somebody did.
    pub by: Option<String>,
}

/// The kinds of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IncidentKind {
    /// A worker ended that should not have.
    Crashed,
    /// A worker was ended because a call did not end when it was told to.
    Stuck,
    /// A worker could not be started.
    NotStarted,
    /// No worker is started for a while.
    Quarantined,
    /// The quarantine is over.
    Released,
    /// The circuit breaker rejects calls: the service behind the adapter fails.
    CircuitOpened,
    /// The circuit breaker lets calls through again.
    CircuitClosed,
}

impl IncidentKind {
    /// Every kind, with its name.
    pub const ALL: &[(&'static str, Self)] = &[
        ("crashed", Self::Crashed),
        ("stuck", Self::Stuck),
        ("not_started", Self::NotStarted),
        ("quarantined", Self::Quarantined),
        ("released", Self::Released),
        ("circuit_opened", Self::CircuitOpened),
        ("circuit_closed", Self::CircuitClosed),
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Stuck => "stuck",
            Self::NotStarted => "not_started",
            Self::Quarantined => "quarantined",
            Self::Released => "released",
            Self::CircuitOpened => "circuit_opened",
            Self::CircuitClosed => "circuit_closed",
        }
    }
}

/// Reports incidents to a sink. The default writes them to the log.
#[derive(Clone)]
pub struct IncidentReporter(IncidentSink);

impl IncidentReporter {
    /// Makes a reporter to a sink.
    #[must_use]
    pub fn new(sink: IncidentSink) -> Self {
        Self(sink)
    }

    /// Reports an incident.
    pub fn report(&self, incident: &Incident) {
        (self.0)(incident);
    }
}

impl Default for IncidentReporter {
    fn default() -> Self {
        Self(log_incidents())
    }
}

impl std::fmt::Debug for IncidentReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IncidentReporter").finish_non_exhaustive()
    }
}

/// A receiver of incidents. It must not wait.
pub type IncidentSink = Arc<dyn Fn(&Incident) + Send + Sync>;

/// Returns the sink that writes incidents to the log.
#[must_use]
pub fn log_incidents() -> IncidentSink {
    Arc::new(|Incident { adapter_id, kind, text, .. }| match kind {
        IncidentKind::Quarantined => tracing::error!(adapter_id, "adapter {text}"),
        IncidentKind::Released | IncidentKind::CircuitClosed => {
            tracing::info!(adapter_id, "adapter {text}");
        }
        _ => tracing::warn!(adapter_id, "adapter {text}"),
    })
}

impl Incident {
    /// Returns the incident of a circuit that changed.
    pub(crate) fn of_circuit(adapter_id: &str, change: &CircuitChange, by: Option<&str>) -> Self {
        let (kind, text) = match change {
            CircuitChange::Opened { failures, code, pause } => (
                IncidentKind::CircuitOpened,
                format!(
                    "has an open circuit for {} after {failures} failures in a row; the last: {code}",
                    duration(*pause)
                ),
            ),
            CircuitChange::Closed => {
                (IncidentKind::CircuitClosed, "has a closed circuit again".to_owned())
            }
        };
        let (adapter_id, by) = (adapter_id.to_owned(), by.map(str::to_owned));
        Self { adapter_id, kind, text, by }
    }

    pub(super) fn of(adapter_id: &str, incident: &worker::Incident) -> Self {
        let (kind, text) = match incident {
            worker::Incident::Crashed { ending, lost } => {
                (IncidentKind::Crashed, format!("{ending}; calls lost: {lost}"))
            }
            worker::Incident::Stuck => {
                (IncidentKind::Stuck, "did not end a call when it was told to".to_owned())
            }
            worker::Incident::NotStarted { why } => {
                (IncidentKind::NotStarted, format!("could not be started: {why}"))
            }
            worker::Incident::Quarantined { time, crashes } => (
                IncidentKind::Quarantined,
                format!("is in quarantine for {} after {}", duration(*time), crash_count(*crashes)),
            ),
            worker::Incident::Released { .. } => {
                (IncidentKind::Released, "is out of quarantine".to_owned())
            }
        };
        let by = match incident {
            worker::Incident::Released { by } => by.clone(),
            _ => None,
        };
        Self { adapter_id: adapter_id.to_owned(), kind, text, by }
    }
}

/// Returns a number of crashes in words.
pub(super) fn crash_count(crashes: usize) -> String {
    match crashes {
        1 => "1 crash".to_owned(),
        crashes => format!("{crashes} crashes"),
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(crashes: usize, time: Duration) -> String {
        Incident::of("a", &worker::Incident::Quarantined { time, crashes }).text
    }

    #[test]
    fn quarantine_names_its_time_and_its_crashes() {
        let minutes = Duration::from_secs(600);
        assert_eq!(text(5, minutes), "is in quarantine for 600s after 5 crashes");
        assert_eq!(text(1, minutes), "is in quarantine for 600s after 1 crash");
        let short = Duration::from_millis(300);
        assert_eq!(text(2, short), "is in quarantine for 300ms after 2 crashes");
    }
}
