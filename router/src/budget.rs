//! Memory budget of a daemon: one limit for bodies, parsed values, answers, exports and replays.
//!
//! A [`Reservation`] holds bytes of a [`MemoryBudget`] until it is dropped. Each holder (a token) has a share. Small
//! reservations cost one atomic operation and count against the total alone; a part of the total is for them only, so
//! that large ones do not keep them out. Readers of large records wait for room, and the budget serves them round robin
//! over their holders. Memory that is taken already, such as an answer that arrived, is added by force: then calls that
//! may take more [wait](MemoryBudget::wait_until_uncrowded) until their holder is within its share again.

mod accounts;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::Accounts;
use tokio::sync::{Notify, oneshot};

/// Reservations up to this size count against the total alone.
pub const SMALL: usize = 64 * 1024;
/// How long calls and readers of large records wait for room.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// The part of the limit by which small reservations may exceed it.
const SMALL_PART: usize = 8;

/// Memory limit of a daemon, the share of each holder, and its reservations. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    state: Arc<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    limit: usize,
    share: usize,
    used: AtomicUsize,
    /// Those of the used bytes that were added by force.
    taken: AtomicUsize,
    /// Reservations that wait for room.
    waiting: AtomicUsize,
    /// Calls that wait until the budget is not crowded.
    crowded: AtomicUsize,
    /// Signals a release to them.
    released: Notify,
    accounts: Mutex<Accounts>,
}

/// Reason why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// The holder uses its share.
    #[error("the token uses its whole share of the memory budget")]
    Share,
    /// All holders together use the budget.
    #[error("other requests and answers use the whole memory budget")]
    Total,
}

impl Shortage {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Share => "MEMORY_SHARE_USED",
            Self::Total => "OVERLOADED",
        }
    }
}

/// Bytes of a budget, returned on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    /// The account that it counts in; small reservations have none.
    holder: Option<Arc<str>>,
    bytes: usize,
    /// Those of the bytes that were added by force.
    taken: usize,
}

/// A waiter for room. When it is dropped, the budget serves the waiters behind it.
#[derive(Debug)]
struct WaiterGuard<'a> {
    budget: &'a MemoryBudget,
    granted: Option<oneshot::Receiver<Reservation>>,
}

/// A call that waits until the budget is not crowded.
struct CrowdedGuard<'a>(&'a BudgetState);

/// Body that a holder is sending, counted until it is dropped.
#[derive(Debug)]
pub struct BodyPermit {
    budget: MemoryBudget,
    holder: Arc<str>,
}

impl Default for MemoryBudget {
    /// Returns a budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX / 2, usize::MAX / 2)
    }
}

impl MemoryBudget {
    /// Makes a budget of `total` bytes, of which one holder gets at most `share`, and small reservations an eighth of the
    /// rest alone.
    #[must_use]
    pub fn with_room_for_small(total: usize, share: usize) -> Self {
        Self::new(total / (SMALL_PART + 1) * SMALL_PART, share)
    }

    /// Makes a budget of `limit` bytes, of which one holder gets at most `share`. A single reservation may exceed the
    /// share if its holder has no other. The holder without a name has no share. Small reservations may exceed the limit
    /// by an eighth.
    #[must_use]
    pub fn new(limit: usize, share: usize) -> Self {
        let state = BudgetState {
            limit: limit.max(1),
            share: share.clamp(1, limit.max(1)),
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            crowded: AtomicUsize::new(0),
            released: Notify::new(),
            accounts: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state.used.load(Ordering::SeqCst)
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.state.limit
    }

    /// Reserves bytes now. A reservation above the limit takes the whole budget.
    ///
    /// # Errors
    /// When there is no room.
    pub fn try_reserve(&self, holder: &str, bytes: usize) -> Result<Reservation, Shortage> {
        let mut reservation = self.empty();
        reservation.try_grow(holder, bytes)?;
        Ok(reservation)
    }

    /// Reserves memory that is taken already, also beyond the limit.
    #[must_use]
    pub fn reserve_taken(&self, holder: &str, bytes: usize) -> Reservation {
        let mut reservation = self.empty();
        reservation.grow_taken(holder, bytes);
        reservation
    }

    /// Waits at most `patience` for room, in turn with other holders.
    ///
    /// # Errors
    /// When there is no room by then.
    pub async fn reserve(
        &self,
        holder: &str,
        bytes: usize,
        patience: Duration,
    ) -> Result<Reservation, Shortage> {
        if bytes == 0 {
            return Ok(self.empty());
        }
        let bytes = bytes.min(self.state.limit);
        let (sender, granted) = oneshot::channel();
        let mut waiter = WaiterGuard { budget: self, granted: Some(granted) };
        let unwanted = {
            let mut accounts = self.lock();
            // Counted before the budget is checked, so that a later release serves this waiter.
            self.state.waiting.fetch_add(1, Ordering::SeqCst);
            let known = accounts.name(holder);
            accounts.enqueue(&known, bytes, sender);
            // Serves this waiter at once, unless another one waits for the total.
            self.serve(&mut accounts)
        };
        drop(unwanted);
        if let Some(granted) = &mut waiter.granted
            && let Ok(Ok(reservation)) = tokio::time::timeout(patience, granted).await
        {
            return Ok(reservation);
        }
        let accounts = self.lock();
        let known = accounts.name(holder);
        let shortage = self.state.fits_share(&accounts, &known, (0, bytes));
        drop(accounts);
        Err(shortage.err().unwrap_or(Shortage::Total))
    }

    /// Returns why a call of a holder has to wait: memory is scarce, and answers of all holders or of this one take too
    /// much of it. A call whose run holds at least half of these (`own` bytes) goes on, so that one always does.
    fn crowding(&self, holder: &str, own: usize) -> Option<Shortage> {
        let (used, BudgetState { limit, share, .. }) = (self.used(), &*self.state);
        if used <= *limit / 2 {
            return None;
        }
        let taken = self.state.taken.load(Ordering::SeqCst);
        if used >= *limit && taken >= *limit / 2 && own < taken / 2 {
            return Some(Shortage::Total);
        }
        if taken <= *share || holder.is_empty() {
            return None;
        }
        let taken = self.lock().taken(holder);
        (taken > *share && own < taken / 2).then_some(Shortage::Share)
    }

    /// Returns whether a call of a holder has to wait until it may take more memory. Its run holds `own` bytes. Costs one
    /// atomic load if little memory is in use.
    #[must_use]
    pub fn is_crowded(&self, holder: &str, own: usize) -> bool {
        self.crowding(holder, own).is_some()
    }

    /// Waits at most `patience` until a call of a holder may take more memory. Its run holds `own` bytes.
    ///
    /// # Errors
    /// When there is no room by then.
    pub async fn wait_until_uncrowded(
        &self,
        holder: &str,
        own: usize,
        patience: Duration,
    ) -> Result<(), Shortage> {
        let waiter = CrowdedGuard::new(&self.state);
        let mut shortage = Shortage::Total;
        let wait = async {
            loop {
                // Made before the check, so that it receives every release after that.
                let released = self.state.released.notified();
                match self.crowding(holder, own) {
                    None => return,
                    Some(reason) => shortage = reason,
                }
                released.await;
            }
        };
        let waited = tokio::time::timeout(patience, wait).await;
        drop(waiter);
        waited.map_err(|_| shortage)
    }

    /// Counts a body that a holder is sending. Returns none if the holder sends `most` bodies already.
    #[must_use]
    pub fn begin_body(&self, holder: &str, most: usize) -> Option<BodyPermit> {
        let mut accounts = self.lock();
        let holder = accounts.name(holder);
        // Callers without a token are not one caller.
        let most = if holder.is_empty() { usize::MAX } else { most };
        let begun = accounts.begin_body(&holder, most);
        begun.then(|| BodyPermit { budget: self.clone(), holder })
    }

    fn empty(&self) -> Reservation {
        Reservation { budget: self.clone(), holder: None, bytes: 0, taken: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.state.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants room to waiters, as far as it fits. Returns reservations whose waiters are gone; drop them without the
    /// lock.
    fn serve(&self, accounts: &mut Accounts) -> Vec<Reservation> {
        let mut unwanted = Vec::new();
        let mut passed_over = 0;
        while passed_over < accounts.queue_len() {
            let Some((holder, bytes, is_wanted)) = accounts.next() else { break };
            if !is_wanted {
                drop(accounts.pop());
                self.state.waiting.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            match self.state.take(accounts, &holder, (0, bytes)) {
                Ok(()) => {
                    let sender = accounts.pop();
                    self.state.waiting.fetch_sub(1, Ordering::SeqCst);
                    let holder = Some(holder);
                    let reservation = Reservation { budget: self.clone(), holder, bytes, taken: 0 };
                    unwanted.extend(sender.and_then(|sender| sender.send(reservation).err()));
                    passed_over = 0;
                }
                Err(Shortage::Share) => {
                    accounts.rotate();
                    passed_over += 1;
                }
                // The next waiter keeps its turn: otherwise a large one would never get room. One that needs more than
                // half of the budget does not hold up the others.
                Err(Shortage::Total) if bytes <= self.state.limit / 2 => break,
                Err(Shortage::Total) => {
                    accounts.rotate();
                    passed_over += 1;
                }
            }
        }
        unwanted
    }

    fn release(&self, holder: Option<&Arc<str>>, bytes: usize, taken: usize) {
        let mut accounts = holder.map(|holder| {
            let mut accounts = self.lock();
            accounts.remove(holder, bytes, taken);
            accounts
        });
        self.state.taken.fetch_sub(taken, Ordering::SeqCst);
        self.state.used.fetch_sub(bytes, Ordering::SeqCst);
        if self.state.crowded.load(Ordering::SeqCst) > 0 {
            self.state.released.notify_waiters();
        }
        if self.state.waiting.load(Ordering::SeqCst) > 0 {
            let unwanted = match &mut accounts {
                Some(accounts) => self.serve(accounts),
                None => self.serve(&mut self.lock()),
            };
            drop(accounts);
            drop(unwanted);
        }
    }
}

impl BudgetState {
    /// Returns the limit of small reservations.
    const fn small_limit(&self) -> usize {
        self.limit + self.limit / SMALL_PART
    }

    /// Adds bytes to the total, if they fit within a limit.
    fn take_total(&self, bytes: usize, limit: usize) -> Result<(), Shortage> {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.map(|_| ()).map_err(|_| Shortage::Total)
    }

    /// Checks whether a reservation of `own` bytes may grow by `more` within the share of its holder.
    fn fits_share(
        &self,
        accounts: &Accounts,
        holder: &Arc<str>,
        (own, more): (usize, usize),
    ) -> Result<(), Shortage> {
        let used = accounts.used(holder);
        // A single reservation has no other bound than the total, and neither have callers without a token.
        let is_alone = used <= own;
        if holder.is_empty() || is_alone || used.saturating_add(more) <= self.share {
            return Ok(());
        }
        Err(Shortage::Share)
    }

    /// Adds bytes of a holder to its account and to the total, if they fit.
    fn take(
        &self,
        accounts: &mut Accounts,
        holder: &Arc<str>,
        (own, more): (usize, usize),
    ) -> Result<(), Shortage> {
        self.fits_share(accounts, holder, (own, more))?;
        self.take_total(more, self.limit)?;
        accounts.add(holder, more, 0);
        Ok(())
    }
}

impl Reservation {
    /// Returns the reserved bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves more bytes now, but not beyond the limit: the rest of `more` is not counted.
    ///
    /// # Errors
    /// When there is no room. Then the reservation stays as it is.
    pub fn try_grow(&mut self, holder: &str, more: usize) -> Result<(), Shortage> {
        let state = &self.budget.state;
        let more = more.min(state.limit.saturating_sub(self.bytes));
        if more == 0 {
            return Ok(());
        }
        if self.holder.is_none() && self.bytes + more <= SMALL {
            state.take_total(more, state.small_limit())?;
            self.bytes += more;
            return Ok(());
        }
        let mut accounts = self.budget.lock();
        let known = self.holder.clone().unwrap_or_else(|| accounts.name(holder));
        if self.holder.is_none() {
            let (own, all) = (0, self.bytes.saturating_add(more));
            state.fits_share(&accounts, &known, (own, all))?;
            state.take_total(more, state.limit)?;
            accounts.add(&known, all, self.taken);
        } else {
            state.take(&mut accounts, &known, (self.bytes, more))?;
        }
        drop(accounts);
        self.holder = Some(known);
        self.bytes += more;
        Ok(())
    }

    /// Adds memory that is taken already, also beyond the limit.
    pub fn grow_taken(&mut self, holder: &str, more: usize) {
        self.budget.state.used.fetch_add(more, Ordering::SeqCst);
        self.budget.state.taken.fetch_add(more, Ordering::SeqCst);
        let all = self.bytes.saturating_add(more);
        self.taken = self.taken.saturating_add(more);
        if self.holder.is_some() || all > SMALL {
            let mut accounts = self.budget.lock();
            let known = self.holder.take().inspect(|known| accounts.add(known, more, more));
            self.holder = known.or_else(|| {
                let known = accounts.name(holder);
                accounts.add(&known, all, self.taken);
                Some(known)
            });
        }
        self.bytes = all;
    }

    /// Returns all but `bytes` to the budget.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            let taken = less.min(self.taken);
            self.bytes -= less;
            self.taken -= taken;
            self.budget.release(self.holder.as_ref(), less, taken);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.holder.as_ref(), self.bytes, self.taken);
        }
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        // Without the lock: it may contain a reservation, which is returned.
        drop(self.granted.take());
        if self.budget.state.waiting.load(Ordering::SeqCst) > 0 {
            let unwanted = self.budget.serve(&mut self.budget.lock());
            drop(unwanted);
        }
    }
}

impl<'a> CrowdedGuard<'a> {
    fn new(state: &'a BudgetState) -> Self {
        state.crowded.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for CrowdedGuard<'_> {
    fn drop(&mut self) {
        self.0.crowded.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.budget.lock().end_body(&self.holder);
    }
}
