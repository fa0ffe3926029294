//! Appends of a store in memory that nobody waits for, and that are not written yet.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{MAX_BATCH, MAX_BATCH_BYTES};

/// Most appends that may be pending; further writers wait.
const MAX_GATHERED: usize = 4096;

/// Most pending bytes; further writers wait.
const MAX_GATHERED_BYTES: usize = MAX_BATCH_BYTES;

/// Size of the pending appends.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    appends: AtomicUsize,
    bytes: AtomicUsize,
}

impl Gathered {
    /// Returns whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.appends.load(Ordering::Relaxed) >= MAX_GATHERED
            || self.bytes.load(Ordering::Relaxed) >= MAX_GATHERED_BYTES
    }

    /// Adds an append. Returns whether a batch is complete.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let appends = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        appends == MAX_BATCH
            || (before < MAX_GATHERED_BYTES && before + bytes >= MAX_GATHERED_BYTES)
    }

    pub(super) fn remove(&self, appends: usize, bytes: usize) {
        self.appends.fetch_sub(appends, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
