//! What a call knows about itself (deadline, cancellation, dry run) and how it speaks to the host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_abi::HostBox;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cancellation::Cancellation;
use crate::{AdapterError, Interaction, Object, code};

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For whoever is looking for a mistake.
    Debug,
    /// For the operator.
    Info,
    /// Something is off, and the work goes on.
    Warn,
    /// Something failed.
    Error,
}

/// The host: takes log lines, progress and output, for as long as the adapter lives.
#[derive(Clone)]
pub struct Host {
    inner: Arc<HostBox>,
}

impl Host {
    pub(crate) fn new(host: HostBox) -> Self {
        Self { inner: Arc::new(host) }
    }

    /// Sends a line to the host's log.
    pub fn log(&self, level: Level, message: &str) {
        self.log_fields(level, message, &Object::new());
    }

    /// Sends a line with fields to the host's log.
    pub fn log_fields(&self, level: Level, message: &str, fields: &Object) {
        self.notify(&json!({"type": "log", "level": level, "message": message, "fields": fields}));
    }

    /// Tells the host that the catalogue is not what it was; it will ask for it again.
    pub fn catalog_changed(&self) {
        self.notify(&json!({"type": "catalog_changed"}));
    }

    /// Tells the host that a resource is not what it was.
    pub fn resource_updated(&self, uri: &str) {
        self.notify(&json!({"type": "resource_updated", "uri": uri}));
    }

    /// Asks the host for something that only it can do.
    ///
    /// # Errors
    /// Returns the host's error; a host that does not know the request answers
    /// [`UNSUPPORTED`](code::UNSUPPORTED).
    pub fn ask(&self, request: &Value) -> Result<Value, AdapterError> {
        match self.inner.ask(request.to_string().as_str().into()).into_result() {
            Ok(answer) => serde_json::from_str(&answer).map_err(|error| {
                AdapterError::bug(format!("the host's answer is not JSON: {error}"))
            }),
            Err(error) => Err(serde_json::from_str(&error)
                .unwrap_or_else(|_| AdapterError::bug("the host's error is not JSON"))),
        }
    }

    fn notify(&self, notice: &Value) {
        self.inner.notify(notice.to_string().as_str().into());
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Host")
    }
}

/// What one call knows about itself.
#[derive(Clone, Debug)]
pub struct CallContext {
    call_id: Option<Arc<str>>,
    deadline: Option<Instant>,
    dry_run: bool,
    traceparent: Option<Arc<str>>,
    interaction: Option<Arc<Interaction>>,
    cancellation: Cancellation,
    host: Host,
}

impl CallContext {
    pub(crate) fn new(
        call_id: Option<Arc<str>>,
        deadline: Option<Instant>,
        dry_run: bool,
        cancellation: Cancellation,
        host: Host,
    ) -> Self {
        let (traceparent, interaction) = (None, None);
        Self { call_id, deadline, dry_run, traceparent, interaction, cancellation, host }
    }

    /// Makes the call a part of a trace.
    pub(crate) fn traced(mut self, traceparent: Option<&str>) -> Self {
        self.traceparent = traceparent.map(Arc::from);
        self
    }

    /// Tells the call of who made it.
    pub(crate) fn with_interaction(mut self, interaction: Option<Interaction>) -> Self {
        self.interaction = interaction.map(Arc::new);
        self
    }

    /// Returns the answer to a request of an earlier [`AdapterError::input_required`].
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&Value> {
        self.interaction.as_ref()?.inputs.get(name)
    }

    /// Returns all answers of the caller, by the names of the requests, if it gave any.
    #[must_use]
    pub fn inputs(&self) -> Option<&Object> {
        let inputs = &self.interaction.as_ref()?.inputs;
        (!inputs.is_empty()).then_some(inputs)
    }

    /// Returns the state of that error.
    #[must_use]
    pub fn input_state(&self) -> Option<&str> {
        self.interaction.as_ref()?.state.as_deref()
    }

    /// Returns a capability of the caller, such as `elicitation`, if it has it.
    #[must_use]
    pub fn client_capability(&self, name: &str) -> Option<&Value> {
        self.interaction.as_ref()?.client.get(name)
    }

    /// Returns the W3C `traceparent` of the call, to be sent along with requests that it makes.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// Returns the id of the call, if the host gave it one.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    /// Returns the moment at which the host stops waiting.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the smaller of `limit` and the time left until the deadline.
    #[must_use]
    pub fn remaining(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |at| at.saturating_duration_since(Instant::now()).min(limit))
    }

    /// Says whether the call must only pretend.
    #[must_use]
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// Says whether the caller no longer wants the answer.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Runs `action` when the call is cancelled, or now if it already is.
    pub fn on_cancel(&self, action: impl FnOnce() + Send + 'static) {
        self.cancellation.on_cancel(Box::new(action));
    }

    /// Returns an error when the call should end: `CANCELLED`, or `TIMEOUT` past the deadline.
    ///
    /// # Errors
    /// These two, both operational.
    pub fn check(&self) -> Result<(), AdapterError> {
        if self.is_cancelled() {
            return Err(cancelled());
        }
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            return Err(timed_out());
        }
        Ok(())
    }

    /// Sleeps, but no longer than the call should go on.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn sleep(&self, duration: Duration) -> Result<(), AdapterError> {
        let granted = self.remaining(duration);
        self.cancellation.wait(granted);
        if granted < duration || self.is_cancelled() { self.check() } else { Ok(()) }
    }

    /// Tells the host how far the call has come.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.notify(json!({"type": "progress", "done": done, "total": total, "message": message}));
    }

    /// Sends text that the call produced for people to the host's output sink.
    pub fn output(&self, text: &str) {
        self.notify(json!({"type": "output", "text": text}));
    }

    /// Sends a line to the host's log.
    pub fn log(&self, level: Level, message: &str) {
        self.notify(json!({"type": "log", "level": level, "message": message}));
    }

    /// Sends a line with fields to the host's log.
    pub fn log_fields(&self, level: Level, message: &str, fields: &Object) {
        self.notify(json!({"type": "log", "level": level, "message": message, "fields": fields}));
    }

    /// Asks the host for something that it does for this call alone, such as
    /// `{"type": "retrieve", "source": "docs", "input": {…}}`, and waits for the answer.
    ///
    /// What may be asked is what the operator laid down for this adapter; without that the answer is
    /// [`UNSUPPORTED`](code::UNSUPPORTED). The answer comes before the call's own time is over, or not at all.
    ///
    /// # Errors
    /// The host's error, or what [`check`](Self::check) says of a call that should end.
    pub fn ask(&self, mut request: Value) -> Result<Value, AdapterError> {
        self.check()?;
        self.name_call(&mut request);
        self.host.ask(&request)
    }

    /// Returns the host, for work that outlives the call.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    fn notify(&self, mut notice: Value) {
        self.name_call(&mut notice);
        self.host.notify(&notice);
    }

    fn name_call(&self, message: &mut Value) {
        if let (Some(call_id), Value::Object(members)) = (self.call_id(), message) {
            members.insert("call_id".to_owned(), call_id.into());
        }
    }
}

pub(crate) fn cancelled() -> AdapterError {
    AdapterError::operational(code::CANCELLED, "the call was cancelled")
}

pub(crate) fn timed_out() -> AdapterError {
    AdapterError::operational(code::TIMEOUT, "the call's deadline has passed")
}
