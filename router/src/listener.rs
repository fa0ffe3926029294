//! Who hears what a call tells while it is under way.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::loader::{Notice, NoticeSink};

/// Hears the notices of the calls of a run. It must not wait: others' answers may come on the same thread.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(&Notice) + Send + Sync>);

impl Listener {
    /// Makes a listener of a function.
    pub fn new(hear: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// The listeners of calls under way, by call. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct Listeners(Arc<Mutex<HashMap<String, Listener>>>);

impl Listeners {
    /// Returns a sink that tells the listener of a notice's call, and then passes the notice on.
    #[must_use]
    pub fn sink(&self, next: NoticeSink) -> NoticeSink {
        let listeners = self.clone();
        Arc::new(move |adapter_id, notice| {
            let listener =
                notice.call_id().and_then(|call_id| listeners.lock().get(call_id).cloned());
            if let Some(Listener(hear)) = listener {
                hear(&notice);
            }
            next(adapter_id, notice);
        })
    }

    /// Tells `listener` what a call tells, until what is returned is dropped.
    pub(crate) fn listen(&self, call_id: &str, listener: &Listener) -> Listening {
        self.lock().insert(call_id.to_owned(), listener.clone());
        Listening { listeners: self.clone(), call_id: call_id.to_owned() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listeners").field(&self.lock().len()).finish()
    }
}

/// A call that is listened to.
pub(crate) struct Listening {
    listeners: Listeners,
    call_id: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.lock().remove(&self.call_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_go_to_the_listener_of_their_call_and_on() {
        let (heard, passed) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let listeners = Listeners::default();
        let on = Arc::clone(&passed);
        let sink = listeners.sink(Arc::new(move |_, _| *on.lock().unwrap() += 1));
        let ear = Arc::clone(&heard);
        let listener = Listener::new(move |_| *ear.lock().unwrap() += 1);
        let listening = listeners.listen("a", &listener);
        let tell = |call_id: Option<&str>| {
            let call_id = call_id.map(str::to_owned);
            sink("echo", Notice::Output { text: String::new(), call_id });
        };
        for call_id in [Some("a"), Some("b"), None] {
            tell(call_id);
        }
        drop(listening);
        tell(Some("a"));
        assert_eq!((*heard.lock().unwrap(), *passed.lock().unwrap()), (1, 4));
    }
}
