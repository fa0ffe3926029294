//! Tells callers of changes: sessions as long as they last, and listeners of the stateless era.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, RoleServer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::following::Follow;
use super::{Asker, Handler, REFUSED, refused};
use crate::service::{Service, StreamRefusal};

/// So many resources can be followed at once.
pub(super) const FOLLOWED: usize = 1000;

/// The library tells a listener that it hears of resources before they are followed, which takes so long at most.
const SETTLING: Duration = Duration::from_secs(1);

/// Resources that somebody follows, as far as their adapters can tell of changes.
type Follows = BTreeMap<String, Option<Follow>>;

/// What lasts as long as a session.
pub(super) struct Session {
    /// Ends what was begun for the session when it is gone.
    gone: CancellationToken,
    _guard: DropGuard,
    /// Whether it is told of changes.
    told: AtomicBool,
    /// The resources that it follows.
    followed: Arc<Mutex<Follows>>,
    /// Until when calls wait for resources that are about to be followed.
    settling: watch::Sender<Option<Instant>>,
}

impl Default for Session {
    fn default() -> Self {
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        let (told, followed) = (AtomicBool::new(false), Arc::default());
        Self { gone, _guard: guard, told, followed, settling: watch::Sender::new(None) }
    }
}

fn lock(followed: &Mutex<Follows>) -> MutexGuard<'_, Follows> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handler {
    /// Tells a session of changes for as long as it lasts.
    pub(super) fn tell_session(&self, peer: Peer<RoleServer>) {
        // A client may say as often as it likes that it is ready.
        if self.session.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let (service, gone) = (self.service().clone(), self.session.gone.clone());
        let followed = Arc::clone(&self.session.followed);
        drop(tokio::spawn(async move {
            let mut changes = service.offers_changed();
            let mut updates = service.resources_updated();
            drop(service);
            let mut before = *changes.borrow_and_update();
            loop {
                let told = tokio::select! {
                    () = gone.cancelled() => return,
                    changed = changes.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let now = *changes.borrow_and_update();
                        let told = async {
                            if now.tools != before.tools {
                                peer.notify_tool_list_changed().await?;
                            }
                            if now.prompts != before.prompts {
                                peer.notify_prompt_list_changed().await?;
                            }
                            if now.resources != before.resources {
                                peer.notify_resource_list_changed().await?;
                            }
                            Ok(())
                        };
                        let told = told.await;
                        before = now;
                        told
                    }
                    updated = updates.recv() => match updated {
                        Ok(uri) if lock(&followed).contains_key(&*uri) => {
                            let param = ResourceUpdatedNotificationParam::new(&*uri);
                            peer.notify_resource_updated(param).await
                        }
                        Ok(_) | Err(RecvError::Lagged(_)) => Ok(()),
                        Err(RecvError::Closed) => return,
                    },
                };
                let told: Result<(), rmcp::ServiceError> = told;
                if told.is_err() {
                    return;
                }
            }
        }));
    }

    /// Follows a resource in a session.
    pub(super) async fn follow_in_session(
        &self,
        context: &RequestContext<RoleServer>,
        uri: String,
    ) -> Result<(), ErrorData> {
        let asker = self.asker(context)?;
        if lock(&self.session.followed).len() >= FOLLOWED {
            return Err(refused(REFUSED, "OVERLOADED", "too many resources are followed"));
        }
        let follow = self.follow(context, &asker, &uri).await?;
        let before = lock(&self.session.followed).insert(uri, follow);
        drop(before);
        Ok(())
    }

    /// Follows a resource in a session no longer.
    pub(super) fn leave_in_session(
        &self,
        context: &RequestContext<RoleServer>,
        uri: &str,
    ) -> Result<(), ErrorData> {
        self.asker(context)?;
        let left = lock(&self.session.followed).remove(uri);
        drop(left);
        Ok(())
    }

    /// Tells one listener of what it asked for, until it goes or the daemon stops.
    /// Takes note of a client that is about to be told that it hears of resources, before they are followed.
    pub(super) fn will_follow(&self, filter: &SubscriptionFilter) {
        let some = filter.resource_subscriptions.as_ref().is_some_and(|uris| !uris.is_empty());
        // Over HTTP each request stands alone, and nobody waits for what another may have asked.
        if some && self.local.is_some() {
            self.session.settling.send_replace(Some(Instant::now() + SETTLING));
        }
    }

    /// Waits until resources are followed that the client was told it hears of: what a call changes in them must not
    /// come too early.
    pub(super) async fn settled(&self) {
        let deadline = *self.session.settling.borrow();
        let Some(deadline) = deadline else { return };
        let mut settling = self.session.settling.subscribe();
        drop(tokio::time::timeout_at(deadline, settling.wait_for(Option::is_none)).await);
    }

    /// Tells a listener what changes, as long as it listens.
    pub(super) async fn tell_listener(
        &self,
        context: SubscriptionContext,
    ) -> Result<(), ErrorData> {
        let service: Service = self.service().clone();
        let asker: Asker = self.asker(context.request_context())?;
        let _open = service.stream(&asker.bearer.caller).map_err(|refusal| match refusal {
            StreamRefusal::Overloaded => {
                refused(REFUSED, "OVERLOADED", "too many streams are open")
            }
            StreamRefusal::Share(refusal) => self.failed(&refusal.into()),
        })?;
        // From the very first: the listener was told already that it hears of everything.
        let mut changes = service.offers_changed();
        let mut updates = service.resources_updated();
        let mut before = *changes.borrow_and_update();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let mut follows = Follows::new();
        for uri in uris {
            let follow = self.follow(context.request_context(), &asker, &uri).await?;
            follows.insert(uri, follow);
        }
        self.session.settling.send_replace(None);
        let wants = |kind: Option<bool>| kind == Some(true);
        let filter: SubscriptionFilter = context.accepted().clone();
        let sink = context.sink();
        loop {
            let told = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = service.draining() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let now = *changes.borrow_and_update();
                    let told = async {
                        if now.tools != before.tools && wants(filter.tools_list_changed) {
                            sink.notify_tool_list_changed().await?;
                        }
                        if now.prompts != before.prompts && wants(filter.prompts_list_changed) {
                            sink.notify_prompt_list_changed().await?;
                        }
                        if now.resources != before.resources && wants(filter.resources_list_changed) {
                            sink.notify_resource_list_changed().await?;
                        }
                        Ok(())
                    };
                    let told = told.await;
                    before = now;
                    told
                }
                updated = updates.recv() => match updated {
                    Ok(uri) if follows.contains_key(&*uri) => {
                        sink.notify_resource_updated(&*uri).await
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => Ok(()),
                    Err(RecvError::Closed) => return Ok(()),
                },
            };
            if told.is_err() {
                return Ok(());
            }
        }
    }
}
