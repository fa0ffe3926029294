//! The daemon's affairs, whatever the shell: who may call, what is refused, reloads, the drain, what is seen.

mod approvals;
mod catalogues;
mod connections;
mod error;
mod incidents;
mod loading;
mod own;
mod permissions;
mod process;
mod refusals;
mod reload;
mod standing;
mod streams;
mod tokens;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use crate::access::rate::{Buckets, Rate};
use crate::access::{self, Bearer, Denial, TokenBook};
use crate::app::{Absent, App};
use crate::audit::Audit;
use crate::budget::MemoryBudget;
use crate::caller::Caller;
use crate::clock::Clock;
use crate::config::{Environment, Recover};
use crate::json::Object;
use crate::metrics::{Gauges, Metrics};
use crate::router::{Resumable, Router};
use crate::share::{self, FairPermit, FairPool};
use crate::store::Store;
use crate::telemetry::Telemetry;

pub use catalogues::Changes;
pub use connections::{BusyConnection, ConnectionHandle, OpenConnection};
pub use error::Error;
pub use loading::{LoadPhase, RetryResult};
pub use permissions::LastReload;
pub use reload::Reloaded;
pub use standing::Standing;
pub use streams::{OpenStream, StreamRefusal};
pub use watch::watch;

use crate::files::{Mark, mark};
use catalogues::Crier;
use connections::Connections;
use loading::AdapterLoading;
use process::process;
use streams::Streams;

/// The file with the text of the first token, in the data directory.
pub const FIRST_TOKEN: &str = "admin.token";
/// Adapters that are examined at once; each examination is a process.
const EXAMINATIONS: usize = 2;
/// Questions to the store, replays, exports and the like that are worked on at once; others wait.
const TURNS: usize = 32;
/// How long runs that are cancelled at the end of the drain have to end.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// The daemon. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

type CountSessions = Box<dyn Fn() -> usize + Send + Sync>;

struct Inner {
    app: App,
    environment: Environment,
    router: Router,
    store: Store,
    audit: Audit,
    telemetry: Telemetry,
    tokens: Option<TokenBook>,
    /// Why the file of the tokens could not be used when it was looked at last.
    tokens_refused: Mutex<Option<String>>,
    buckets: Buckets,
    /// Of addresses that send no good token.
    strangers: Buckets,
    /// What of the configuration is asked for at every request.
    standing: RwLock<Arc<Standing>>,
    /// One reload at a time.
    reloading: Mutex<()>,
    /// The last change of the configuration, with the permissions that it changed.
    last_reload: Mutex<Option<LastReload>>,
    /// The state of the configuration file before it was read last.
    seen: Mutex<Mark>,
    crier: Crier,
    loading: AdapterLoading,
    examinations: Semaphore,
    turns: FairPool,
    connections: Connections,
    streams: Streams,
    /// Tells how many sessions of MCP clients are open; the endpoint knows.
    sessions: OnceLock<CountSessions>,
    draining: AtomicBool,
    drained: Notify,
    started: Instant,
    started_at: f64,
}

/// What a daemon needs besides its configuration.
pub struct Parts {
    /// The app, with the configuration in it.
    pub app: App,
    /// The environment, in which the configuration is read again.
    pub environment: Environment,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// Whether any listener asks for tokens.
    pub tokens: bool,
}

impl Service {
    /// Opens the store, begins to load the adapters, and makes a first token if there is none.
    ///
    /// # Errors
    /// When anything of that is not possible.
    pub fn start(parts: Parts) -> Result<Self, Error> {
        let Parts { app, environment, telemetry, tokens } = parts;
        // It was read a moment ago; what changes while the adapters are loaded is seen later.
        let seen = app.config().source.as_deref().and_then(mark);
        let router = app.router(Absent::Create)?;
        let store = app.store(Absent::Create)?;
        store.refuse_damaged()?;
        app.prune_cache();
        if let Err(error) = router.restore_usage() {
            tracing::warn!(%error, "cannot read how much each token stored within the last hour");
        }
        let clock = Clock::System;
        let audit = Audit::start(store.clone(), clock, app.secrets()?)?;
        let tokens = match tokens {
            true => {
                let directory = app.data_dir()?;
                let file = directory.join(access::FILE_NAME);
                access::first_start(&file, &directory.join(FIRST_TOKEN), clock.now())?;
                Some(TokenBook::open(&file)?)
            }
            false => None,
        };
        refusals::witness(&app, &audit);
        approvals::witness(&app, &audit);
        incidents::witness(&app, &audit);
        let config = app.config();
        if config.policy.default.is_none() {
            tracing::warn!(
                "policy.default is not set, so calls that no rule fits are allowed; \
                 set [policy] default = \"deny\" or \"allow\""
            );
        }
        let standing = Standing::of(&config, app.tools()?, app.law()?, app.discovery()?)?;
        let inner = Inner {
            environment,
            router,
            store,
            audit,
            telemetry,
            tokens,
            tokens_refused: Mutex::default(),
            buckets: Buckets::default(),
            strangers: Buckets::new(refusals::ADDRESSES),
            standing: RwLock::new(Arc::new(standing)),
            reloading: Mutex::default(),
            last_reload: Mutex::default(),
            seen: Mutex::new(seen),
            crier: Crier::default(),
            loading: AdapterLoading::default(),
            examinations: Semaphore::new(EXAMINATIONS),
            turns: FairPool::new(TURNS, usize::MAX),
            connections: Connections::default(),
            streams: Streams::default(),
            sessions: OnceLock::new(),
            draining: AtomicBool::new(false),
            drained: Notify::new(),
            started: Instant::now(),
            started_at: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            app,
        };
        let service = Self { inner: Arc::new(inner) };
        service.check_callers();
        let told = Arc::downgrade(&service.inner);
        service.inner.app.news().tell_updates(move |uri| {
            if let Some(inner) = told.upgrade() {
                inner.crier.resource_updated(uri);
            }
        });
        let mut payload = Object::new();
        payload.insert("version", env!("CARGO_PKG_VERSION"));
        service.inner.audit.record_now("daemon.started", payload)?;
        service.begin_loading();
        Ok(service)
    }

    /// Returns the app.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.inner.app
    }

    /// Returns the router.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.inner.router
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns the memory budget.
    #[must_use]
    pub fn memory(&self) -> &MemoryBudget {
        self.inner.app.memory()
    }

    /// Returns what is counted and measured.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.inner.app.metrics()
    }

    /// Returns the record of what happens to the daemon itself.
    #[must_use]
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// Returns logs and traces.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    /// Returns what of the configuration is asked for at every request.
    #[must_use]
    pub fn standing(&self) -> Arc<Standing> {
        Arc::clone(&self.inner.standing.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Finds out who shows a token.
    ///
    /// # Errors
    /// When there is no such token.
    pub fn identify(&self, standing: &Standing, presented: Option<&str>) -> Result<Bearer, Denial> {
        let Some(book) = &self.inner.tokens else { return Err(Denial::TokenMissing) };
        let presented = presented.ok_or(Denial::TokenMissing)?;
        let token = book.check(presented, Clock::System.now())?;
        Ok(Self::bearer(standing, &token))
    }

    /// Counts a request of a bearer.
    ///
    /// # Errors
    /// When there are too many of them.
    pub fn count(&self, standing: &Standing, caller: &Caller) -> Result<(), Denial> {
        let Some(token_id) = &caller.token_id else { return Ok(()) };
        let (server, entry) = (&standing.server, standing.token(&caller.name));
        let per_second = entry.and_then(|entry| entry.requests_per_second);
        let burst = entry.and_then(|entry| entry.burst);
        let rate = Rate {
            per_second: per_second.unwrap_or(server.requests_per_second),
            burst: burst.unwrap_or(server.burst),
        };
        let allowed = self.inner.buckets.allow(token_id, rate, Instant::now());
        allowed.map_err(|retry_after| Denial::RateLimited { retry_after })
    }

    /// Says whether no more runs are taken.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Acquire)
    }

    /// Says why requests should not be sent here, if so.
    #[must_use]
    pub fn unready(&self) -> Option<&'static str> {
        if self.is_draining() {
            return Some("draining");
        }
        if let Some(displacement) = self.inner.store.displacement() {
            return Some(displacement.summary());
        }
        if self.inner.store.damage().is_some() {
            return Some("STORE_DAMAGED: the file of the store is damaged");
        }
        if self.inner.store.is_failing() {
            return Some("the store cannot be written");
        }
        (self.load_phase() != LoadPhase::Over).then_some("adapters are being loaded")
    }

    /// Waits until the drain begins.
    pub async fn draining(&self) {
        let notified = self.inner.drained.notified();
        let mut notified = std::pin::pin!(notified);
        notified.as_mut().enable();
        if !self.is_draining() {
            notified.await;
        }
    }

    /// Takes no more runs.
    pub fn begin_drain(&self) {
        if self.inner.draining.swap(true, Ordering::AcqRel) {
            return;
        }
        self.inner.drained.notify_waiters();
        self.router().end_retries();
        let mut payload = Object::new();
        payload.insert("runs_in_flight", self.router().runs_in_flight());
        self.inner.audit.record("daemon.draining", payload);
    }

    /// Waits until no run is under way, but no longer than `patience`; then the others are cancelled.
    /// Returns how many were.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.begin_drain();
        let idle = || self.router().runs_in_flight() == 0;
        if wait_until(idle, patience).await {
            return 0;
        }
        let live = self.router().live();
        for run_id in &live {
            self.router().cancel(run_id);
        }
        wait_until(idle, LAST_GRACE).await;
        live.len()
    }

    /// Records the end, and waits until everything is on disk.
    pub fn stopped(&self, cancelled: usize) {
        let mut payload = Object::new();
        payload.insert("cancelled", cancelled);
        payload.insert("runs_in_flight", self.router().runs_in_flight());
        if let Err(error) = self.inner.audit.record_now("daemon.stopped", payload) {
            tracing::warn!(%error, "the end of the daemon was not recorded");
        }
        self.inner.audit.close();
    }

    /// Takes up, or ends, the runs that a process left behind that is gone. Those that wait for an approval are
    /// left waiting, until somebody decides or their time is over. Waits until all adapters are loaded or failed.
    pub async fn recover(&self) {
        if self.loaded().await.is_err() {
            return;
        }
        self.router().watch_approvals();
        let resumable = match self.inner.app.config().recover {
            Recover::Resume => Resumable::Resume,
            Recover::End => Resumable::End,
            Recover::Leave => Resumable::Leave,
        };
        match self.router().recover(resumable).await {
            Ok(recovered) => {
                for one in recovered {
                    tracing::info!(run_id = one.run_id, how = ?one.how, "a run was left behind");
                }
            }
            Err(error) => tracing::error!(%error, "runs left behind could not be taken up"),
        }
    }

    /// Returns the state of the configuration file before it was read last.
    fn seen(&self) -> Mark {
        *self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files whose change means a reload.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        self.inner.app.config().source
    }

    /// Gives a place for an examination of an adapter, if there is one.
    #[must_use]
    pub fn examination(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.inner.examinations.try_acquire().ok()
    }

    /// Waits for a turn among the requests that block a thread and may take memory. Tokens have their turns round robin.
    pub(crate) async fn turn(&self, caller: Option<&Caller>) -> FairPermit {
        match self.inner.turns.try_acquire() {
            Some(turn) => turn,
            None => self.inner.turns.join(share::token_id(caller)).await,
        }
    }

    /// Names who knows how many sessions of MCP clients are open. Only the first one counts.
    pub fn count_sessions_by(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        drop(self.inner.sessions.set(Box::new(count)));
    }

    /// Returns how long the daemon is up.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.inner.started.elapsed()
    }

    /// Returns how many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.connections.count()
    }

    /// Returns the state of the daemon at this moment.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let (resident_bytes, open_files) = process();
        let counts = self.inner.app.adapter_counts();
        Gauges {
            runs_in_flight: self.router().runs_in_flight() as u64,
            runs_limit: self.router().runs_limit() as u64,
            // A store that cannot be read is told of by other signs.
            approvals_open: self.router().store().approvals_open().unwrap_or_default(),
            connections: self.connections() as u64,
            streams: self.inner.streams.count() as u64,
            memory_reserved: self.memory().used() as u64,
            memory_limit: self.memory().limit() as u64,
            mcp_sessions: self.inner.sessions.get().map_or(0, |count| count() as u64),
            adapters: self.router().registry().adapters().count() as u64,
            adapters_loading: counts.loading as u64,
            adapters_failed: counts.failed as u64,
            of_workers: incidents::gauges(&self.router().registry()),
            undeclared_errors: incidents::undeclared_errors(&self.router().registry()),
            undeclared_failures: incidents::undeclared_failures(&self.router().registry()),
            circuits: incidents::circuits(&self.router().registry()),
            ready: self.unready().is_none(),
            draining: self.is_draining(),
            store_displaced: self.inner.store.displacement().is_some(),
            resident_bytes,
            open_files,
            started_at: self.inner.started_at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Looks again and again until something is so, but no longer than `patience`.
async fn wait_until(is_so: impl Fn() -> bool, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(pause.min(end.saturating_duration_since(Instant::now()))).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}
