//! What a call under way asks the router to fetch: judged like a step, made like one, and put on record.
//!
//! The asking worker reaches nothing itself. It names a source that the operator gave its adapter, and adds
//! arguments; who is called, with which credentials, and whether that may be, is decided here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::sync::Notify;

use super::retrieved::{Entry, Log};
use super::{Execution, Surroundings};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::config::SourceEntry;
use crate::desk::Desk;
use crate::event::Failure;
use crate::evidence::normalize::normalize_answer;
use crate::gate::{self, Grounds, Permit, Verdict};
use crate::host::Patience;
use crate::json::{self, Limits, Object, Value};
use crate::loader::Ask;
use crate::policy::Act;
use crate::request::{Mode, Policy, Step};
use crate::role::ActionClass;
use crate::secret::REFERENCE_KEY;
use crate::store::Store;

/// What may be asked for: not more than a worker may send.
const LIMITS: Limits = Limits { bytes: 256 * 1024, depth: 64, values: 50_000 };
/// A longer answer is not passed on.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// So much sooner than its asker's a call has to end, so that the asker can still say what became of it.
const MARGIN: Duration = Duration::from_millis(200);

/// The code of a request that may not be made.
const REFUSED: &str = "ASK_REFUSED";
/// The code of a source that there is not.
const UNKNOWN: &str = "SOURCE_UNKNOWN";
/// The code of a source that does not do what it was asked for.
const FAILED: &str = "SOURCE_FAILED";

/// Answers what one call asks.
pub(super) struct Retrieving<'a> {
    around: &'a Surroundings,
    sources: &'a [SourceEntry],
    run_id: &'a str,
    call_id: &'a str,
    /// The class of the call that asks.
    class: Option<ActionClass>,
    mode: Mode,
    policy: Policy,
    caller: Option<&'a Caller>,
    key: &'a Store,
    now: Timestamp,
    end: Instant,
    /// Tells that the call that asks is over, or was given up.
    pub(super) cancelled: Notify,
    closed: AtomicBool,
    busy: AtomicBool,
    log: Mutex<Log>,
}

/// A request that was understood.
enum Wanted<'a> {
    /// What there is.
    Sources,
    /// An answer of a source.
    Retrieve { source: &'a SourceEntry, input: Object },
}

impl<'a> Retrieving<'a> {
    /// Makes ready to answer a call.
    pub(super) fn new(
        execution: &'a Execution,
        around: &'a Surroundings,
        (act, call_id): (Act<'_>, &'a str),
        time: Duration,
    ) -> Self {
        let sources = around.law.sources.get(act.adapter_id).map_or(&[][..], |sources| sources);
        Self {
            around,
            sources,
            run_id: &execution.recorder.header().run_id,
            call_id,
            class: around.law.class_of(act),
            mode: execution.mode,
            policy: execution.policy,
            caller: execution.origin.caller.as_deref(),
            key: execution.recorder.store(),
            now: execution.recorder.now(),
            end: Instant::now() + time,
            cancelled: Notify::new(),
            closed: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            log: Mutex::default(),
        }
    }

    /// Answers one request after the other, until [`close`](Self::close).
    pub(super) async fn serve(&self, mut desk: Desk) {
        while !self.closed.load(Ordering::Acquire)
            && let Some(ask) = desk.next().await
        {
            self.busy.store(true, Ordering::Release);
            self.answer(ask).await;
            self.busy.store(false, Ordering::Release);
        }
    }

    /// Takes no more requests. True if one is under way, which then ends soon.
    pub(super) fn close(&self) -> bool {
        self.closed.store(true, Ordering::Release);
        self.cancelled.notify_one();
        self.busy.load(Ordering::Acquire)
    }

    /// Takes out what was asked, and what came of it.
    pub(super) fn take_log(&self) -> Log {
        std::mem::take(&mut *self.log())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, ask: Ask) {
        let began = Instant::now();
        let mut entry = Entry::default();
        let answer = match self.read(ask.request(), &mut entry) {
            Ok(Wanted::Sources) => Ok(self.list()),
            Ok(Wanted::Retrieve { source, input }) => {
                self.retrieve(source, input, &mut entry).await
            }
            Err(refused) => Err(refused),
        };
        entry.time = began.elapsed();
        let answer = answer.map_err(|error| self.shown(error));
        entry.code = answer.as_ref().err().map(|error| error.code.clone());
        let (run_id, code) = (self.run_id, entry.code.as_deref());
        tracing::debug!(run_id, source = entry.name(), code, "a call asked for something");
        // On record before the asker knows: what it was told is in the log, whatever it does next.
        self.log().push(entry);
        ask.answer(answer.as_deref());
    }

    /// Returns an error as whoever asks may see it. That a source has a bug is no bug of its own.
    fn shown(&self, error: AdapterError) -> AdapterError {
        let secrets = &self.around.secrets;
        let message = secrets.scrub(&error.message);
        if [code::INPUT_REQUIRED, code::CLIENT_CAPABILITY_MISSING].contains(&error.code.as_str()) {
            let message = format!("the source would ask its caller, who is not there: {message}");
            return AdapterError::operational(FAILED, message);
        }
        let shown = AdapterError::operational(error.code, message);
        shown.details(secrets.scrub_object(&error.details).into())
    }

    /// Reads a request, and finds its source.
    fn read(&self, text: &str, entry: &mut Entry) -> Result<Wanted<'a>, AdapterError> {
        let request = json::parse(text.as_bytes(), LIMITS)
            .map_err(|error| refused(format!("the request cannot be read: {error}")))?;
        let mut request = request.into_object().unwrap_or_default();
        match request.get("type").and_then(Value::as_str) {
            Some("retrieve") => {}
            Some("sources") => {
                entry.kind = "sources";
                return Ok(Wanted::Sources);
            }
            _ => {
                let message = "only requests of type retrieve and sources are answered";
                return Err(AdapterError::operational(code::UNSUPPORTED, message));
            }
        }
        entry.kind = "retrieve";
        let input = match request.remove("input") {
            None => Object::new(),
            Some(Value::Object(input)) => input,
            Some(other) => {
                let found = other.type_name();
                return Err(refused(format!("input is of type {found}, and must be an object")));
            }
        };
        let name = request.get("source").and_then(Value::as_str).unwrap_or_default();
        let source = self.find(name)?;
        entry.source(source);
        if let Some(place) = reference(&input, &mut String::new()) {
            return Err(refused(format!(
                "input{place} refers to a secret; only the operator's own arguments may"
            )));
        }
        if let Some(key) = input.keys().find(|key| source.args.contains_key(key)) {
            return Err(refused(format!(
                "input has '{key}', which stands fast for source '{name}'; leave it out"
            )));
        }
        Ok(Wanted::Retrieve { source, input })
    }

    fn find(&self, name: &str) -> Result<&'a SourceEntry, AdapterError> {
        let sources = self.sources;
        let of_class = || sources.iter().filter(|one| Some(one.action_class) == self.class);
        let known = || of_class().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        let class = self.class.map_or("none", ActionClass::name);
        let Some(source) = sources.iter().find(|source| source.name == name) else {
            let message =
                format!("there is no source '{name}'; those of class {class} are: {}", known());
            return Err(AdapterError::operational(UNKNOWN, message));
        };
        if Some(source.action_class) != self.class {
            return Err(refused(format!(
                "source '{name}' is of class {}, and this call of class {class}; use one of: {}",
                source.action_class.name(),
                known()
            )));
        }
        Ok(source)
    }

    /// Lists the sources of the class of the call.
    fn list(&self) -> String {
        let of_class = self.sources.iter().filter(|one| Some(one.action_class) == self.class);
        let names = of_class.map(|one| Value::from(one.name.as_str())).collect();
        let mut answer = Object::new();
        answer.insert("sources", Value::Array(names));
        json::to_compact(&answer.into())
    }

    /// Has a source answer, if the gate lets that through. Returns the answer's text.
    async fn retrieve(
        &self,
        source: &SourceEntry,
        input: Object,
        entry: &mut Entry,
    ) -> Result<String, AdapterError> {
        let secrets = &self.around.secrets;
        let mut args = source.args.clone();
        for (key, value) in &input {
            args.insert(key, value.clone());
        }
        entry.input(secrets.redact_object(&args).unwrap_or_else(|| args.clone()));
        let selected = gate::select_source(&self.around.registry, &source.adapter);
        let selected = selected.map_err(|failure| match failure {
            Failure::Selection { code, message, .. } => AdapterError::operational(code, message),
            other => AdapterError::operational(UNKNOWN, format!("{other:?}")),
        })?;
        let number = self.log().len() + 1;
        let call_id = format!("{}/ask-{number}", self.call_id);
        let step = Step::of_call(&call_id, (&source.tool, &source.method), args);
        let grounds = Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &self.around.law,
            caller: self.caller,
            secrets,
            approval: None,
            redacted: false,
            key: self.key,
            now: self.now,
        };
        let act = Act { adapter_id: &source.adapter, tool: &source.tool, method: &source.method };
        let permit = match gate::admit_source(grounds, &selected, &step, source.action_class) {
            Verdict::Call(permit) => permit,
            Verdict::Deny(denial) => {
                entry.denied = true;
                self.around.witness.see(&denial, self.run_id, self.caller, act);
                return Err(denial);
            }
            Verdict::Ask(_) | Verdict::Simulate { .. } => {
                entry.denied = true;
                let message = format!(
                    "source '{}' needs an approval, and nobody can be asked in the middle of a call; have \
                     the step of the call approved instead",
                    source.name
                );
                return Err(AdapterError::operational("APPROVAL_IMPOSSIBLE", message));
            }
        };
        let output = self.call(permit, &call_id, source.timeout).await?;
        let output = self.around.law.check_output(act, &output).map(|()| output);
        let output = output.map_err(|misfit| {
            let message =
                format!("the answer of source '{}' breaks its contract: {misfit}", source.name);
            AdapterError::operational("OUTPUT_INVALID", message)
        })?;
        let mut output = Value::Object(output);
        entry.removed(normalize_answer(&mut output, &source.volatile));
        let output = secrets.redact_texts(&output);
        entry.output(&output);
        let mut answer = Object::with_capacity(3);
        answer.insert("source", source.name.as_str());
        answer.insert("sha256", entry.sha256().unwrap_or_default());
        answer.insert("output", output);
        let text = json::to_compact(&answer.into());
        if text.len() > MAX_ANSWER {
            let message = format!(
                "the answer of source '{}' has {} bytes; the limit is {MAX_ANSWER}",
                source.name,
                text.len()
            );
            return Err(AdapterError::operational(code::OUTPUT_TOO_LARGE, message));
        }
        Ok(text)
    }

    async fn call(
        &self,
        permit: Permit<'_>,
        call_id: &str,
        timeout: Option<Duration>,
    ) -> Result<Object, AdapterError> {
        let left = self.end.saturating_duration_since(Instant::now());
        let end = self.end.checked_sub(MARGIN.min(left / 4)).unwrap_or(self.end);
        let by_contract = permit.timeout();
        let patience = Patience {
            call_id,
            step: timeout.into_iter().chain(by_contract).min(),
            run: Some(end),
            cancelled: &self.cancelled,
            trace: None,
        };
        self.around.host.call(permit, patience, || ()).await.answer
    }
}

fn refused(message: String) -> AdapterError {
    AdapterError::operational(REFUSED, message)
}

/// Returns the pointer of a reference to a secret, if there is one.
fn reference(object: &Object, place: &mut String) -> Option<String> {
    if object.contains_key(REFERENCE_KEY) {
        return Some(place.clone());
    }
    object.iter().find_map(|(key, value)| {
        let length = place.len();
        place.push_str(&format!("/{key}"));
        let found = within(value, place);
        place.truncate(length);
        found
    })
}

fn within(value: &Value, place: &mut String) -> Option<String> {
    match value {
        Value::Object(object) => reference(object, place),
        Value::Array(items) => items.iter().find_map(|item| within(item, place)),
        _ => None,
    }
}
