//! Identifiers: unique everywhere, and in the order of time.

use uuid::Uuid;

/// Makes the id of a run: a UUID of version 7.
#[must_use]
pub fn run_id() -> String {
    Uuid::now_v7().hyphenated().to_string()
}

/// Makes the id of an approval: a UUID of version 7.
#[must_use]
pub fn approval_id() -> String {
    run_id()
}

/// The ids of the events of a run, derived from the run's so that they need neither randomness nor a
/// second look at the clock.
#[derive(Clone, Debug)]
pub struct EventIds {
    base: u128,
}

/// The part of a version 7 UUID that is random even among ids of one millisecond.
const RANDOM: u128 = 0xffff_ffff;

impl EventIds {
    /// Returns the ids for a run. One whose id is no UUID gets ids of its own.
    #[must_use]
    pub fn of(run_id: &str) -> Self {
        let base = Uuid::try_parse(run_id).unwrap_or_else(|_| Uuid::now_v7());
        Self { base: base.as_u128() }
    }

    /// Returns the id of the event at `seq`: the run's id, counted on in its random part.
    #[must_use]
    pub fn at(&self, seq: u64) -> uuid::fmt::Hyphenated {
        let random = (self.base & RANDOM).wrapping_add(u128::from(seq) + 1) & RANDOM;
        Uuid::from_u128((self.base & !RANDOM) | random).hyphenated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_differ_from_each_other_and_from_the_run() {
        let run = run_id();
        let ids = EventIds::of(&run);
        let mut seen: std::collections::BTreeSet<String> =
            (0..1000).map(|seq| ids.at(seq).to_string()).collect();
        assert!(seen.insert(run.clone()));
        assert_eq!(seen.len(), 1001);
        assert_eq!(EventIds::of(&run).at(7), ids.at(7));
        assert!(seen.iter().all(|id| Uuid::try_parse(id).unwrap().get_version_num() == 7));
    }

    #[test]
    fn run_ids_are_in_the_order_of_time() {
        let ids: Vec<String> = (0..1000).map(|_| run_id()).collect();
        assert!(ids.is_sorted());
    }
}
