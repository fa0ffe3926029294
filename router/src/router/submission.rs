//! A request on its way into the router, and what is known of it when it has arrived.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Error;
use crate::caller::Caller;
use crate::dispatch::{Cancel, Origin};
use crate::id;
use crate::listener::Listener;
use crate::offload::{self, Load};
use crate::outcome::Outcome;
use crate::request::Request;
use crate::telemetry::work_span;
use crate::trace::TraceContext;

/// A request with where it comes from. It has the id of its run already.
#[derive(Clone, Debug)]
pub struct Submission {
    pub(super) request: Request,
    pub(super) run_id: String,
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) trace: Option<TraceContext>,
    pub(super) cancel: Arc<Cancel>,
    /// Kept until the run is over.
    pub(super) held: Option<Arc<dyn Any + Send + Sync>>,
    /// Hears what calls of the run tell.
    pub(super) listener: Option<Listener>,
    /// True for a task: a further run may answer its question.
    pub(super) is_task: bool,
}

/// Parts of a submission: the request, its run, the memory that it holds, and its origin.
pub(super) type Parts = (Request, String, Arc<Cancel>, Option<Arc<dyn Any + Send + Sync>>, Origin);

/// Ends a run that is not there yet, or is under way.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Cancel>);

impl Canceller {
    /// Asks the run to end.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl From<Request> for Submission {
    fn from(request: Request) -> Self {
        let (run_id, cancel) = (id::run_id(), Arc::default());
        let (caller, trace, held, listener) = (None, None, None, None);
        Self { request, run_id, caller, trace, cancel, held, listener, is_task: false }
    }
}

impl Submission {
    /// Says who asks.
    #[must_use]
    pub fn by(mut self, caller: Arc<Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Gives the run an id of the host's own, which no other run of the store may have. Evidence of equal runs is equal only
    /// under equal ids.
    #[must_use]
    pub fn named(mut self, run_id: impl Into<String>) -> Self {
        self.run_id = run_id.into();
        self
    }

    /// Makes the run a part of a trace.
    #[must_use]
    pub fn traced(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Keeps something until the run is over, such as the right to the memory that it takes.
    #[must_use]
    pub fn holding(mut self, held: Arc<dyn Any + Send + Sync>) -> Self {
        self.held = Some(held);
        self
    }

    /// Tells somebody what calls of the run tell while they are under way.
    #[must_use]
    pub fn heard_by(mut self, listener: Listener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Makes the run a turn of a task: if the call asks its caller, a further run answers with the same arguments.
    #[must_use]
    pub const fn as_task(mut self) -> Self {
        self.is_task = true;
        self
    }

    /// Splits the submission. `accepted` is notified when the run is on disk.
    pub(super) fn into_parts(self, accepted: Option<oneshot::Sender<()>>) -> Parts {
        let Self { request, run_id, caller, trace, cancel, held, listener, is_task } = self;
        let origin = Origin { caller, stranger: false, trace, accepted, listener, is_task };
        (request, run_id, cancel, held, origin)
    }

    /// Returns what ends the run, from now on.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.cancel))
    }

    /// Returns the load of the run, as far as its request shows it.
    pub(super) fn load(&self) -> Load {
        let is_large = offload::is_large(self.request.raw())
            || self.request.plan().iter().any(|step| offload::is_large(step.raw()));
        if is_large { Load::Heavy } else { Load::Light }
    }

    /// Returns the span in which the run is carried out.
    pub(super) fn span(&self) -> tracing::Span {
        work_span!(
            "run",
            run_id = self.run_id,
            mode = self.request.mode().name(),
            trace_id = self.trace.as_ref().map(TraceContext::trace_id_text),
        )
    }

    /// Returns the id that the run will have, unless its idempotency key belongs to another.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// What became of a request that was to be accepted.
#[derive(Debug)]
pub enum Accepted {
    /// It is on disk, and goes on whether anybody waits or not.
    UnderWay(UnderWay),
    /// It is over: it failed at once, or was carried out before under the same key.
    Over(Box<Outcome>),
}

/// A run that was accepted.
#[derive(Debug)]
pub struct UnderWay {
    pub(super) run_id: String,
    pub(super) task: JoinHandle<Result<Outcome, Error>>,
}

impl UnderWay {
    /// Returns the id of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Waits for the end of the run. Who stops waiting does not stop the run.
    ///
    /// # Errors
    /// As [`Router::run`](super::Router::run).
    pub async fn outcome(&mut self) -> Result<Outcome, Error> {
        match (&mut self.task).await {
            Ok(answer) => answer,
            Err(error) => {
                let message = format!("it was not carried to its end: {error}");
                Err(Error::Internal { run_id: self.run_id.clone(), message })
            }
        }
    }
}
