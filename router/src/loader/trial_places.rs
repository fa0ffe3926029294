//! Places for trials of libraries: how many are under way at once, and until when all of them have to be over.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::opened::Opened;
use super::{AdapterLoadError, Loader, Reason};

/// Trials under way that are not slow.
const PLACES: usize = 16;
/// A trial that takes longer gives up its place to another.
const SLOW: Duration = Duration::from_millis(500);
/// Trials under way, slow ones too.
const MAX_UNDER_WAY: usize = 64;

/// Places for the trials of one load. Cheap to clone; all clones are the same.
///
/// A library whose good verdict is remembered needs none, so it never waits for libraries that hang.
#[derive(Clone)]
pub struct TrialPlaces(Arc<PlaceTable>);

struct PlaceTable {
    deadline: Instant,
    under_way: Mutex<Vec<(u64, Instant)>>,
    freed: Condvar,
}

/// Place of one trial, until it is dropped.
pub(crate) struct TrialPlace<'a> {
    places: Option<(&'a TrialPlaces, u64)>,
}

impl Loader {
    /// Waits for a place for the trial of a library.
    pub(super) fn trial_place(&self, opened: &Opened) -> Result<TrialPlace<'_>, AdapterLoadError> {
        let Some(places) = &self.places else { return Ok(TrialPlace::unbounded()) };
        places.enter().ok_or_else(|| {
            let message = "there was no time left to try it: workers.load_timeout_ms is over";
            let hint =
                "raise workers.load_timeout_ms, or load it with `nexus-router adapter retry`";
            opened.fail(Reason::LibraryTimedOut, message).with_hint(hint).untried()
        })
    }
}

impl TrialPlaces {
    /// Makes places for trials that have to be over within a time.
    #[must_use]
    pub fn new(budget: Duration) -> Self {
        let now = Instant::now();
        // A budget that the clock cannot hold is longer than anything takes.
        let deadline = now.checked_add(budget).unwrap_or(now + Duration::from_secs(86_400));
        Self(Arc::new(PlaceTable { deadline, under_way: Mutex::default(), freed: Condvar::new() }))
    }

    /// Returns when all trials have to be over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// Returns the time that is left.
    fn left(&self) -> Duration {
        self.0.deadline.saturating_duration_since(Instant::now())
    }

    /// Waits for a place. None if the time is over before there is one.
    pub(crate) fn enter(&self) -> Option<TrialPlace<'_>> {
        let mut under_way = self.lock();
        loop {
            let now = Instant::now();
            let left = self.0.deadline.checked_duration_since(now)?;
            let age = |started: &Instant| now.saturating_duration_since(*started);
            let quick =
                || under_way.iter().map(|(_, started)| age(started)).filter(|age| *age < SLOW);
            if under_way.len() < MAX_UNDER_WAY && quick().count() < PLACES {
                let id = under_way.last().map_or(0, |(id, _)| id + 1);
                under_way.push((id, now));
                return Some(TrialPlace { places: Some((self, id)) });
            }
            let next = quick().max().map_or(left, |oldest| (SLOW - oldest).min(left));
            let waited = self.0.freed.wait_timeout(under_way, next);
            under_way = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Instant)>> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrialPlace<'_> {
    /// The place of a trial that nothing bounds but its own limit.
    pub(crate) const fn unbounded() -> Self {
        Self { places: None }
    }

    /// Returns how long a trial may take that may take `limit`.
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        self.places.map_or(limit, |(places, _)| limit.min(places.left()))
    }
}

impl Drop for TrialPlace<'_> {
    fn drop(&mut self) {
        if let Some((places, id)) = self.places {
            places.lock().retain(|(other, _)| *other != id);
            places.0.freed.notify_all();
        }
    }
}

impl fmt::Debug for TrialPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrialPlaces").field("under_way", &self.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_trials_give_up_their_places() {
        let places = TrialPlaces::new(Duration::from_secs(3600));
        let begun = Instant::now();
        let slow: Vec<_> = (0..PLACES).map(|_| places.enter().unwrap()).collect();
        // It waits until the others are slow, and not until they end.
        let next = places.enter().unwrap();
        assert!(begun.elapsed() >= SLOW);
        assert_eq!(places.lock().len(), PLACES + 1);
        drop((slow, next));
        assert!(places.lock().is_empty());
    }

    #[test]
    fn no_trial_begins_or_lasts_beyond_the_budget() {
        let over = TrialPlaces::new(Duration::ZERO);
        assert!(over.enter().is_none());
        let places = TrialPlaces::new(Duration::from_secs(60));
        let place = places.enter().unwrap();
        assert_eq!(place.limit(Duration::from_millis(5)), Duration::from_millis(5));
        assert!(place.limit(Duration::from_secs(3600)) <= Duration::from_secs(60));
        let hour = Duration::from_secs(3600);
        assert_eq!(TrialPlace::unbounded().limit(hour), hour);
    }
}
