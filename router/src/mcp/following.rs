//! Who follows which resource: an adapter tells of changes for as long as anybody wants to hear of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nexus_router_sdk::Catalog;

use super::Shared;
use crate::caller::Caller;
use crate::json::Object;
use crate::policy::Act;
use crate::request::Mode;
use crate::router::{Error, Submission};
use crate::toolspec::OneCall;

/// How long to wait for a place when the router is busy.
const PAUSE: Duration = Duration::from_secs(1);

/// The resources that are followed, of all callers.
#[derive(Default)]
pub(super) struct Followed {
    resources: Mutex<HashMap<Key, Resource>>,
    /// Adapters are told one after the other that nobody follows something: many may go at once.
    turn: tokio::sync::Mutex<()>,
}

/// An adapter, and a resource of it.
type Key = (String, String);

#[derive(Default)]
struct Resource {
    followers: usize,
    /// Whether the adapter may have been asked to tell of changes.
    asked: bool,
    /// Held while the adapter is told that nobody follows; who comes meanwhile asks after that.
    leaving: Arc<tokio::sync::Mutex<()>>,
}

impl Followed {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Resource>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether nobody follows a resource, and its adapter is to be told so.
    fn is_left(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|resource| resource.followers == 0 && resource.asked)
    }

    /// Takes note that an adapter was told.
    fn forget(&self, key: &Key) {
        let mut resources = self.lock();
        if let Some(resource) = resources.get_mut(key) {
            resource.asked = false;
            if resource.followers == 0 {
                resources.remove(key);
            }
        }
    }
}

/// One who follows a resource, for as long as it is kept. When the last one goes, the adapter is told.
pub(super) struct Follow {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    key: Key,
}

impl Follow {
    /// Counts a follower, who is then to ask the adapter.
    pub(super) async fn begin(shared: &Arc<Shared>, caller: &Caller, key: Key) -> Self {
        let leaving = {
            let mut resources = shared.followed.lock();
            let resource = resources.entry(key.clone()).or_default();
            resource.followers += 1;
            Arc::clone(&resource.leaving)
        };
        let follow = Self { shared: Arc::clone(shared), caller: Arc::new(caller.clone()), key };
        drop(leaving.lock().await);
        if let Some(resource) = shared.followed.lock().get_mut(&follow.key) {
            resource.asked = true;
        }
        follow
    }

    /// Takes note that the adapter did not do what it was asked.
    pub(super) fn failed(self) {
        let mut resources = self.shared.followed.lock();
        if let Some(resource) = resources.get_mut(&self.key).filter(|it| it.followers == 1) {
            resource.asked = false;
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let mut resources = self.shared.followed.lock();
        let Some(resource) = resources.get_mut(&self.key) else { return };
        resource.followers = resource.followers.saturating_sub(1);
        if resource.followers > 0 {
            return;
        }
        if !resource.asked {
            resources.remove(&self.key);
            return;
        }
        drop(resources);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (shared, caller) = (Arc::clone(&self.shared), Arc::clone(&self.caller));
            drop(runtime.spawn(leave(shared, caller, std::mem::take(&mut self.key))));
        }
    }
}

/// Tells an adapter that nobody follows a resource any more, unless somebody does again.
async fn leave(shared: Arc<Shared>, caller: Arc<Caller>, key: Key) {
    let _turn = shared.followed.turn.lock().await;
    let leaving = shared.followed.lock().get(&key).map(|it| Arc::clone(&it.leaving));
    let Some(leaving) = leaving else { return };
    let _leaving = leaving.lock().await;
    while shared.followed.is_left(&key) && !shared.service.is_draining() {
        let ((adapter_id, uri), (tool, method)) = (&key, Catalog::UNSUBSCRIBE);
        let act = Act { adapter_id, tool, method };
        let goal = format!("{method} {uri}");
        let mut args = Object::new();
        args.insert("uri", uri.as_str());
        let call = OneCall { goal: &goal, act, timeout: None, interaction: None };
        let Ok(request) = call.request(Mode::Apply, args, None) else { return };
        let mut submission = Submission::from(request);
        // After a revocation the router itself takes the subscription back.
        if shared.service.is_good(&caller) {
            submission = submission.by(Arc::clone(&caller));
        }
        match shared.service.router().run(submission).await {
            Err(Error::Busy { .. } | Error::Share(_) | Error::Memory(_)) => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                tracing::warn!(%error, adapter_id, "an adapter goes on telling of a resource");
                shared.followed.forget(&key);
            }
            Ok(_) => shared.followed.forget(&key),
        }
    }
}
