//! Who is told what befalls workers: the log, the metrics, and one more.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};

use super::fleet::Hidden;
use crate::loader::{Incident, IncidentSink, log_incidents};
use crate::metrics::Metrics;

type Tell = Box<dyn Fn(&Incident) + Send + Sync>;

/// Is told what befalls workers. Cheap to clone; all clones are the same. It knows nobody at first: adapters
/// are there before the log that it tells.
#[derive(Clone, Default)]
pub struct Watchman(Arc<OnceLock<Tell>>);

impl Watchman {
    /// Names who is told from now on, and must not wait. Only the first one counts.
    pub fn tell(&self, tell: impl Fn(&Incident) + Send + Sync + 'static) {
        // A second one would be a mistake of the host, and the first has its reasons.
        drop(self.0.set(Box::new(tell)));
    }

    /// Returns the sink of a loader. What it passes on is free of what is hidden by then.
    pub(super) fn sink(&self, metrics: &Metrics, hidden: &Hidden) -> IncidentSink {
        let (watchman, metrics, hidden) = (self.clone(), metrics.clone(), Arc::clone(hidden));
        let log = log_incidents();
        Arc::new(move |incident| {
            let secrets = hidden.read().unwrap_or_else(PoisonError::into_inner).clone();
            let incident = Incident { text: secrets.scrub(&incident.text), ..incident.clone() };
            log(&incident);
            metrics.incident(&incident.adapter_id, incident.kind.name());
            if let Some(tell) = watchman.0.get() {
                tell(&incident);
            }
        })
    }
}

impl fmt::Debug for Watchman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watchman").field(&self.0.get().is_some()).finish()
    }
}
