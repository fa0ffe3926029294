//! The sessions of the older era: whose each is, and when it is gone.
//!
//! The library ends a session after a silence, also while a call of it works in silence. So the time is kept
//! here: a session ends when nothing of it was under way for so long.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::caller::Caller;
use crate::service::Service;

/// The sessions that are open.
#[derive(Default)]
pub(super) struct Sessions {
    known: Mutex<HashMap<Arc<str>, Known>>,
}

struct Known {
    owner: Caller,
    /// Answers and streams that are not at their end.
    open: usize,
    /// The ids of requests that are under way. The library loses the answer to one of two that have the same.
    asked: HashSet<RequestId>,
    /// When something of it ended last.
    seen: Instant,
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
    asked: Option<RequestId>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(known) = self.sessions.lock().get_mut(&self.id) {
            known.open = known.open.saturating_sub(1);
            if let Some(asked) = &self.asked {
                known.asked.remove(asked);
            }
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
        let mut known = self.lock();
        let (id, session) = known.get_key_value(id).ok_or(Refused::Unknown)?;
        if session.owner != *caller {
            return Err(Refused::Unknown);
        }
        if session.open >= AT_ONCE {
            return Err(Refused::Busy);
        }
        if asked.as_ref().is_some_and(|asked| session.asked.contains(asked)) {
            return Err(Refused::Twice);
        }
        let id = Arc::clone(id);
        if let Some(session) = known.get_mut(&id) {
            session.open += 1;
            session.asked.extend(asked.clone());
        }
        drop(known);
        Ok(Open { sessions: Arc::clone(self), id, asked })
    }

    /// Takes note of a session that was made for a caller.
    pub(super) fn add(&self, id: &str, owner: Caller) {
        self.lock().insert(
            id.into(),
            Known { owner, open: 0, asked: HashSet::new(), seen: Instant::now() },
        );
    }

    /// Forgets a session.
    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Says whether there may be one more for a caller, of so many: nobody takes more than half.
    pub(super) fn has_room(&self, caller: &Caller, limit: usize) -> bool {
        let known = self.lock();
        let own = known.values().filter(|session| session.owner == *caller).count();
        known.len() < limit && own < limit.div_ceil(2)
    }

    /// Takes out those of which nothing was under way for so long.
    fn silent(&self, limit: Duration) -> Vec<Arc<str>> {
        let mut silent = Vec::new();
        self.lock().retain(|id, known| {
            let keep = known.open > 0 || known.seen.elapsed() < limit;
            if !keep {
                silent.push(Arc::clone(id));
            }
            keep
        });
        silent
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a body keep a session open until it is at its end, or nobody reads it any more.
pub(super) fn held(
    body: BoxBody<Bytes, Infallible>,
    open: Arc<Open>,
) -> BoxBody<Bytes, Infallible> {
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
    loop {
        let limit = service.standing().mcp.session_idle;
        tokio::time::sleep((limit / 4).clamp(LEAST, MOST)).await;
        let Some(sessions) = sessions.upgrade() else { return };
        for id in sessions.silent(limit) {
            let id: rmcp::transport::common::server_side_http::SessionId = id.as_ref().into();
            if let Err(error) = protocol.close_session(&id).await {
                tracing::debug!(%error, "a silent session could not be ended");
            }
        }
        // One that never got beyond its beginning is the library's own affair.
    }
}

/// How often sessions are looked at.
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_which_something_is_under_way_stays() {
        let (sessions, local) = (Arc::new(Sessions::default()), Caller::local());
        sessions.add("a", local.clone());
        sessions.add("b", Caller { name: "other".to_owned(), ..local.clone() });
        for id in ["b", "c"] {
            assert_eq!(sessions.begin(id, &local, None).err(), Some(Refused::Unknown));
        }
        assert!(sessions.has_room(&local, 3) && !sessions.has_room(&local, 2));
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
}
