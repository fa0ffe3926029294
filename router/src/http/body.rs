//! Bodies of requests and answers within the memory budget: counted as they arrive, parsed, and written.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;

use super::problem::Problem;
use crate::budget::{MemoryBudget, ROOM_PATIENCE, Reservation, SMALL};
use crate::caller::Caller;
use crate::config::Server;
use crate::json::{self, Limits, Value};
use crate::share;

/// Bytes that a parsed value takes besides its text.
const VALUE: usize = 64;
/// Copies of its text that a request takes until its run is recorded: its values, its events, its call.
const COPIES: usize = 3;
/// Bytes of a value that the MCP library and the router both parse.
const MESSAGE_VALUE: usize = 2 * VALUE;
/// Copies of the text of a message, with those of the library.
const MESSAGE_COPIES: usize = COPIES + 1;
/// Bytes per byte of a text in which every second byte is a value.
const DENSE: usize = MESSAGE_COPIES + MESSAGE_VALUE / 2;
/// The first room of a body that comes in parts.
const FIRST_ROOM: usize = 8 * 1024;

/// Memory budget of the daemon for one caller.
#[derive(Clone, Debug)]
pub(super) struct CallerMemory {
    budget: MemoryBudget,
    bearer: std::sync::Arc<Caller>,
}

/// Body in memory, with its reservation.
#[derive(Debug, Default)]
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    reservation: Option<Reservation>,
}

impl BufferedBody {
    /// Takes the reservation out, for the owner of the values.
    pub(super) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }
}

/// Limits of one body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    pub(super) bytes: usize,
    pub(super) time: Duration,
    /// Bodies that one token may be sending at once.
    pub(super) at_once: usize,
}

impl BodyLimits {
    pub(super) const fn of(server: &Server, bytes: usize) -> Self {
        Self { bytes, time: server.body_timeout, at_once: server.token_bodies }
    }
}

impl CallerMemory {
    pub(super) fn new(budget: &MemoryBudget, bearer: &std::sync::Arc<Caller>) -> Self {
        Self { budget: budget.clone(), bearer: std::sync::Arc::clone(bearer) }
    }

    fn holder(&self) -> &str {
        share::token_id(Some(&self.bearer))
    }

    fn reserve(&self, bytes: usize) -> Result<Reservation, Problem> {
        self.budget.try_reserve(self.holder(), bytes).map_err(Problem::no_memory)
    }

    /// Counts memory that is taken already.
    pub(super) fn reserve_taken(&self, bytes: usize) -> Reservation {
        self.budget.reserve_taken(self.holder(), bytes)
    }

    /// Waits for room, in turn with other callers.
    pub(super) async fn wait(&self, bytes: usize) -> Result<Reservation, Problem> {
        let reserved = self.budget.reserve(self.holder(), bytes, ROOM_PATIENCE).await;
        reserved.map_err(Problem::no_memory)
    }

    /// Counts the text of an answer until the client took it. Small texts are not counted.
    pub(super) fn metered(&self, response: Response) -> Response {
        let size = response.body().size_hint();
        if size.exact().is_some_and(|size| size < SMALL as u64) {
            return response;
        }
        // A text that is there already counts from now on, a part of a stream when it is made.
        let size = size.exact().and_then(|size| usize::try_from(size).ok());
        let reservation = size.map(|size| self.reserve_taken(size));
        let memory = self.clone();
        let part = Bytes::new();
        response.map(|body| Body::new(MeteredBody { body, part, reservation, memory }))
    }

    /// Parses the JSON of a body, whose text is dropped. The values need more room than the text.
    pub(super) fn parse(&self, body: &mut BufferedBody) -> Result<Value, Problem> {
        let length = body.bytes.len();
        // A small text is parsed before its values are counted.
        if length * DENSE > SMALL {
            let values = value_count(&body.bytes).min(Limits::REQUEST.values);
            self.grow(body, COPIES * length + values * VALUE)?;
        }
        let value = json::parse(&body.bytes, Limits::REQUEST)
            .map_err(|error| Problem::from(crate::request::Error::from(error)))?;
        body.bytes = Bytes::new();
        let exact = COPIES * length + value.count() * VALUE;
        self.grow(body, exact)?;
        body.reservation.iter_mut().for_each(|reservation| reservation.shrink_to(exact));
        Ok(value)
    }

    /// Counts the values of a body that is parsed later, besides its text.
    pub(super) fn weigh_values(&self, body: &mut BufferedBody) -> Result<(), Problem> {
        let values = value_count(&body.bytes);
        self.grow(body, COPIES * body.bytes.len() + values * VALUE)
    }

    /// Counts the values that the MCP library will parse, and rejects too many of them before it does.
    pub(super) fn weigh_message(&self, body: &mut BufferedBody) -> Result<(), Problem> {
        let length = body.bytes.len();
        if length * DENSE <= SMALL {
            return self.grow(body, length * DENSE);
        }
        let (values, most) = (value_count(&body.bytes), Limits::REQUEST.values);
        if values > most {
            let detail = format!("the message has {values} values, more than the {most} allowed");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "JSON_TOO_MANY_VALUES", detail));
        }
        self.grow(body, MESSAGE_COPIES * length + values * MESSAGE_VALUE)
    }

    fn grow(&self, body: &mut BufferedBody, bytes: usize) -> Result<(), Problem> {
        let Some(reservation) = &mut body.reservation else {
            body.reservation = Some(self.reserve(bytes)?);
            return Ok(());
        };
        let more = bytes.saturating_sub(reservation.bytes());
        reservation.try_grow(self.holder(), more).map_err(Problem::no_memory)
    }

    /// Reads a body. Only the bytes that arrived count against the budget.
    pub(super) async fn read(
        &self,
        body: Body,
        declared: Option<u64>,
        limits: BodyLimits,
    ) -> Result<BufferedBody, Problem> {
        let declared = match declared.map(usize::try_from) {
            None => None,
            Some(Ok(0)) => return Ok(BufferedBody::default()),
            Some(Ok(size)) if size <= limits.bytes => Some(size),
            Some(_) => return Err(too_large(limits.bytes)),
        };
        let collected = self.collect(body, declared, limits);
        match tokio::time::timeout(limits.time, collected).await {
            Ok(collected) => collected,
            Err(_) => {
                let time = limits.time.as_millis();
                let detail = format!("the body was not complete after {time} ms");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "BODY_TIMEOUT", detail))
            }
        }
    }

    async fn collect(
        &self,
        mut body: Body,
        declared: Option<usize>,
        limits: BodyLimits,
    ) -> Result<BufferedBody, Problem> {
        // Most bodies arrive with their head: they are not copied, and take no body permit.
        let first = match futures_util::FutureExt::now_or_never(body.frame()) {
            Some(frame) => data(frame)?,
            None => Some(Bytes::new()),
        };
        let Some(first) = first else { return Ok(BufferedBody::default()) };
        if first.len() > limits.bytes {
            return Err(too_large(limits.bytes));
        }
        let is_whole = declared == Some(first.len()) || body.is_end_stream();
        if is_whole && !first.is_empty() {
            let reservation = Some(self.reserve(first.len())?);
            return Ok(BufferedBody { bytes: first, reservation });
        }
        let permit = self.budget.begin_body(self.holder(), limits.at_once);
        let _permit = permit.ok_or_else(|| {
            let detail = format!("the token is sending {} bodies already", limits.at_once);
            Problem::share_used(detail)
        })?;
        let mut text = Vec::new();
        let mut reservation = self.reserve(0)?;
        let mut part = Some(first);
        while let Some(bytes) = part {
            let length = text.len() + bytes.len();
            if length > limits.bytes {
                return Err(too_large(limits.bytes));
            }
            if length > text.capacity() {
                // As much again as is there, but no more than was declared.
                let most = declared.unwrap_or(limits.bytes).max(length);
                let room = (2 * length).clamp(FIRST_ROOM.min(most), most);
                let more = room.saturating_sub(reservation.bytes());
                reservation.try_grow(self.holder(), more).map_err(Problem::no_memory)?;
                text.reserve_exact(room - text.len());
            }
            text.extend_from_slice(&bytes);
            drop(bytes);
            part = data(body.frame().await)?;
        }
        Ok(BufferedBody { bytes: text.into(), reservation: Some(reservation) })
    }
}

/// Returns the data of a frame; none at the end of the body.
fn data(
    frame: Option<Result<http_body::Frame<Bytes>, axum::Error>>,
) -> Result<Option<Bytes>, Problem> {
    match frame {
        None => Ok(None),
        // Trailers carry nothing.
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(error)) => {
            let detail = format!("the body cannot be read: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, "BODY_BROKEN", detail))
        }
    }
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body has more than {limit} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "BODY_TOO_LARGE", detail)
}

/// Estimates the number of values in a JSON text: one for each `[`, `{` and `,` outside of strings.
fn value_count(text: &[u8]) -> usize {
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

/// Answer that is counted until the client took it.
///
/// The server takes a part as soon as it gets it, and keeps it until the client reads. So large parts are handed over as
/// copies of limited size, and this body holds the rest and its reservation.
struct MeteredBody {
    body: Body,
    /// The rest of the current part.
    part: Bytes,
    /// Memory of the current part, or of the whole text.
    reservation: Option<Reservation>,
    memory: CallerMemory,
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        if self.part.is_empty() {
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
            let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
            match frame.into_data() {
                Ok(data) if data.len() > SMALL => self.part = data,
                Ok(data) => return Poll::Ready(Some(Ok(http_body::Frame::data(data)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
            if self.reservation.is_none() {
                self.reservation = Some(self.memory.reserve_taken(self.part.len()));
            }
        }
        let length = self.part.len().min(SMALL);
        let copy = Bytes::copy_from_slice(&self.part.split_to(length));
        if self.part.is_empty() {
            self.part = Bytes::new();
            self.reservation = None;
        }
        Poll::Ready(Some(Ok(http_body::Frame::data(copy))))
    }

    fn is_end_stream(&self) -> bool {
        self.part.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        let (rest, size) = (self.part.len() as u64, self.body.size_hint());
        let mut hint = http_body::SizeHint::new();
        hint.set_lower(size.lower() + rest);
        if let Some(upper) = size.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn memory() -> (MemoryBudget, CallerMemory) {
        let budget = MemoryBudget::new(64 * SMALL, 64 * SMALL);
        let memory = CallerMemory::new(&budget, &Arc::new(Caller::local()));
        (budget, memory)
    }

    async fn read_in_parts(budget: &MemoryBudget, response: Response, first: usize) -> Vec<u8> {
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= SMALL, "{}", data.len());
            text.extend_from_slice(&data);
            // The whole counts until its last part is handed over.
            assert_eq!(budget.used(), if text.len() < first { first } else { 0 });
        }
        text
    }

    #[tokio::test]
    async fn unread_answers_stay_counted() {
        let (budget, memory) = memory();
        let text = (0..=u8::MAX).cycle().take(5 * SMALL + 7).collect::<Vec<_>>();
        let response = memory.metered(Response::new(Body::from(text.clone())));
        assert_eq!(budget.used(), text.len());
        assert_eq!(response.body().size_hint().exact(), Some(text.len() as u64));
        assert!(!response.body().is_end_stream());
        assert_eq!(read_in_parts(&budget, response, text.len()).await, text);
        // The same as the only large part of a stream, whose length is not known.
        let parts = [text.clone(), b"small".to_vec()].map(Ok::<_, axum::Error>);
        let stream = Body::from_stream(futures_util::stream::iter(parts));
        let response = memory.metered(Response::new(stream));
        assert_eq!(budget.used(), 0);
        let whole = read_in_parts(&budget, response, text.len()).await;
        assert_eq!(whole, [text.as_slice(), b"small"].concat());
        let small = memory.metered(Response::new(Body::from("small")));
        assert_eq!(budget.used(), 0);
        drop(small);
    }

    #[test]
    fn counts_values_and_ignores_texts() {
        for (text, count) in
            [("", 0), (r#"{"a":[1,2,3],"b":{}}"#, 6), (r#"["[[,\",,,]","\\",1]"#, 3)]
        {
            assert_eq!(value_count(text.as_bytes()), count, "{text}");
        }
    }

    #[test]
    fn values_take_no_more_than_is_counted() {
        assert!(size_of::<Value>() <= VALUE / 2, "{}", size_of::<Value>());
    }
}
