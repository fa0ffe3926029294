//! Further attempts at a call that failed, as the interface contract of its adapter allows.
//!
//! Each attempt passes the gate and takes a slot like the first one. Calls that are attested, and calls of adapters with
//! sources, are made once: their evidence is of one call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};

use super::slot::Admitted;
use super::stepping::{CallResult, CallToMake};
use super::{Broken, Execution, Surroundings};
use crate::event::Payload;
use crate::gate::{Permit, Verdict};
use crate::host;
use crate::policy::KeptOperation;

/// How often a waiting call looks whether its caller was revoked.
const LOOK: Duration = Duration::from_millis(250);
/// The longest message of a failed attempt that is recorded.
const MAX_MESSAGE: usize = 500;

/// The retries that the contract of an operation allows.
pub(super) struct Retries {
    operation: Arc<KeptOperation>,
    began: Instant,
}

/// End of a wait for the next attempt.
enum WaitEnd {
    /// The pause is over.
    Over,
    /// The run was cancelled.
    Cancelled,
    /// The caller was revoked, or the process drains.
    GivenUp,
}

impl Retries {
    /// Returns the retries of a call that begins now, if its contract allows any.
    pub(super) fn of(
        permit: &Permit<'_>,
        is_unattested: bool,
        around: &Surroundings,
    ) -> Option<Self> {
        let operation = permit.operation().filter(|operation| operation.retry.attempts > 1)?;
        let has_sources = around.law.sources.contains_key(permit.adapter().adapter_id());
        (is_unattested && !has_sources)
            .then(|| Self { operation: Arc::clone(operation), began: Instant::now() })
    }
}

impl Execution {
    /// Makes further attempts at a call until one succeeds, none is allowed, or the time is over. Returns the last result.
    pub(super) async fn retry_call(
        &mut self,
        around: &Surroundings,
        Retries { operation, began }: Retries,
        made: CallToMake<'_>,
        first: CallResult,
    ) -> Result<CallResult, Broken> {
        let CallToMake { selected, step, index, .. } = made;
        let adapter_id = selected.adapter.adapter_id();
        // All attempts share the time of the call; the time of the contract is that of one attempt.
        let whole = step.timeout().unwrap_or_else(|| around.host.call_timeout(adapter_id));
        let deadline = began.checked_add(whole);
        let deadline = deadline.into_iter().chain(made.end).min();
        let mut result = first;
        for attempt in 2..=operation.retry.attempts {
            let Err(error) = &result.0 else { break };
            if !host::is_retryable(error, &operation) {
                break;
            }
            let retry_after = host::retry_after(error);
            let pause = host::pause(operation.retry, attempt, retry_after, host::random());
            let starts = Instant::now().checked_add(pause);
            if starts.is_none() || deadline.is_some_and(|deadline| starts >= Some(deadline)) {
                break;
            }
            match self.wait_for_retry(around, pause).await {
                WaitEnd::Over => {}
                WaitEnd::GivenUp => break,
                WaitEnd::Cancelled => {
                    result.0 = Err(cancelled(error));
                    break;
                }
            }
            let newest = around.refreshed();
            let around = newest.as_deref().unwrap_or(around);
            self.approval = made.approval.cloned().map(Box::new);
            let admitted = self.admit_with_slot(around, (selected, step, index), deadline).await;
            if self.cancelled.is_asked() {
                result.0 = Err(cancelled(error));
                break;
            }
            let Admitted { verdict: Verdict::Call(permit), filled, slot, newer, .. } = admitted
            else {
                break;
            };
            let around = newer.as_deref().unwrap_or(around);
            let Some(Ok(slot)) = slot else { break };
            // The contract may be another one by now. What is called is what was recorded, with the same defaults.
            let is_allowed = Self::allows_attempt(&permit, around, attempt, error);
            if filled.as_ref() != made.filled || !is_allowed || around.host.is_ending_retries() {
                break;
            }
            let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.record_retry(around, (index, attempt), pause, error, adapter_id)?;
            around.metrics.call_retried(adapter_id);
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = step.timeout().into_iter().chain(left).min();
            let permitted = (permit, Some(Ok(slot)), timeout);
            result = self.call_in_slot(around, permitted, (index, attempt), deadline).await?;
        }
        result.1 = began.elapsed();
        Ok(result)
    }

    /// Reports whether the contract in force allows an attempt after a failure.
    fn allows_attempt(
        permit: &Permit<'_>,
        around: &Surroundings,
        attempt: u64,
        error: &AdapterError,
    ) -> bool {
        Retries::of(permit, true, around).is_some_and(|Retries { operation, .. }| {
            attempt <= operation.retry.attempts && host::is_retryable(error, &operation)
        })
    }

    /// Waits before the next attempt. The store gets the run meanwhile: after a crash it is resumed.
    async fn wait_for_retry(&mut self, around: &Surroundings, pause: Duration) -> WaitEnd {
        self.recorder.flush();
        let until = Instant::now() + pause;
        loop {
            if self.cancelled.is_asked() {
                return WaitEnd::Cancelled;
            }
            if around.host.is_ending_retries() || self.check_caller(around).is_err() {
                return WaitEnd::GivenUp;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return WaitEnd::Over;
            }
            let cancelled = Arc::clone(&self.cancelled);
            tokio::select! {
                () = around.host.wait_for_retry(left.min(LOOK)) => {}
                () = cancelled.notify.notified() => {}
            }
        }
    }

    fn record_retry(
        &mut self,
        around: &Surroundings,
        (index, attempt): (usize, u64),
        delay_ms: u64,
        error: &AdapterError,
        adapter_id: &str,
    ) -> Result<(), Broken> {
        let step_id = Arc::clone(&self.recorder.run().plan()[index]);
        let redacted = |text: &str| {
            let text = around.secrets.redact_text(text).unwrap_or_else(|| text.to_owned());
            text.chars().take(MAX_MESSAGE).collect::<String>()
        };
        self.recorder.record(&Payload::ToolCallRetried {
            step_id: &step_id,
            adapter_id,
            attempt,
            delay_ms,
            error_code: &redacted(&error.code),
            message: &redacted(&error.message),
        })?;
        Ok(())
    }
}

/// Returns the error of a call whose run was cancelled before its next attempt.
fn cancelled(last: &AdapterError) -> AdapterError {
    // An attempt that timed out may still be under way.
    let stopped = last.details.get("stopped").and_then(serde_json::Value::as_bool);
    AdapterError::operational(code::CANCELLED, "the run was cancelled before the next attempt")
        .details(
            serde_json::json!({ "last_error_code": last.code, "stopped": stopped.unwrap_or(true) }),
        )
}
