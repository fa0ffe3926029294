//! The runs that are under way here, which can be cancelled.

use std::sync::{Arc, PoisonError};

use super::Inner;
use crate::dispatch::Cancel;

/// The entry of a run among those that can be cancelled.
pub(super) struct Live {
    inner: Arc<Inner>,
    run_id: String,
}

impl Live {
    pub(super) fn enter(inner: &Arc<Inner>, run_id: String, cancel: &Arc<Cancel>) -> Self {
        let mut live = inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(run_id.clone(), Arc::clone(cancel));
        drop(live);
        Self { inner: Arc::clone(inner), run_id }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run_id);
        // A mistake of ours must not leave the run under way with nobody to carry it out.
        if std::thread::panicking()
            && let Some(runtime) = &self.inner.runtime
        {
            let (inner, run_id) = (Arc::clone(&self.inner), self.run_id.clone());
            drop(runtime.spawn(async move { inner.give_up(&run_id).await }));
        }
    }
}
