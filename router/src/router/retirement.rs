//! Release of adapters that a reload replaced.

use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::Surroundings;

/// The time between two looks whether a run still uses replaced adapters.
const PAUSE: Duration = Duration::from_millis(100);

/// Drops replaced adapters when no run uses them any more, on a thread that may wait for their shutdown.
pub(super) async fn retire(before: Arc<Surroundings>) {
    while Arc::strong_count(&before) > 1 {
        tokio::time::sleep(PAUSE).await;
    }
    drop(tokio::task::spawn_blocking(move || drop(before)));
}
