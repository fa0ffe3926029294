//! The plan of a run: made and kept once, however many steps it has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::finding::Findings;
use super::keeper::exec_id;
use super::plan::{Plan, PlanStep};
use crate::role::ActionClass;

/// The steps of a run that are carried out in a role. Every one of them names the same plan.
#[derive(Debug, Default)]
pub struct Planned {
    steps: Vec<(usize, ActionClass)>,
    made: OnceLock<Result<Plan, Findings>>,
    kept: AtomicBool,
}

impl Planned {
    /// Takes the steps, counted from 1, with their classes.
    #[must_use]
    pub fn new(steps: Vec<(usize, ActionClass)>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Returns the plan of the task, which is the same each time.
    pub(super) fn plan(&self, task_id: &str) -> Result<&Plan, Findings> {
        let step = |(number, class): &(usize, ActionClass)| PlanStep {
            step_id: exec_id(*number, 1),
            role: class.role(),
            action: *class,
            task_id: task_id.to_owned(),
        };
        let made = self.made.get_or_init(|| {
            let steps: Vec<PlanStep> = self.steps.iter().map(step).collect();
            let plan = Plan::new(task_id, &steps, &[])?;
            // One that is too large would not be verified.
            Plan::parse_canonical(plan.text().as_bytes())
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Says whether it was seen to be in the cabinet.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    pub(super) fn kept(&self) {
        self.kept.store(true, Ordering::Release);
    }
}
