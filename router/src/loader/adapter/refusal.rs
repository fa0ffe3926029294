//! Errors of calls that no worker answered: it is gone, or there is none.

use std::time::Duration;

use nexus_router_sdk::{AdapterError, code};

use super::checked_length;
use crate::loader::incident::crash_count;
use crate::loader::undeclared::UndeclaredCodes;
use crate::worker::{self, Ending, Refusal};

/// Reads the answer of a worker. Only errors of the adapter itself count as such.
pub(super) fn of_worker(
    answer: worker::Answer,
    undeclared: &UndeclaredCodes,
) -> Result<String, AdapterError> {
    match answer {
        worker::Answer::Output(text) => checked_length(&text).map(|()| text),
        worker::Answer::Error(text) => Err(undeclared.read_error(&text)),
        worker::Answer::Lost(ending) => Err(lost(&ending)),
        worker::Answer::Refused(refusal) => Err(refused(refusal)),
    }
}

/// Makes the error of a call whose worker is gone.
fn lost(ending: &Ending) -> AdapterError {
    let message = format!("the adapter {ending} while it carried out the call");
    let crashed = |details| AdapterError::bug_with_code(CRASHED, message.clone()).details(details);
    match ending {
        Ending::Crashed { signal } => crashed(serde_json::json!({ "signal": signal })),
        Ending::Exited { code } => crashed(serde_json::json!({ "exit_code": code })),
        Ending::Garbled { how } => crashed(serde_json::json!({ "broke": how })),
        Ending::Overran { most } => crashed(serde_json::json!({ "most_processes": most })),
        Ending::Flooded => AdapterError::operational(code::OUTPUT_TOO_LARGE, message),
        Ending::TimedOut { .. } => AdapterError::operational(code::TIMEOUT, message),
        Ending::Stopped => AdapterError::operational(code::CANCELLED, message),
    }
}

/// Makes the error of a call that was not made because there is no worker.
fn refused(refusal: Refusal) -> AdapterError {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let unavailable = |message: String| AdapterError::operational(UNAVAILABLE, message);
    let (error, details) = match refusal {
        Refusal::Quarantined { left, crashes, last } => (
            AdapterError::operational(
                QUARANTINED,
                format!(
                    "the adapter is in quarantine after {}; the last: {last}",
                    crash_count(crashes)
                ),
            ),
            serde_json::json!({ "retry_after_ms": milliseconds(left) }),
        ),
        Refusal::Pausing { left, last } => (
            unavailable(format!("the adapter is started again in a moment; the last end: {last}")),
            serde_json::json!({ "retry_after_ms": milliseconds(left) }),
        ),
        Refusal::Unstartable { why } => {
            (unavailable(format!("the adapter cannot be started: {why}")), serde_json::json!({}))
        }
        Refusal::Closed => {
            (unavailable("the adapter is not there any more".to_owned()), serde_json::json!({}))
        }
    };
    error.details(details).details(serde_json::json!({ "called": false }))
}

pub(super) const CRASHED: &str = "ADAPTER_CRASHED";
pub(super) const UNAVAILABLE: &str = "ADAPTER_UNAVAILABLE";
pub(super) const QUARANTINED: &str = "ADAPTER_QUARANTINED";
