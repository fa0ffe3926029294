//! How a run comes to wait for a person: the question is recorded, and nobody carries the run out until it is
//! answered.

use std::time::Duration;

use nexus_router_sdk::AdapterError;

use super::{Broken, Execution, Surroundings};
use crate::approval::Approval;
use crate::clock::Timestamp;
use crate::event::Payload;
use crate::gate::Question;
use crate::id;
use crate::json::Object;

impl Execution {
    /// Asks a person about a call. When this returns, the question is on disk and the run has no owner:
    /// whoever brings the answer goes on with it.
    pub(super) async fn ask(
        &mut self,
        around: &Surroundings,
        question: Question,
        decision: Option<&str>,
        (step_id, adapter_id, call): (&str, &str, Object),
    ) -> Result<(), Broken> {
        let Question { rule, reason, grants, args_digest, policy_version } = question;
        let now = self.recorder.now();
        let under_way = self.before + self.since.elapsed();
        let approval = Approval {
            approval_id: id::approval_id(),
            run_id: self.recorder.header().run_id.clone(),
            step_id: step_id.to_owned(),
            adapter_id: adapter_id.to_owned(),
            call,
            grants,
            args_digest,
            policy_version,
            rule,
            asked_because: reason,
            caller: self.origin.caller.as_deref().cloned(),
            requested_at: now.to_string(),
            expires_at: later(now, around.law.approvals.expire).to_string(),
            under_way_ms: u64::try_from(under_way.as_millis()).unwrap_or(u64::MAX),
            ruling: None,
        };
        let caller = approval.caller.as_ref().map(|caller| caller.to_json());
        self.recorder.record(&Payload::ApprovalRequested {
            step_id: &approval.step_id,
            approval_id: &approval.approval_id,
            adapter_id,
            call: &approval.call,
            grants: &approval.grants,
            args_digest: &approval.args_digest,
            policy_version: &approval.policy_version,
            rule: &approval.rule,
            policy_decision: decision,
            reason: approval.asked_because.as_deref(),
            caller: caller.as_ref(),
            expires_at: &approval.expires_at,
            under_way_ms: approval.under_way_ms,
        })?;
        self.recorder.commit().await?;
        self.approval = Some(Box::new(approval));
        Ok(())
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_add(by))
}

/// A call without effects was under way when its process died, and would now need an approval: nobody knows
/// whether it was made, so there is nothing left to ask.
pub(super) fn begun_without_asking() -> AdapterError {
    let message =
        "the call began before its process ended, and the policy in force requires an approval";
    let details = serde_json::json!({ "denied_by": "approval" });
    AdapterError::operational("APPROVAL_TOO_LATE", message).details(details)
}
