//! Checks whether this process could execute the step of a run that waits, before a person's approval is recorded.

use super::{Execution, Surroundings, revocation};
use crate::approval::{Approval, Decision, Ruling};
use crate::caller::CheckedCaller;
use crate::gate::{self, Grounds, Verdict};

impl Execution {
    /// Returns why this process could not execute the step that waits if a person approved it now. None if it could.
    pub(crate) fn approval_obstacle(&self, around: &Surroundings) -> Option<String> {
        let why = self.approval_obstacle_as_found(around)?;
        Some(around.secrets.redact_text(&why).unwrap_or(why))
    }

    fn approval_obstacle_as_found(&self, around: &Surroundings) -> Option<String> {
        if let Some(obstacle) = self.obstacle(around) {
            return Some(obstacle.why);
        }
        let selection = match self.select(around) {
            Ok(selection) => selection,
            Err(failure) => {
                let message = failure.error().map(|(_, message)| message);
                return Some(message.unwrap_or_else(|| "no adapter can be selected".to_owned()));
            }
        };
        let plan_steps = self.plan.len() as u64;
        if let Some(max_steps) = around.law.max_steps.filter(|max| plan_steps > *max) {
            return Some(format!("the plan has {plan_steps} steps; the limit is {max_steps}"));
        }
        let run = self.recorder.run();
        let index = run.open_step().and(run.steps_started().checked_sub(1));
        let (Some(index), Some(approval)) = (index, &self.approval) else {
            return Some("the run does not wait for an approval".to_owned());
        };
        let (Some(step), Some(selected)) = (self.plan.get(index), selection.of_step.get(index))
        else {
            return Some("the step of the approval is not in the plan".to_owned());
        };
        // The caller as it is now: its token may be gone, or have another role.
        let mut caller = self.origin.caller.as_deref().cloned();
        if let Some(known) = &caller {
            let checked = CheckedCaller::default()
                .update(&around.caller_check, known, || self.recorder.now())
                .and_then(|changed| {
                    changed.map(|it| revocation::reaching(it, self.mode)).transpose()
                });
            match checked {
                Ok(changed) => caller = changed.or(caller),
                Err(revocation) => return Some(revocation.message),
            }
        }
        let approved = Approval { caller: caller.clone(), ..approved(approval) };
        let grounds =
            Grounds { caller: caller.as_ref(), ..self.gate_input(around, Some(&approved), index) };
        match gate::admit(grounds, &selection.adapters[*selected], step).verdict {
            Verdict::Call(_) | Verdict::Simulate { .. } => None,
            Verdict::Deny(denial) => Some(format!("{}: {}", denial.code, denial.message)),
            Verdict::Ask(question) if question.policy_version != approval.policy_version => {
                Some("the policy is not the one that requested the approval".to_owned())
            }
            Verdict::Ask(_) => Some(
                "the recorded call does not match the approval; the key of the store may be missing"
                    .to_owned(),
            ),
        }
    }
}

/// Returns the approval as it would be if a person approved it.
fn approved(approval: &Approval) -> Approval {
    let at = approval.requested_at.clone();
    let ruling = Ruling { decision: Decision::Approved, by: None, reason: None, at };
    Approval { ruling: Some(ruling), ..approval.clone() }
}
