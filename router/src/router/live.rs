//! The runs that are under way here, which can be cancelled.

use std::sync::{Arc, PoisonError};

use super::{Inner, Router};
use crate::caller::Caller;
use crate::dispatch::Cancel;
use crate::store::Header;

/// A run that can be cancelled.
#[derive(Debug)]
pub(super) struct Entry {
    cancel: Arc<Cancel>,
    /// The caller, if it is known.
    caller: Option<Arc<Caller>>,
}

impl Router {
    /// Asks a run that is under way here to end. Says whether there is one of this id.
    pub fn cancel(&self, run_id: &str) -> bool {
        self.cancel_if(run_id, |_| true).is_some()
    }

    /// Asks a run that is under way here to end if `may` says so of who asked for it. Returns whether it
    /// did, or none if there is no run of this id.
    pub fn cancel_if(
        &self,
        run_id: &str,
        may: impl FnOnce(Option<&Caller>) -> bool,
    ) -> Option<bool> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = live.get(run_id)?;
        let may = may(entry.caller.as_deref());
        if may {
            entry.cancel.cancel();
        }
        Some(may)
    }
}

/// The entry of a run among those that can be cancelled.
pub(super) struct Live {
    inner: Arc<Inner>,
    header: Arc<Header>,
    cancel: Arc<Cancel>,
}

impl Live {
    pub(super) fn enter(
        inner: &Arc<Inner>,
        header: &Arc<Header>,
        cancel: &Arc<Cancel>,
        caller: Option<&Arc<Caller>>,
    ) -> Self {
        let entry = Entry { cancel: Arc::clone(cancel), caller: caller.cloned() };
        let mut live = inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(header.run_id.clone(), entry);
        drop(live);
        let (inner, header) = (Arc::clone(inner), Arc::clone(header));
        Self { inner, header, cancel: Arc::clone(cancel) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that came to wait may have been taken up again already, under an entry of its own.
        if let Some((run_id, entry)) = live.remove_entry(&self.header.run_id)
            && !Arc::ptr_eq(&entry.cancel, &self.cancel)
        {
            live.insert(run_id, entry);
        }
        drop(live);
        // A mistake of ours must not leave the run under way with nobody to carry it out.
        if std::thread::panicking()
            && let Some(runtime) = &self.inner.runtime
        {
            let (inner, run_id) = (Arc::clone(&self.inner), self.header.run_id.clone());
            drop(runtime.spawn(async move { inner.give_up(&run_id).await }));
        }
    }
}
