//! What goes over one connection: every message is seen here before the protocol's library sees it.
//!
//! The library reads answers into types, which lose members that they do not know. So the answer of a call
//! is kept here as it came, and the library gets an empty one in its place, which is enough for it to know
//! that the request is over. Progress, log lines and news are taken here as well, in the order in which
//! they came.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use nexus_router_sdk::{CallContext, Level, Object};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, GetMeta, RequestId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::log::{Log, Pace};
use crate::news::News;

/// The most bytes of one message.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

/// Messages that nobody asked for: so many may come at once, and then per second. More are a flood.
const UNASKED_BURST: f64 = 50_000.0;
const UNASKED_PER_SECOND: f64 = 1000.0;

/// Progress that a call may make at once, and then per second.
const PROGRESS_BURST: f64 = 32.0;
const PROGRESS_PER_SECOND: f64 = 20.0;

/// A call that waits for its answer.
pub(crate) struct Pending {
    context: Option<CallContext>,
    /// The library must read the answer too: the list of tools says which arguments become headers.
    typed: bool,
    sent: AtomicBool,
    answer: Mutex<Option<Answer>>,
    progress: Mutex<(Pace, f64)>,
}

/// How a request ended.
pub(crate) enum Answer {
    /// The result, as it came.
    Result(Value),
    /// The error, as it came.
    Error(Value),
    /// No answer came.
    Failed(Failure),
}

impl Pending {
    pub(crate) fn new(context: Option<CallContext>, typed: bool) -> Arc<Self> {
        let pace = Pace::new(PROGRESS_BURST, PROGRESS_PER_SECOND);
        let progress = Mutex::new((pace, f64::NEG_INFINITY));
        let sent = AtomicBool::new(false);
        Arc::new(Self { context, typed, sent, answer: Mutex::default(), progress })
    }

    /// Takes note that the server may have the request from now on.
    pub(crate) fn mark_sent(&self) {
        self.sent.store(true, Ordering::Release);
    }

    /// Says whether the server may have the request.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// Takes the answer, if there is one.
    pub(crate) fn take(&self) -> Option<Answer> {
        lock(&self.answer).take()
    }

    /// Says that no answer will come. The first word counts.
    pub(crate) fn fail(&self, failure: Failure) {
        lock(&self.answer).get_or_insert(Answer::Failed(failure));
    }

    fn progress(&self, params: &Value) {
        let Some(context) = &self.context else { return };
        let Some(done) = params.get("progress").and_then(Value::as_f64) else { return };
        {
            let mut progress = lock(&self.progress);
            // It must increase; what does not is no progress.
            if done <= progress.1 || !progress.0.take() {
                return;
            }
            progress.1 = done;
        }
        let total = params.get("total").and_then(Value::as_f64);
        let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
        context.progress(done, total, &crate::failure::short(message, 500));
    }
}

/// One connection, as far as messages go.
pub(crate) struct Wire {
    calls: Mutex<Calls>,
    log: Arc<Log>,
    news: Arc<News>,
    unasked: Mutex<Pace>,
    /// Set before `over`, or without it.
    retired: CancellationToken,
    over: CancellationToken,
    why: OnceLock<Failure>,
}

#[derive(Default)]
struct Calls {
    by_id: HashMap<String, Weak<Pending>>,
    by_token: HashMap<String, Weak<Pending>>,
}

impl Wire {
    pub(crate) fn new(log: Arc<Log>, news: Arc<News>) -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            log,
            news,
            unasked: Mutex::new(Pace::new(UNASKED_BURST, UNASKED_PER_SECOND)),
            retired: CancellationToken::new(),
            over: CancellationToken::new(),
            why: OnceLock::new(),
        })
    }

    /// Says that no more calls are to be made over the connection; those that wait for an answer go on
    /// waiting. The first reason counts.
    pub(crate) fn retire(&self, why: Failure) {
        drop(self.why.set(why));
        self.retired.cancel();
    }

    /// Says that the connection is of no use to anybody.
    pub(crate) fn end(&self, why: Failure) {
        self.retire(why);
        self.over.cancel();
    }

    /// Says whether another connection is needed for calls.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.is_cancelled()
    }

    /// Waits until another connection is needed for calls.
    pub(crate) async fn retirement(&self) {
        self.retired.cancelled().await;
    }

    /// Says whether the connection is of no use to anybody.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits for the end of the connection, and returns its reason.
    pub(crate) async fn ended(&self) -> Failure {
        self.over.cancelled().await;
        self.why()
    }

    /// Returns why the connection is over.
    pub(crate) fn why(&self) -> Failure {
        self.why.get().cloned().unwrap_or_else(|| Failure::lost("it was closed"))
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Sees a message that is about to be sent. Returns the call that it belongs to.
    pub(crate) fn outgoing(&self, message: &ClientJsonRpcMessage) -> Option<Arc<Pending>> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let pending = request.request.extensions().get::<Arc<Pending>>()?;
        let mut calls = lock(&self.calls);
        calls.by_id.insert(id_text(&request.id), Arc::downgrade(pending));
        if let Some(token) = request.request.get_meta().get("progressToken") {
            calls.by_token.insert(token.to_string(), Arc::downgrade(pending));
        }
        Some(Arc::clone(pending))
    }

    /// Lets go of a call that is over, whoever ended it.
    pub(crate) fn forget(&self, pending: &Arc<Pending>) {
        let call = Arc::downgrade(pending);
        let mut calls = lock(&self.calls);
        let stays = |other: &Weak<Pending>| other.strong_count() > 0 && !other.ptr_eq(&call);
        calls.by_id.retain(|_, other| stays(other));
        calls.by_token.retain(|_, other| stays(other));
    }

    /// Sees a message that came. Returns what the library is to see of it.
    pub(crate) fn incoming(&self, message: Value) -> Option<Value> {
        let Value::Object(mut message) = message else {
            self.unasked();
            return None;
        };
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            if message.contains_key("id") {
                self.unasked();
                return Some(Value::Object(message));
            }
            let params = message.get("params").unwrap_or(&Value::Null);
            return self.notified(method, params).then_some(Value::Object(message));
        }
        let Some(pending) = self.taken(&message) else {
            self.unasked();
            return Some(Value::Object(message));
        };
        let typed = pending.typed.then(|| Value::Object(message.clone()));
        let id = message.get("id").cloned();
        let answer = match (message.remove("result"), message.remove("error")) {
            (Some(result), _) => Answer::Result(result),
            (None, Some(error)) => Answer::Error(error),
            (None, None) => Answer::Failed(Failure::malformed("has neither result nor error")),
        };
        lock(&pending.answer).get_or_insert(answer);
        Some(typed.unwrap_or_else(|| json!({ "jsonrpc": "2.0", "id": id, "result": {} })))
    }

    /// Returns the call that a message answers; it has no other answer after this.
    fn taken(&self, message: &Object) -> Option<Arc<Pending>> {
        let id = match message.get("id")? {
            Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        lock(&self.calls).by_id.remove(&id)?.upgrade()
    }

    /// Takes a notification. Returns whether the library is to have it too.
    fn notified(&self, method: &str, params: &Value) -> bool {
        self.unasked();
        match method {
            "notifications/progress" => {
                let token = params.get("progressToken").map(Value::to_string);
                let call =
                    token.and_then(|token| lock(&self.calls).by_token.get(&token)?.upgrade());
                if let Some(call) = call {
                    call.progress(params);
                }
                false
            }
            "notifications/message" => {
                self.said(params);
                false
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                self.news.changed();
                true
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.news.updated(uri);
                }
                true
            }
            _ => true,
        }
    }

    /// Passes on a line of the server's log: in the name of the call, if there is but one.
    fn said(&self, params: &Value) {
        let level = match params.get("level").and_then(Value::as_str).unwrap_or_default() {
            "debug" => Level::Debug,
            "warning" => Level::Warn,
            "error" | "critical" | "alert" | "emergency" => Level::Error,
            _ => Level::Info,
        };
        let text = match params.get("data") {
            Some(Value::String(text)) => text.clone(),
            Some(data) => data.to_string(),
            None => return,
        };
        let text = match params.get("logger").and_then(Value::as_str) {
            Some(logger) => format!("{logger}: {text}"),
            None => text,
        };
        let only = {
            let calls = lock(&self.calls);
            let mut alive = calls.by_id.values().filter_map(Weak::upgrade);
            alive.next().filter(|_| alive.next().is_none())
        };
        self.log.pass(level, &text, only.as_ref().and_then(|call| call.context.as_ref()));
    }

    /// Counts a message that nobody asked for; too many end the connection.
    fn unasked(&self) {
        if !lock(&self.unasked).take() {
            let most = UNASKED_PER_SECOND;
            self.end(Failure::lost(&format!(
                "it goes on sending more than {most} messages a second unasked"
            )));
        }
    }

    /// Sees a line that is no message at all.
    pub(crate) fn junk(&self, line: &[u8]) {
        self.unasked();
        let line = String::from_utf8_lossy(&line[..line.len().min(4096)]).into_owned();
        self.log.pass(Level::Warn, &format!("not a message of MCP: {line}"), None);
    }
}

fn id_text(id: &RequestId) -> String {
    id.to_string()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
