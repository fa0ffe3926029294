//! Lists of runs: their selection, a page of them, and how many there are.

use super::record::{Log, RunRecord, Status};
use super::visible::VisibleRuns;

/// Selection of runs for a list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Only this run.
    pub run_id: Option<String>,
    /// Only runs of this status.
    pub status: Option<Status>,
    /// Only runs whose creation time, as text, is not less.
    pub since: Option<String>,
    /// Only runs that the caller sees.
    pub visible: VisibleRuns,
    /// At most so many.
    pub limit: usize,
    /// Without the first so many.
    pub offset: usize,
}

impl Default for Filter {
    fn default() -> Self {
        let visible = VisibleRuns::All;
        Self { run_id: None, status: None, since: None, visible, limit: 50, offset: 0 }
    }
}

impl Filter {
    pub(super) fn admits(&self, record: &RunRecord) -> bool {
        self.status.is_none_or(|status| record.progress.status == status)
            && self.since.as_ref().is_none_or(|since| record.header.created_at >= *since)
    }
}

/// Number of runs by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// All of them.
    pub total: u64,
    /// Those that are carried out.
    pub running: u64,
    /// Those that ended well.
    pub completed: u64,
    /// Those that ended badly.
    pub failed: u64,
}

impl Counted {
    pub(super) fn add(&mut self, status: Option<Status>, runs: u64) {
        match status {
            Some(Status::Running) => self.running += runs,
            Some(Status::Completed) => self.completed += runs,
            Some(Status::Failed) => self.failed += runs,
            None => return,
        }
        self.total = self.total.saturating_add(runs);
    }
}

/// A page of runs.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The runs, the newest first.
    pub runs: Vec<Listed>,
    /// How many there are without the page's limits.
    pub counted: Counted,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The run.
    pub record: RunRecord,
    /// Its events, where the store keeps no summary of them.
    pub log: Option<Log>,
}

impl Listed {
    /// The most characters of a goal in a list.
    const GOAL_CHARS: usize = 1024;

    /// Lists a run. A longer goal is cut, so that lists of runs with huge goals stay small.
    pub(super) fn new(mut record: RunRecord) -> Self {
        let goal = &mut record.header.goal;
        if let Some((end, _)) = goal.char_indices().nth(Self::GOAL_CHARS) {
            *goal = format!("{}…", &goal[..end]);
        }
        Self { record, log: None }
    }
}
