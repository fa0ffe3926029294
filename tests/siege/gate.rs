//! Where the daemon is at present, for those who call it; it may be gone and come back.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where the daemon is.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    address: Option<SocketAddr>,
    /// How often it was taken away.
    taken: u64,
    over: bool,
}

/// A daemon that was there when it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct There {
    pub address: SocketAddr,
    taken: u64,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a daemon is there.
    pub fn there(&self) -> There {
        let mut state = self.lock();
        loop {
            if let Some(address) = state.address {
                return There { address, taken: state.taken };
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says whether a daemon was not taken away since.
    pub fn is_still(&self, there: There) -> bool {
        self.lock().taken == there.taken
    }

    /// Tells that the daemon is about to go.
    pub fn take_away(&self) {
        let mut state = self.lock();
        state.address = None;
        state.taken += 1;
    }

    pub fn put(&self, address: SocketAddr) {
        self.lock().address = Some(address);
        self.changed.notify_all();
    }

    /// Tells everybody to finish. The daemon stays, for those who wait for an answer.
    pub fn close(&self) {
        self.lock().over = true;
    }

    pub fn is_over(&self) -> bool {
        self.lock().over
    }
}
