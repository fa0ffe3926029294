//! The receiver of a started call's answer, and how a blocking call is made of a started one.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nexus_router_abi::{Answer, CompletionBox};

use crate::cancellation::InFlight;
use crate::context::{cancelled, timed_out};
use crate::{AdapterError, CallContext, Object};

/// Takes exactly one answer, from any thread. Dropped without one, it answers with a bug error.
pub struct Completion {
    sink: Option<Sink>,
}

enum Sink {
    Host(Reply),
    Local(mpsc::Sender<Event>),
}

/// What a blocking call waits for.
enum Event {
    Answered(Result<Object, AdapterError>),
    Cancelled,
}

impl Completion {
    /// Makes the receiver for an author, and what the caller of `start` keeps of it.
    pub(crate) fn to_host(completion: CompletionBox) -> (Self, Reply) {
        let call = Some(Unanswered { completion, in_flight: None });
        let reply = Reply { state: Arc::new(Mutex::new(State { call, stage: Stage::Starting })) };
        (Self { sink: Some(Sink::Host(reply.clone())) }, reply)
    }

    /// Gives the answer.
    pub fn complete(mut self, answer: Result<Object, AdapterError>) {
        match self.sink.take() {
            Some(Sink::Host(reply)) => reply.answer(answer),
            Some(Sink::Local(sender)) => drop(sender.send(Event::Answered(answer))),
            None => {}
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        match self.sink.take() {
            Some(Sink::Host(reply)) => reply.abandon(),
            Some(Sink::Local(sender)) => drop(sender.send(Event::Answered(Err(dropped())))),
            None => {}
        }
    }
}

fn dropped() -> AdapterError {
    AdapterError::bug("the adapter dropped a call without an answer")
}

/// The way to the host, shared by the [`Completion`] and the shim around `start`. When `start` panics, only
/// the shim knows why, so the answer is left to it.
#[derive(Clone)]
pub(crate) struct Reply {
    state: Arc<Mutex<State>>,
}

struct State {
    /// Gone once the call is answered.
    call: Option<Unanswered>,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    /// `start` has not come back.
    Starting,
    /// `start` has not come back, and a panic has dropped the completion.
    Abandoned,
    /// `start` has come back.
    Started,
}

struct Unanswered {
    completion: CompletionBox,
    in_flight: Option<InFlight>,
}

impl Unanswered {
    fn answer(mut self, answer: Result<Object, AdapterError>) {
        // The entry goes first, so that a cancel after the answer finds nothing.
        drop(self.in_flight.take());
        self.completion.complete(encode(answer));
    }
}

impl Reply {
    /// Keeps the entry of the call until it is answered.
    pub(crate) fn keep(&self, in_flight: Option<InFlight>) {
        if let Some(call) = &mut self.lock().call {
            call.in_flight = in_flight;
        }
    }

    /// Takes note of how `start` ended and gives the answer that it owes. Returns the panic if an answer
    /// had been given before.
    pub(crate) fn settle(&self, started: Result<(), AdapterError>) -> Result<(), AdapterError> {
        let owed = {
            let mut state = self.lock();
            let stage = std::mem::replace(&mut state.stage, Stage::Started);
            let is_owed = started.is_err() || stage == Stage::Abandoned;
            state.call.take_if(|_| is_owed)
        };
        match owed {
            Some(call) => {
                call.answer(Err(started.err().unwrap_or_else(dropped)));
                Ok(())
            }
            None => started,
        }
    }

    fn answer(&self, answer: Result<Object, AdapterError>) {
        // The host's code must not run under the lock.
        let call = self.lock().call.take();
        if let Some(call) = call {
            call.answer(answer);
        }
    }

    fn abandon(&self) {
        {
            let mut state = self.lock();
            if state.stage == Stage::Starting && std::thread::panicking() {
                state.stage = Stage::Abandoned;
                return;
            }
        }
        self.answer(Err(dropped()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts work that answers through a [`Completion`] and waits for the answer: the body of
/// [`Adapter::call`](crate::Adapter::call) for an adapter that implements
/// [`start`](crate::Adapter::start).
///
/// The wait ends at the call's deadline and when the call is cancelled, whatever becomes of the work; an
/// answer that comes later is lost. A call that is over already is not started.
///
/// ```
/// use nexus_router_sdk::{Object, testing::Recorder, wait};
/// let context = Recorder::default().context();
/// let answer = wait(&context, |done| {
///     std::thread::spawn(move || done.complete(Ok(Object::new())));
/// });
/// assert_eq!(answer, Ok(Object::new()));
/// ```
///
/// # Errors
/// Returns the error that the work answers with, or that of [`CallContext::check`].
pub fn wait(context: &CallContext, start: impl FnOnce(Completion)) -> Result<Object, AdapterError> {
    context.check()?;
    let (sender, events) = mpsc::channel();
    let canceller = sender.clone();
    context.on_cancel(move || drop(canceller.send(Event::Cancelled)));
    start(Completion { sink: Some(Sink::Local(sender)) });
    let event = match context.deadline() {
        Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
        None => events.recv().map_err(RecvTimeoutError::from),
    };
    match event {
        Ok(Event::Answered(answer)) => answer,
        Ok(Event::Cancelled) => Err(cancelled()),
        Err(RecvTimeoutError::Timeout) => Err(timed_out()),
        Err(RecvTimeoutError::Disconnected) => Err(dropped()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::guard;
    use crate::testing::Recorder;
    use crate::{ErrorKind, code};
    use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
    use nexus_router_abi::{CompletionV1, CompletionV1_TO};
    use std::time::Duration;

    struct HostSide(mpsc::Sender<Result<String, String>>);

    impl CompletionV1 for HostSide {
        fn complete(&mut self, answer: Answer) {
            let answer = answer.into_result().map(Into::into).map_err(Into::into);
            self.0.send(answer).unwrap();
        }
    }

    fn started() -> (Completion, Reply, mpsc::Receiver<Result<String, String>>) {
        let (sender, answers) = mpsc::channel();
        let (done, reply) =
            Completion::to_host(CompletionV1_TO::from_value(HostSide(sender), TD_Opaque));
        (done, reply, answers)
    }

    /// Returns the one error that the host was answered with.
    fn only_error(answers: &mpsc::Receiver<Result<String, String>>) -> AdapterError {
        let error = answers.try_recv().unwrap().unwrap_err();
        assert!(answers.try_recv().is_err(), "answered twice");
        serde_json::from_str(&error).unwrap()
    }

    #[test]
    fn panic_in_start_is_the_answer() {
        let (done, reply, answers) = started();
        let panicked = guard("start", move || {
            let _done = done;
            panic!("no luck");
        });
        assert!(answers.try_recv().is_err(), "the answer is left to whoever knows the panic");
        assert_eq!(reply.settle(panicked), Ok(()));
        let error = only_error(&answers);
        assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Bug, code::ADAPTER_PANICKED));
        assert_eq!(error.message, "panicked in start: no luck");
        assert!(error.details["at"].as_str().unwrap().contains("completion.rs:"));
    }

    #[test]
    fn panic_in_start_answers_also_when_the_completion_is_kept() {
        let (done, reply, answers) = started();
        reply.settle(Err(AdapterError::bug("panicked"))).unwrap();
        done.complete(Ok(Object::new()));
        assert_eq!(only_error(&answers).message, "panicked");
    }

    #[test]
    fn panic_after_the_answer_is_handed_back() {
        let (done, reply, answers) = started();
        done.complete(Ok(Object::new()));
        let panic = AdapterError::bug("panicked");
        assert_eq!(reply.settle(Err(panic.clone())), Err(panic));
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [Ok(r#"{"output":{}}"#.to_owned())]);
    }

    #[test]
    fn completion_dropped_by_a_caught_panic_is_answered() {
        let panicking_drop = |done| {
            drop(guard("thread", move || {
                let _done: Completion = done;
                panic!("caught by the author");
            }));
        };
        let (done, reply, answers) = started();
        panicking_drop(done);
        reply.settle(Ok(())).unwrap();
        assert_eq!(only_error(&answers), dropped());

        let (done, reply, answers) = started();
        reply.settle(Ok(())).unwrap();
        panicking_drop(done);
        assert_eq!(only_error(&answers), dropped());
    }

    #[test]
    fn completion_dropped_without_a_panic_is_answered_at_once() {
        let (done, reply, answers) = started();
        drop(done);
        assert_eq!(only_error(&answers), dropped());
        reply.settle(Ok(())).unwrap();
        assert!(answers.try_recv().is_err());
    }

    #[test]
    fn wait_returns_the_answer() {
        let context = Recorder::default().context();
        let output = Object::from_iter([("n".to_owned(), 1.into())]);
        let answer = wait(&context, |done| done.complete(Ok(output.clone())));
        assert_eq!(answer, Ok(output));
        assert_eq!(wait(&context, drop), Err(dropped()));
    }

    #[test]
    fn wait_for_a_kept_completion_ends_at_the_deadline() {
        let context = Recorder::default().context_with_time(Duration::from_millis(20));
        let mut kept = None;
        let answer = wait(&context, |done| kept = Some(done));
        assert_eq!(answer.unwrap_err().code, code::TIMEOUT);
        kept.unwrap().complete(Ok(Object::new()));
    }

    #[test]
    fn wait_for_a_kept_completion_ends_on_cancellation() {
        let (context, cancel) = Recorder::default().cancellable_context();
        let mut kept = None;
        let answer = wait(&context, |done| {
            kept = Some(done);
            std::thread::spawn(cancel);
        });
        assert_eq!(answer.unwrap_err().code, code::CANCELLED);
        drop(kept);
        let again = wait(&context, |_| panic!("a cancelled call is not started"));
        assert_eq!(again.unwrap_err().code, code::CANCELLED);
    }
}
