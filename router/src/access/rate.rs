//! How often each caller may call: a generic cell rate algorithm per key.
//!
//! Of a caller only one moment is kept: when it would be done if its calls were spread evenly. It may be
//! ahead of the present by as much as its burst takes. So nothing is counted, and nothing ticks.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers in different shards do not wait for each other.
const SHARDS: usize = 64;

/// How often a caller may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The calls per second in the long run; 0 means that there is no limit.
    pub per_second: u32,
    /// The calls that may come at once after a pause; 0 counts as 1.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_second: 0, burst: 0 };

    /// Returns the nanoseconds that one call takes up; none without a limit. Rounded up, so that the rate
    /// is never exceeded.
    fn step(self) -> Option<u64> {
        (self.per_second > 0).then(|| 1_000_000_000_u64.div_ceil(self.per_second.into()))
    }
}

/// The callers that called lately.
#[derive(Debug)]
pub struct Buckets {
    start: Instant,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    keys_per_shard: usize,
}

#[derive(Debug, Default)]
struct Shard {
    buckets: HashMap<Box<str>, Bucket>,
    /// Before this moment no bucket can be forgotten, so that a full shard is not searched in vain.
    idle_from: u64,
}

/// The moments are nanoseconds since the start.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When the calls so far would be done if they were spread evenly.
    done: u64,
    /// The latest moment at which it was asked: threads may come with moments in the wrong order.
    seen: u64,
}

impl Buckets {
    /// How many callers are kept apart if nobody says.
    pub const DEFAULT_KEYS: usize = 65_536;

    /// Makes buckets for at most about so many callers at once.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self {
            start: Instant::now(),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            keys_per_shard: keys.div_ceil(SHARDS).max(1),
        }
    }

    /// Takes one call of a caller, if it may be made at the moment `now`. The rate of a caller may change
    /// at any time; who has two rates at once needs two keys.
    ///
    /// # Errors
    /// When the caller calls too often, or there is no room for one more caller; with the time after which
    /// it may try again.
    pub fn allow(&self, key: &str, rate: Rate, now: Instant) -> Result<(), Duration> {
        let Some(step) = rate.step() else { return Ok(()) };
        let now = nanos(now.saturating_duration_since(self.start));
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        let mut shard = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = shard.buckets.get_mut(key) {
            return bucket.take(step, rate.burst, now);
        }
        shard.make_room(self.keys_per_shard, now)?;
        let mut bucket = Bucket { done: now, seen: now };
        let taken = bucket.take(step, rate.burst, now);
        shard.buckets.insert(key.into(), bucket);
        taken
    }

    /// Returns the number of callers that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        let count = |shard: &Mutex<Shard>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).buckets.len()
        };
        self.shards.iter().map(count).sum()
    }

    /// Says whether no caller is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new(Self::DEFAULT_KEYS)
    }
}

impl Bucket {
    fn take(&mut self, step: u64, burst: u32, now: u64) -> Result<(), Duration> {
        let now = now.max(self.seen);
        self.seen = now;
        let limit = now.saturating_add(step.saturating_mul(burst.max(1).into()));
        // What was taken at a slower rate counts at most as much as this rate can owe.
        self.done = self.done.clamp(now, limit);
        let after = self.done.saturating_add(step);
        if after > limit {
            return Err(Duration::from_nanos(after - limit));
        }
        self.done = after;
        Ok(())
    }
}

impl Shard {
    /// Makes room for one more. Only callers are forgotten that have their whole burst again: for them it
    /// makes no difference.
    fn make_room(&mut self, most: usize, now: u64) -> Result<(), Duration> {
        if self.buckets.len() < most {
            return Ok(());
        }
        if self.idle_from <= now {
            self.buckets.retain(|_, bucket| bucket.done > now);
            self.idle_from = self.buckets.values().map(|bucket| bucket.done).min().unwrap_or(now);
        }
        if self.buckets.len() < most {
            return Ok(());
        }
        Err(Duration::from_nanos(self.idle_from.saturating_sub(now).max(1)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second, burst }
    }

    /// Calls until it is refused, and returns how often it was allowed.
    fn exhaust(buckets: &Buckets, key: &str, rate: Rate, now: Instant) -> u32 {
        (0..).find(|_| buckets.allow(key, rate, now).is_err()).unwrap()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let buckets = Buckets::default();
        let start = Instant::now();
        assert_eq!(exhaust(&buckets, "a", rate(10, 3), start), 3);
        assert_eq!(exhaust(&buckets, "b", rate(10, 3), start), 3, "callers are kept apart");
        let wait = buckets.allow("a", rate(10, 3), start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert!(buckets.allow("a", rate(10, 3), start + wait - Duration::from_nanos(1)).is_err());
        assert_eq!(exhaust(&buckets, "a", rate(10, 3), start + wait), 1);
        assert_eq!(exhaust(&buckets, "a", rate(10, 3), start + Duration::from_secs(9)), 3);
    }

    #[test]
    fn no_limit_keeps_nothing_and_no_burst_is_one() {
        let buckets = Buckets::default();
        let now = Instant::now();
        assert!((0..10_000).all(|_| buckets.allow("a", Rate::UNLIMITED, now).is_ok()));
        assert!(buckets.is_empty());
        assert_eq!(exhaust(&buckets, "a", rate(1, 0), now), 1);
        assert_eq!(exhaust(&buckets, "fast", rate(u32::MAX, 5), now), 5);
        assert!(buckets.allow("most", rate(1, u32::MAX), now).is_ok());
    }

    #[test]
    fn limits_may_change_at_any_time() {
        let buckets = Buckets::default();
        let now = Instant::now();
        // Ten seconds ahead, by the slow rate.
        assert_eq!(exhaust(&buckets, "a", rate(1, 10), now), 10);
        let wait = buckets.allow("a", rate(1000, 10), now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(1), "what was owed is not owed at the old rate");
        assert!(buckets.allow("a", rate(1000, 10), now + wait).is_ok());
        // And the other way: the new burst, less what was just taken.
        let later = now + Duration::from_secs(1);
        assert_eq!(exhaust(&buckets, "a", rate(1000, 10), later), 10);
        assert_eq!(exhaust(&buckets, "a", rate(1, 2), later), 1);
    }

    #[test]
    fn a_full_shard_forgets_only_who_is_at_rest() {
        let buckets = Buckets::new(1);
        let now = Instant::now();
        let slow = rate(1, 1);
        let keys: Vec<String> = (0..10_000).map(|key| key.to_string()).collect();
        let taken = keys.iter().filter(|key| buckets.allow(key, slow, now).is_ok()).count();
        assert_eq!((taken, buckets.len()), (SHARDS, SHARDS));
        let refused = keys.iter().find_map(|key| buckets.allow(key, slow, now).err()).unwrap();
        assert!(refused <= Duration::from_secs(1) && !refused.is_zero());
        let later = now + Duration::from_secs(2);
        let taken = keys.iter().filter(|key| buckets.allow(key, slow, later).is_ok()).count();
        assert_eq!((taken, buckets.len()), (SHARDS, SHARDS));
    }

    #[test]
    fn threads_share_one_limit() {
        let buckets = Buckets::default();
        let now = Instant::now();
        let allowed: u32 = std::thread::scope(|scope| {
            let worker = || {
                let calls = (0..1000).filter(|_| buckets.allow("a", rate(1, 100), now).is_ok());
                u32::try_from(calls.count()).unwrap()
            };
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(allowed, 100);
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_burst_and_rate(
            per_second in 1_u32..5000,
            burst in 1_u32..20,
            gaps in prop::collection::vec((0_u64..3_000_000, 0_u64..4), 1..300),
        ) {
            let buckets = Buckets::default();
            let start = Instant::now();
            let mut latest = 0;
            let mut allowed: Vec<u64> = Vec::new();
            for (gap, back) in gaps {
                latest += gap;
                // Threads may bring their moments a little late; what counts is when the call is made.
                let now = start + Duration::from_nanos(latest.saturating_sub(back * 1000));
                if buckets.allow("a", rate(per_second, burst), now).is_ok() {
                    allowed.push(latest);
                }
            }
            for (first, from) in allowed.iter().enumerate() {
                for (last, to) in allowed.iter().enumerate().skip(first) {
                    let calls = u64::try_from(last - first + 1).unwrap();
                    let beyond = calls.saturating_sub(burst.into());
                    prop_assert!(beyond * 1_000_000_000 <= u64::from(per_second) * (to - from + 3000));
                }
            }
        }

        #[test]
        fn a_pause_gives_the_burst_back(
            per_second in 1_u32..5000,
            burst in 1_u32..50,
            calls in 0_usize..100,
        ) {
            let buckets = Buckets::default();
            let start = Instant::now();
            for _ in 0..calls {
                let _ = buckets.allow("a", rate(per_second, burst), start);
            }
            let full = Duration::from_nanos(1_000_000_000_u64.div_ceil(per_second.into())) * burst;
            prop_assert_eq!(exhaust(&buckets, "a", rate(per_second, burst), start + full), burst);
        }

        #[test]
        fn whoever_waits_as_told_comes_through(
            rates in prop::collection::vec((1_u32..5000, 1_u32..9, 0_u64..2_000_000), 1..60),
        ) {
            let buckets = Buckets::default();
            let mut now = Instant::now();
            for (per_second, burst, gap) in rates {
                now += Duration::from_nanos(gap);
                if let Err(wait) = buckets.allow("a", rate(per_second, burst), now) {
                    let step = Duration::from_nanos(1_000_000_000_u64.div_ceil(per_second.into()));
                    prop_assert!(wait <= step, "{wait:?} is longer than one call takes, {step:?}");
                    now += wait;
                    prop_assert!(buckets.allow("a", rate(per_second, burst), now).is_ok());
                }
            }
        }
    }
}
