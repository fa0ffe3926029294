//! Waiting a moment for what is about to come, before sleeping until it comes.
//!
//! To wake a thread takes longer than most calls. So whoever has just been busy looks again for some
//! microseconds, and lets others run between the looks. Where that was in vain several times, it is left.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to look. A call of an adapter that only computes is over by then.
const TIME: Duration = Duration::from_micros(50);
/// After so many times in vain, looking is left alone,
const PATIENCE: u32 = 4;
/// but for one time in so many.
const RARELY: u32 = 32;

/// Whether looking has been worth it.
#[derive(Debug, Default)]
pub(super) struct Spin {
    in_vain: AtomicU32,
}

impl Spin {
    /// Looks until something is found or the time is over.
    pub(super) fn look<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        if in_vain >= PATIENCE && !in_vain.is_multiple_of(RARELY) {
            self.in_vain.store(in_vain.wrapping_add(1).max(PATIENCE), Ordering::Relaxed);
            return None;
        }
        let started = Instant::now();
        loop {
            if let Some(found) = look() {
                self.in_vain.store(0, Ordering::Relaxed);
                return Some(found);
            }
            if started.elapsed() >= TIME {
                self.in_vain.store(in_vain.wrapping_add(1), Ordering::Relaxed);
                return None;
            }
            // The other side may need this very processor.
            rustix::thread::sched_yield();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_in_vain_is_given_up_but_for_rare_times() {
        let spin = Spin::default();
        let mut looks = 0;
        for _ in 0..100 {
            let mut looked = false;
            let found: Option<()> = spin.look(|| {
                looked = true;
                None
            });
            assert_eq!(found, None);
            looks += u32::from(looked);
        }
        assert!((PATIENCE..PATIENCE + 5).contains(&looks), "{looks}");
        while spin.look(|| Some(())).is_none() {}
        assert_eq!(spin.look(|| Some(7)), Some(7));
    }
}
