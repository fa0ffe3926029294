//! Work that goes on when nobody waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};

use super::Inner;
use crate::offload::{self, Load, OffloadedRun};

/// Work that goes on when nobody waits for it any more.
///
/// The waiting task polls the run, so a run costs no wake-up of a thread. A router thread takes over if the waiter drops
/// it or it becomes heavy.
pub(super) struct Carried<T: Send + 'static> {
    work: Work<T>,
    load: Load,
    /// The span of the work.
    span: Span,
    inner: Arc<Inner>,
}

type Run<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Place of the work.
enum Work<T> {
    /// With the task that waits for it.
    Here(Run<T>),
    /// With a thread of the router.
    There(JoinHandle<T>),
    Done,
}

impl<T: Send + 'static> Carried<T> {
    pub(super) fn new(inner: &Arc<Inner>, run: impl Future<Output = T> + Send + 'static) -> Self {
        let work = Work::Here(Box::pin(run));
        Self { work, load: Load::Light, span: Span::none(), inner: Arc::clone(inner) }
    }

    /// Does the work in a span. It is not wrapped for that, so that it needs not be moved.
    pub(super) fn within(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Does heavy work on a thread of the router from the start.
    pub(super) const fn loaded(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Leaves the work to a thread of the router.
    fn hand_over(&mut self) {
        let Some(runtime) = &self.inner.runtime else { return };
        self.work = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Here(run) => {
                let run = OffloadedRun::new(run, self.load).instrument(self.span.clone());
                Work::There(runtime.spawn(run))
            }
            other => other,
        };
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if this.load == Load::Light
            && let Work::Here(run) = &mut this.work
        {
            // The run uses the clock and the threads of the router, not those of the caller.
            let _here = this.inner.runtime.as_ref().map(Runtime::enter);
            let _within = this.span.enter();
            let (polled, load) = offload::observe(|| run.as_mut().poll(context));
            this.load = load;
            if let Poll::Ready(answer) = polled {
                this.work = Work::Done;
                return Poll::Ready(answer);
            }
        }
        if this.load == Load::Heavy {
            this.hand_over();
        }
        let Work::There(task) = &mut this.work else { return Poll::Pending };
        let joined = std::task::ready!(Pin::new(task).poll(context));
        this.work = Work::Done;
        match joined {
            Ok(answer) => Poll::Ready(answer),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The router ends, and nobody will answer.
                Err(_) => Poll::Pending,
            },
        }
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        // One that panicked cannot go on.
        if !std::thread::panicking() {
            self.hand_over();
        }
    }
}
