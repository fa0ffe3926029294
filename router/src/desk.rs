//! Where calls under way are answered what they ask of the host: each has a desk of its own, or none.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::loader::{Ask, AskSink};

/// The desks of calls under way, by call. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct Desks(Arc<Mutex<HashMap<String, UnboundedSender<Ask>>>>);

impl Desks {
    /// Returns a sink that brings what a call asks to its desk. Calls without one are told that there is none.
    #[must_use]
    pub fn sink(&self) -> AskSink {
        let desks = self.clone();
        Arc::new(move |ask: Ask| {
            // Workers bound how much a call may ask at once, so a desk has never many to answer.
            let desk = desks.lock().get(ask.call_id()).cloned();
            match desk {
                // If the desk has just been closed, whoever asks is told by dropping it.
                Some(desk) => drop(desk.send(ask)),
                None => ask.refuse(),
            }
        })
    }

    /// Opens the desk of a call, until what is returned is dropped.
    pub(crate) fn open(&self, call_id: &str) -> Desk {
        let (sender, asks) = unbounded_channel();
        self.lock().insert(call_id.to_owned(), sender);
        Desk { desks: self.clone(), call_id: call_id.to_owned(), asks }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, UnboundedSender<Ask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Desks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Desks").field(&self.lock().len()).finish()
    }
}

/// The desk of one call. When it is dropped, nothing more is answered.
pub(crate) struct Desk {
    desks: Desks,
    call_id: String,
    asks: UnboundedReceiver<Ask>,
}

impl Desk {
    /// Waits for the next thing that the call asks.
    pub(crate) async fn next(&mut self) -> Option<Ask> {
        self.asks.recv().await
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.desks.lock().remove(&self.call_id);
    }
}
