//! Lets approvals, held answers and held arguments expire: one task, which sleeps until the next approval is due.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Error, Inner};

/// After so long it is looked again, whatever is due: another process may have asked, or the clock been set.
const LOOK: Duration = Duration::from_secs(60);
/// How long to wait while adapters are being loaded.
const LOADING: Duration = Duration::from_millis(500);
/// How long to wait after the store failed.
const RETRY: Duration = Duration::from_secs(5);

/// The task that lets approvals expire, once it is started.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    started: AtomicBool,
    asked: Arc<Notify>,
}

impl Expiry {
    /// Starts the task; if it runs, has it look again, for something was asked.
    pub(super) fn start(&self, inner: &Arc<Inner>) {
        self.asked.notify_one();
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(runtime) = &inner.runtime {
            drop(runtime.spawn(watch(Arc::downgrade(inner), Arc::clone(&self.asked))));
        }
    }
}

async fn watch(inner: Weak<Inner>, asked: Arc<Notify>) {
    // It must not keep the router alive while it sleeps.
    while let Some(router) = inner.upgrade() {
        let pause = match look(&router).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, "approvals could not be let expire");
                RETRY
            }
        };
        drop(router);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = asked.notified() => {}
        }
    }
}

/// Lets expire what is due, and returns how long nothing else is.
async fn look(inner: &Arc<Inner>) -> Result<Duration, Error> {
    // A run whose approval expires goes on, and its adapter may not be there yet.
    if inner.around().registry.is_loading() {
        return Ok(LOADING);
    }
    inner.expire_due().await?;
    let now = inner.clock.now();
    inner.ask(move |store| store.remove_expired_answers(now)).await?;
    inner.ask(move |store| store.remove_leftover_arguments(now)).await?;
    let next = inner.ask(|store| store.next_expiry()).await?;
    let Some(next) = next else { return Ok(LOOK) };
    let left = next.as_millis().saturating_sub(inner.clock.now().as_millis());
    let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
    Ok(left.clamp(Duration::from_millis(1), LOOK))
}
