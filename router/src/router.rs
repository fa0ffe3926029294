//! The router: takes requests, carries them out, and answers when the record is durable.

mod admission;
mod answer;
mod approvals;
mod carried;
mod deferred;
mod error;
mod expiry;
mod held_answer;
mod live;
mod misplaced;
mod named_tools;
mod options;
mod places;
mod recorded;
mod recorded_outcome;
mod refusal;
mod retirement;
mod run_context;
mod steps_done;
mod submission;

use std::collections::HashMap;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::caller::Caller;
use crate::clock::Clock;
use crate::dispatch::{Broken, Cancel, Execution, Surroundings};
use crate::loader::Adapter;
use crate::offload::{Load, OffloadedRun};
use crate::outcome::Outcome;
use crate::recorder::{Commits, Recorder};
use crate::recover;
use crate::registry::Registry;
use crate::run::Phase;
use crate::share::token_id;
use crate::store::{self, Claim, Header, Orphan, Status, Store};
use crate::telemetry;

pub use crate::host::{CallLimits, Occupancy};
pub use crate::recover::{How, Recovered, Resumable};
pub use crate::share::{ShareLimits, ShareRefusal};
pub use answer::response;
pub use approvals::{Answer, Decided, Decider};
pub use error::Error;
pub use held_answer::HeldRetention;
pub use options::Options;
pub use refusal::Refusal;
pub(crate) use steps_done::StepsDone;
pub use submission::{Accepted, Canceller, Submission, UnderWay};

use answer::answer;
use carried::Carried;
use deferred::DeferredRuns;
use expiry::Expiry;
use live::Live;
use misplaced::refuse_misplaced;
use places::{Place, Places};
pub(crate) use recorded::stored_key;
use recorded::{claim, redact};
use retirement::retire;
use run_context::surroundings;

/// Threads that carry out calls which block, for all adapters together.
const BLOCKING_THREADS: usize = 512;

/// The router. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Router {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    /// Replaced as a whole. A run keeps the adapters that it began with; rules are read before each step.
    around: RwLock<Arc<Surroundings>>,
    places: Places,
    live: Mutex<HashMap<String, live::Entry>>,
    expire: Expiry,
    deferred: DeferredRuns,
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A host may let go of the router on a thread that must not wait.
            runtime.shutdown_background();
        }
    }
}

impl Router {
    /// Makes a router of a store and adapters.
    ///
    /// # Errors
    /// When the default adapter is not registered, the workspace of an envoy overlaps with the store or the evidence, or
    /// there are no threads.
    pub fn new(store: Store, registry: Registry, options: Options) -> Result<Self, Error> {
        registry.check_default()?;
        refuse_misplaced(&store, &registry, &options)?;
        let Options { clock, threads, runs_in_flight, .. } = options;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        if let Some(threads) = threads {
            builder.worker_threads(threads.max(1));
        }
        let runtime = builder
            .thread_name("router")
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_time()
            .build()
            .map_err(|error| Error::Threads(error.to_string()))?;
        let around = surroundings(runtime.handle(), registry, options, None);
        let ledger = Arc::clone(&around.ledger);
        let inner = Inner {
            store,
            clock,
            around: RwLock::new(Arc::new(around)),
            places: Places::new(runs_in_flight, ledger),
            live: Mutex::default(),
            expire: Expiry::default(),
            deferred: DeferredRuns::default(),
            runtime: Some(runtime),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the adapters.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.inner.around().registry)
    }

    /// Puts other adapters, secrets, limits and another law in the place of the present ones. Runs that are
    /// under way keep their adapters and limits; the law and the secrets apply from their next step. The clock
    /// and the threads stay.
    ///
    /// # Errors
    /// When the default adapter is not registered, or the workspace of an envoy overlaps with the store or the evidence.
    /// Then nothing was changed.
    pub fn replace(&self, registry: Registry, options: Options) -> Result<(), Error> {
        registry.check_default()?;
        refuse_misplaced(&self.inner.store, &registry, &options)?;
        let Some(runtime) = &self.inner.runtime else { return Ok(()) };
        let limit = options.runs_in_flight;
        let before = self.inner.around();
        let mut place = self.inner.around.write().unwrap_or_else(PoisonError::into_inner);
        let around = surroundings(runtime.handle(), registry, options, Some(&before));
        *place = Arc::new(around);
        drop(place);
        self.inner.places.resize(limit, runtime);
        drop(runtime.spawn(retire(before)));
        self.inner.resume_deferred();
        Ok(())
    }

    /// Returns how many calls an adapter carries out at once, and how many more it could now.
    #[must_use]
    pub fn slots(&self, adapter_id: &str) -> Option<Occupancy> {
        self.inner.around().host.occupancy(adapter_id)
    }

    /// Ends waits for further attempts at calls, now and from now on: the process is about to stop.
    pub fn end_retries(&self) {
        self.inner.around().host.end_retries();
    }

    /// Closes the circuit of an adapter in the name of somebody. Returns whether it was open.
    pub fn reset_circuit(&self, adapter: &Adapter, by: Option<&str>) -> bool {
        self.inner.around().host.reset_circuit(adapter, by)
    }

    /// Returns how many runs may be under way.
    #[must_use]
    pub fn runs_limit(&self) -> usize {
        self.inner.places.limit()
    }

    /// Returns how many runs are under way.
    #[must_use]
    pub fn runs_in_flight(&self) -> usize {
        self.inner.places.taken()
    }

    /// Carries out a request. The answer comes when its record is durable. A run goes on to its end also
    /// when nobody waits for the answer any more. One that comes to wait for an approval is answered as such.
    ///
    /// # Errors
    /// See [`Error`]. An operational error of an adapter is none: the outcome tells it.
    pub async fn run(&self, request: impl Into<Submission>) -> Result<Outcome, Error> {
        let submission = request.into();
        let place = self.inner.enter(&submission)?;
        let span = submission.span();
        // In memory there is nothing to wait for.
        let commits = match self.inner.store.path() {
            Some(_) => Commits::Together,
            None => Commits::Here,
        };
        let load = submission.load();
        let run = Arc::clone(&self.inner).run(submission, place, commits, None);
        Carried::new(&self.inner, run).within(span).loaded(load).await
    }

    /// Takes a request, and returns as soon as it is on disk and before anything is called. The run goes on
    /// to its end whether anybody waits for it or not.
    ///
    /// # Errors
    /// As [`run`](Self::run), for what is known by then.
    pub async fn accept(&self, request: impl Into<Submission>) -> Result<Accepted, Error> {
        let submission = request.into();
        let place = self.inner.enter(&submission)?;
        let Some(runtime) = &self.inner.runtime else { return Err(closed()) };
        let (accepted, told) = oneshot::channel();
        let (run_id, span) = (submission.run_id.clone(), submission.span());
        let load = submission.load();
        let run = Arc::clone(&self.inner);
        let run = run.run(submission, place, Commits::Together, Some(accepted));
        let run = OffloadedRun::new(run, load).instrument(span);
        let mut run = UnderWay { run_id, task: runtime.spawn(run) };
        match told.await {
            Ok(()) => Ok(Accepted::UnderWay(run)),
            Err(_) => run.outcome().await.map(|outcome| Accepted::Over(Box::new(outcome))),
        }
    }

    /// Carries out a request on the calling thread's time, for hosts that are not asynchronous.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_blocking(&self, request: impl Into<Submission>) -> Result<Outcome, Error> {
        let submission = request.into();
        let place = self.inner.enter(&submission)?;
        self.wait(Arc::clone(&self.inner).run(submission, place, Commits::Here, None))
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if tokio::runtime::Handle::try_current().is_ok() {
            let message = "an asynchronous host must not block its threads; use the other form";
            return Err(Error::Threads(message.to_owned()));
        }
        match &self.inner.runtime {
            Some(runtime) => runtime.block_on(future),
            None => Err(closed()),
        }
    }

    /// Lists the runs that are under way here.
    #[must_use]
    pub fn live(&self) -> Vec<String> {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.keys().cloned().collect()
    }

    /// Takes over the runs whose process is gone: each goes on, or is ended.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn recover(&self, resumable: Resumable) -> Result<Vec<Recovered>, Error> {
        let inner = Arc::clone(&self.inner);
        let run = async move {
            let orphans = inner.ask(Store::adopt_orphans).await?;
            let tasks: Vec<_> = orphans
                .into_iter()
                .map(|orphan| {
                    let inner = Arc::clone(&inner);
                    let run = async move {
                        // They have their turn among all others.
                        let caller = admission::caller_of(&orphan);
                        let place = inner.places.wait(token_id(caller.as_ref())).await;
                        let recovered = inner.recover(&orphan, resumable).await;
                        drop(place);
                        recovered
                    };
                    // The size of its record is not known.
                    tokio::spawn(OffloadedRun::new(run, Load::Heavy))
                })
                .collect();
            let mut recovered = Vec::with_capacity(tasks.len());
            for task in tasks {
                match task.await {
                    Ok(one) => recovered.push(one),
                    Err(error) => tracing::error!(%error, "a run could not be recovered"),
                }
            }
            Ok(recovered)
        };
        Carried::new(&self.inner, run).await
    }

    /// Takes over the runs whose process is gone, on the calling thread's time.
    ///
    /// # Errors
    /// As [`recover`](Self::recover).
    pub fn recover_blocking(&self, resumable: Resumable) -> Result<Vec<Recovered>, Error> {
        self.wait(self.recover(resumable))
    }
}

impl Inner {
    fn around(&self) -> Arc<Surroundings> {
        Arc::clone(&self.around.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run(
        self: Arc<Self>,
        submission: Submission,
        place: Place,
        commits: Commits,
        accepted: Option<oneshot::Sender<()>>,
    ) -> Result<Outcome, Error> {
        let (mut request, run_id, cancel, held, origin) = submission.into_parts(accepted);
        let caller = origin.caller.clone();
        let around = self.around();
        let mut redacted = redact(&around.secrets, &request, &self.store)?;
        let claim = request
            .idempotency_key()
            .map(|key| claim(key, caller.as_deref(), &request, &redacted, &self.store));
        let claim = claim.transpose()?;
        if let Some(claim) = &claim
            && let Some(outcome) = Box::pin(self.earlier(claim, caller.as_deref())).await?
        {
            return Ok(outcome);
        }
        named_tools::resolve(&around.law, &mut request, &mut redacted);
        admission::refuse_loading(&around.registry, &request)?;
        admission::refuse_full_queue(&around, &request, caller.as_deref())?;
        let goal = redacted.request.as_ref().and_then(|request| request.get("goal")?.as_str());
        let now = self.clock.now();
        let header = Arc::new(Header {
            run_id,
            mode: request.mode().name().to_owned(),
            goal: goal.unwrap_or(request.goal()).to_owned(),
            created_at: now.to_string(),
        });
        let live = Live::enter(&self, &header, &cancel, caller.as_ref());
        let store = self.store.clone();
        let first = (claim.clone(), caller.clone());
        let (begun, mode) = (Instant::now(), request.mode().name());
        // The recorder is no variable: it would have a place of its own in the future of every run.
        let mut execution = Execution::begin(
            Recorder::begin(store, (self.clock, now), commits, Arc::clone(&header), first)
                .with_meter(place.meter()),
            request,
            redacted,
            Arc::clone(&cancel),
            origin,
        );
        let answer = match execution.carry_out(&around).await {
            Ok(()) => answer(execution.into_outcome()),
            // What is rare stands beside the future of a run: every run is as large as its largest part.
            Err(broken) => Box::pin(self.mend(execution, broken, claim, caller.as_deref())).await,
        };
        let waits = answer.as_ref().is_ok_and(|outcome| outcome.waiting.is_some());
        let status = answer.as_ref().map(|outcome| outcome.status.name());
        let status = status.unwrap_or("ERROR");
        if !waits {
            around.metrics.run_ended(mode, status, begun.elapsed());
        }
        if status != Status::Completed.name() && !waits {
            let reason = answer.as_ref().ok().and_then(|outcome| outcome.reason.as_deref());
            telemetry::mark_run_failed(reason.unwrap_or(status));
        }
        tracing::debug!(status, waits, "the run is over, or waits");
        drop((live, place, held));
        if waits {
            Box::pin(self.parked(&header.run_id, &cancel)).await;
            if cancel.is_asked() {
                let outcome = Box::pin(self.read_back(&header.run_id)).await?;
                return Box::pin(self.restored(outcome, caller.as_deref(), HeldRetention::Keep))
                    .await;
            }
        }
        answer
    }

    /// Answers for a run that could not be carried through.
    async fn mend(
        self: &Arc<Self>,
        execution: Execution,
        broken: Broken,
        claim: Option<Claim>,
        caller: Option<&Caller>,
    ) -> Result<Outcome, Error> {
        let run_id = execution.recorder().header().run_id.clone();
        match broken {
            Broken::Store(error @ store::Error::KeyTaken { .. }) => {
                // Another run with the same key was quicker; this one did nothing that has effects.
                let Some(claim) = claim else { return Err(Error::Store(error)) };
                self.earlier(&claim, caller).await?.ok_or(Error::KeyTaken { run_id })
            }
            Broken::Store(error) if !execution.recorder().is_begun() => Err(Error::Store(error)),
            Broken::Store(error) => {
                let broken = Broken::Store(error.clone());
                let outcome = Box::new(recover::abandon(execution, &broken));
                Err(Error::Unrecorded { run_id, cause: error, outcome })
            }
            Broken::Illegal(illegal) => {
                let broken = Broken::Illegal(illegal.clone());
                if execution.recorder().run().phase() != Phase::Empty {
                    drop(recover::abandon(execution, &broken));
                }
                Err(Error::Internal { run_id, message: illegal.to_string() })
            }
        }
    }

    /// Goes on with a run that was left behind, ends it, or leaves it until its adapter is available.
    async fn recover(self: &Arc<Self>, orphan: &Orphan, resumable: Resumable) -> Recovered {
        let around = match self.defer(orphan, resumable) {
            ControlFlow::Continue(around) => around,
            ControlFlow::Break(deferred) => return deferred,
        };
        let cancel = Arc::new(Cancel::default());
        let header = Arc::new(orphan.log.record.header.clone());
        let caller = admission::caller_of(orphan);
        let live = Live::enter(self, &header, &cancel, caller.map(Arc::new).as_ref());
        let cancelled = Arc::clone(&cancel);
        let recovered =
            recover::recover(&self.store, self.clock, &around, orphan, resumable, cancelled).await;
        drop(live);
        if recovered.how == How::Waits {
            self.parked(&recovered.run_id, &cancel).await;
        }
        recovered
    }

    /// Ends a run that nobody carries out any more, though its process is this one.
    async fn give_up(self: &Arc<Self>, run_id: &str) {
        match self.store.take_up(run_id) {
            Ok(Some(orphan)) => {
                let ended = self.recover(&orphan, Resumable::End).await;
                tracing::error!(run_id, how = ?ended.how, "a run was given up after a panic");
            }
            Ok(None) => {}
            Err(error) => tracing::error!(run_id, %error, "a run could not be given up"),
        }
    }

    /// Asks the store something on a thread that may wait for it.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Store) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || question(&store)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::Store(store::Error::Closed)),
        }
    }

    /// Answers from the run that an idempotency key belongs to. If its process is gone, it is carried on.
    async fn earlier(
        self: &Arc<Self>,
        claim: &Claim,
        caller: Option<&Caller>,
    ) -> Result<Option<Outcome>, Error> {
        let key = claim.key.clone();
        let Some((run_id, digest)) = self.ask(move |store| store.by_key(&key)).await? else {
            return Ok(None);
        };
        if digest != claim.request_digest {
            return Err(Error::KeyTaken { run_id });
        }
        // Its adapters may still come; recovery executes it when they are there.
        if !self.around().registry.is_loading() {
            let left_behind = run_id.clone();
            let orphan = self.ask(move |store| store.adopt_orphan(&left_behind)).await?;
            if let Some(orphan) = orphan {
                self.recover(&orphan, Resumable::Resume).await;
            }
        }
        let Some(outcome) = self.recorded_outcome(&run_id, caller).await? else { return Ok(None) };
        let outcome = self.restored(outcome, caller, HeldRetention::Keep).await?;
        answer(outcome).map(Some)
    }
}

fn closed() -> Error {
    Error::Threads("the router is closed".to_owned())
}
