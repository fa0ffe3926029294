//! Tells the operator what an adapter was refused, and never so often that it would be a nuisance.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::grant::Endpoint;

/// How many different things are told at once.
const AT_ONCE: usize = 64;
/// How far apart all others are told.
const APART: Duration = Duration::from_secs(1);

/// The refusals of one adapter.
#[derive(Debug)]
pub(super) struct Refusals {
    adapter: String,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    what: HashSet<String>,
    last: Option<Instant>,
    left_out: u64,
}

impl Told {
    /// Says whether something is to be told, and how much was left out before.
    fn tell(&mut self, what: &str, now: Instant) -> Option<u64> {
        let is_new = self.what.len() < AT_ONCE && self.what.insert(what.to_owned());
        let is_time = self.last.is_none_or(|last| now.saturating_duration_since(last) >= APART);
        if !is_new && !is_time {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Refusals {
    pub(super) fn new(adapter: &str) -> Self {
        Self { adapter: adapter.to_owned(), told: Mutex::default() }
    }

    pub(super) fn adapter(&self) -> &str {
        &self.adapter
    }

    /// Tells that something was refused.
    pub(super) fn tell(&self, what: &str, granted: &[Endpoint]) {
        let Some(left_out) = self.turn(what) else { return };
        let granted: Vec<String> = granted.iter().map(ToString::to_string).collect();
        tracing::warn!(
            adapter = self.adapter,
            refused = what,
            granted = granted.join(" "),
            left_out,
            "an adapter was not let connect; what it needs is granted with connect in its table"
        );
    }

    /// Logs that an internal address was refused, and the grant that would include it.
    pub(super) fn tell_internal(&self, place: SocketAddr, granted: &[Endpoint]) {
        let what = place.to_string();
        let Some(left_out) = self.turn(&what) else { return };
        let granted: Vec<String> = granted.iter().map(ToString::to_string).collect();
        let place = SocketAddr::new(place.ip().to_canonical(), place.port());
        tracing::warn!(
            adapter = self.adapter,
            refused = what,
            granted = granted.join(" "),
            left_out,
            hint = %format_args!("add \"{place}\", or a range that holds it, to connect in its grants"),
            "refused a connect of an adapter: names and * do not include loopback, link-local or private addresses"
        );
    }

    /// Tells that a connect could not be looked at or made, granted or not.
    pub(super) fn tell_failure(&self, error: &io::Error) {
        let Some(left_out) = self.turn(&error.to_string()) else { return };
        tracing::warn!(
            adapter = self.adapter,
            %error,
            left_out,
            "a connect of an adapter could not be attended to, and failed"
        );
    }

    fn turn(&self, what: &str) -> Option<u64> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).tell(what, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_told_once_and_then_one_in_a_while() {
        let mut told = Told::default();
        let start = Instant::now();
        assert_eq!(told.tell("a", start), Some(0));
        assert_eq!(told.tell("a", start), None);
        assert_eq!(told.tell("b", start), Some(1), "another one is told, with what was left out");
        assert_eq!(told.tell("b", start + APART / 2), None);
        assert_eq!(told.tell("b", start + APART), Some(1));
    }

    #[test]
    fn a_flood_of_different_ones_is_no_flood_of_lines() {
        let mut told = Told::default();
        let start = Instant::now();
        let lines = (0..10_000).filter(|what| told.tell(&what.to_string(), start).is_some());
        assert_eq!(lines.count(), AT_ONCE);
        assert_eq!(told.what.len(), AT_ONCE);
    }
}
