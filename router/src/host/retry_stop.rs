//! End of retries: calls that wait for a further attempt give up when the process drains.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Signal that no further attempts are made. All hosts of one router share it.
#[derive(Debug, Default)]
pub(crate) struct RetryStop {
    is_set: AtomicBool,
    notify: Notify,
}

impl RetryStop {
    /// Ends every wait for a further attempt, now and from now on.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Reports whether no further attempts are made.
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits, unless the signal comes first.
    pub(super) async fn sleep(&self, time: Duration) {
        let notified = self.notify.notified();
        let mut notified = std::pin::pin!(notified);
        // Before the look at the flag, so that no signal is missed in between.
        notified.as_mut().enable();
        if !self.is_set() {
            // A wait that is over early is the point of it.
            let _: Result<(), _> = tokio::time::timeout(time, notified).await;
        }
    }
}
