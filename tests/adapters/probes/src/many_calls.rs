//! An adapter that holds no thread per call: one thread waits for all of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Completion, Object, wait};
use serde_json::Value;

pub(crate) const KIND: &str = "many_calls";

/// The method `hold` waits for the method `release`; any other answers after `args.delay_ms`.
pub(crate) struct ManyCalls {
    adapter_id: String,
    timer: Arc<Timer>,
    /// Started with the first call: loading an adapter must not start threads.
    thread: OnceLock<Mutex<Option<JoinHandle<()>>>>,
}

/// The calls in flight, and what wakes the thread that answers them.
#[derive(Default)]
struct Timer {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    waiting: Vec<Waiting>,
    closed: bool,
}

struct Waiting {
    context: CallContext,
    /// When the call is answered; a held one has no such moment yet.
    due: Option<Instant>,
    args: Object,
    done: Completion,
}

impl ManyCalls {
    pub(crate) fn new(adapter_id: &str) -> Self {
        let (timer, thread) = (Arc::default(), OnceLock::new());
        Self { adapter_id: adapter_id.to_owned(), timer, thread }
    }

    fn ensure_thread(&self) {
        self.thread.get_or_init(|| {
            let timer = Arc::clone(&self.timer);
            Mutex::new(Some(std::thread::spawn(move || timer.run())))
        });
    }
}

impl Adapter for ManyCalls {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        KIND
    }

    fn capabilities(&self) -> &[Capability] {
        crate::CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        let (tool, method) = (tool.to_owned(), method.to_owned());
        wait(context, |done| self.start(context.clone(), tool, method, args, done))
    }

    fn start(
        &self,
        context: CallContext,
        _tool: String,
        method: String,
        args: Object,
        done: Completion,
    ) {
        self.ensure_thread();
        let delay =
            Duration::from_millis(args.get("delay_ms").and_then(Value::as_u64).unwrap_or(0));
        let now = Instant::now();
        let due = (method != "hold").then(|| now + delay);
        let timer = Arc::clone(&self.timer);
        context.on_cancel(move || {
            // Taken and given back, so that the thread is not between its look and its wait.
            drop(timer.lock());
            timer.changed.notify_one();
        });
        let mut calls = self.timer.lock();
        if method == "release" {
            calls.waiting.iter_mut().for_each(|waiting| waiting.due = Some(now));
        }
        calls.waiting.push(Waiting { context, due, args, done });
        drop(calls);
        self.timer.changed.notify_one();
    }

    fn starts_at_once(&self) -> bool {
        true
    }

    fn shutdown(&self) {
        self.timer.lock().closed = true;
        self.timer.changed.notify_one();
        let thread = self.thread.get().map(|thread| thread.lock());
        let thread =
            thread.and_then(|thread| thread.unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

impl Timer {
    fn run(&self) {
        let mut calls = self.lock();
        while !calls.closed {
            let now = Instant::now();
            let ended: Vec<Waiting> =
                calls.waiting.extract_if(.., |waiting| waiting.is_over(now)).collect();
            if ended.is_empty() {
                let next = calls.waiting.iter().filter_map(Waiting::wakes_at).min();
                let pause = next.map_or(crate::FOREVER, |at| at.saturating_duration_since(now));
                let waited = self.changed.wait_timeout(calls, pause);
                calls = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                drop(calls);
                for Waiting { context, args, done, .. } in ended {
                    done.complete(context.check().map(|()| args));
                }
                calls = self.lock();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_over(&self, now: Instant) -> bool {
        self.context.check().is_err() || self.due.is_some_and(|due| due <= now)
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.context.deadline()).min()
    }
}
