//! Moves work on large values off the threads that serve connections.
//!
//! Small runs are polled by the task that waits for them. A run whose request or answer is [large](LARGE) continues on
//! the router's own runtime, and each of its polls runs in `block_in_place`.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use nexus_router_sdk::AdapterError;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

use crate::json::{Object, Value};
use crate::outcome::Outcome;

/// Values from this size on, in bytes, are large: redaction, digests and JSON of them take long enough to delay others.
pub(crate) const LARGE: usize = 64 * 1024;

/// Assumed size of a value besides its text, in bytes.
const NODE: usize = 8;

thread_local! {
    /// Load of the run that this thread polls; none if the run cannot be moved.
    static LOAD: Cell<Option<Load>> = const { Cell::new(None) };
}

/// Load that a run puts on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Light,
    Heavy,
}

/// Polls a run, and reports whether it [became](step_aside) heavy.
pub(crate) fn observe<T>(poll: impl FnOnce() -> T) -> (T, Load) {
    /// Restores the load of the outer run, also when the poll panics.
    struct Restore(Option<Load>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOAD.set(self.0);
        }
    }
    let restore = Restore(LOAD.replace(Some(Load::Light)));
    let polled = poll();
    let load = LOAD.get().unwrap_or(Load::Light);
    drop(restore);
    (polled, load)
}

/// Run on the router's runtime. Once it is heavy, other tasks move to another thread while it is polled.
///
/// Only tasks of a multi-threaded runtime may be wrapped in it.
#[derive(Debug)]
pub(crate) struct OffloadedRun<F> {
    run: Pin<Box<F>>,
    load: Load,
}

impl<F: Future> OffloadedRun<F> {
    pub(crate) fn new(run: F, load: Load) -> Self {
        Self { run: Box::pin(run), load }
    }
}

impl<F: Future> Future for OffloadedRun<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.load == Load::Heavy {
            return tokio::task::block_in_place(|| self.run.as_mut().poll(context));
        }
        let (polled, load) = observe(|| self.run.as_mut().poll(context));
        self.load = load;
        polled
    }
}

/// Answer to a request. A heavy one continues as its own task, aborted on drop.
pub(crate) struct MovableWork<T> {
    work: WorkPlace<T>,
    load: Load,
}

/// Place of the work.
enum WorkPlace<T> {
    /// With the task that waits for it.
    Here(Pin<Box<dyn Future<Output = T> + Send>>),
    /// In a task of its own.
    There(JoinHandle<T>),
    /// Finished.
    Done,
}

impl<T: Send + 'static> MovableWork<T> {
    pub(crate) fn new(work: Pin<Box<dyn Future<Output = T> + Send>>, load: Load) -> Self {
        Self { work: WorkPlace::Here(work), load }
    }

    /// Moves the work to a task of its own, if the runtime has other threads.
    fn hand_over(&mut self) {
        let runtime = Handle::try_current().ok();
        let runtime = runtime.filter(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        let Some(runtime) = runtime else { return };
        self.work = match std::mem::replace(&mut self.work, WorkPlace::Done) {
            WorkPlace::Here(work) => {
                let work = OffloadedRun::new(work, Load::Heavy).in_current_span();
                WorkPlace::There(runtime.spawn(work))
            }
            other => other,
        };
    }
}

impl<T: Send + 'static> Future for MovableWork<T> {
    /// The error is a panic of the work, or the end of the runtime.
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.load == Load::Light
            && let WorkPlace::Here(work) = &mut this.work
        {
            let (polled, load) = observe(|| work.as_mut().poll(context));
            this.load = load;
            if let Poll::Ready(answer) = polled {
                this.work = WorkPlace::Done;
                return Poll::Ready(Ok(answer));
            }
        }
        if this.load == Load::Heavy {
            this.hand_over();
        }
        match &mut this.work {
            WorkPlace::There(task) => Pin::new(task).poll(context),
            WorkPlace::Here(work) if this.load == Load::Heavy => {
                work.as_mut().poll(context).map(Ok)
            }
            WorkPlace::Here(_) | WorkPlace::Done => Poll::Pending,
        }
    }
}

impl<T> Drop for MovableWork<T> {
    fn drop(&mut self) {
        if let WorkPlace::There(task) = &self.work {
            task.abort();
        }
    }
}

/// Continues a run as a heavy one if a value is large.
pub(crate) async fn step_aside(is_large: bool) {
    if !is_large || LOAD.get() != Some(Load::Light) {
        return;
    }
    let mut moved = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut moved, true) {
            return Poll::Ready(());
        }
        LOAD.set(Some(Load::Heavy));
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns whether an object is large. A large one is not read to its end.
pub(crate) fn is_large(object: &Object) -> bool {
    let mut left = LARGE;
    !fits_object(object, &mut left)
}

/// Returns whether an answer to a caller is large.
pub(crate) fn is_large_outcome(outcome: &Outcome) -> bool {
    outcome.results.iter().any(|result| is_large(result.for_caller()))
        || outcome.plan.iter().any(is_large)
        || outcome.provenance.len() >= LARGE
}

/// Returns whether the message or the details of an error are large.
pub(crate) fn is_large_error(error: &AdapterError) -> bool {
    let mut left = LARGE;
    !(take(&mut left, error.message.len())
        && error
            .details
            .iter()
            .all(|(key, value)| take(&mut left, key.len()) && fits_serde(value, &mut left)))
}

fn fits_serde(value: &serde_json::Value, left: &mut usize) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => take(left, NODE + text.len()),
        Value::Array(items) => take(left, NODE) && items.iter().all(|item| fits_serde(item, left)),
        Value::Object(object) => object
            .iter()
            .all(|(key, value)| take(left, NODE + key.len()) && fits_serde(value, left)),
        _ => take(left, NODE),
    }
}

fn fits_object(object: &Object, left: &mut usize) -> bool {
    object.iter().all(|(key, value)| take(left, key.len()) && fits(value, left))
}

fn fits(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => take(left, NODE + text.len()),
        Value::Array(items) => take(left, NODE) && items.iter().all(|item| fits(item, left)),
        Value::Object(object) => take(left, NODE) && fits_object(object, left),
        _ => take(left, NODE),
    }
}

fn take(left: &mut usize, size: usize) -> bool {
    match left.checked_sub(size) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        [("key".to_owned(), value)].into_iter().collect()
    }

    #[test]
    fn large_values_are_known_by_text_and_by_number() {
        assert!(!is_large(&object("x".repeat(LARGE / 2).into())));
        assert!(is_large(&object("x".repeat(LARGE).into())));
        assert!(is_large(&object(vec![Value::from(0); LARGE / NODE].into())));
        assert!(!is_large(&object(vec![Value::from(0); 100].into())));
        let error = |text: &str| AdapterError::bug(text);
        let details = serde_json::json!({ "body": ["x".repeat(LARGE)] });
        assert!(is_large_error(&error(&"x".repeat(LARGE + 1))) && !is_large_error(&error("x")));
        assert!(is_large_error(&error("x").details(details)));
        assert!(is_large(&[("k".repeat(LARGE + 1), Value::Null)].into_iter().collect()));
    }

    #[test]
    fn heavy_runs_leave_their_thread_to_others() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let run = async move {
            step_aside(true).await;
            // The only worker thread is busy until another task was polled.
            told.recv_timeout(std::time::Duration::from_secs(60)).is_ok()
        };
        let run = runtime.spawn(OffloadedRun::new(run, Load::Light));
        drop(runtime.spawn(async move { tell.send(()).unwrap() }));
        assert!(runtime.block_on(run).unwrap());
    }

    #[test]
    fn moved_work_answers_and_ends_with_its_caller() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
        let runtime = runtime.unwrap();
        for load in [Load::Light, Load::Heavy] {
            let work = async {
                step_aside(true).await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                7
            };
            let answer = runtime.block_on(MovableWork::new(Box::pin(work), load));
            assert_eq!(answer.unwrap(), 7);
        }
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        };
        runtime.block_on(async {
            let mut moved = MovableWork::new(Box::pin(work), Load::Heavy);
            let polled =
                std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut moved).poll(context)));
            assert!(polled.await.is_pending());
            drop(moved);
            assert!(ended.await.is_err(), "the task ends when nobody waits");
        });
    }

    #[test]
    fn runs_that_cannot_be_moved_continue_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(step_aside(true));
        assert_eq!(LOAD.get(), None);
    }
}
