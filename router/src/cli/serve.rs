//! `nexus-router serve`: the daemon from its start to its end.

mod greeting;
mod supervisor;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;

use super::options::RouterOptions;
use super::output::tell;
use super::{Answer, Error};
use crate::access::origin::Guard;
use crate::app::{App, Named, Paths};
use crate::config::{ConfigFile, Environment, Listener};
use crate::http::{self, Bound};
use crate::router;
use crate::service::{self, Parts, Service};
use crate::shell::quoted;
use crate::store::{lost_log_pages, rescued_copies};
use crate::telemetry::{self, Telemetry};

/// How long answers that are being written have after the last run is over.
const LAST_WORDS: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  nexus-router serve                          loopback, the adapters beside the program
  nexus-router serve --config router.toml     what the file says; SIGHUP reads it again
  nexus-router serve --listen 127.0.0.1:0 --db :memory: --no-tokens     for test suites
  nexus-router token new ci --scope run       a token for a client, while the daemon runs

Signals: SIGHUP reloads, SIGTERM and SIGINT drain and stop, a second one ends at once.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The address to listen on, instead of the listeners of router.toml; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    router: RouterOptions,
    /// Ask callers for no token. Only on loopback, unless --allow-remote-without-tokens.
    #[arg(long)]
    no_tokens: bool,
    /// Listen beyond this machine without TLS: tokens and answers can be read on the way.
    #[arg(long)]
    allow_remote_plaintext: bool,
    /// Listen beyond this machine without tokens: whoever reaches the port is the administrator.
    #[arg(long)]
    allow_remote_without_tokens: bool,
}

pub(super) fn run(
    arguments: &Arguments,
    level: Option<LevelFilter>,
    environment: &Environment,
) -> Result<Answer, Error> {
    crate::sandbox::set_up_allocator();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(|error| router::Error::Threads(error.to_string()))
        .map_err(|error| Error::App(error.into()))?;
    // Before anything is read: a signal must not end the process while it begins.
    let mut signals = runtime.block_on(async { Signals::new() })?;
    let config = arguments.router.daemon_config(environment)?;
    let listeners = arguments.listeners(&config)?;
    let server = &config.server;
    Guard::new(&server.allowed_hosts, &server.allowed_origins).map_err(service::Error::from)?;
    http::raise_file_limit(server.connections)?;
    let telemetry = start_telemetry(&config, level)?;
    let answer = runtime.block_on(async {
        // Before anything is opened: a port that is taken leaves no trace.
        let bound = http::bind(&listeners).await?;
        let named = Named {
            paths: Paths::Own,
            discover: true,
            in_background: true,
            publishes: true,
            seals_backlog: true,
            ..arguments.router.named()?
        };
        let app = App::new(environment, config, named);
        warn_of_lost_log(&app);
        warn_of_rescued_copies(&app);
        let tokens = bound.iter().any(Bound::needs_token);
        let parts = Parts { app, environment: environment.clone(), telemetry, tokens };
        // It waits for files.
        let mut starting = tokio::task::spawn_blocking(move || Service::start(parts));
        let (started, stops) = tokio::select! {
            started = &mut starting => (started, false),
            () = signals.stop() => match tokio::time::timeout(LAST_WORDS, &mut starting).await {
                Ok(started) => (started, true),
                // Nothing was promised yet.
                Err(_) => return Ok(Answer::Yes),
            },
        };
        let service = started
            .map_err(|error| Error::App(router::Error::Threads(error.to_string()).into()))??;
        serve(environment, service, bound, (&mut signals, stops)).await
    });
    // A thread that waits for a file or an adapter must not keep the process, whose work is done.
    runtime.shutdown_timeout(LAST_WORDS);
    answer
}

/// Logs that a write-ahead log was removed or truncated before this start. Once the store is open, nothing shows it.
fn warn_of_lost_log(app: &App) {
    if let Ok(store) = app.db()
        && let Some(pages) = lost_log_pages(&store)
    {
        tracing::error!(
            store = %store.display(),
            pages,
            "the write-ahead log of the store was removed or truncated; what was recorded last is lost"
        );
    }
}

/// Logs which copies of displaced stores lie beside the store: they may hold what the store does not.
fn warn_of_rescued_copies(app: &App) {
    let Ok(store) = app.db() else { return };
    for copy in rescued_copies(&store) {
        let copy = copy.display().to_string();
        tracing::warn!(
            store = %store.display(),
            copy,
            "a rescued copy of a displaced store lies beside the store; if it holds what the store does not, stop the \
             daemon and run `nexus-router store restore {}`; move the copy away when it is not needed any more",
            quoted(&copy)
        );
    }
}

impl Arguments {
    /// Returns the listeners: those of the configuration, or the one that is named.
    fn listeners(&self, config: &ConfigFile) -> Result<Vec<Listener>, Error> {
        let mut listeners = match &self.listen {
            None => config.listeners.clone(),
            Some(text) => {
                let address = address(text)?;
                let first = config.listeners.first().cloned().unwrap_or_default();
                vec![Listener { address, ..first }]
            }
        };
        for listener in &mut listeners {
            listener.tokens &= !self.no_tokens;
            listener.allow_remote_plaintext |= self.allow_remote_plaintext;
            listener.allow_remote_without_tokens |= self.allow_remote_without_tokens;
            listener.refuse_unsafe()?;
        }
        Ok(listeners)
    }
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    let wrong = |why: String| {
        Error::usage(
            format!("--listen {text:?} is no address: {why}"),
            "write HOST:PORT, like 127.0.0.1:7433 or [::1]:7433",
        )
    };
    let mut found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("it leads nowhere".to_owned()))
}

/// Begins to log as the configuration says.
pub(super) fn start_telemetry(
    config: &ConfigFile,
    level: Option<LevelFilter>,
) -> Result<Telemetry, Error> {
    let mut settings = telemetry::Settings::of(config).map_err(service::Error::from)?;
    if let Some(level) = level {
        settings.level = level.to_string();
    }
    Ok(telemetry::start(&settings).map_err(service::Error::from)?)
}

/// The signals that the daemon listens to.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// Waits for the signal to stop.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Stop,
    Reload,
}

/// Answers requests until a signal, then lets runs finish. `stops` if the signal was there before.
async fn serve(
    environment: &Environment,
    service: Service,
    bound: Vec<Bound>,
    (signals, stops): (&mut Signals, bool),
) -> Result<Answer, Error> {
    let urls: Vec<(String, bool)> =
        bound.iter().map(|bound| (bound.url(), bound.needs_token())).collect();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(http::serve(service.clone(), bound, async {
        drop(stopped.await);
    }));
    let failure = match stops {
        true => None,
        false => serve_until_signal(environment, &service, &urls, signals).await.err(),
    };
    supervisor::stopping();
    let patience = service.standing().server.drain;
    service.begin_drain();
    let under_way = service.router().runs_in_flight();
    tracing::info!(under_way, ?patience, "draining; a second signal ends at once");
    let cancelled = tokio::select! {
        cancelled = service.drain(patience) => cancelled,
        () = signals.stop() => end_at_once()?,
    };
    let end = tokio::time::Instant::now() + LAST_WORDS;
    // A run that was taken at the very moment of the signal is still there.
    let busy = || service.connections() > 0 || service.router().runs_in_flight() > 0;
    while busy() && tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(stop);
    drop(serving.await);
    tracing::info!(cancelled, "stopped");
    let stopping = service.clone();
    let finished = tokio::task::spawn_blocking(move || {
        stopping.stopped(cancelled);
        stopping.store().finish()
    });
    if let Ok(Err(error)) = finished.await {
        tracing::error!(
            code = error.code(),
            "{error}; what the store acknowledged could not be saved and is lost with this process"
        );
        return Err(failure.unwrap_or_else(|| error.into()));
    }
    failure.map_or(Ok(Answer::Yes), Err)
}

/// Comes up, and reloads on signals, until the signal to stop.
async fn serve_until_signal(
    environment: &Environment,
    service: &Service,
    urls: &[(String, bool)],
    signals: &mut Signals,
) -> Result<(), Error> {
    drop(tokio::spawn(service::watch(service.clone())));
    let mut coming = std::pin::pin!(come_up(environment, service, urls));
    let mut is_up = false;
    loop {
        let asked = tokio::select! {
            up = &mut coming, if !is_up => {
                up?;
                is_up = true;
                continue;
            }
            asked = signals.next() => asked,
        };
        if asked == Asked::Stop {
            return Ok(());
        }
        let reloaded = service.clone();
        supervisor::reloading();
        // The error is logged and recorded.
        let mut done = tokio::task::spawn_blocking(move || drop(reloaded.reload("SIGHUP")));
        loop {
            tokio::select! {
                up = &mut coming, if !is_up => {
                    up?;
                    is_up = true;
                }
                _ = &mut done => break,
                // Adapters may take their time to load; it goes on while the daemon drains.
                () = signals.stop() => return Ok(()),
            }
        }
        if is_up {
            supervisor::ready();
        }
    }
}

/// Waits until all adapters are ready or failed, and tells it: people, the supervisor, and runs that wait for it.
async fn come_up(
    environment: &Environment,
    service: &Service,
    urls: &[(String, bool)],
) -> Result<(), Error> {
    for (url, _) in urls {
        tracing::info!("answers at {url}; adapters are being loaded");
    }
    if service.loaded().await.is_err() {
        return Err(not_loaded(service));
    }
    greeting::greet(environment, service, urls).await?;
    supervisor::ready();
    let recovering = service.clone();
    drop(tokio::spawn(async move { recovering.recover().await }));
    drop(tokio::spawn(supervisor::watchdog()));
    Ok(())
}

/// Returns why the adapters of a service cannot be used.
pub(super) fn not_loaded(service: &Service) -> Error {
    let unknown = || router::Error::Threads("the adapters were not loaded".to_owned());
    match service.load_error() {
        Some(error) => error.into(),
        None => Error::App(unknown().into()),
    }
}

/// Ends this process. What was acknowledged is on disk.
fn end_at_once<T>() -> Result<T, Error> {
    tell("ended at once; what was acknowledged is on disk");
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .map_err(std::io::Error::from)?;
    // It takes effect before anything else of this process is carried out.
    Err(Error::Output(std::io::ErrorKind::Interrupted.into()))
}
