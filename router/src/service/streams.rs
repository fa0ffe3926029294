//! Event streams: limited in number, each token within its share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Inner, Service};
use crate::caller::Caller;
use crate::router::ShareRefusal;
use crate::share;

/// The event streams that are open.
#[derive(Debug, Default)]
pub(super) struct Streams {
    counts: Mutex<StreamCounts>,
}

#[derive(Debug, Default)]
struct StreamCounts {
    all: usize,
    /// Streams of each token that has one.
    of_token: HashMap<Box<str>, usize>,
}

/// An event stream is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRefusal {
    /// As many streams are open as may be.
    Overloaded,
    /// The token of the caller has as many as it may have.
    Share(ShareRefusal),
}

/// An open event stream, counted as long as it exists.
pub struct OpenStream {
    inner: Arc<Inner>,
    token: Box<str>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, StreamCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many are open.
    pub(super) fn count(&self) -> usize {
        self.lock().all
    }

    fn open(&self, token: &str, all: usize, per_token: usize) -> Result<(), StreamRefusal> {
        let mut counts = self.lock();
        if counts.all >= all {
            return Err(StreamRefusal::Overloaded);
        }
        // Callers without a token have no limit of their own.
        if !token.is_empty() {
            let own = counts.of_token.get(token).copied().unwrap_or_default();
            if own >= per_token {
                return Err(StreamRefusal::Share(ShareRefusal::Streams { limit: per_token }));
            }
            counts.of_token.insert(token.into(), own + 1);
        }
        counts.all += 1;
        Ok(())
    }

    fn close(&self, token: &str) {
        let mut counts = self.lock();
        counts.all -= 1;
        let own = counts.of_token.get_mut(token).map(|own| {
            *own -= 1;
            *own
        });
        if own == Some(0) {
            counts.of_token.remove(token);
        }
    }
}

impl Service {
    /// Counts an event stream of a caller for as long as the value exists.
    ///
    /// # Errors
    /// When there are too many streams, of all or of the caller's token.
    pub fn stream(&self, caller: &Caller) -> Result<OpenStream, StreamRefusal> {
        let (standing, token) = (self.standing(), share::token_id(Some(caller)));
        let server = &standing.server;
        self.inner.streams.open(token, server.streams, server.streams_per_token)?;
        Ok(OpenStream { inner: Arc::clone(&self.inner), token: token.into() })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.inner.streams.close(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_no_more_streams_than_its_share() {
        let streams = Streams::default();
        let open = |token: &str| streams.open(token, 5, 2);
        assert_eq!((open("a"), open("a")), (Ok(()), Ok(())));
        let refused = StreamRefusal::Share(ShareRefusal::Streams { limit: 2 });
        assert_eq!(open("a"), Err(refused));
        assert_eq!((open("b"), open(""), open("")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(open("b"), Err(StreamRefusal::Overloaded));
        streams.close("a");
        assert_eq!(open("a"), Ok(()));
        ["a", "a", "b", "", ""].iter().for_each(|token| streams.close(token));
        assert_eq!(streams.count(), 0);
        assert!(streams.lock().of_token.is_empty());
    }
}
