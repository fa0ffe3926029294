//! Reads bodies: bounded each, bounded together, and within their time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// The unit in which memory for bodies is given out.
const UNIT: usize = 1024;

/// The memory that all bodies together may take.
#[derive(Clone, Debug)]
pub(super) struct Memory(Arc<Semaphore>);

/// A body, and the memory that it takes.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS))))
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
        let units = u32::try_from(size.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let memory = Arc::clone(&self.0).try_acquire_many_owned(units).map_err(|_| {
            Problem::overloaded(
                "the bodies of other requests take all memory that there is for them",
            )
        })?;
        let read = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
        match read {
            Ok(Ok(collected)) => Ok(Held { bytes: collected.to_bytes(), _memory: Some(memory) }),
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
