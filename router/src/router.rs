//! The router: takes requests, carries them out, and answers when the record is durable.

mod error;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::dispatch::{Broken, Cancel, Execution, Redacted, Surroundings};
use crate::event::Failure;
use crate::host::Host;
use crate::id;
use crate::json::{self, Value};
use crate::outcome::{Outcome, StepStatus};
use crate::recorder::{Commits, Recorder};
use crate::recover;
use crate::registry::Registry;
use crate::request::{Request, Step};
use crate::run::Phase;
use crate::secret::Secrets;
use crate::store::{self, Claim, Header, Orphan, Store};

pub use crate::host::CallLimits;
pub use crate::recover::{How, Recovered, Resumable};
pub use error::Error;

/// Runs that may be under way at once, by default.
const RUNS_IN_FLIGHT: usize = 16_384;
/// Threads that carry out calls which block, for all adapters together.
const BLOCKING_THREADS: usize = 512;

/// How a router works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs that may be under way at once; one more is refused.
    pub runs_in_flight: usize,
    /// What calls may take.
    pub calls: CallLimits,
    /// What calls of single adapters may take, by adapter id.
    pub adapter_calls: BTreeMap<String, CallLimits>,
    /// The secrets that arguments may refer to, and that are kept out of the record.
    pub secrets: Secrets,
    /// Where the time comes from.
    pub clock: Clock,
    /// Threads that carry runs; none means one per core.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runs_in_flight: RUNS_IN_FLIGHT,
            calls: CallLimits::default(),
            adapter_calls: BTreeMap::new(),
            secrets: Secrets::empty(),
            clock: Clock::System,
            threads: None,
        }
    }
}

/// The router. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Router {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Clock,
    around: Surroundings,
    in_flight: Arc<Semaphore>,
    limit: usize,
    live: Mutex<HashMap<String, Arc<Cancel>>>,
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
    /// When the default adapter is not registered, or there are no threads.
    pub fn new(store: Store, registry: Registry, options: Options) -> Result<Self, Error> {
        registry.get_default()?;
        let Options { runs_in_flight, calls, adapter_calls, secrets, clock, threads } = options;
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
        let host =
            Host::new(runtime.handle().clone(), &registry, &calls, &adapter_calls, runs_in_flight);
        let inner = Inner {
            store,
            clock,
            around: Surroundings { registry, secrets, host },
            in_flight: Arc::new(Semaphore::new(runs_in_flight.min(Semaphore::MAX_PERMITS))),
            limit: runs_in_flight,
            live: Mutex::default(),
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
    pub fn registry(&self) -> &Registry {
        &self.inner.around.registry
    }

    /// Returns how many runs are under way.
    #[must_use]
    pub fn runs_in_flight(&self) -> usize {
        self.inner.limit - self.inner.in_flight.available_permits()
    }

    /// Carries out a request. The answer comes when its record is durable. A run goes on to its end also
    /// when nobody waits for the answer any more.
    ///
    /// # Errors
    /// See [`Error`]. An operational error of an adapter is none: the outcome tells it.
    pub async fn run(&self, request: Request) -> Result<Outcome, Error> {
        let permit = self.inner.enter()?;
        let run = Arc::clone(&self.inner).run(request, id::run_id(), permit, Commits::Together);
        Carried { run: Some(Box::pin(run)), inner: Arc::clone(&self.inner) }.await
    }

    /// Carries out a request on the calling thread's time, for hosts that are not asynchronous.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_blocking(&self, request: Request) -> Result<Outcome, Error> {
        let permit = self.inner.enter()?;
        self.wait(Arc::clone(&self.inner).run(request, id::run_id(), permit, Commits::Here))
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if tokio::runtime::Handle::try_current().is_ok() {
            let message = "an asynchronous host must not block its threads; use the other form";
            return Err(Error::Threads(message.to_owned()));
        }
        match &self.inner.runtime {
            Some(runtime) => runtime.block_on(future),
            None => Err(Error::Threads("the router is closed".to_owned())),
        }
    }

    /// Asks a run that is under way here to end. Says whether there is one of this id.
    pub fn cancel(&self, run_id: &str) -> bool {
        let live = self.inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(run_id).inspect(|cancel| cancel.cancel()).is_some()
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
        let run = Box::pin(async move {
            let orphans = inner.ask(Store::adopt_orphans).await?;
            let tasks: Vec<_> = orphans
                .into_iter()
                .map(|orphan| {
                    let inner = Arc::clone(&inner);
                    tokio::spawn(async move {
                        // They have their turn among all others.
                        let permit = inner.in_flight.acquire().await.ok();
                        let recovered = inner.recover(&orphan, resumable).await;
                        drop(permit);
                        recovered
                    })
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
        });
        Carried { run: Some(run), inner: Arc::clone(&self.inner) }.await
    }

    /// Takes over the runs whose process is gone, on the calling thread's time.
    ///
    /// # Errors
    /// As [`recover`](Self::recover).
    pub fn recover_blocking(&self, resumable: Resumable) -> Result<Vec<Recovered>, Error> {
        self.wait(self.recover(resumable))
    }
}

/// Work that goes on when nobody waits for it any more.
///
/// Whoever waits carries it on; so a run costs no thread a wake-up. When they let go of it, a thread of the
/// router takes it over.
struct Carried<T: Send + 'static> {
    run: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    inner: Arc<Inner>,
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // The clock and the threads are the router's, whatever the caller has.
        let _here = this.inner.runtime.as_ref().map(Runtime::enter);
        let Some(run) = &mut this.run else { return Poll::Pending };
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
            drop(runtime.spawn(run));
        }
    }
}

impl Inner {
    fn enter(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.in_flight).try_acquire_owned();
        permit.map_err(|_| Error::Busy { limit: self.limit })
    }

    async fn run(
        self: Arc<Self>,
        request: Request,
        run_id: String,
        permit: OwnedSemaphorePermit,
        commits: Commits,
    ) -> Result<Outcome, Error> {
        let redacted = redact(&self.around.secrets, &request);
        let claim = request.idempotency_key().map(|key| claim(key, &request, &redacted));
        if let Some(claim) = &claim
            && let Some(outcome) = self.earlier(claim).await?
        {
            return Ok(outcome);
        }
        let goal = redacted.request.as_ref().and_then(|request| request.get("goal")?.as_str());
        let header = Header {
            run_id: run_id.clone(),
            mode: request.mode().name().to_owned(),
            goal: goal.unwrap_or(request.goal()).to_owned(),
            created_at: self.clock.now().to_string(),
        };
        let cancel = Arc::new(Cancel::default());
        let live = Live::enter(&self, run_id, &cancel);
        let store = self.store.clone();
        let recorder = Recorder::begin(store, self.clock, commits, header, claim.clone());
        let execution = Execution::begin(recorder, request, redacted, cancel);
        let answer = self.carry_out(execution, claim).await;
        drop((live, permit));
        answer
    }

    async fn carry_out(
        self: &Arc<Self>,
        mut execution: Execution,
        claim: Option<Claim>,
    ) -> Result<Outcome, Error> {
        let run_id = execution.recorder().header().run_id.clone();
        let broken = match execution.carry_out(&self.around).await {
            Ok(()) => return answer(execution.into_outcome()),
            Err(broken) => broken,
        };
        match broken {
            Broken::Store(error @ store::Error::KeyTaken { .. }) => {
                // Another run with the same key was quicker; this one did nothing that has effects.
                let Some(claim) = claim else { return Err(Error::Store(error)) };
                self.earlier(&claim).await?.ok_or(Error::KeyTaken { run_id })
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

    /// Goes on with a run that was left behind, or ends it.
    async fn recover(self: &Arc<Self>, orphan: &Orphan, resumable: Resumable) -> Recovered {
        let cancel = Arc::new(Cancel::default());
        let run_id = orphan.log.record.header.run_id.clone();
        let live = Live::enter(self, run_id, &cancel);
        let recovered =
            recover::recover(&self.store, self.clock, &self.around, orphan, resumable, cancel)
                .await;
        drop(live);
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
    async fn earlier(self: &Arc<Self>, claim: &Claim) -> Result<Option<Outcome>, Error> {
        let key = claim.key.clone();
        let Some((run_id, digest)) = self.ask(move |store| store.by_key(&key)).await? else {
            return Ok(None);
        };
        if digest != claim.request_digest {
            return Err(Error::KeyTaken { run_id });
        }
        let left_behind = run_id.clone();
        let orphan = self.ask(move |store| store.adopt_orphan(&left_behind)).await?;
        if let Some(orphan) = orphan {
            self.recover(&orphan, Resumable::Resume).await;
        }
        let log = self.ask(move |store| store.log(&run_id)).await?;
        log.map(|log| answer(Outcome::of_log(&log))).transpose()
    }
}

/// Turns a bug into an error, and anything else into an answer.
fn answer(outcome: Outcome) -> Result<Outcome, Error> {
    if outcome.reason.as_deref() != Some(Failure::BUG) {
        return Ok(outcome);
    }
    let failed = outcome.results.iter().rfind(|result| result.status == StepStatus::Error);
    let (step_id, code, message) = match failed.map(|result| (&result.step_id, &result.error)) {
        Some((step_id, Some(error))) => {
            (step_id.clone(), error.code.clone(), error.message.clone())
        }
        _ => <(String, String, String)>::default(),
    };
    let run_id = outcome.run_id.clone();
    Err(Error::Bug { run_id, step_id, code, message, outcome: Box::new(outcome) })
}

/// Returns what is recorded of a request where that differs from what was given.
fn redact(secrets: &Secrets, request: &Request) -> Redacted {
    let plan: Vec<_> =
        request.plan().iter().map(|step| secrets.redact_object(step.raw())).collect();
    let plan = plan.iter().any(Option::is_some).then(|| {
        let steps = plan.into_iter().zip(request.plan());
        steps.map(|(redacted, step)| redacted.unwrap_or_else(|| Step::raw(step).clone())).collect()
    });
    Redacted { request: secrets.redact_object(request.raw()), plan }
}

/// Binds a key to a request. Neither is stored as it is: both may hold a secret, so the key is hashed, and
/// so is what is recorded of the request.
fn claim(key: &str, request: &Request, redacted: &Redacted) -> Claim {
    let mut text = String::new();
    json::write_canonical_object(&mut text, redacted.request.as_ref().unwrap_or(request.raw()));
    match &redacted.plan {
        Some(plan) => {
            plan.iter().for_each(|step| json::write_canonical_object(&mut text, step));
        }
        None => {
            let steps = request.plan().iter();
            steps.for_each(|step| json::write_canonical_object(&mut text, step.raw()));
        }
    }
    let key = Digest::of(key.as_bytes()).to_string();
    Claim { key, request_digest: Digest::of(text.as_bytes()) }
}

/// The entry of a run among those that can be cancelled.
struct Live {
    inner: Arc<Inner>,
    run_id: String,
}

impl Live {
    fn enter(inner: &Arc<Inner>, run_id: String, cancel: &Arc<Cancel>) -> Self {
        let mut live = inner.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(run_id.clone(), Arc::clone(cancel));
        drop(live);
        Self { inner: Arc::clone(inner), run_id }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run_id);
        // A mistake of ours must not leave the run under way with nobody to carry it out.
        if std::thread::panicking()
            && let Some(runtime) = &self.inner.runtime
        {
            let (inner, run_id) = (Arc::clone(&self.inner), self.run_id.clone());
            drop(runtime.spawn(async move { inner.give_up(&run_id).await }));
        }
    }
}

/// Returns the response as JSON, also where the answer is an error that carries a run.
#[must_use]
pub fn response(answer: &Result<Outcome, Error>) -> Value {
    match answer {
        Ok(outcome) => outcome.to_json(),
        Err(error) => {
            let known = error.outcome().and_then(|outcome| outcome.to_json().into_object());
            let mut response = known.unwrap_or_default();
            let mut shown = json::Object::new();
            shown.insert("code", error.code());
            shown.insert("message", error.to_string());
            shown.insert("hint", error.hint());
            if let Some(run_id) = error.run_id() {
                shown.insert("run_id", run_id);
            }
            response.insert("error", shown);
            Value::Object(response)
        }
    }
}
