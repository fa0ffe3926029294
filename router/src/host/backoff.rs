//! Pauses between the attempts of a call: exponential, with jitter, never shorter than the service asks for.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::interface::Retry;

/// Returns the pause before an attempt, from 2 on. `random` is any number; equal numbers give equal pauses.
///
/// The pause lies between `base_ms` and a bound that doubles with every attempt, up to `max_ms`. If the service asks for a
/// longer one, that is the pause.
#[must_use]
pub(crate) fn pause(
    retry: Retry,
    attempt: u64,
    retry_after: Option<Duration>,
    random: u64,
) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    let bound = retry.base_ms.saturating_mul(factor).min(retry.max_ms).max(retry.base_ms);
    let span = bound - retry.base_ms;
    // One more, so that the bound is reached too.
    let jitter = span.checked_add(1).map_or(random, |numbers| random % numbers);
    let pause = Duration::from_millis(retry.base_ms + jitter);
    retry_after.map_or(pause, |asked| pause.max(asked))
}

/// Returns a random number. The hasher of the standard library has random keys.
#[must_use]
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETRY: Retry = Retry { attempts: 9, base_ms: 100, max_ms: 1_000 };

    fn longest(attempt: u64) -> u64 {
        let pauses = (0..2_000).map(|random| pause(RETRY, attempt, None, random).as_millis());
        u64::try_from(pauses.max().unwrap()).unwrap()
    }

    #[test]
    fn bound_doubles_up_to_its_limit() {
        assert_eq!(
            [2, 3, 4, 5, 6, 60, u64::MAX].map(longest),
            [200, 400, 800, 1_000, 1_000, 1_000, 1_000]
        );
    }

    #[test]
    fn service_may_ask_for_a_longer_pause() {
        let asked = |milliseconds| {
            pause(RETRY, 2, Some(Duration::from_millis(milliseconds)), 0).as_millis()
        };
        assert_eq!((asked(5_000), asked(10)), (5_000, 100));
    }

    proptest! {
        #[test]
        fn pauses_lie_between_base_and_limit(
            base_ms in any::<u64>(),
            max_ms in any::<u64>(),
            attempt in any::<u64>(),
            random in any::<u64>(),
        ) {
            let (base_ms, max_ms) = (base_ms.min(max_ms), base_ms.max(max_ms));
            let pause = pause(Retry { attempts: 2, base_ms, max_ms }, attempt, None, random);
            prop_assert!(pause >= Duration::from_millis(base_ms));
            prop_assert!(pause <= Duration::from_millis(max_ms));
        }
    }
}
