//! Shares: limits that keep one token from taking everything that all tokens use.

mod pool;
mod refusal;
mod usage;

pub(crate) use pool::{FairPermit, FairPool, QueueEntry};
pub use refusal::ShareRefusal;
pub(crate) use usage::{StorageMeter, TokenLedger, TokenRun};

use std::sync::Arc;

use crate::caller::Caller;

/// Shares of each token in the runs, queues and stored bytes of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// Runs of one token under way at once. Absent means half of all, rounded up.
    pub runs_per_token: Option<usize>,
    /// Calls of one token that wait for one adapter at once.
    pub queued_per_token: usize,
    /// Event bytes that the runs of one token may add to the store per hour; 0 means no limit.
    pub stored_bytes_per_hour: u64,
}

impl Default for ShareLimits {
    fn default() -> Self {
        Self {
            runs_per_token: None,
            queued_per_token: 256,
            stored_bytes_per_hour: 1024 * 1024 * 1024,
        }
    }
}

impl ShareLimits {
    /// Returns the runs of one token under way at once.
    pub(crate) fn runs_of_token(&self, runs_in_flight: usize) -> usize {
        self.runs_per_token.unwrap_or(runs_in_flight.div_ceil(2))
    }

    /// Returns the ledger of these limits: the one before, with its counts, or a new one.
    pub(crate) fn ledger(
        &self,
        runs_in_flight: usize,
        before: Option<&Arc<TokenLedger>>,
    ) -> Arc<TokenLedger> {
        let runs = self.runs_of_token(runs_in_flight);
        let bytes = self.stored_bytes_per_hour;
        match before {
            None => Arc::new(TokenLedger::new(runs, bytes)),
            Some(before) => {
                before.set_limits(runs, bytes);
                Arc::clone(before)
            }
        }
    }
}

/// Returns the token id of a caller. All callers without a token share the empty id.
pub(crate) fn token_id(caller: Option<&Caller>) -> &str {
    caller.and_then(|caller| caller.token_id.as_deref()).unwrap_or_default()
}
