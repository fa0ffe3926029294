//! Large answers from the record of a run, written page by page within the memory budget.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::guard::Context;
use super::problem::Problem;
use crate::budget::Reservation;
use crate::bundle::{BundleText, Provenance};
use crate::caller::Caller;
use crate::clock::Clock;
use crate::outcome::RunDocument;
use crate::service::Service;
use crate::store::{self, RecordSize};

/// Bytes of a stream besides its page.
const FRAME: usize = 64 * 1024;
/// Copies of a held answer: as it is stored, decrypted, as values, and as text.
const HELD_COPIES: usize = 4;

/// Text that is written page by page.
trait PagedText: Send + 'static {
    /// Returns the next parts of the text; none at its end. It may wait for the disk.
    fn next(&mut self) -> Result<Option<Vec<Bytes>>, store::Error>;
}

impl PagedText for RunDocument {
    fn next(&mut self) -> Result<Option<Vec<Bytes>>, store::Error> {
        Self::next(self)
    }
}

impl PagedText for BundleText {
    fn next(&mut self) -> Result<Option<Vec<Bytes>>, store::Error> {
        Self::next(self)
    }
}

/// Returns a run as it is recorded.
pub(super) async fn show(context: Context, size: RecordSize) -> Result<Response, Problem> {
    let held = HELD_COPIES * size.largest_held;
    let reservation = reserve(&context, &size, held).await?;
    let (service, caller) = (context.service.clone(), Arc::clone(&context.bearer.caller));
    let text = context.ask(move |context| {
        let caller = Some(&*context.bearer.caller);
        let (store, now) = (context.service.store(), Clock::System.now());
        Ok(RunDocument::open(store, &size, caller, now)?)
    });
    let text = text.await?;
    Ok(answer(PagedBody::new(text, (service, caller), reservation)))
}

/// Returns a run as a bundle.
pub(super) async fn export(
    context: Context,
    size: RecordSize,
    provenance: Provenance,
) -> Result<Response, Problem> {
    let reservation = reserve(&context, &size, 0).await?;
    let (service, caller) = (context.service.clone(), Arc::clone(&context.bearer.caller));
    let text = context.ask(move |context| {
        let (app, store) = (context.service.app(), context.service.store());
        let seal = app.attached(store, &size.record.header.run_id)?;
        Ok(BundleText::new(store, &size, (provenance, seal), Clock::System.now()))
    });
    let text = text.await?;
    Ok(answer(PagedBody::new(text, (service, caller), reservation)))
}

/// Reserves a page, the copy of it that SQLite makes when it is read, and `more` bytes.
async fn reserve(
    context: &Context,
    size: &RecordSize,
    more: usize,
) -> Result<Reservation, Problem> {
    context.memory.wait(2 * size.largest + FRAME + more).await
}

/// Text under way to a client. It holds one page; a client that does not read gets no more.
struct PagedBody<T> {
    /// None after the last page.
    text: Option<T>,
    ready: VecDeque<Bytes>,
    service: Service,
    caller: Arc<Caller>,
    _reservation: Reservation,
}

impl<T: PagedText> PagedBody<T> {
    fn new(text: T, (service, caller): (Service, Arc<Caller>), reservation: Reservation) -> Self {
        let ready = VecDeque::new();
        Self { text: Some(text), ready, service, caller, _reservation: reservation }
    }

    /// Returns the next part of the text.
    async fn part(&mut self) -> Result<Option<Bytes>, store::Error> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Ok(Some(part));
            }
            let Some(mut text) = self.text.take() else { return Ok(None) };
            let turn = self.service.turn(Some(&self.caller)).await;
            let asked = move || {
                let next = text.next();
                drop(turn);
                (text, next)
            };
            let Ok((text, next)) = tokio::task::spawn_blocking(asked).await else {
                return Err(store::Error::Closed);
            };
            match next? {
                Some(parts) => {
                    self.ready.extend(parts.into_iter().filter(|part| !part.is_empty()));
                    self.text = Some(text);
                }
                None => return Ok(None),
            }
        }
    }
}

fn answer<T: PagedText>(body: PagedBody<T>) -> Response {
    let parts = stream::unfold(body, |mut body| async move {
        match body.part().await {
            Ok(Some(part)) => Some((Ok(part), body)),
            Ok(None) => None,
            Err(error) => {
                // The client sees that the text has no end.
                tracing::warn!(%error, "cannot read a record to its end");
                body.text = None;
                Some((Err(error), body))
            }
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
