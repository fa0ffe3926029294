//! Connections: limited in number, each token within its share. A new connection replaces an idle one of a stranger.
//!
//! A connection belongs to a stranger until its first authenticated request. When all connections are in use, a new one
//! closes the oldest idle stranger of the address that has most of them. If every connection has shown a token, it closes an
//! idle one of the token that has most. So neither idle strangers nor idle connections of one token lock others out.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::refusals::network;
use super::{Inner, Service};
use crate::caller::Caller;
use crate::router::ShareRefusal;
use crate::share;

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct Connections {
    table: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    open: usize,
    /// Connections by owner, the oldest first. No entry is empty.
    owners: HashMap<ConnectionOwner, BTreeMap<u64, Arc<ConnectionState>>>,
}

/// The side that a connection counts for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ConnectionOwner {
    /// A network address that has shown no token on the connection.
    Stranger(IpAddr),
    /// A token, or the callers without one on a listener that needs none.
    Token(Arc<str>),
}

#[derive(Debug)]
struct ConnectionState {
    owner: Mutex<ConnectionOwner>,
    /// Number of requests under way.
    requests: AtomicUsize,
    /// Signals that another connection takes the place of this one.
    replaced: Notify,
}

/// An open connection, counted as long as it exists or until another one takes its place.
pub struct OpenConnection {
    inner: Arc<Inner>,
    handle: ConnectionHandle,
}

/// A connection as its requests see it.
#[derive(Clone, Debug)]
pub struct ConnectionHandle {
    number: u64,
    state: Arc<ConnectionState>,
}

/// A request under way on a connection.
#[derive(Debug)]
pub struct BusyConnection(Arc<ConnectionState>);

impl Connections {
    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many are open.
    pub(super) fn count(&self) -> usize {
        self.lock().open
    }

    fn open(&self, address: IpAddr, limit: usize) -> Option<ConnectionHandle> {
        let owner = ConnectionOwner::Stranger(network(address));
        let mut table = self.lock();
        if table.open >= limit {
            table.replace_one()?;
        }
        let number = table.next;
        table.next += 1;
        table.open += 1;
        let state = Arc::new(ConnectionState {
            owner: Mutex::new(owner.clone()),
            requests: AtomicUsize::new(0),
            replaced: Notify::new(),
        });
        table.owners.entry(owner).or_default().insert(number, Arc::clone(&state));
        Some(ConnectionHandle { number, state })
    }

    fn close(&self, handle: &ConnectionHandle) {
        let mut table = self.lock();
        let owner = handle.state.lock_owner().clone();
        table.remove(&owner, handle.number);
    }

    /// Makes a token the owner of a connection.
    fn assign(
        &self,
        handle: &ConnectionHandle,
        token: &str,
        limit: usize,
    ) -> Result<(), ShareRefusal> {
        if matches!(&*handle.state.lock_owner(), ConnectionOwner::Token(own) if **own == *token) {
            return Ok(());
        }
        let new = ConnectionOwner::Token(token.into());
        let mut table = self.lock();
        // Callers without a token have no limit of their own.
        let own = table.owners.get(&new).map_or(0, BTreeMap::len);
        if !token.is_empty() && own >= limit && !table.replace_idle(&new) {
            return Err(ShareRefusal::Connections { limit });
        }
        let mut owner = handle.state.lock_owner();
        if table.remove(&owner, handle.number) {
            table.open += 1;
            let state = Arc::clone(&handle.state);
            table.owners.entry(new.clone()).or_default().insert(handle.number, state);
        }
        *owner = new;
        Ok(())
    }
}

impl ConnectionTable {
    /// Stops counting a connection. Returns false if another one took its place before.
    fn remove(&mut self, owner: &ConnectionOwner, number: u64) -> bool {
        let Some(connections) = self.owners.get_mut(owner) else { return false };
        let removed = connections.remove(&number).is_some();
        if connections.is_empty() {
            self.owners.remove(owner);
        }
        self.open -= usize::from(removed);
        removed
    }

    /// Closes an idle connection for a new one: of strangers first, and of the owner that has most.
    fn replace_one(&mut self) -> Option<()> {
        let strangers = |owner: &ConnectionOwner| matches!(owner, ConnectionOwner::Stranger(_));
        let idle = self.owners.iter().filter(|(owner, connections)| {
            // A token keeps its last connection.
            let spare = strangers(owner) || connections.len() > 1;
            spare && connections.values().any(|state| state.is_idle())
        });
        let victim = idle.max_by_key(|(owner, connections)| (strangers(owner), connections.len()));
        let owner = victim.map(|(owner, _)| owner.clone())?;
        self.replace_idle(&owner).then_some(())
    }

    /// Closes the oldest idle connection of an owner. Returns false if there is none.
    fn replace_idle(&mut self, owner: &ConnectionOwner) -> bool {
        let idle = self
            .owners
            .get(owner)
            .and_then(|connections| connections.iter().find(|(_, state)| state.is_idle()));
        let Some((number, state)) = idle else { return false };
        let number = *number;
        state.replaced.notify_one();
        self.remove(owner, number)
    }
}

impl ConnectionState {
    fn lock_owner(&self) -> MutexGuard<'_, ConnectionOwner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Acquire) == 0
    }
}

impl ConnectionHandle {
    /// Marks the connection as busy until the value is dropped.
    #[must_use]
    pub fn begin_request(&self) -> BusyConnection {
        self.state.requests.fetch_add(1, Ordering::AcqRel);
        BusyConnection(Arc::clone(&self.state))
    }

    /// Returns whether no request is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    /// Waits until another connection takes the place of this one.
    pub async fn replaced(&self) {
        self.state.replaced.notified().await;
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

impl OpenConnection {
    /// Returns the connection as its requests see it.
    #[must_use]
    pub const fn handle(&self) -> &ConnectionHandle {
        &self.handle
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.inner.connections.close(&self.handle);
    }
}

impl Service {
    /// Counts a connection for as long as the value exists; none if there are too many and all are busy.
    #[must_use]
    pub fn connection(&self, address: IpAddr) -> Option<OpenConnection> {
        let limit = self.standing().server.connections;
        let handle = self.inner.connections.open(address, limit)?;
        Some(OpenConnection { inner: Arc::clone(&self.inner), handle })
    }

    /// Counts a connection for the token of a caller from now on.
    ///
    /// # Errors
    /// When the token has as many connections as it may have, all of them busy.
    pub fn authenticated(
        &self,
        limit: usize,
        handle: &ConnectionHandle,
        caller: &Caller,
    ) -> Result<(), ShareRefusal> {
        self.inner.connections.assign(handle, share::token_id(Some(caller)), limit)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn is_replaced(handle: &ConnectionHandle) -> bool {
        handle.replaced().now_or_never().is_some()
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_idle_stranger() {
        let connections = Connections::default();
        let open = || connections.open(HERE, 3);
        let (first, second, third) = (open().unwrap(), open().unwrap(), open().unwrap());
        let busy = first.begin_request();
        connections.assign(&third, "a", 9).unwrap();
        let fourth = open().unwrap();
        assert!(is_replaced(&second) && !is_replaced(&first) && !is_replaced(&third));
        assert_eq!(connections.count(), 3);
        connections.close(&second);
        assert_eq!(connections.count(), 3, "a replaced connection is not counted twice");
        drop(busy);
        let fifth = open().unwrap();
        assert!(is_replaced(&first) && !is_replaced(&fourth) && !is_replaced(&third));
        let _busy = (fourth.begin_request(), fifth.begin_request());
        assert!(open().is_none(), "busy connections and the last one of a token stay");
        [third, fourth, fifth].iter().for_each(|one| connections.close(one));
        assert_eq!(connections.count(), 0);
        assert!(connections.lock().owners.is_empty());
    }

    #[test]
    fn connection_is_busy_until_its_last_request_ends() {
        let handle = Connections::default().open(HERE, 1).unwrap();
        let (first, second) = (handle.begin_request(), handle.begin_request());
        drop(first);
        assert!(!handle.is_idle());
        drop(second);
        assert!(handle.is_idle());
    }

    #[test]
    fn the_address_with_most_strangers_loses_one_first() {
        let connections = Connections::default();
        let open = |address: [u8; 4]| connections.open(address.into(), 4).unwrap();
        let oldest = open([192, 0, 2, 1]);
        let crowd: Vec<_> = (0..3).map(|_| open([192, 0, 2, 9])).collect();
        let _new = open([192, 0, 2, 2]);
        assert!(is_replaced(&crowd[0]) && !is_replaced(&oldest));
    }

    #[test]
    fn a_token_replaces_its_own_idle_connections() {
        let connections = Connections::default();
        let open = |token: &str| {
            let handle = connections.open(HERE, 9).unwrap();
            let assigned = connections.assign(&handle, token, 2);
            (handle, assigned)
        };
        let ((first, _), (second, _), (other, _)) = (open("a"), open("a"), open("b"));
        let busy = first.begin_request();
        let (third, assigned) = open("a");
        assert_eq!(assigned, Ok(()));
        assert!(is_replaced(&second) && !is_replaced(&first) && !is_replaced(&other));
        let all_busy = (busy, third.begin_request());
        let (fourth, refused) = open("a");
        assert_eq!(refused, Err(ShareRefusal::Connections { limit: 2 }));
        drop(all_busy);
        assert_eq!(connections.assign(&fourth, "a", 2), Ok(()));
        // The callers of a listener without tokens have no limit of their own.
        assert!((0..3).all(|_| open("").1.is_ok()));
    }

    #[test]
    fn idle_connections_of_one_token_do_not_lock_others_out() {
        let connections = Connections::default();
        let crowd: Vec<_> = (0..4)
            .map(|_| {
                let handle = connections.open(HERE, 4).unwrap();
                connections.assign(&handle, "a", 9).unwrap();
                handle
            })
            .collect();
        let new = connections.open(HERE, 4).unwrap();
        connections.assign(&new, "b", 9).unwrap();
        assert!(is_replaced(&crowd[0]) && !is_replaced(&crowd[1]));
    }
}
