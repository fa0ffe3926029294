//! A stream of events, held to a size of each: what has no end would fill the memory.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use rmcp::transport::streamable_http_client::SseError;

/// The bytes of a stream of events, until one event is too large.
pub(crate) struct Bounded<S> {
    inner: S,
    most: usize,
    gauge: Gauge,
    over: bool,
}

/// Why a stream ends.
#[derive(Debug)]
pub(crate) enum Broken {
    /// An event is larger than allowed.
    TooLarge,
    /// The connection is.
    Connection(String),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge => f.write_str("an event is too large"),
            Self::Connection(cause) => f.write_str(cause),
        }
    }
}

impl std::error::Error for Broken {}

impl<S> Bounded<S> {
    pub(crate) fn new(inner: S, most: usize) -> Self {
        Self { inner, most, gauge: Gauge::default(), over: false }
    }

    /// Says whether a stream ended because of its size.
    pub(crate) fn is_too_large(error: &SseError) -> bool {
        let SseError::Body(error) = error else { return false };
        matches!(error.downcast_ref(), Some(Broken::TooLarge))
    }
}

impl<S, E> Stream for Bounded<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error,
{
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(item) = Pin::new(&mut self.inner).poll_next(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(item.map(|item| match item {
            Ok(bytes) if self.gauge.add(&bytes) <= self.most => Ok(bytes),
            Ok(_) => {
                self.over = true;
                Err(Broken::TooLarge)
            }
            Err(error) => Err(Broken::Connection(error.to_string())),
        }))
    }
}

/// Measures the event that is being received: one ends with an empty line.
#[derive(Default)]
struct Gauge {
    event: usize,
    line: usize,
    after_return: bool,
}

impl Gauge {
    /// Returns the largest that an event has become within these bytes.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for &byte in bytes {
            // A line feed after a carriage return ends no further line.
            if byte == b'\n' && self.after_return {
                self.after_return = false;
                continue;
            }
            self.after_return = byte == b'\r';
            if matches!(byte, b'\n' | b'\r') {
                if self.line == 0 {
                    self.event = 0;
                }
                self.line = 0;
            } else {
                self.line += 1;
                self.event += 1;
            }
            largest = largest.max(self.event);
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(parts: &[&str]) -> usize {
        let mut gauge = Gauge::default();
        parts.iter().map(|part| gauge.add(part.as_bytes())).max().unwrap_or_default()
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        assert_eq!(largest(&["data: ab\n\ndata: c\n\n"]), 8);
        assert_eq!(largest(&["data: ab\r\n\r", "\ndata: c\r\n\r\n"]), 8);
        assert_eq!(largest(&["data: ab\r\rdata: c\r\r"]), 8);
    }

    #[test]
    fn lines_of_one_event_add_up_however_they_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("data: a{end}data: b{end}data: c");
            assert_eq!(largest(&[&text]), 21, "{end:?}");
            let split: Vec<String> = text.chars().map(String::from).collect();
            let split: Vec<&str> = split.iter().map(String::as_str).collect();
            assert_eq!(largest(&split), 21, "{end:?}");
        }
    }
}
