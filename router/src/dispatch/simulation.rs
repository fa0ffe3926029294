//! Steps of a dry run: simulated by the router, or by an adapter that declares `dry_run`, in a confined worker.

use std::time::{Duration, Instant};

use nexus_router_sdk::AdapterError;

use super::slot::SlotResult;
use super::{Broken, Execution, Surroundings};
use crate::gate::Permit;
use crate::json::{Object, Value};
use crate::loader::Adapter;

impl Execution {
    /// Calls an adapter with the dry-run flag. Without a confined worker the output is `otherwise`, and the reason.
    pub(super) async fn simulate(
        &mut self,
        around: &Surroundings,
        slotted: (Permit<'_>, Option<SlotResult>, Option<Duration>),
        mut otherwise: Object,
        index: usize,
        end: Option<Instant>,
    ) -> Result<(Result<Object, AdapterError>, Duration), Broken> {
        let (answer, time, _) = self.call_in_slot(around, slotted, (index, 1), end).await?;
        let answer = match answer {
            Ok(mut output) => {
                output.insert("simulated", true);
                Ok(output)
            }
            Err(error) if Adapter::is_unavailable(&error) => {
                otherwise.insert("not_called", error.message);
                Ok(otherwise)
            }
            Err(error) => Err(error),
        };
        Ok((answer, time))
    }
}

/// Returns the output of a call that is not made.
pub(super) fn simulation(adapter_id: &str, call: &Object, asks: bool) -> Object {
    let member = |key| call.get(key).cloned().unwrap_or(Value::Null);
    let mut output = Object::new();
    output.insert("simulated", true);
    output.insert("adapter_id", adapter_id);
    output.insert("tool", member("tool"));
    output.insert("method", member("method"));
    if asks {
        output.insert("approval_required", true);
    }
    output
}
