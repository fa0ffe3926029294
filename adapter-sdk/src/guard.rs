//! The panic guard: what runs behind it can panic without harm to the host.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread::AccessError;

use crate::{AdapterError, code};

// An adapter may be dropped by the destructor of another thread-local, when these are gone already. So
// each access is a try: without them the guard works, and only the place of a panic is not told.
thread_local! {
    /// Whether this thread is inside a guard, so that the panic hook stays silent.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic of this thread came from.
    static PANIC_AT: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs `action` and turns a panic into a bug error. A panic that left the library would end the host.
pub(crate) fn guard<T>(stage: &str, action: impl FnOnce() -> T) -> Result<T, AdapterError> {
    quiet_panics();
    let outer = set_guarded(true);
    let result = catch_unwind(AssertUnwindSafe(action));
    set_guarded(outer);
    result.map_err(|payload| {
        let text = panic_text(payload.as_ref());
        // A payload may panic when it is dropped, too.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        let at = PANIC_AT.try_with(Cell::take).ok().flatten();
        AdapterError::bug_with_code(code::ADAPTER_PANICKED, format!("panicked in {stage}: {text}"))
            .details(serde_json::json!({ "stage": stage, "at": at }))
    })
}

/// Sets whether this thread is inside a guard, and returns whether it was.
fn set_guarded(now: bool) -> bool {
    GUARDED.try_with(|guarded| guarded.replace(now)).unwrap_or(false)
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".to_owned())
}

/// Keeps guarded panics off the process' standard error, which is the host's. A library has a standard
/// library of its own, so the hook is not the host's; threads of the author's keep the usual one.
fn quiet_panics() {
    static HOOK: Once = Once::new();
    // A thread that is panicking must not change the hook; the next guard does it.
    if HOOK.is_completed() || std::thread::panicking() {
        return;
    }
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if GUARDED.try_with(Cell::get).unwrap_or(false) {
                let at = panic.location().map(ToString::to_string);
                let _: Result<(), AccessError> = PANIC_AT.try_with(|place| place.set(at));
            } else {
                usual(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn panic_is_an_error_with_its_text_and_place() {
        let error = guard("call", || panic!("out of {}", "luck")).unwrap_err();
        assert_eq!(error.to_string(), "ADAPTER_PANICKED: panicked in call: out of luck");
        assert_eq!(error.details["stage"], "call");
        assert!(error.details["at"].as_str().unwrap().contains("guard.rs:"), "{error:?}");
        assert_eq!(guard("call", || 7).unwrap(), 7);
    }

    #[test]
    fn payload_that_panics_when_dropped_is_caught() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let error = guard("call", || std::panic::panic_any(Bomb)).unwrap_err();
        assert_eq!(error.message, "panicked in call: (no message)");
    }

    #[test]
    fn guard_works_when_its_thread_locals_are_gone() {
        type Seen = Arc<Mutex<Option<(bool, Result<(), AdapterError>)>>>;
        struct Late(Seen);
        impl Drop for Late {
            fn drop(&mut self) {
                let is_gone = PANIC_AT.try_with(|_| ()).is_err();
                let caught = guard("drop", || panic!("late"));
                *self.0.lock().unwrap() = Some((is_gone, caught));
            }
        }
        thread_local! {
            static LATE: Cell<Option<Late>> = const { Cell::new(None) };
        }
        let seen = Seen::default();
        let given = Arc::clone(&seen);
        std::thread::spawn(move || {
            // Thread-locals are destroyed in the reverse of the order in which they were first used.
            LATE.set(Some(Late(given)));
            drop(guard("call", || panic!("early")));
        })
        .join()
        .unwrap();
        let (is_gone, caught) = seen.lock().unwrap().take().unwrap();
        assert!(is_gone, "the test does not test what it should");
        let error = caught.unwrap_err();
        assert_eq!(error.message, "panicked in drop: late");
        assert!(error.details["at"].is_null());
    }
}
