//! How far long work is: one line on a terminal, and nothing elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// A line is not written again before this time.
const PAUSE: Duration = Duration::from_millis(100);

/// A line that tells how far the work is. It is gone when the work is over.
pub(super) struct Progress {
    what: &'static str,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    /// Tells that so much is done, and of how much.
    pub(super) fn tell(&mut self, done: u64, total: u64) {
        if !self.terminal || self.shown.is_some_and(|shown| shown.elapsed() < PAUSE) {
            return;
        }
        self.write(&line(self.what, done, total));
    }

    /// Tells what is done now, where it cannot be counted.
    pub(super) fn phase(&mut self, what: &'static str) {
        self.what = what;
        if self.terminal {
            self.write(what);
        }
    }

    fn write(&mut self, line: &str) {
        self.shown = Some(Instant::now());
        drop(write!(std::io::stderr().lock(), "\r{line}\x1b[K"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            drop(write!(std::io::stderr().lock(), "\r\x1b[K"));
        }
    }
}

fn line(what: &str, done: u64, total: u64) -> String {
    match done.checked_mul(100).and_then(|hundredfold| hundredfold.checked_div(total)) {
        Some(percent) => format!("{what} {done} of {total} ({percent} %)"),
        None => format!("{what} {done}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_how_much() {
        assert_eq!(line("checking", 5, 20), "checking 5 of 20 (25 %)");
        assert_eq!(line("reading", 5, 0), "reading 5");
    }
}
