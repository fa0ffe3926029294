//! How much a worker may say that nobody waits for: beyond that it is dropped, and beyond that it is ended.

use std::time::Instant;

/// What is beyond so many bytes a second is dropped, after so many at once.
const RATE: usize = 1024 * 1024;
const BURST: usize = 4 * 1024 * 1024;
/// Whoever sends so many more in vain is ended.
const FLOOD: usize = 64 * 1024 * 1024;

/// What a worker may still say.
pub(super) struct Allowance {
    left: usize,
    at: Instant,
    in_vain: usize,
}

/// Whether something may be said.
pub(super) enum Affordable {
    Yes,
    No,
    Flood,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: BURST, at: Instant::now(), in_vain: 0 }
    }
}

impl Allowance {
    /// Spends what a text of this length costs, if there is as much.
    pub(super) fn afford(&mut self, length: usize) -> Affordable {
        let micros = usize::try_from(self.at.elapsed().as_micros()).unwrap_or(usize::MAX);
        let more = micros.saturating_mul(RATE) / 1_000_000;
        self.left = self.left.saturating_add(more).min(BURST);
        self.at = Instant::now();
        // A frame costs something even if nothing is in it.
        let cost = length + 64;
        if let Some(rest) = self.left.checked_sub(cost) {
            self.left = rest;
            self.in_vain = 0;
            return Affordable::Yes;
        }
        self.in_vain += cost;
        if self.in_vain > FLOOD { Affordable::Flood } else { Affordable::No }
    }
}
