//! The server behind an adapter: connected to when somebody needs it, and again when it was lost, with pauses.

mod retry;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, Catalog, Host, Level, Tool};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{Place, Protocol, Settings};
use crate::connection::Connection;
use crate::ending::Ending;
use crate::failure::{self, Failure};
use crate::follow;
use crate::listing::{self, Room};
use crate::log::Log;
use crate::news::News;
use crate::wire::{Wire, lock};

use retry::Retry;

/// A call waits for a pause to be over if it is not longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time for what the adapter asks of a server by itself.
const OWN_TIME: Duration = Duration::from_secs(60);

/// Resources that are followed at once.
const MAX_FOLLOWED: usize = 10_000;

/// The server, whether it is connected to or not.
pub(crate) struct Upstream {
    settings: Arc<Settings>,
    log: Arc<Log>,
    news: Arc<News>,
    state: Mutex<State>,
    tools: tokio::sync::Mutex<Known<Vec<Tool>>>,
    catalog: tokio::sync::Mutex<Known<Catalog>>,
    followed: watch::Sender<BTreeSet<String>>,
    closing: CancellationToken,
}

/// How an attempt to connect ended.
type Outcome = Result<Arc<Connection>, Failure>;

#[derive(Default)]
struct State {
    live: Option<Arc<Connection>>,
    attempt: Option<watch::Receiver<Option<Outcome>>>,
    retry: Retry,
    /// The last one was of an earlier era; it need not be asked for the new one again.
    legacy: bool,
    /// The host asked for the catalogue, and does not have it.
    owed: bool,
    /// Attempts are made although nobody calls.
    insisting: bool,
}

/// Something that was listed, and when.
struct Known<T> {
    listed: Option<(Arc<T>, Stamp)>,
}

/// When something was listed: over which connection, and before which news.
#[derive(Clone)]
struct Stamp(Weak<Connection>, u64);

impl PartialEq for Stamp {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && self.1 == other.1
    }
}

impl<T> Known<T> {
    const NOTHING: Self = Self { listed: None };

    fn at(&self, stamp: &Stamp) -> Option<Arc<T>> {
        self.listed.as_ref().filter(|(_, at)| at == stamp).map(|(known, _)| Arc::clone(known))
    }
}

impl Upstream {
    /// Makes it; nothing is connected.
    pub(crate) fn new(settings: Arc<Settings>, host: &Host) -> Arc<Self> {
        let log = Arc::new(Log::new(host.clone(), settings.secrets()));
        Arc::new(Self {
            settings,
            log,
            news: Arc::new(News::new(host.clone())),
            state: Mutex::default(),
            tools: tokio::sync::Mutex::new(Known::NOTHING),
            catalog: tokio::sync::Mutex::new(Known::NOTHING),
            followed: watch::Sender::new(BTreeSet::new()),
            closing: CancellationToken::new(),
        })
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Tells the host of what changes, until the adapter goes.
    pub(crate) async fn spread_news(self: Arc<Self>) {
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = self.news.spread() => {}
        }
    }

    /// Ends everything.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        let live = lock(&self.state).live.take();
        if let Some(live) = live {
            live.close().await;
        }
    }

    /// Returns the connection, or makes one, unless the call ends before.
    pub(crate) async fn connection(self: &Arc<Self>, ending: &Ending) -> Outcome {
        let mut attempt = match self.find() {
            Found::Live(live) => return Ok(live),
            Found::Attempt(attempt) => attempt,
            Found::Pause(failure) => return Err(failure),
        };
        let outcome = async {
            match attempt.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone(),
                Err(_) => None,
            }
        };
        tokio::select! {
            error = ending.reached() => Err(Failure { error, sent: false, renew: false }),
            outcome = outcome => outcome.unwrap_or_else(|| Err(Failure::unreached("the attempt was given up"))),
        }
    }

    /// Finds the connection, or the attempt to make one. An attempt goes on when nobody waits for it.
    fn find(self: &Arc<Self>) -> Found {
        let mut state = lock(&self.state);
        if let Some(live) = &state.live {
            if !live.wire().is_retired() {
                return Found::Live(Arc::clone(live));
            }
            let why = live.wire().why();
            state.live = None;
            state.retry.lost(why, Instant::now());
        }
        if let Some(attempt) = &state.attempt {
            return Found::Attempt(attempt.clone());
        }
        let pause = state.retry.pause(Instant::now());
        if pause > PATIENCE {
            return Found::Pause(state.retry.last().until(pause));
        }
        let (tell, attempt) = watch::channel(None);
        state.attempt = Some(attempt.clone());
        tokio::spawn(Arc::clone(self).attempt(pause, tell));
        Found::Attempt(attempt)
    }

    async fn attempt(self: Arc<Self>, pause: Duration, tell: watch::Sender<Option<Outcome>>) {
        let connect = async {
            tokio::time::sleep(pause).await;
            self.connect().await
        };
        let outcome = tokio::select! {
            outcome = connect => outcome,
            () = self.closing.cancelled() => Err(Failure::unreached("the adapter was shut down")),
        };
        {
            let mut state = lock(&self.state);
            state.attempt = None;
            match &outcome {
                Ok(live) => {
                    state.legacy = !live.is_modern();
                    state.retry.made(Instant::now());
                    state.live = Some(Arc::clone(live));
                }
                Err(failure) => {
                    state.legacy = false;
                    state.retry.failed(failure.clone(), Instant::now());
                }
            }
        }
        match &outcome {
            Ok(live) => {
                tokio::spawn(Arc::clone(&self).welcome(Arc::clone(live)));
                tokio::spawn(Arc::clone(&self).mourn(Arc::clone(live.wire())));
            }
            Err(failure) => self.log.tell(Level::Warn, &failure.error.message),
        }
        drop(tell.send(Some(outcome)));
    }

    async fn connect(&self) -> Outcome {
        let wire = || Wire::new(Arc::clone(&self.log), Arc::clone(&self.news));
        let auto = self.settings.protocol == Protocol::Auto;
        let newest = Protocol::Legacy(String::new());
        if auto && lock(&self.state).legacy {
            return Connection::make(&self.settings, &newest, wire()).await;
        }
        let first = Connection::make(&self.settings, &self.settings.protocol, wire()).await;
        match first {
            // There are servers that end, or say nothing sensible, when they are asked for the new era.
            Err(failure) if auto && failure.sent && may_be_shy(&self.settings, &failure) => {
                Connection::make(&self.settings, &newest, wire()).await.map_err(|_| failure)
            }
            outcome => outcome,
        }
    }

    /// Takes up with a new connection what there was with the last one.
    async fn welcome(self: Arc<Self>, live: Arc<Connection>) {
        tokio::spawn(follow::follow(Arc::clone(&live), self.followed.subscribe()));
        let owed = std::mem::take(&mut lock(&self.state).owed);
        let before = self.catalog.lock().await.listed.as_ref().map(|(known, _)| Arc::clone(known));
        let changed = match before {
            None => owed,
            Some(before) => {
                let ending = Ending::at(Instant::now() + OWN_TIME, &self.closing);
                matches!(self.listed(&live, &ending).await, Ok(now) if now != before)
            }
        };
        if changed || owed {
            self.news.announce();
        }
    }

    /// Connects again by itself if somebody counts on it.
    async fn mourn(self: Arc<Self>, wire: Arc<Wire>) {
        wire.retirement().await;
        if !self.followed.borrow().is_empty() {
            self.insist();
        }
    }

    /// Tries to connect until it succeeds or the adapter goes.
    fn insist(self: &Arc<Self>) {
        if std::mem::replace(&mut lock(&self.state).insisting, true) {
            return;
        }
        let upstream = Arc::clone(self);
        tokio::spawn(async move {
            while !upstream.closing.is_cancelled() {
                let ending = Ending::at(Instant::now() + OWN_TIME, &upstream.closing);
                if upstream.connection(&ending).await.is_ok() {
                    break;
                }
                let pause = lock(&upstream.state).retry.pause(Instant::now());
                tokio::select! {
                    () = tokio::time::sleep(pause.max(PATIENCE)) => {}
                    () = upstream.closing.cancelled() => {}
                }
            }
            lock(&upstream.state).insisting = false;
        });
    }

    /// Returns the tools of a connection.
    pub(crate) async fn tools(
        &self,
        live: &Arc<Connection>,
        ending: &Ending,
        room: &mut Room,
    ) -> Result<Arc<Vec<Tool>>, Failure> {
        let mut known = self.tools.lock().await;
        let stamp = self.stamp(live);
        if let Some(tools) = known.at(&stamp) {
            return Ok(tools);
        }
        let tools = Arc::new(listing::tools(live, ending, room).await?);
        known.listed = Some((Arc::clone(&tools), stamp));
        Ok(tools)
    }

    async fn listed(
        &self,
        live: &Arc<Connection>,
        ending: &Ending,
    ) -> Result<Arc<Catalog>, Failure> {
        let mut known = self.catalog.lock().await;
        let stamp = self.stamp(live);
        if let Some(catalog) = known.at(&stamp) {
            return Ok(catalog);
        }
        let mut room = Room::default();
        let tools = self.tools(live, ending, &mut room).await?;
        let catalog = Arc::new(listing::rest(live, tools.to_vec(), ending, &mut room).await?);
        known.listed = Some((Arc::clone(&catalog), stamp));
        Ok(catalog)
    }

    fn stamp(&self, live: &Arc<Connection>) -> Stamp {
        Stamp(Arc::downgrade(live), self.news.version())
    }

    /// Returns what the server offers. If it cannot be asked now, the host hears of it when it can.
    pub(crate) async fn catalog(
        self: &Arc<Self>,
        ending: &Ending,
    ) -> Result<Catalog, AdapterError> {
        let listed = match self.connection(ending).await {
            Ok(live) => self.listed(&live, ending).await,
            Err(failure) => Err(failure),
        };
        match listed {
            Ok(catalog) => Ok(Catalog::clone(&catalog)),
            Err(failure) => {
                lock(&self.state).owed = true;
                self.insist();
                Err(failure.into_error())
            }
        }
    }

    /// Takes note that a resource is followed, and says whether it was not before.
    pub(crate) fn follow(&self, uri: &str) -> Result<bool, AdapterError> {
        let mut full = false;
        let new = self.followed.send_if_modified(|followed| {
            full = followed.len() >= MAX_FOLLOWED && !followed.contains(uri);
            !full && followed.insert(uri.to_owned())
        });
        if full {
            let message =
                format!("{MAX_FOLLOWED} resources of the MCP server are followed already");
            return Err(failure::invalid(message));
        }
        Ok(new)
    }

    /// Takes note that a resource is followed no longer.
    pub(crate) fn leave(&self, uri: &str) {
        self.followed.send_if_modified(|followed| followed.remove(uri));
    }
}

/// Says whether a server that failed may do better if it is spoken to in the old way.
fn may_be_shy(settings: &Settings, failure: &Failure) -> bool {
    match settings.place {
        Place::Program(_) => true,
        Place::Endpoint(_) => {
            let status =
                failure.error.details.get("status_code").and_then(serde_json::Value::as_u64);
            !matches!(status, Some(401 | 403))
        }
    }
}

/// What there is of a connection.
enum Found {
    Live(Arc<Connection>),
    Attempt(watch::Receiver<Option<Outcome>>),
    Pause(Failure),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use nexus_router_sdk::code;
    use nexus_router_sdk::testing::Recorder;
    use serde_json::json;

    #[test]
    fn a_resource_too_many_is_refused() {
        let config: Config = serde_json::from_value(json!({ "command": ["server"] })).unwrap();
        let settings = Arc::new(config.check().unwrap());
        let upstream = Upstream::new(settings, &Recorder::default().host());
        for n in 0..MAX_FOLLOWED {
            assert_eq!(upstream.follow(&format!("r:{n}")), Ok(true));
        }
        assert_eq!(upstream.follow("r:more").unwrap_err().code, code::INVALID_ARGUMENT);
        assert_eq!(upstream.follow("r:1"), Ok(false));
        upstream.leave("r:1");
        assert_eq!(upstream.follow("r:more"), Ok(true));
    }
}
