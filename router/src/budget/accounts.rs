//! Accounts of the holders of a memory budget, and the queue of those who wait.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot::Sender;

use super::Reservation;

/// Accounts by holder.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    known: HashMap<Arc<str>, Account>,
    /// Holders with waiters, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Account {
    used: usize,
    /// Those of the used bytes that were added by force.
    taken: usize,
    bodies: usize,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    sender: Sender<Reservation>,
}

impl Accounts {
    /// Returns the name of a holder, shared with its account if there is one.
    pub(super) fn name(&self, holder: &str) -> Arc<str> {
        self.known.get_key_value(holder).map_or_else(|| holder.into(), |(name, _)| Arc::clone(name))
    }

    pub(super) fn used(&self, holder: &str) -> usize {
        self.known.get(holder).map_or(0, |account| account.used)
    }

    pub(super) fn taken(&self, holder: &str) -> usize {
        self.known.get(holder).map_or(0, |account| account.taken)
    }

    /// Adds bytes, of which `taken` were added by force.
    pub(super) fn add(&mut self, holder: &Arc<str>, bytes: usize, taken: usize) {
        let account = self.account(holder);
        account.used += bytes;
        account.taken += taken;
    }

    pub(super) fn remove(&mut self, holder: &Arc<str>, bytes: usize, taken: usize) {
        let account = self.account(holder);
        account.used = account.used.saturating_sub(bytes);
        account.taken = account.taken.saturating_sub(taken);
        self.forget_idle(holder);
    }

    pub(super) fn begin_body(&mut self, holder: &Arc<str>, most: usize) -> bool {
        let account = self.account(holder);
        let is_allowed = account.bodies < most;
        account.bodies += usize::from(is_allowed);
        is_allowed
    }

    pub(super) fn end_body(&mut self, holder: &Arc<str>) {
        let account = self.account(holder);
        account.bodies = account.bodies.saturating_sub(1);
        self.forget_idle(holder);
    }

    pub(super) fn enqueue(&mut self, holder: &Arc<str>, bytes: usize, sender: Sender<Reservation>) {
        let account = self.account(holder);
        let is_first = account.waiters.is_empty();
        account.waiters.push_back(Waiter { bytes, sender });
        if is_first {
            self.turns.push_back(Arc::clone(holder));
        }
    }

    pub(super) fn queue_len(&self) -> usize {
        self.turns.len()
    }

    /// Returns the holder whose turn it is, the bytes that it waits for, and whether it still waits.
    pub(super) fn next(&self) -> Option<(Arc<str>, usize, bool)> {
        let holder = self.turns.front()?;
        let waiter = self.known.get(holder)?.waiters.front()?;
        Some((Arc::clone(holder), waiter.bytes, !waiter.sender.is_closed()))
    }

    /// Removes the waiter whose turn it is. Its holder's next waiter comes after those of other holders.
    pub(super) fn pop(&mut self) -> Option<Sender<Reservation>> {
        let holder = self.turns.pop_front()?;
        let account = self.known.get_mut(&holder)?;
        let waiter = account.waiters.pop_front();
        if account.waiters.is_empty() {
            self.forget_idle(&holder);
        } else {
            self.turns.push_back(holder);
        }
        waiter.map(|waiter| waiter.sender)
    }

    /// Gives the turn to the next holder.
    pub(super) fn rotate(&mut self) {
        self.turns.rotate_left(usize::from(!self.turns.is_empty()));
    }

    fn account(&mut self, holder: &Arc<str>) -> &mut Account {
        self.known.entry(Arc::clone(holder)).or_default()
    }

    fn forget_idle(&mut self, holder: &Arc<str>) {
        let is_idle = |account: &Account| {
            account.used == 0 && account.bodies == 0 && account.waiters.is_empty()
        };
        if self.known.get(holder).is_some_and(is_idle) {
            self.known.remove(holder);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.turns.is_empty()
    }
}
