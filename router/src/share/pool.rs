//! Fair pool: a limited number of permits, granted round robin over the tokens that wait for one.
//!
//! Each token has a queue of its own. A returned permit goes to the next token in turn, and to its oldest waiter. So a token
//! with thousands of waiters delays another token by at most one permit.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// A pool of permits. Cheap to clone; all clones are the same pool.
#[derive(Clone, Debug)]
pub(crate) struct FairPool {
    state: Arc<Mutex<PoolState>>,
}

#[derive(Debug)]
struct PoolState {
    /// Permits that may be out at once.
    capacity: usize,
    /// Permits that are out; more than the capacity after it was lowered.
    in_use: usize,
    /// Waiters that one token may have.
    queue_limit: usize,
    queues: HashMap<Arc<str>, TokenQueue>,
    /// Tokens with waiters, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    next_waiter: u64,
}

/// Waiters of one token in the order of arrival, by number. Never empty.
type TokenQueue = BTreeMap<u64, oneshot::Sender<FairPermit>>;

/// A permit of a pool. Dropping it grants the next waiter.
#[derive(Debug)]
pub(crate) struct FairPermit {
    state: Option<Arc<Mutex<PoolState>>>,
}

/// Whether the share of a token limits its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueueEntry {
    /// The share applies.
    #[default]
    Limited,
    /// The share does not apply: the work was accepted before.
    Exempt,
}

/// The share of a token in a queue is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueShareFull {
    /// Waiters that one token may have.
    pub(crate) limit: usize,
}

/// A place in the queue of a token. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct FairWaiter {
    state: Arc<Mutex<PoolState>>,
    token: Arc<str>,
    number: u64,
    granted: oneshot::Receiver<FairPermit>,
}

fn lock(state: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FairPool {
    /// Makes a pool of `capacity` permits, in which each token may have `queue_limit` waiters.
    pub(crate) fn new(capacity: usize, queue_limit: usize) -> Self {
        let state = PoolState {
            capacity,
            in_use: 0,
            queue_limit,
            queues: HashMap::new(),
            turns: VecDeque::new(),
            next_waiter: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Takes a permit if one is free. While tokens wait, none is.
    pub(crate) fn try_acquire(&self) -> Option<FairPermit> {
        let mut state = lock(&self.state);
        (state.in_use < state.capacity).then(|| {
            state.in_use += 1;
            FairPermit { state: Some(Arc::clone(&self.state)) }
        })
    }

    /// Joins the queue of a token. The waiter may have its permit at once.
    ///
    /// # Errors
    /// When the token has as many waiters as it may have.
    pub(crate) fn enqueue(
        &self,
        token: &str,
        entry: QueueEntry,
    ) -> Result<FairWaiter, QueueShareFull> {
        let state = lock(&self.state);
        if entry == QueueEntry::Limited
            && state.queues.get(token).map_or(0, BTreeMap::len) >= state.queue_limit
        {
            return Err(QueueShareFull { limit: state.queue_limit });
        }
        Ok(self.add_waiter(state, token))
    }

    /// Joins the queue of a token, which has no limit here.
    pub(crate) fn join(&self, token: &str) -> FairWaiter {
        self.add_waiter(lock(&self.state), token)
    }

    fn add_waiter(&self, mut state: MutexGuard<'_, PoolState>, token: &str) -> FairWaiter {
        let known = state.queues.get_key_value(token).map(|(token, _)| Arc::clone(token));
        let token = known.unwrap_or_else(|| {
            let token: Arc<str> = token.into();
            state.turns.push_back(Arc::clone(&token));
            token
        });
        let (sender, granted) = oneshot::channel();
        let number = state.next_waiter;
        state.next_waiter += 1;
        state.queues.entry(Arc::clone(&token)).or_default().insert(number, sender);
        drop(state);
        // A permit may have come back since the caller looked for one.
        self.grant();
        FairWaiter { state: Arc::clone(&self.state), token, number, granted }
    }

    /// Returns the queue limit if the queue of a token is full.
    pub(crate) fn full_queue(&self, token: &str) -> Option<usize> {
        let state = lock(&self.state);
        let queue = state.queues.get(token)?;
        (queue.len() >= state.queue_limit).then_some(state.queue_limit)
    }

    /// Returns the permits that are out.
    pub(crate) fn in_use(&self) -> usize {
        lock(&self.state).in_use
    }

    /// Changes the number of permits and the queue limit of each token. Permits that are out stay out, waiters stay in line.
    pub(crate) fn resize(&self, capacity: usize, queue_limit: usize) {
        let mut state = lock(&self.state);
        (state.capacity, state.queue_limit) = (capacity, queue_limit);
        drop(state);
        self.grant();
    }

    /// Grants free permits to waiters.
    fn grant(&self) {
        loop {
            let mut state = lock(&self.state);
            if state.in_use >= state.capacity {
                return;
            }
            let Some(waiter) = state.next() else { return };
            state.in_use += 1;
            drop(state);
            // If the waiter has left, dropping the permit grants the next one.
            drop(waiter.send(FairPermit { state: Some(Arc::clone(&self.state)) }));
        }
    }
}

impl PoolState {
    /// Takes the next waiter out of its queue: the oldest one of the token whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<FairPermit>> {
        let token = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&token)?;
        let waiter = queue.pop_first().map(|(_, waiter)| waiter);
        if queue.is_empty() {
            self.queues.remove(&token);
        } else {
            self.turns.push_back(token);
        }
        waiter
    }

    /// Takes a waiter that does not wait any more out of its queue.
    fn leave(&mut self, token: &str, number: u64) {
        let Some(queue) = self.queues.get_mut(token) else { return };
        queue.remove(&number);
        if queue.is_empty() {
            self.queues.remove(token);
            self.turns.retain(|other| **other != *token);
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        // Handing a permit on to a waiter that has just left comes back here, so this is a loop and not a recursion.
        let Some(shared) = self.state.take() else { return };
        loop {
            let mut state = lock(&shared);
            let waiter = if state.in_use <= state.capacity { state.next() } else { None };
            let Some(waiter) = waiter else {
                state.in_use -= 1;
                return;
            };
            drop(state);
            match waiter.send(Self { state: Some(Arc::clone(&shared)) }) {
                Ok(()) => return,
                Err(mut permit) => permit.state = None,
            }
        }
    }
}

impl Future for FairWaiter {
    type Output = FairPermit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FairPermit> {
        match Pin::new(&mut self.granted).poll(context) {
            Poll::Ready(Ok(permit)) => Poll::Ready(permit),
            // The sender leaves the queue only to send.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for FairWaiter {
    fn drop(&mut self) {
        lock(&self.state).leave(&self.token, self.number);
    }
}

#[cfg(test)]
mod tests;
