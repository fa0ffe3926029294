//! The sessions of the older era: whose each is, and when it is gone.
//!
//! The library ends a session after a silence, also while a call of it works in silence. So the time is kept
//! here: a session ends when nothing of it was under way for so long.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::service::Service;

/// The sessions that are open.
#[derive(Default)]
pub(super) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: HashMap<Arc<str>, Known>,
    /// Whose sessions are being made.
    coming: Vec<Caller>,
}

struct Known {
    owner: Caller,
    /// Answers and streams that are not at their end.
    open: usize,
    /// The ids of requests that are under way, each with what ends it. The library loses the answer to one of two that
    /// have the same.
    asked: HashMap<RequestId, CancellationToken>,
    /// Whether the handshake is over.
    ready: bool,
    /// Whether it once wanted to hear what calls log.
    hears: bool,
    /// When something of it ended last.
    seen: Instant,
}

impl Drop for Known {
    fn drop(&mut self) {
        // Nothing of a session goes on when it is gone.
        self.asked.values().for_each(CancellationToken::cancel);
    }
}

/// So much of one session is under way at once; the library has no room for more.
const AT_ONCE: usize = 256;

/// Why nothing of a session is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no such session of this caller.
    Unknown,
    /// Too much of it is under way.
    Busy,
    /// A request of the same id is under way.
    Twice,
}

/// An answer or a stream of a session that is not at its end.
pub(super) struct Open {
    sessions: Arc<Sessions>,
    id: Arc<str>,
    /// The request that it answers.
    pub(super) asked: Option<Arc<Asked>>,
    /// Whether its calls need no more than an answer.
    pub(super) quiet: bool,
}

/// The id of a request, which is in use until the request is done, also if nobody waits for the answer.
pub(super) struct Asked {
    sessions: Arc<Sessions>,
    session: Arc<str>,
    id: RequestId,
    /// Tells that the answer is not wanted any more, or that the session is gone.
    pub(super) gone: CancellationToken,
    /// The stream of the answer, once there is one.
    stream: OnceLock<mpsc::Sender<Bytes>>,
}

impl Asked {
    /// Returns the notices to put on the stream of the answer, from now on.
    pub(super) fn open_stream(&self) -> Option<mpsc::Receiver<Bytes>> {
        let (sender, receiver) = mpsc::channel(1);
        self.stream.set(sender).is_ok().then_some(receiver)
    }

    /// Puts a notice on the stream of the answer. Returns false while there is no stream yet.
    pub(super) fn notify(&self, notice: impl FnOnce() -> serde_json::Value) -> bool {
        let Some(stream) = self.stream.get() else { return false };
        // A client that does not read misses the notice.
        drop(stream.try_send(format!("data: {}\n\n", notice()).into()));
        true
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(known) = self.sessions.lock().known.get_mut(&self.session) {
            known.asked.remove(&self.id);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(known) = self.sessions.lock().known.get_mut(&self.id) {
            known.open = known.open.saturating_sub(1);
            known.seen = Instant::now();
        }
    }
}

impl Sessions {
    /// Begins something of a session, if it is one of this caller.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: &str,
        caller: &Caller,
        asked: Option<RequestId>,
    ) -> Result<Open, Refused> {
        let known = &mut self.lock().known;
        let (id, session) = known.get_key_value(id).ok_or(Refused::Unknown)?;
        if session.owner != *caller {
            return Err(Refused::Unknown);
        }
        if session.open >= AT_ONCE {
            return Err(Refused::Busy);
        }
        if asked.as_ref().is_some_and(|asked| session.asked.contains_key(asked)) {
            return Err(Refused::Twice);
        }
        let (id, quiet) = (Arc::clone(id), session.ready && !session.hears);
        let asked = asked.map(|asked| {
            let (sessions, session) = (Arc::clone(self), Arc::clone(&id));
            let gone = CancellationToken::new();
            Asked { sessions, session, id: asked, gone, stream: OnceLock::new() }
        });
        if let Some(session) = known.get_mut(&id) {
            session.open += 1;
            session.asked.extend(asked.iter().map(|asked| (asked.id.clone(), asked.gone.clone())));
        }
        Ok(Open { sessions: Arc::clone(self), id, asked: asked.map(Arc::new), quiet })
    }

    /// Takes note that a session has shaken hands.
    pub(super) fn ready(&self, id: &str) {
        if let Some(known) = self.lock().known.get_mut(id) {
            known.ready = true;
        }
    }

    /// Takes note that a session wants to hear what calls log.
    pub(super) fn hears(&self, id: &str) {
        if let Some(known) = self.lock().known.get_mut(id) {
            known.hears = true;
        }
    }

    /// Takes back a request of a session.
    pub(super) fn cancel(&self, id: &str, asked: &RequestId) {
        if let Some(gone) = self.lock().known.get(id).and_then(|known| known.asked.get(asked)) {
            gone.cancel();
        }
    }

    /// Forgets a session.
    pub(super) fn remove(&self, id: &str) {
        self.lock().known.remove(id);
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().known.len()
    }

    /// Keeps a place for one more of a caller, if there may be so many: nobody takes more than half.
    pub(super) fn reserve(self: &Arc<Self>, owner: &Caller, limit: usize) -> Option<Place> {
        let mut table = self.lock();
        let owners = table.known.values().map(|session| &session.owner).chain(&table.coming);
        let (all, own) =
            owners.fold((0, 0), |(all, own), known| (all + 1, own + usize::from(known == owner)));
        if all >= limit || own >= limit.div_ceil(2) {
            return None;
        }
        table.coming.push(owner.clone());
        Some(Place { sessions: Arc::clone(self), owner: owner.clone() })
    }

    /// Takes out those of which nothing was under way for so long.
    fn silent(&self, limit: Duration) -> Vec<Arc<str>> {
        let mut silent = Vec::new();
        self.lock().known.retain(|id, known| {
            let keep = known.open > 0 || known.seen.elapsed() < limit;
            if !keep {
                silent.push(Arc::clone(id));
            }
            keep
        });
        silent
    }

    /// Returns those of the library that nobody has known here for so long: their clients went too early.
    fn strange(
        &self,
        ids: &[Arc<str>],
        since: &mut HashMap<Arc<str>, Instant>,
        limit: Duration,
    ) -> Vec<Arc<str>> {
        let known = &self.lock().known;
        let strange: HashSet<&Arc<str>> =
            ids.iter().filter(|id| !known.contains_key(*id)).collect();
        since.retain(|id, _| strange.contains(id));
        for id in strange {
            since.entry(Arc::clone(id)).or_insert_with(Instant::now);
        }
        let over = since.iter().filter(|(_, first)| first.elapsed() >= limit);
        over.map(|(id, _)| Arc::clone(id)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place for a session that is being made.
pub(super) struct Place {
    sessions: Arc<Sessions>,
    owner: Caller,
}

impl Place {
    /// Takes note of the session that was made.
    pub(super) fn take(self, id: &str) {
        let (owner, seen) = (self.owner.clone(), Instant::now());
        let known =
            Known { owner, open: 0, asked: HashMap::new(), ready: false, hears: false, seen };
        self.sessions.lock().known.insert(id.into(), known);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let coming = &mut self.sessions.lock().coming;
        if let Some(index) = coming.iter().position(|owner| *owner == self.owner) {
            coming.swap_remove(index);
        }
    }
}

/// Lets a body keep a session open until it is at its end, or nobody reads it any more. One that is there as a whole is
/// at its end already, and keeps its length.
pub(super) fn held(body: BoxBody<Bytes, Infallible>, open: Open) -> BoxBody<Bytes, Infallible> {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let body = body.map_frame(move |frame| {
        let _open = &open;
        frame
    });
    BoxBody::new(body)
}

/// Ends sessions that are silent, for as long as there are any to come.
pub(super) async fn reap(
    service: Service,
    sessions: Weak<Sessions>,
    protocol: Arc<LocalSessionManager>,
) {
    let mut since = HashMap::new();
    loop {
        let limit = service.standing().mcp.session_idle;
        tokio::time::sleep((limit / 4).clamp(LEAST, MOST)).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let ids: Vec<Arc<str>> = protocol.sessions.read().await.keys().cloned().collect();
        let mut over = sessions.silent(limit);
        over.extend(sessions.strange(&ids, &mut since, HANDSHAKE));
        for id in over {
            if let Err(error) = protocol.close_session(&id).await {
                tracing::debug!(%error, "a session that is over could not be ended");
            }
        }
    }
}

/// How long a client may take to finish its handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(30);
/// How often sessions are looked at.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_which_something_is_under_way_stays() {
        let (sessions, local) = (Arc::new(Sessions::default()), Caller::local());
        let other = Caller { name: "other".to_owned(), ..local.clone() };
        for (id, owner) in [("a", &local), ("b", &other)] {
            sessions.reserve(owner, 4).unwrap().take(id);
        }
        for id in ["b", "c"] {
            assert_eq!(sessions.begin(id, &local, None).err(), Some(Refused::Unknown));
        }
        let begin = |asked: i64| sessions.begin("a", &local, Some(RequestId::Number(asked)));
        let open = begin(1).unwrap_or_else(|refused| panic!("{refused:?}"));
        assert_eq!(begin(1).err(), Some(Refused::Twice));
        assert!(begin(2).is_ok() && begin(2).is_ok());
        assert_eq!(sessions.silent(Duration::ZERO).len(), 1);
        assert_eq!(sessions.count(), 1);
        drop(open);
        assert!(sessions.silent(Duration::from_secs(3600)).is_empty());
        assert_eq!(sessions.silent(Duration::ZERO), ["a".into()]);
    }
    #[test]
    fn a_place_is_one_from_its_first_moment() {
        let (sessions, local) = (Arc::new(Sessions::default()), Caller::local());
        let first = sessions.reserve(&local, 4).unwrap();
        let second = sessions.reserve(&local, 4).unwrap();
        assert!(sessions.reserve(&local, 4).is_none(), "more than half");
        let other = Caller { name: "other".to_owned(), ..local.clone() };
        assert!(sessions.reserve(&other, 4).is_some() && sessions.reserve(&other, 2).is_none());
        first.take("a");
        assert!(sessions.reserve(&local, 4).is_none());
        drop(second);
        assert!(sessions.reserve(&local, 4).is_some());
        assert_eq!(sessions.count(), 1);
    }

    #[test]
    fn a_session_that_nobody_knows_is_ended_after_a_while() {
        let (sessions, mut since) = (Arc::new(Sessions::default()), HashMap::new());
        sessions.reserve(&Caller::local(), 4).unwrap().take("a");
        let ids: [Arc<str>; 2] = ["a".into(), "b".into()];
        assert!(sessions.strange(&ids, &mut since, Duration::from_secs(3600)).is_empty());
        assert_eq!(sessions.strange(&ids, &mut since, Duration::ZERO), ["b".into()]);
        sessions.reserve(&Caller::local(), 4).unwrap().take("b");
        assert!(sessions.strange(&ids, &mut since, Duration::ZERO).is_empty() && since.is_empty());
    }
}
