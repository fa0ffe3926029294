//! Simulated calls: made with the dry-run flag, in workers without network or writes.

use std::sync::Arc;

use nexus_router_sdk::AdapterError;

use super::{Adapter, Answered, QUARANTINED, Started, UNAVAILABLE, of_worker};

impl Adapter {
    /// Starts a simulated call that is text already; `done` gets the answer's text.
    pub(crate) fn start_simulated(
        &self,
        call_id: &str,
        request: &str,
        done: impl FnOnce(Result<Answered, AdapterError>) + Send + 'static,
    ) -> Started {
        let Some(team) = &self.inner.simulation else {
            let message = "the adapter has no confined worker for simulated calls";
            done(Err(AdapterError::operational(UNAVAILABLE, message)));
            return Started::Here;
        };
        let undeclared = Arc::clone(&self.inner.undeclared);
        let done = Box::new(move |answer| done(of_worker(answer, &undeclared).map(Answered::from)));
        Started::InWorker(team.call(call_id, request, done))
    }

    /// Reports whether an error says that no worker could take a call.
    pub(crate) fn is_unavailable(error: &AdapterError) -> bool {
        [UNAVAILABLE, QUARANTINED].contains(&error.code.as_str())
    }
}
