//! When a call is over although no answer came: its caller gave up, its time is over, or the adapter goes.

use std::time::Instant;

use nexus_router_sdk::{AdapterError, CallContext};
use tokio_util::sync::CancellationToken;

use crate::failure;

/// The ends that a call may come to without an answer.
#[derive(Clone)]
pub(crate) struct Ending {
    cancelled: CancellationToken,
    deadline: Option<Instant>,
    closing: CancellationToken,
}

impl Ending {
    /// Makes the ends of a call.
    pub(crate) fn of_call(context: &CallContext, closing: &CancellationToken) -> Self {
        let cancelled = CancellationToken::new();
        let canceller = cancelled.clone();
        context.on_cancel(move || canceller.cancel());
        Self { cancelled, deadline: context.deadline(), closing: closing.clone() }
    }

    /// Makes the ends of what the adapter does by itself.
    pub(crate) fn at(deadline: Instant, closing: &CancellationToken) -> Self {
        let cancelled = CancellationToken::new();
        Self { cancelled, deadline: Some(deadline), closing: closing.clone() }
    }

    /// Waits for the first of them.
    pub(crate) async fn reached(&self) -> AdapterError {
        let deadline = async {
            match self.deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancelled.cancelled() => failure::cancelled(),
            () = self.closing.cancelled() => failure::shut_down(),
            () = deadline => failure::timed_out(),
        }
    }
}
