//! Adapters in processes of their own: supervised, replaced, quarantined.
//!
//! A [`Team`] has the workers of one adapter. Each worker is this program again, in a [`Process`] that the
//! [`switchboard`] looks after; requests and answers go over a socket as [`frame`]s. What this module does not
//! know is what a worker does: that is the job which it is given, and the servant that carries out calls.

mod allowance;
mod asked;
mod asks;
pub(crate) mod broker;
pub(crate) mod ending;
mod frame;
pub(crate) mod guard;
mod link;
mod member;
mod process;
#[cfg(test)]
mod properties;
mod serve;
pub(crate) mod session;
mod spin;
mod switchboard;
mod team;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use asked::Asked;
pub(crate) use ending::Ending;
pub(crate) use frame::{Frame, Gathering, Kind, MAX_FRAME, cut, try_send};
pub(crate) use link::Answer;
pub(crate) use member::Begun;
pub(crate) use process::{Followed, GUARD_TIME, Process, Recipe, receive};
pub(crate) use serve::{Reply, STACK, Servant, Wire, receive_job, serve};
pub(crate) use switchboard::settle;
pub(crate) use team::{Incident, Makeup, Refusal, Report, Rules, Team, Ticket};

/// The first argument that makes the binary a child. Not for people.
pub const CHILD_ARGUMENT: &str = "__adapter-child";

/// Locks what no panic can leave half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
