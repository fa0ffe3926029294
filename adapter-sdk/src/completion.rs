//! The receiver of a started call's answer, and how a blocking call is made of a started one.

use std::sync::mpsc;

use nexus_router_abi::{Answer, CompletionBox};

use crate::context::InFlight;
use crate::{AdapterError, Object};

/// Takes exactly one answer, from any thread. Dropped without one, it answers with a bug error.
pub struct Completion {
    sink: Option<Sink>,
    in_flight: Option<InFlight>,
}

enum Sink {
    Host(CompletionBox),
    Local(mpsc::SyncSender<Result<Object, AdapterError>>),
}

impl Completion {
    pub(crate) fn to_host(completion: CompletionBox, in_flight: Option<InFlight>) -> Self {
        Self { sink: Some(Sink::Host(completion)), in_flight }
    }

    /// Gives the answer.
    pub fn complete(mut self, answer: Result<Object, AdapterError>) {
        self.send(answer);
    }

    fn send(&mut self, answer: Result<Object, AdapterError>) {
        // The entry goes first, so that a cancel after the answer finds nothing.
        drop(self.in_flight.take());
        match self.sink.take() {
            Some(Sink::Host(mut completion)) => completion.complete(encode(answer)),
            Some(Sink::Local(sender)) => drop(sender.send(answer)),
            None => {}
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if self.sink.is_some() {
            self.send(Err(AdapterError::bug("the adapter dropped a call without an answer")));
        }
    }
}

/// Starts work that answers through a [`Completion`] and waits for the answer: the body of
/// [`Adapter::call`](crate::Adapter::call) for an adapter that implements
/// [`start`](crate::Adapter::start).
///
/// # Errors
/// Returns the error that the work answers with.
pub fn wait(start: impl FnOnce(Completion)) -> Result<Object, AdapterError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    start(Completion { sink: Some(Sink::Local(sender)), in_flight: None });
    receiver
        .recv()
        .unwrap_or_else(|_| Err(AdapterError::bug("the adapter dropped a call without an answer")))
}

/// Writes an answer as it crosses to the host.
pub(crate) fn encode(answer: Result<Object, AdapterError>) -> Answer {
    #[derive(serde::Serialize)]
    struct Output {
        output: Object,
    }
    match answer {
        Ok(output) => match serde_json::to_string(&Output { output }) {
            Ok(text) => Answer::ROk(text.into()),
            Err(error) => encode_error(&AdapterError::bug(format!("output is not JSON: {error}"))),
        },
        Err(error) => encode_error(&error),
    }
}

fn encode_error(error: &AdapterError) -> Answer {
    Answer::RErr(error_text(error).into())
}

pub(crate) fn error_text(error: &AdapterError) -> String {
    serde_json::to_string(error).unwrap_or_else(|_| {
        r#"{"kind":"bug","code":"BUG_ERROR","message":"error is not JSON"}"#.to_owned()
    })
}
