//! The plan of a run: made and kept once, however many steps it has.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::finding::Findings;
use super::keeper::exec_id;
use super::plan::{Grant, Permission, Plan, PlanStep};
use crate::role::ActionClass;

/// The steps of a run that are carried out in a role, and what they are granted. All of them name the same plan.
#[derive(Debug, Default)]
pub struct Planned {
    steps: Vec<(usize, ActionClass)>,
    granted: Vec<(usize, Permission, Vec<String>)>,
    made: OnceLock<Result<Plan, Findings>>,
    kept: AtomicBool,
}

impl Planned {
    /// Takes the steps, counted from 1, with their classes, and what is granted to them.
    #[must_use]
    pub fn new(
        steps: Vec<(usize, ActionClass)>,
        granted: Vec<(usize, Permission, Vec<String>)>,
    ) -> Self {
        Self { steps, granted, ..Self::default() }
    }

    /// Returns the plan of the task for an execution of one of its steps. Grants are for executions, so one that is
    /// not the first of its step, and is granted something, has a plan of its own; all others share one.
    pub(super) fn plan(
        &self,
        task_id: &str,
        (step, own): (usize, &str),
    ) -> Result<Cow<'_, Plan>, Findings> {
        let granted = self.granted.iter().any(|(number, ..)| *number == step);
        if granted && own != exec_id(step, 1) {
            return self.make(task_id, Some((step, own))).map(Cow::Owned);
        }
        let made = self.made.get_or_init(|| self.make(task_id, None));
        made.as_ref().map(Cow::Borrowed).map_err(Clone::clone)
    }

    fn make(&self, task_id: &str, again: Option<(usize, &str)>) -> Result<Plan, Findings> {
        let step = |(number, class): &(usize, ActionClass)| PlanStep {
            step_id: exec_id(*number, 1),
            role: class.role(),
            action: *class,
            task_id: task_id.to_owned(),
        };
        let grant = |(number, grant, targets): &(usize, Permission, Vec<String>)| Grant {
            exec_id: match again {
                Some((step, own)) if step == *number => own.to_owned(),
                _ => exec_id(*number, 1),
            },
            grant: *grant,
            targets: targets.clone(),
        };
        let steps: Vec<PlanStep> = self.steps.iter().map(step).collect();
        let grants: Vec<Grant> = self.granted.iter().map(grant).collect();
        let plan = Plan::new(task_id, &steps, &grants)?;
        // One that is too large would not be verified.
        Plan::parse_canonical(plan.text().as_bytes())
    }

    /// Says whether a plan was seen to be in the cabinet.
    pub(super) fn is_kept(&self, plan: &Plan) -> bool {
        self.is_shared(plan) && self.kept.load(Ordering::Acquire)
    }

    pub(super) fn kept(&self, plan: &Plan) {
        if self.is_shared(plan) {
            self.kept.store(true, Ordering::Release);
        }
    }

    fn is_shared(&self, plan: &Plan) -> bool {
        matches!(self.made.get(), Some(Ok(shared)) if std::ptr::eq(shared, plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_made_once_and_one_that_could_not_be_verified_is_none() {
        let steps =
            |count: usize| (1..=count).map(|step| (step, ActionClass::DataLookup)).collect();
        let planned = Planned::new(steps(3), Vec::new());
        let plan = planned.plan("task", (1, "step-1")).unwrap();
        assert_eq!(plan.steps().len(), 3);
        let again = planned.plan("task", (3, "step-3-2")).unwrap();
        assert!(std::ptr::eq(&*plan, &*again), "not for each step");
        let large = Planned::new(steps(30_000), Vec::new());
        assert!(!large.plan("task", (1, "step-1")).unwrap_err().reasons().is_empty());
    }

    #[test]
    fn a_second_execution_that_is_granted_something_has_the_grant_in_a_plan_of_its_own() {
        let granted = vec![(1, Permission::ShellExec, Vec::new())];
        let planned = Planned::new(vec![(1, ActionClass::ShellExec)], granted);
        let first = planned.plan("task", (1, "step-1")).unwrap();
        let second = planned.plan("task", (1, "step-1-2")).unwrap();
        assert_eq!(first.grants()[0].exec_id, "step-1");
        assert_eq!(second.grants()[0].exec_id, "step-1-2");
        planned.kept(&second);
        assert!(!planned.is_kept(&first));
        planned.kept(&first);
        assert!(planned.is_kept(&first) && !planned.is_kept(&second));
    }
}
