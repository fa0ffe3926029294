//! What the server says of itself: that its lists are others now, or that resources are.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nexus_router_sdk::Host;
use tokio::sync::Notify;

use crate::wire::lock;

/// The host is told once of what changes within this time.
const GATHER: Duration = Duration::from_millis(100);

/// So many resources may change within that time, with names so long; more is a flood.
const MAX_UPDATES: usize = 1000;
const MAX_URI: usize = 8192;

/// Keeps the host informed.
pub(crate) struct News {
    host: Host,
    version: AtomicU64,
    lists: AtomicBool,
    resources: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl News {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            version: AtomicU64::new(0),
            lists: AtomicBool::new(false),
            resources: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Returns a number that is another one when lists may have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Takes note that lists may have changed.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.announce();
    }

    /// Has the host told, without a new version: what is known is right, and the host does not have it.
    pub(crate) fn announce(&self) {
        self.lists.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Takes note that a resource has changed.
    pub(crate) fn updated(&self, uri: &str) {
        let mut resources = lock(&self.resources);
        if uri.len() <= MAX_URI && resources.len() < MAX_UPDATES {
            resources.insert(uri.to_owned());
            self.changed.notify_one();
        }
    }

    /// Tells the host of changes, for ever.
    pub(crate) async fn spread(&self) {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            if self.lists.swap(false, Ordering::AcqRel) {
                self.host.catalog_changed();
            }
            let resources = std::mem::take(&mut *lock(&self.resources));
            for uri in resources {
                self.host.resource_updated(&uri);
            }
        }
    }
}
