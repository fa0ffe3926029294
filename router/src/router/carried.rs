//! Work that goes on when nobody waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Runtime;
use tracing::{Instrument as _, Span};

use super::Inner;

/// Work that goes on when nobody waits for it any more.
///
/// Whoever waits carries it on; so a run costs no thread a wake-up. When they let go of it, a thread of the
/// router takes it over.
pub(super) struct Carried<T: Send + 'static> {
    run: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    /// The span of the work.
    span: Span,
    inner: Arc<Inner>,
}

impl<T: Send + 'static> Carried<T> {
    pub(super) fn new(inner: &Arc<Inner>, run: impl Future<Output = T> + Send + 'static) -> Self {
        Self { run: Some(Box::pin(run)), span: Span::none(), inner: Arc::clone(inner) }
    }

    /// Does the work in a span. It is not wrapped for that, so that it needs not be moved.
    pub(super) fn within(mut self, span: Span) -> Self {
        self.span = span;
        self
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // The clock and the threads are the router's, whatever the caller has.
        let _here = this.inner.runtime.as_ref().map(Runtime::enter);
        let Some(run) = &mut this.run else { return Poll::Pending };
        let _within = this.span.enter();
        let answer = std::task::ready!(run.as_mut().poll(context));
        this.run = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        // One that panicked cannot go on.
        if std::thread::panicking() {
            return;
        }
        if let (Some(run), Some(runtime)) = (self.run.take(), &self.inner.runtime) {
            drop(runtime.spawn(run.instrument(self.span.clone())));
        }
    }
}
