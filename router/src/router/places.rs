//! The places of runs that are under way: so many, and more or fewer when the operator says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Error;
use crate::share::{StorageMeter, TokenLedger, TokenRun};

/// The places of runs that are under way.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    limit: AtomicUsize,
    /// Counted by itself: after the limit was lowered, more may be taken than there are.
    taken: Arc<AtomicUsize>,
    /// The runs of each token.
    ledger: Arc<TokenLedger>,
}

/// The place of one run.
#[derive(Debug)]
pub(super) struct Place {
    token_run: Option<TokenRun>,
    _permit: OwnedSemaphorePermit,
    _taken: Taken,
}

#[derive(Debug)]
struct Taken(Arc<AtomicUsize>);

impl Taken {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Place {
    /// Returns the meter of the bytes that the run stores, if its caller has a token.
    pub(super) fn meter(&self) -> Option<StorageMeter> {
        self.token_run.as_ref().map(TokenRun::meter)
    }
}

impl Places {
    pub(super) fn new(limit: usize, ledger: Arc<TokenLedger>) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(limit)),
            limit: AtomicUsize::new(limit),
            taken: Arc::default(),
            ledger,
        }
    }

    /// Returns how many there are.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns how many are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Takes a place for a run of a token, if there is one and the token has a share left.
    pub(super) fn take(&self, token: &str) -> Result<Place, Error> {
        // Before the permit, so that a run is never under way without being counted.
        let taken = Taken::new(&self.taken);
        let permit = Arc::clone(&self.free).try_acquire_owned();
        let permit = permit.map_err(|_| Error::Busy { limit: self.limit() })?;
        let token_run = self.ledger.begin_run(token)?;
        Ok(Place { token_run, _permit: permit, _taken: taken })
    }

    /// Takes a place when there is one, for a run of a token that was accepted before.
    pub(super) async fn wait(&self, token: &str) -> Option<Place> {
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let token_run = self.ledger.resume_run(token);
        Some(Place { token_run, _permit: permit, _taken: Taken::new(&self.taken) })
    }

    /// Lets more or fewer runs be under way. Those that are too many now are let finish.
    pub(super) fn resize(&self, limit: usize, runtime: &Runtime) {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        let before = self.limit.swap(limit, Ordering::Relaxed);
        if let Some(more) = limit.checked_sub(before) {
            return self.free.add_permits(more);
        }
        let fewer = before - limit;
        let rest = fewer - self.free.forget_permits(fewer);
        if let Ok(rest) = u32::try_from(rest)
            && rest > 0
        {
            let mut gone = Box::pin(Arc::clone(&self.free).acquire_many_owned(rest));
            // It stands in line at once, before whoever comes next.
            match gone.as_mut().now_or_never() {
                Some(permits) => drop(permits.map(OwnedSemaphorePermit::forget)),
                None => drop(
                    runtime.spawn(async { drop(gone.await.map(OwnedSemaphorePermit::forget)) }),
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_also_when_they_are_more_than_there_may_be() {
        let runtime = Runtime::new().unwrap();
        let places = Places::new(3, Arc::new(TokenLedger::new(9, 0)));
        let mut held: Vec<Place> = (0..3).filter_map(|_| places.take("").ok()).collect();
        assert!(held.len() == 3 && places.take("").is_err());
        places.resize(1, &runtime);
        assert_eq!((places.taken(), places.limit()), (3, 1));
        held.truncate(1);
        assert!(
            places.taken() == 1 && places.take("").is_err(),
            "the last one holds the only place"
        );
        places.resize(2, &runtime);
        held.push(runtime.block_on(places.wait("")).unwrap());
        assert!(places.take("").is_err());
        held.clear();
        assert_eq!(places.taken(), 0);
        held.extend([places.take("").unwrap(), places.take("").unwrap()]);
        assert!(places.take("").is_err());
    }
}
