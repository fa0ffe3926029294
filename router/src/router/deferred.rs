//! Runs that were left behind and whose adapter cannot be called now. They stay as they are until other adapters are put
//! in force.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Error, Inner, admission};
use crate::dispatch::{Broken, Surroundings};
use crate::offload::{Load, OffloadedRun};
use crate::recover::{self, How, Recovered, Resumable};
use crate::share::token_id;
use crate::store::{Orphan, Status};

/// Ids of the runs that are deferred.
#[derive(Debug, Default)]
pub(super) struct DeferredRuns(Mutex<BTreeSet<String>>);

impl DeferredRuns {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Defers a run whose adapter cannot be called now, or returns with what it is recovered.
    pub(super) fn defer(
        &self,
        orphan: &Orphan,
        resumable: Resumable,
    ) -> ControlFlow<Recovered, Arc<Surroundings>> {
        let run_id = &orphan.log.record.header.run_id;
        loop {
            let around = self.around();
            if resumable == Resumable::End {
                return ControlFlow::Continue(around);
            }
            let found = recover::unavailable_adapter(&self.store, self.clock, &around, orphan);
            let Some(unavailable) = found else { return ControlFlow::Continue(around) };
            if resumable == Resumable::Resume {
                self.deferred.lock().insert(run_id.clone());
            }
            // Adapters that were put in force before the run was among those that are deferred did not find it there.
            let is_current = Arc::ptr_eq(&around, &self.around());
            if is_current || !self.deferred.lock().remove(run_id) {
                let how = How::Left { why: unavailable.to_string() };
                let run_id = run_id.clone();
                return ControlFlow::Break(Recovered { run_id, how, status: Status::Running });
            }
        }
    }

    /// Recovers the runs that are deferred, with the adapters that are in force now.
    pub(super) fn resume_deferred(self: &Arc<Self>) {
        let Some(runtime) = &self.runtime else { return };
        for run_id in std::mem::take(&mut *self.deferred.lock()) {
            let inner = Arc::clone(self);
            let run = async move { inner.resume_one(run_id).await };
            // The size of its record is not known.
            drop(runtime.spawn(OffloadedRun::new(run, Load::Heavy)));
        }
    }

    async fn resume_one(self: &Arc<Self>, run_id: String) {
        let orphan = match self.deferred_orphan(&run_id).await {
            Ok(Some(orphan)) => orphan,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(run_id, %error, "a run whose adapter was not available could not be read");
                self.deferred.lock().insert(run_id);
                return;
            }
        };
        let caller = admission::caller_of(&orphan);
        let place = self.places.wait(token_id(caller.as_ref())).await;
        let recovered = self.recover(&orphan, Resumable::Resume).await;
        drop(place);
        tracing::info!(run_id, how = ?recovered.how, "a run waited for its adapter");
    }

    /// Ends a run that is deferred because its caller does not want it any more. False if it is not deferred any more.
    pub(super) async fn end_deferred(&self, orphan: &Orphan) -> Result<bool, Error> {
        let header = &orphan.log.record.header;
        if !self.deferred.lock().remove(&header.run_id) {
            return Ok(false);
        }
        match recover::cancel(&self.store, self.clock, orphan).await {
            Ok(()) => {
                self.around().metrics.run_ended(
                    &header.mode,
                    Status::Failed.name(),
                    Duration::ZERO,
                );
                Ok(true)
            }
            Err(Broken::Store(error)) => Err(error.into()),
            Err(Broken::Illegal(illegal)) => {
                Err(Error::Internal { run_id: header.run_id.clone(), message: illegal.to_string() })
            }
        }
    }

    /// Reads a run if it is deferred.
    pub(super) async fn find_deferred(&self, run_id: &str) -> Result<Option<Orphan>, Error> {
        if !self.deferred.lock().contains(run_id) {
            return Ok(None);
        }
        self.deferred_orphan(run_id).await
    }

    async fn deferred_orphan(&self, run_id: &str) -> Result<Option<Orphan>, Error> {
        let run_id = run_id.to_owned();
        self.ask(move |store| store.take_up(&run_id)).await
    }
}
