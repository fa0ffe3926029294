//! The memory of requests and answers: bounded each, bounded together, and within their time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use crate::json::{self, Limits, Value};

/// The unit in which memory is given out.
const UNIT: usize = 1024;
/// An answer that is smaller is not counted.
const SMALL: usize = 64 * 1024;
/// What a value takes besides its text, roughly.
const VALUE: usize = 64;

/// The memory that all requests, and all answers, may take together.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    units: usize,
}

/// The right to some of it, for as long as it is kept.
pub(super) type Right = OwnedSemaphorePermit;

/// A body, and the memory that it takes.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    right: Option<Right>,
}

impl Held {
    /// Takes the right to the memory out, for whoever keeps what was made of the body.
    pub(super) fn take_right(&mut self) -> Option<Right> {
        self.right.take()
    }
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        let pool = || Arc::new(Semaphore::new(units));
        Self { requests: pool(), answers: pool(), units }
    }

    /// Returns the units for so many bytes, or all that there are.
    fn at_most_all(&self, bytes: usize) -> u32 {
        units(bytes).min(u32::try_from(self.units).unwrap_or(u32::MAX))
    }

    fn request(&self, bytes: usize) -> Result<Right, Problem> {
        // What takes more than all there is has it alone.
        let wanted = self.at_most_all(bytes);
        let right = Arc::clone(&self.requests).try_acquire_many_owned(wanted);
        right.map_err(|_| {
            let detail = "other requests take all the memory that there is for them";
            Problem::overloaded(detail)
        })
    }

    /// Waits for the right to keep an answer until it is written.
    pub(super) async fn answer(&self, bytes: usize) -> Option<Right> {
        Arc::clone(&self.answers).acquire_many_owned(self.at_most_all(bytes)).await.ok()
    }

    /// Counts an answer that is not small for as long as it takes to write it.
    pub(super) async fn weighed(&self, response: Response) -> Response {
        let size = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
        if size < SMALL {
            return response;
        }
        let right = self.answer(size).await;
        response.map(|body| Body::new(Weighed { body, _right: right }))
    }

    /// Reads JSON out of a body, whose text is let go; what is made of it takes more.
    pub(super) fn parse(&self, held: &mut Held) -> Result<Value, Problem> {
        let value = json::parse(&held.bytes, Limits::REQUEST)
            .map_err(|error| Problem::from(crate::request::Error::from(error)))?;
        let bytes = std::mem::take(&mut held.bytes).len();
        held.right = None;
        held.right = Some(self.request(bytes.saturating_add(value.count() * VALUE))?);
        Ok(value)
    }

    /// Counts also the values that somebody else is going to make of a body.
    pub(super) fn weigh_values(&self, held: &mut Held) -> Result<(), Problem> {
        let bytes = held.bytes.len().saturating_add(values(&held.bytes) * VALUE);
        held.right = None;
        held.right = Some(self.request(bytes)?);
        Ok(())
    }

    /// Reads a body of at most `limit` bytes.
    pub(super) async fn read(
        &self,
        body: Body,
        declared: Option<u64>,
        limit: usize,
        time: Duration,
    ) -> Result<Held, Problem> {
        let too_large = || {
            let detail = format!("the body has more than {limit} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", detail)
        };
        // What a client does not declare may be as large as is allowed.
        let size = match declared.map(usize::try_from) {
            None => limit,
            Some(Ok(size)) if size <= limit => size,
            Some(_) => return Err(too_large()),
        };
        if size == 0 {
            return Ok(Held::default());
        }
        let mut right = self.request(size)?;
        let read = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
        match read {
            Ok(Ok(collected)) => {
                let bytes = collected.to_bytes();
                // What was not needed is for others.
                let needed = units(bytes.len()) as usize;
                drop(right.split(right.num_permits().saturating_sub(needed)));
                Ok(Held { bytes, right: Some(right) })
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => {
                let detail = format!("the body cannot be read: {error}");
                Err(Problem::new(StatusCode::BAD_REQUEST, "BODY_BROKEN", detail))
            }
            Err(_) => {
                let detail = format!("the body was not there after {} ms", time.as_millis());
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "BODY_TIMEOUT", detail))
            }
        }
    }
}

/// Returns how many values there are in a text of JSON, or more if it is none.
fn values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'[' | b'{' | b',' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// An answer with the right to its memory.
struct Weighed {
    body: Body,
    _right: Option<Right>,
}

impl HttpBody for Weighed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_texts_are_not_looked_into() {
        for (text, count) in
            [("", 0), (r#"{"a":[1,2,3],"b":{}}"#, 6), (r#"["[[,\",,,]","\\",1]"#, 3)]
        {
            assert_eq!(values(text.as_bytes()), count, "{text}");
        }
    }
}
