//! How many processes an execution has: each asks before it begins, so that there are never more than there may be,
//! also of the superuser, whom no limit of the system bounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::worker::session;

/// The processes of one session.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    session: u32,
    most: usize,
    /// At most so many there are: those that were counted, and those that began since.
    counted: Arc<Mutex<usize>>,
    full: Arc<AtomicBool>,
}

impl Census {
    pub(crate) fn new(session: u32, most: usize) -> Self {
        Self { session, most, counted: Arc::new(Mutex::new(1)), full: Arc::default() }
    }

    /// Says whether one more may begin.
    pub(super) fn has_room(&self) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if *counted >= self.most {
            // Some of them have ended, perhaps.
            *counted = session::count(self.session).max(1);
        }
        if *counted >= self.most {
            self.full.store(true, Ordering::Relaxed);
            return false;
        }
        *counted += 1;
        true
    }

    /// Returns how many there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Says whether one was not let begin.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_makes_room() {
        // Nobody is in this session, so whoever is counted again is the one that asks.
        let census = Census::new(u32::MAX, 2);
        assert!((0..10).all(|_| census.has_room()) && !census.is_full());
        let alone = Census::new(u32::MAX, 1);
        assert!(!alone.has_room() && alone.is_full());
    }
}
