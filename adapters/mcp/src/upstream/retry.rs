//! When to connect again: at once after a connection that lasted, and ever later after those that did not.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// The first pause, and the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// A connection that lasted so long was a good one.
const LASTING: Duration = Duration::from_secs(10);

/// What is known of earlier connections and attempts.
#[derive(Default)]
pub(super) struct Retry {
    failures: u32,
    since: Option<Instant>,
    not_before: Option<Instant>,
    last: Option<Failure>,
}

impl Retry {
    /// Takes note of a new connection.
    pub(super) fn made(&mut self, now: Instant) {
        self.since = Some(now);
        self.not_before = None;
    }

    /// Takes note of an attempt that failed.
    pub(super) fn failed(&mut self, why: Failure, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(16));
        self.not_before = now.checked_add(doubled.min(LONGEST));
        self.last = Some(why);
    }

    /// Takes note of a connection that is over.
    pub(super) fn lost(&mut self, why: Failure, now: Instant) {
        let lasted = self.since.take().map(|since| now.saturating_duration_since(since));
        if lasted.is_some_and(|lasted| lasted >= LASTING) {
            self.failures = 0;
            self.not_before = None;
            self.last = Some(why);
        } else {
            self.failed(why, now);
        }
    }

    /// Returns how long to wait before the next attempt.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// Returns why there is no connection.
    pub(super) fn last(&self) -> Failure {
        self.last.clone().unwrap_or_else(|| Failure::unreached("it was not tried"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why() -> Failure {
        Failure::lost("?")
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let (mut retry, now) = (Retry::default(), Instant::now());
        assert_eq!(retry.pause(now), Duration::ZERO);
        let pauses: Vec<u128> = (0..40)
            .map(|_| {
                retry.failed(why(), now);
                retry.pause(now).as_millis()
            })
            .collect();
        assert_eq!(pauses[..5], [100, 200, 400, 800, 1600]);
        assert_eq!(pauses[39], 30_000);
    }

    #[test]
    fn what_crashes_at_once_counts_as_a_failure_and_what_lasted_does_not() {
        let (mut retry, now) = (Retry::default(), Instant::now());
        for _ in 0..3 {
            retry.made(now);
            retry.lost(why(), now);
        }
        assert_eq!(retry.pause(now), Duration::from_millis(400));
        retry.made(now);
        retry.lost(why(), now + LASTING);
        assert_eq!(retry.pause(now), Duration::ZERO);
    }
}
