//! Crashes of one adapter's workers: how many count, and how long no other worker is started.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Rules;

/// First pause before another worker is started when the one before never answered. Each further pause is twice as
/// long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Crashes of the workers of one adapter.
#[derive(Debug, Default)]
pub(super) struct CrashCount {
    /// When workers crashed, within the window and since the last quarantine.
    times: VecDeque<Instant>,
    /// Workers in a row that never answered.
    in_vain: u32,
    /// The last worker ended in quarantine, and none has answered since.
    probation: bool,
    /// Crashes that led to the last quarantine, with those of quarantines that it continues.
    before_quarantine: usize,
}

/// Time in which no worker is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RestartPause {
    pub(super) time: Duration,
    pub(super) quarantined: bool,
}

impl CrashCount {
    /// Counts a crash, and returns the pause before the next worker if there is one. `in_vain` says that the worker
    /// never answered.
    pub(super) fn add(
        &mut self,
        now: Instant,
        in_vain: bool,
        rules: Rules,
    ) -> Option<RestartPause> {
        self.times.push_back(now);
        while self.times.front().is_some_and(|at| now.duration_since(*at) > rules.window) {
            self.times.pop_front();
        }
        self.in_vain = if in_vain { self.in_vain.saturating_add(1) } else { 0 };
        self.probation &= in_vain;
        if self.times.len() >= rules.crashes || self.probation {
            // After it, one more crash without an answer brings the next one.
            let continued = if self.probation { self.before_quarantine } else { 0 };
            self.before_quarantine = continued.saturating_add(self.times.len());
            self.probation = true;
            self.times.clear();
            return Some(RestartPause { time: rules.quarantine, quarantined: true });
        }
        if self.in_vain > 1 {
            let times = 1 << (self.in_vain - 2).min(16);
            let time = FIRST_PAUSE.saturating_mul(times).min(LONGEST_PAUSE);
            return Some(RestartPause { time, quarantined: false });
        }
        None
    }

    /// Returns how many crashes led to the last quarantine.
    pub(super) const fn before_quarantine(&self) -> usize {
        self.before_quarantine
    }

    /// Forgets all crashes.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        processes: 1,
        crashes: 5,
        window: Duration::from_secs(60),
        quarantine: Duration::from_secs(600),
    };
    const QUARANTINE: Option<RestartPause> =
        Some(RestartPause { time: RULES.quarantine, quarantined: true });

    /// Adds a crash in each of these seconds, and returns the last pause.
    fn crashed(count: &mut CrashCount, in_vain: bool, seconds: &[u64]) -> Option<RestartPause> {
        let start = Instant::now();
        let add = |_, second: &u64| count.add(start + Duration::from_secs(*second), in_vain, RULES);
        seconds.iter().fold(None, add)
    }

    #[test]
    fn quarantine_counts_the_crashes_that_led_to_it() {
        let mut count = CrashCount::default();
        assert_eq!(crashed(&mut count, false, &[0, 1, 2, 3]), None);
        assert_eq!(crashed(&mut count, false, &[4]), QUARANTINE);
        assert_eq!(count.before_quarantine(), 5);
    }

    #[test]
    fn crash_after_quarantine_adds_to_the_count() {
        let mut count = CrashCount::default();
        crashed(&mut count, false, &[0, 1, 2, 3, 4]);
        assert_eq!(crashed(&mut count, true, &[700]), QUARANTINE);
        assert_eq!(count.before_quarantine(), 6);
        assert_eq!(crashed(&mut count, true, &[1400]), QUARANTINE);
        assert_eq!(count.before_quarantine(), 7);
        // One that answered before it crashed starts anew.
        assert_eq!(crashed(&mut count, false, &[2100, 2101, 2102, 2103]), None);
        assert_eq!(crashed(&mut count, false, &[2104]), QUARANTINE);
        assert_eq!(count.before_quarantine(), 5);
    }

    #[test]
    fn crashes_outside_the_window_do_not_count() {
        let mut count = CrashCount::default();
        assert_eq!(crashed(&mut count, false, &[0, 1, 2, 3, 100, 101, 102, 103]), None);
        assert_eq!(crashed(&mut count, false, &[104]), QUARANTINE);
        assert_eq!(count.before_quarantine(), 5);
    }

    #[test]
    fn release_forgets_all_crashes() {
        let mut count = CrashCount::default();
        crashed(&mut count, false, &[0, 1, 2, 3, 4]);
        count.forget();
        assert_eq!(crashed(&mut count, true, &[5]), None);
        assert_eq!(count.before_quarantine(), 0);
    }

    #[test]
    fn pauses_double_while_workers_never_answer() {
        let rules = Rules { crashes: usize::MAX, ..RULES };
        let (mut count, now) = (CrashCount::default(), Instant::now());
        let mut pause = || count.add(now, true, rules).map(|pause| pause.time);
        assert_eq!(pause(), None);
        assert_eq!(pause(), Some(FIRST_PAUSE));
        assert_eq!(pause(), Some(FIRST_PAUSE * 2));
        assert_eq!((0..100).fold(None, |_, _| pause()), Some(LONGEST_PAUSE));
    }
}
