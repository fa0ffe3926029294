//! The observer of a trial: answers the notices of the child on a thread of its own, and collects what it attempted.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::sandbox::{Attempt, Listener, ReadablePlaces};

/// More attempts are only counted.
const MAX_LISTED: usize = 20;

/// The thread that observes one child.
#[derive(Debug)]
pub(super) struct Observer {
    /// The thread ends when this is closed.
    life: PipeWriter,
    thread: JoinHandle<ObservedAttempts>,
}

/// Attempts of a child that were denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObservedAttempts {
    /// What would have changed something, each once.
    pub(super) effects: AttemptList,
    /// What would have changed nothing, each once.
    pub(super) denied: AttemptList,
    /// Whether the router could not read what some attempts were about.
    pub(super) is_blind: bool,
}

/// Attempts in words, each once; so many, and the number of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptList {
    listed: Vec<String>,
    others: usize,
}

impl Observer {
    /// Begins to observe the child whose listener this is.
    pub(super) fn start(listener: OwnedFd, places: ReadablePlaces) -> io::Result<Self> {
        let listener = Listener::new(listener)?;
        let (watch, life) = io::pipe()?;
        let observe = move || observe(&listener, &places, &watch);
        let thread = thread::Builder::new().name("observer".to_owned()).spawn(observe)?;
        Ok(Self { life, thread })
    }

    /// Returns what the child attempted. It must have ended.
    pub(super) fn finish(self) -> ObservedAttempts {
        drop(self.life);
        // One that panicked has observed nothing.
        let blind = ObservedAttempts { is_blind: true, ..ObservedAttempts::default() };
        self.thread.join().unwrap_or(blind)
    }
}

impl ObservedAttempts {
    fn add(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Harmless => {}
            Attempt::Effect(text) => self.effects.add(text),
            Attempt::Denied(text) => self.denied.add(text),
            Attempt::Unknown => self.is_blind = true,
        }
    }
}

impl AttemptList {
    fn add(&mut self, text: String) {
        match self.listed.contains(&text) {
            true => {}
            false if self.listed.len() < MAX_LISTED => self.listed.push(text),
            false => self.others += 1,
        }
    }

    /// Returns a line for each, and one for the number of others.
    pub(super) fn lines(&self) -> Vec<String> {
        let others = (self.others > 0).then(|| format!("and {} more", self.others));
        self.listed.iter().cloned().chain(others).collect()
    }
}

fn observe(listener: &Listener, places: &ReadablePlaces, watch: &PipeReader) -> ObservedAttempts {
    let mut seen = ObservedAttempts::default();
    while is_asked(listener, watch) {
        match listener.receive() {
            Ok(None) => {}
            Ok(Some(notice)) => seen.add(listener.observe(&notice, places)),
            Err(error) => {
                tracing::error!(%error, "notices of a trial cannot be received");
                seen.is_blind = true;
                break;
            }
        }
    }
    seen
}

/// Waits for a notice. Returns false if the child is gone or the observation is over.
fn is_asked(listener: &Listener, watch: &PipeReader) -> bool {
    loop {
        let mut ends = [PollFd::new(listener, PollFlags::IN), PollFd::new(watch, PollFlags::IN)];
        match poll(&mut ends, None) {
            Ok(_) if ends[0].revents().contains(PollFlags::IN) => return true,
            Ok(_) => return false,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_listed_once_and_others_are_counted() {
        let mut seen = ObservedAttempts::default();
        for number in 0..MAX_LISTED + 3 {
            for _ in 0..2 {
                seen.add(Attempt::Denied(number.to_string()));
            }
        }
        seen.add(Attempt::Harmless);
        let lines = seen.denied.lines();
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (MAX_LISTED + 1, "and 6 more"));
        assert!(seen.effects.lines().is_empty() && !seen.is_blind);
    }
}
