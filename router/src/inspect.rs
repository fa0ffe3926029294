//! Lists runs with what they did, in the form that callers of the Python router know.

use crate::clock::Timestamp;
use crate::json::{Object, Value};
use crate::store::{Counted, Error, Filter, Listed, RunRecord, Store};
use crate::view::{View, texts};

/// A page of runs.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The runs, the newest first, each with how far it got.
    pub runs: Vec<RunRecord>,
    /// How many there are without the page's limits.
    pub counted: Counted,
}

/// Lists runs. A `since` that is a time is compared as one, whatever its offset; other text is compared as
/// text.
///
/// # Errors
/// When the store cannot be read.
pub fn inspect(store: &Store, filter: &Filter) -> Result<Inspection, Error> {
    let mut filter = filter.clone();
    if let Some(since) = &mut filter.since
        && let Some(moment) = Timestamp::parse(since)
    {
        *since = moment.to_string();
    }
    let listing = store.list(&filter)?;
    let runs = listing.runs.into_iter().map(summarised).collect();
    Ok(Inspection { runs, counted: listing.counted })
}

/// A store of the Python router keeps no summary beside the events.
fn summarised(listed: Listed) -> RunRecord {
    let Listed { mut record, log } = listed;
    if let Some(log) = log {
        View::of(&log).summarise(&mut record.progress);
    }
    record
}

impl Inspection {
    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Counted { total, running, completed, failed } = self.counted;
        let mut summary = Object::with_capacity(4);
        summary.insert("runs_total", total);
        summary.insert("completed", completed);
        summary.insert("failed", failed);
        summary.insert("running", running);
        let mut inspection = Object::with_capacity(2);
        inspection.insert("summary", summary);
        inspection.insert("runs", self.runs.iter().map(run).collect::<Vec<_>>());
        inspection.into()
    }
}

fn run(record: &RunRecord) -> Value {
    let RunRecord { header, progress, .. } = record;
    let mut run = Object::with_capacity(10);
    run.insert("run_id", header.run_id.as_str());
    run.insert("mode", header.mode.as_str());
    run.insert("goal", header.goal.as_str());
    run.insert("status", progress.status.name());
    run.insert("created_at", header.created_at.as_str());
    run.insert("steps_planned", progress.steps_planned);
    run.insert("steps_executed", progress.steps_executed);
    run.insert("tools_used", texts(&progress.tools_used));
    run.insert("outcome", progress.outcome.as_deref());
    run.insert("last_failure_reason", progress.last_failure_reason.as_deref());
    if record.waits {
        run.insert("waiting", true);
    }
    run.into()
}
