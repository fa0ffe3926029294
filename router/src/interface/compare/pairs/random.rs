//! Random numbers that are the same on every run with the same seed.

/// The generator `SplitMix64`.
pub(super) struct RandomSource(pub(super) u64);

impl RandomSource {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below another one, or 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    pub(super) fn integer(&mut self, from: i64, to: i64) -> i64 {
        from + i64::try_from(self.next() % (to - from + 1) as u64).unwrap()
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Returns some of the items, in their order.
    pub(super) fn some<T: Clone>(&mut self, items: &[T], percent: usize) -> Vec<T> {
        items.iter().filter(|_| self.percent(percent)).cloned().collect()
    }
}
