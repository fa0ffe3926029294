//! The caller's wish to end a call, and the calls under way that it can reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::AdapterError;
use crate::guard::guard;

/// The wish to end a call, shared between the call and whoever cancels it. A call without a name has
/// none: nobody could name it.
#[derive(Clone)]
pub(crate) struct Cancellation {
    shared: Option<Arc<CancelState>>,
}

#[derive(Default)]
struct CancelState {
    cancelled: AtomicBool,
    actions: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    changed: Condvar,
}

impl Cancellation {
    pub(crate) fn never() -> Self {
        Self { shared: None }
    }

    pub(crate) fn possible() -> Self {
        Self { shared: Some(Arc::default()) }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.cancelled.load(Ordering::Acquire))
    }

    /// Cancels the call and runs every action that waits for it. Returns those that panicked.
    pub(crate) fn cancel(&self) -> Vec<AdapterError> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let actions = {
            let mut actions = shared.actions();
            shared.cancelled.store(true, Ordering::Release);
            std::mem::take(&mut *actions)
        };
        shared.changed.notify_all();
        actions.into_iter().filter_map(|action| guard("cancel", action).err()).collect()
    }

    pub(crate) fn on_cancel(&self, action: Box<dyn FnOnce() + Send>) {
        let Some(shared) = &self.shared else { return };
        {
            let mut actions = shared.actions();
            if !self.is_cancelled() {
                actions.push(action);
                return;
            }
        }
        action();
    }

    /// Waits for the cancellation, but no longer than `duration`.
    pub(crate) fn wait(&self, duration: Duration) {
        let Some(shared) = &self.shared else { return std::thread::sleep(duration) };
        let actions = shared.actions();
        let waited = shared.changed.wait_timeout_while(actions, duration, |_| !self.is_cancelled());
        drop(waited);
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.shared, &other.shared) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl CancelState {
    fn actions(&self) -> MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancellation").field(&self.is_cancelled()).finish()
    }
}

/// The calls with an id that are under way, so that they can be cancelled. Nothing keeps a host from
/// giving one id to several calls at once; a cancel then means all of them.
#[derive(Clone, Default)]
pub(crate) struct CallsInFlight {
    calls: Arc<Mutex<HashMap<Arc<str>, Vec<Cancellation>>>>,
}

impl CallsInFlight {
    /// Enters a call; one without an id cannot be cancelled and has no entry.
    pub(crate) fn enter(&self, call_id: Option<&Arc<str>>) -> (Cancellation, Option<InFlight>) {
        let Some(call_id) = call_id else { return (Cancellation::never(), None) };
        let cancellation = Cancellation::possible();
        self.lock().entry(Arc::clone(call_id)).or_default().push(cancellation.clone());
        let entry = InFlight {
            calls: self.clone(),
            call_id: Arc::clone(call_id),
            cancellation: cancellation.clone(),
        };
        (cancellation, Some(entry))
    }

    /// Cancels the calls with this id. Returns the panics of what was registered for it.
    pub(crate) fn cancel(&self, call_id: &str) -> Vec<AdapterError> {
        let found = self.lock().get(call_id).cloned().unwrap_or_default();
        found.iter().flat_map(Cancellation::cancel).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Cancellation>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of one call; it goes when this is dropped.
pub(crate) struct InFlight {
    calls: CallsInFlight,
    call_id: Arc<str>,
    cancellation: Cancellation,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if let Some(same_id) = calls.get_mut(&self.call_id) {
            same_id.retain(|other| !other.is_same(&self.cancellation));
            if same_id.is_empty() {
                calls.remove(&self.call_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_call_leaves_another_of_the_same_id_cancellable() {
        let calls = CallsInFlight::default();
        let id: Arc<str> = "c".into();
        let (first, first_entry) = calls.enter(Some(&id));
        let (second, second_entry) = calls.enter(Some(&id));
        drop(first_entry);
        assert!(calls.cancel("c").is_empty());
        assert!(second.is_cancelled() && !first.is_cancelled());
        drop(second_entry);
        assert!(calls.lock().is_empty(), "no entry stays behind");
    }

    #[test]
    fn cancel_reaches_every_call_of_the_id_and_no_other() {
        let calls = CallsInFlight::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        let entered = [calls.enter(Some(&one)), calls.enter(Some(&one)), calls.enter(Some(&other))];
        calls.cancel("one");
        calls.cancel("unknown");
        let cancelled = entered.each_ref().map(|(cancellation, _)| cancellation.is_cancelled());
        assert_eq!(cancelled, [true, true, false]);
    }

    #[test]
    fn panicking_action_does_not_keep_the_others_from_running() {
        let calls = CallsInFlight::default();
        let id: Arc<str> = "c".into();
        let entered = [calls.enter(Some(&id)), calls.enter(Some(&id))];
        let ran = Arc::new(Mutex::new(Vec::new()));
        for (call, (cancellation, _)) in entered.iter().enumerate() {
            for action in 0..3 {
                let ran = Arc::clone(&ran);
                cancellation.on_cancel(Box::new(move || {
                    assert!(action != 0, "action of call {call}");
                    ran.lock().unwrap().push((call, action));
                }));
            }
        }
        let panics: Vec<String> = calls.cancel("c").into_iter().map(|it| it.message).collect();
        let expected = [0, 1].map(|call| format!("panicked in cancel: action of call {call}"));
        assert_eq!(panics, expected);
        assert_eq!(*ran.lock().unwrap(), [(0, 1), (0, 2), (1, 1), (1, 2)]);
        assert!(calls.cancel("c").is_empty(), "each action runs once");
    }

    #[test]
    fn action_runs_at_once_when_the_call_is_cancelled_already() {
        let cancellation = Cancellation::possible();
        cancellation.cancel();
        let (sender, ran) = std::sync::mpsc::channel();
        cancellation.on_cancel(Box::new(move || sender.send(()).unwrap()));
        ran.try_recv().unwrap();
    }
}
