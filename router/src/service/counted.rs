//! What there may only be so much of: connections, event streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Inner;

/// One of those that are counted.
pub struct Counted {
    inner: Arc<Inner>,
    which: fn(&Inner) -> &AtomicUsize,
}

impl Counted {
    pub(super) fn enter(
        inner: &Arc<Inner>,
        which: fn(&Inner) -> &AtomicUsize,
        limit: usize,
    ) -> Option<Self> {
        let counter = which(inner);
        let more = |count: usize| (count < limit).then_some(count + 1);
        counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Self { inner: Arc::clone(inner), which })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.which)(&self.inner).fetch_sub(1, Ordering::AcqRel);
    }
}
