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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_made_once_and_one_that_could_not_be_verified_is_none() {
        let steps =
            |count: usize| (1..=count).map(|step| (step, ActionClass::DataLookup)).collect();
        let planned = Planned::new(steps(3));
        let plan = planned.plan("task").unwrap();
        assert_eq!(plan.steps().len(), 3);
        assert!(std::ptr::eq(plan, planned.plan("task").unwrap()), "not for each step");
        let findings = Planned::new(steps(30_000)).plan("task").unwrap_err();
        assert!(!findings.reasons().is_empty());
    }
}
