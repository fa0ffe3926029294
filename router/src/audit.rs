//! What happens to the daemon itself, written into the audit log of the store.
//!
//! Whoever records never waits: a bounded queue takes it, and one thread commits what came together. A
//! flood of the same becomes one event that says how many there were, and what finds no room is counted
//! and told as `audit.dropped`.

mod queue;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::json::{Object, Value};
use crate::secret::Secrets;
use crate::store::{AuditEntry, Error, Store};
use queue::{Item, Queue, Waiter};

/// Every kind of event, with what it says; the members of its payload stand between backticks. One that
/// stands for many has `count`, `first` and `last` besides.
pub const KINDS: &[(&str, &str)] = &[
    ("daemon.started", "The daemon answers requests; its `version`."),
    (
        "adapters.loaded",
        "All adapters are loaded or failed since the start; the ids of those that are `ready`, and of those that `failed`.",
    ),
    (
        "adapter.failed",
        "An `adapter` failed to load; the `reason`, which is a code, and why as `message`, with the `hint`.",
    ),
    (
        "contract.disabled",
        "An `adapter` is not called, because its interface `contract` was removed or does not hold; the `reason`, which is \
         a code, the `finding` that makes it invalid, and why as `message`, with the `hint`.",
    ),
    (
        "contract.restored",
        "An `adapter` is called again: its interface contract does not keep it from that any more.",
    ),
    (
        "adapter.retried",
        "An `adapter` that failed is loaded again; the `name` of who asked for it.",
    ),
    (
        "daemon.draining",
        "The daemon takes no more runs, and finishes those it has; how many, `runs_in_flight`.",
    ),
    (
        "daemon.stopped",
        "The daemon stops; how many runs it `cancelled`, and how many did not end, `runs_in_flight`.",
    ),
    (
        "config.reloaded",
        "A new configuration is in force; the `cause`, and the `name` of who asked for it; the adapters \
         that were `added`, `removed` and `replaced`, how many were `kept`, those that `failed`, and the keys \
         that have no effect yet, `needs_restart`.",
    ),
    (
        "permissions.changed",
        "A new configuration, catalogue or registered tool changed rules, offers, grants or roles; the `cause`, and the \
         `name` of who asked for it; the `verdict` (narrows, widens or mixed); how many changes there are in \
         `total`, how many of them `widened` permissions, and the first of the `changes`.",
    ),
    ("tools.changed", "Adapters offer something else than before; how many `tools` there are now."),
    (
        "config.refused",
        "A new configuration was refused, and the old one stays in force; the `cause`, and the `name` of \
         who asked for it; why, as `code` and `message`, with the `hint`.",
    ),
    (
        "access.refused",
        "Somebody was refused; the `reason`, which is a code, and `why` a token is not good; `what` was \
         asked for, and `from` which address; or the `run_id` of a run, and the `adapter`, `tool` and \
         `method` it must not call; the `name` of the token if it is known.",
    ),
    (
        "tokens.changed",
        "The tokens that give access were changed; how many `tokens` there are, and the names of those that \
         were `added`, `removed` and `changed`.",
    ),
    (
        "tokens.refused",
        "The file of the tokens cannot be used, and those before stay good; why, as `code` and `message`.",
    ),
    (
        "log.level_changed",
        "What is logged was changed; the `level` now, and the `name` of who did it.",
    ),
    (
        "run.imported",
        "A run was imported; its `run_id`, the `mode` of the import, and the `name` of who did it.",
    ),
    ("run.cancelled", "A run was asked to end; its `run_id`, and the `name` of who did it."),
    (
        "approval.decided",
        "An approval was decided; its `approval_id`, the `run_id` and `step_id` that waited, the `decision`, \
         the `name` of who made it unless it expired, and `why`, if they said so.",
    ),
    (
        "approval.refused",
        "A decision about an approval was not taken; the `approval_id` that was named, the `decision` that was \
         wanted, the `name` of who tried, and the `reason`, which is a code.",
    ),
    (
        "adapter.crashed",
        "A worker of an `adapter` ended that should not have; how, and what was lost, as `text`.",
    ),
    (
        "adapter.stuck",
        "A worker of an `adapter` did not end a call when it was told to, and is replaced; as `text`.",
    ),
    ("adapter.not_started", "A worker of an `adapter` could not be started; why, as `text`."),
    (
        "adapter.quarantined",
        "An `adapter` had too many crashes, and is not started for a while; how many, and how long, as \
         `text`.",
    ),
    (
        "adapter.released",
        "The quarantine of an `adapter` is over, as `text` says; the `name` of who ended it, unless it was \
         the time.",
    ),
    (
        "adapter.circuit_opened",
        "The circuit breaker of an `adapter` rejects calls after too many failures in a row; how many, the code of the \
         last, and for how long, as `text`.",
    ),
    (
        "adapter.circuit_closed",
        "The circuit breaker of an `adapter` lets calls through again, as `text` says; the `name` of who closed it, \
         unless it was a probe.",
    ),
    (
        "store.displaced",
        "A file of the store was moved, removed or replaced while the daemon had it open, and runs were refused from \
         then on; which `file`, and the `change`.",
    ),
    (
        "store.rescued",
        "A daemon whose store was removed copied all that it held; the `store_id` of the copy, the `previous_id`, and \
         the `name` of the user.",
    ),
    (
        "audit.dropped",
        "Events were lost because they came faster than they could be written; how many, `count`, and the \
         times of the `first` and the `last`.",
    ),
];

/// How long what could not be written waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A payload that holds more text than this is replaced by its size.
const MAX_PAYLOAD: usize = 16 * 1024;

/// The audit log. Cheap to clone; all clones are the same. The last one that goes closes it.
#[derive(Clone, Debug)]
pub struct Audit(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Desk {
    store: Store,
    clock: Clock,
    secrets: RwLock<Secrets>,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Audit {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(store: Store, clock: Clock, secrets: Secrets) -> Result<Self, Error> {
        let desk = Arc::new(Desk {
            store,
            clock,
            secrets: RwLock::new(secrets),
            queue: Mutex::default(),
            arrived: Condvar::new(),
        });
        let thread = {
            let desk = Arc::clone(&desk);
            std::thread::Builder::new()
                .name("audit".to_owned())
                .spawn(move || desk.work())
                .map_err(|error| Error::Refused(format!("no thread for the audit log: {error}")))?
        };
        Ok(Self(Arc::new(Handle { desk, thread: Mutex::new(Some(thread)) })))
    }

    /// Records an event of one of [`KINDS`], and does not wait.
    ///
    /// Of events with the same kind that say the same of who, what and why, those beyond 20 within a
    /// second become one that has `count`, `first` and `last` besides. Secrets are taken out by
    /// the rules for keys too: who holds a token is told as `principal` or `token_name`, not `token_id`.
    pub fn record(&self, kind: &'static str, payload: Object) {
        debug_assert!(KINDS.iter().any(|(known, _)| *known == kind), "{kind} is not in the table");
        let desk = &self.0.desk;
        let entry =
            AuditEntry { ts: desk.clock.now(), kind: kind.to_owned(), payload: bounded(payload) };
        desk.queue().take(entry, Instant::now());
        desk.arrived.notify_one();
    }

    /// Records an event, and returns when it is durable.
    ///
    /// # Errors
    /// When it could not be written, or the log is closed.
    pub fn record_now(&self, kind: &'static str, payload: Object) -> Result<(), Error> {
        debug_assert!(KINDS.iter().any(|(known, _)| *known == kind), "{kind} is not in the table");
        let desk = &self.0.desk;
        let entry =
            AuditEntry { ts: desk.clock.now(), kind: kind.to_owned(), payload: bounded(payload) };
        let (waiter, told) = std::sync::mpsc::sync_channel(1);
        desk.queue().take_now(entry, waiter);
        desk.arrived.notify_one();
        told.recv().unwrap_or(Err(Error::Closed))
    }

    /// Replaces the secrets that are kept out of what is recorded.
    pub fn replace_secrets(&self, secrets: Secrets) {
        let mut current = self.0.desk.secrets.write().unwrap_or_else(PoisonError::into_inner);
        *current = secrets;
    }

    /// Writes what is left, and ends the thread. What is recorded afterwards is lost.
    pub fn close(&self) {
        self.0.close();
    }
}

impl Handle {
    fn close(&self) {
        self.desk.queue().closing = true;
        self.desk.arrived.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut retry_at = None;
        while let Some((batch, closing)) = self.next(retry_at) {
            retry_at = match self.write(batch) {
                Ok(()) => None,
                Err((kept, error)) => {
                    if closing {
                        let lost = kept.len();
                        tracing::error!(%error, lost, "the end of the audit log cannot be written");
                        self.queue().give_up();
                        return;
                    }
                    // Once, and not at every attempt.
                    if retry_at.is_none() {
                        tracing::warn!(%error, "the audit log cannot be written; it is tried again");
                    }
                    self.queue().put_back(kept, self.clock.now());
                    Some(Instant::now() + RETRY)
                }
            };
        }
    }

    /// Waits for something to write. There is nothing any more when the log is closed and all is written.
    fn next(&self, retry_at: Option<Instant>) -> Option<(Vec<Item>, bool)> {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            queue.settle(now, self.clock.now());
            let waits = retry_at.filter(|at| now < *at && !queue.closing && !queue.is_urgent());
            if waits.is_none() && !queue.is_empty() {
                return Some((queue.batch(), queue.closing));
            }
            if queue.closing && queue.is_empty() {
                queue.give_up();
                return None;
            }
            let until = [waits, queue.next_window()].into_iter().flatten().min();
            queue = match until {
                None => self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let pause = at.saturating_duration_since(now);
                    let woken = self.arrived.wait_timeout(queue, pause);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Writes a batch and tells who waits. What nobody waits for is given back when it may succeed later.
    fn write(&self, batch: Vec<Item>) -> Result<(), (Vec<AuditEntry>, Error)> {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut entries = Vec::with_capacity(batch.len());
        let mut waiters: Vec<Option<Waiter>> = Vec::with_capacity(batch.len());
        for Item { mut entry, waiter } in batch {
            if let Some(redacted) = secrets.redact_object(&entry.payload) {
                entry.payload = redacted;
            }
            entries.push(entry);
            waiters.push(waiter);
        }
        let written = self.store.append_audit(entries.clone());
        let mut kept = Vec::new();
        for (entry, waiter) in entries.into_iter().zip(waiters) {
            match waiter {
                // Whoever gave up waiting does not want to know.
                Some(waiter) => drop(waiter.try_send(written.clone())),
                None => kept.push(entry),
            }
        }
        written.map_err(|error| (kept, error))
    }
}

/// Replaces a payload that is too large by its size, so that a full queue is bounded in bytes too.
fn bounded(payload: Object) -> Object {
    let bytes = payload.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>();
    if bytes <= MAX_PAYLOAD {
        return payload;
    }
    let mut replaced = Object::new();
    replaced.insert("omitted_bytes", bytes as u64);
    replaced
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::BigInt(digits) => digits.len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 8,
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>() + 8
        }
        _ => 8,
    }
}

#[cfg(test)]
mod tests;
