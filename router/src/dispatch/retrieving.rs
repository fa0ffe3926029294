//! What a call under way asks the router to fetch: judged like a step, made like one, and put on record.
//!
//! The asking worker reaches nothing itself. It names a source that the operator gave its adapter, and adds
//! arguments; who is called, with which credentials, and whether that may be, is decided here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::sync::Notify;

use super::failure::reported_failure;
use super::retrieved::{Entry, Log};
use super::{Execution, Surroundings, revocation};
use crate::caller::{Caller, CheckedCaller, Revocation};
use crate::clock::{Clock, Timestamp};
use crate::config::SourceEntry;
use crate::desk::Desk;
use crate::evidence::normalize::{remove_named, remove_volatile};
use crate::gate::{self, Grounds, Permit, Selected, Verdict};
use crate::host::{Patience, TakenSlot};
use crate::json::{self, Limits, Object, Value};
use crate::loader::Ask;
use crate::offload;
use crate::policy::Act;
use crate::request::{Mode, Policy, Step};
use crate::role::ActionClass;
use crate::secret::{REFERENCE_KEY, Secrets};
use crate::share::{self, QueueEntry};
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
    goal: &'a str,
    call_id: &'a str,
    /// The class of the call that asks.
    class: Option<ActionClass>,
    mode: Mode,
    policy: Policy,
    /// The caller as it was checked last.
    caller: Mutex<SourceCaller>,
    key: &'a Store,
    now: Timestamp,
    end: Instant,
    queue_entry: QueueEntry,
    /// Tells that the call that asks is over, or was given up.
    pub(super) cancelled: Notify,
    closed: AtomicBool,
    busy: AtomicBool,
    log: Mutex<Log>,
}

/// The caller on whose behalf sources are asked.
struct SourceCaller {
    caller: Option<Arc<Caller>>,
    checked: CheckedCaller,
    revoked: Option<Revocation>,
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
            goal: &execution.recorder.header().goal,
            call_id,
            class: around.law.class_of(act),
            mode: execution.mode,
            policy: execution.policy,
            caller: Mutex::new(SourceCaller {
                caller: execution.origin.caller.clone(),
                checked: CheckedCaller::default(),
                revoked: None,
            }),
            key: execution.recorder.store(),
            now: execution.recorder.now(),
            end: Instant::now() + time,
            queue_entry: execution.queue_entry,
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

    /// Returns the revocation that stopped a request, if any.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        self.caller().revoked.clone()
    }

    fn caller(&self) -> MutexGuard<'_, SourceCaller> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the caller again before a source is called, and returns it as it is now.
    fn check_caller(
        &self,
        around: &Surroundings,
        entry: &mut Entry,
    ) -> Result<Option<Arc<Caller>>, AdapterError> {
        let mut state = self.caller();
        let Some(caller) = state.caller.clone() else { return Ok(None) };
        let now = || Clock::System.now();
        let checked = state.checked.update(&around.caller_check, &caller, now);
        let checked = checked.and_then(|changed| match changed {
            Some(caller) => revocation::reaching(caller, self.mode).map(Some),
            None => Ok(None),
        });
        match checked {
            Ok(None) => Ok(Some(caller)),
            Ok(Some(changed)) => {
                state.caller = Some(Arc::new(changed));
                Ok(state.caller.clone())
            }
            Err(revoked) => {
                entry.denied = true;
                state.revoked = Some(revoked.clone());
                Err(revocation::denial(revoked))
            }
        }
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
        let newer = self.around.refreshed();
        let secrets = &newer.as_deref().unwrap_or(self.around).secrets;
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
        let (newer, newest, caller_now);
        newer = self.around.refreshed();
        let mut around = newer.as_deref().unwrap_or(self.around);
        let caller = self.check_caller(around, entry)?;
        let mut args = source.args.clone();
        for (key, value) in &input {
            args.insert(key, value.clone());
        }
        entry.input(around.secrets.redact_object(&args).unwrap_or_else(|| args.clone()));
        let reach = around.law.reach(caller.as_deref());
        let selected = gate::select_source(&around.registry, &source.adapter, reach);
        let selected = selected.map_err(|failure| match failure.error() {
            Some((code, message)) => AdapterError::operational(code, message),
            None => AdapterError::operational(UNKNOWN, "no adapter can be selected"),
        })?;
        let number = self.log().len() + 1;
        let call_id = format!("{}/ask-{number}", self.call_id);
        let step = Step::of_call(&call_id, (&source.tool, &source.method), args);
        let act = Act { adapter_id: &source.adapter, tool: &source.tool, method: &source.method };
        let call = (source, &selected, &step);
        let mut permit = self.permit(around, caller.as_deref(), call, entry)?;
        let slot = match around.host.take_slot(&selected.adapter, Some(permit.kind())) {
            TakenSlot::Free(slot) => slot,
            TakenSlot::Rejected(error) => return Err(error),
            TakenSlot::Queue(queue) => {
                let (timeout, end) = self.time_of(&permit, source.timeout);
                let token = share::token_id(caller.as_deref());
                let slot = queue
                    .wait((token, self.queue_entry), timeout, Some(end), &self.cancelled)
                    .await;
                let slot = slot.map_err(|(error, _)| error)?;
                // The call waited: the rules and the caller may have changed.
                newest = around.refreshed();
                around = newest.as_deref().unwrap_or(around);
                caller_now = self.check_caller(around, entry)?;
                permit = self.permit(around, caller_now.as_deref(), call, entry)?;
                slot
            }
        };
        let holds_secrets = permit.holds_secrets();
        let secrets = &around.secrets;
        let patience = self.patience(&permit, &call_id, source.timeout);
        let output = around.host.call(permit, slot, patience, || ()).await.answer?;
        offload::step_aside(offload::is_large(&output)).await;
        if let Err(misfit) = around.law.check_output(act, &output) {
            let holds_secrets = holds_secrets || secrets.replace_known(&output).is_some();
            let misfit = if holds_secrets { misfit.without_values(None, &[]) } else { misfit };
            let message =
                format!("the answer of source '{}' breaks its contract: {misfit}", source.name);
            return Err(AdapterError::operational("OUTPUT_INVALID", message));
        }
        if let Some(failure) =
            reported_failure(&around.law, selected.adapter.adapter_kind(), act, &output)
        {
            let message = format!("source '{}' failed: {}", source.name, failure.message);
            return Err(AdapterError::operational(FAILED, message));
        }
        let mut output = Value::Object(output);
        record_output(&output, (source, secrets), entry);
        // The asking call loses only the members that the operator calls volatile.
        drop(remove_volatile(&mut output, &source.volatile));
        let output = secrets.replace_in_value(&output).unwrap_or(output);
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

    /// Asks the gate about the call of a source.
    fn permit<'p>(
        &self,
        around: &'p Surroundings,
        caller: Option<&'p Caller>,
        (source, selected, step): (&SourceEntry, &'p Selected, &'p Step),
        entry: &mut Entry,
    ) -> Result<Permit<'p>, AdapterError> {
        let grounds = Grounds {
            mode: self.mode,
            policy: self.policy,
            law: &around.law,
            caller,
            secrets: &around.secrets,
            approval: None,
            recorded: None,
            key: self.key,
            now: self.now,
            run_id: self.run_id,
            goal: self.goal,
        };
        let admission = gate::admit_source(grounds, selected, step, source.action_class);
        entry.decision = admission.decision;
        if let Some(filled) = admission.filled {
            let filled = Step::of_record(filled);
            entry.input(filled.args().clone());
        }
        match admission.verdict {
            Verdict::Call(permit) => Ok(permit),
            Verdict::Deny(denial) => {
                entry.denied = true;
                let SourceEntry { adapter, tool, method, .. } = source;
                around.witness.see(
                    &denial,
                    self.run_id,
                    caller,
                    Act { adapter_id: adapter, tool, method },
                );
                Err(denial)
            }
            Verdict::Ask(_) | Verdict::Simulate { .. } => {
                entry.denied = true;
                let message = format!(
                    "a rule requires an approval for source '{}', and the call of a source cannot wait",
                    source.name
                );
                Err(AdapterError::operational("SOURCE_NEEDS_APPROVAL", message))
            }
        }
    }

    /// Returns the time that the call of a source has, and when it has to be over.
    fn time_of(
        &self,
        permit: &Permit<'_>,
        timeout: Option<Duration>,
    ) -> (Option<Duration>, Instant) {
        let left = self.end.saturating_duration_since(Instant::now());
        let end = self.end.checked_sub(MARGIN.min(left / 4)).unwrap_or(self.end);
        (timeout.into_iter().chain(permit.timeout()).min(), end)
    }

    fn patience<'p>(
        &'p self,
        permit: &Permit<'_>,
        call_id: &'p str,
        timeout: Option<Duration>,
    ) -> Patience<'p> {
        let (step, end) = self.time_of(permit, timeout);
        Patience { call_id, step, run: Some(end), cancelled: &self.cancelled, trace: None }
    }
}

/// Records the answer of a source. The evidence covers the redacted answer without volatile members, so that equal
/// executions are equal.
fn record_output(output: &Value, (source, secrets): (&SourceEntry, &Secrets), entry: &mut Entry) {
    let mut recorded = secrets.redact_texts(output);
    let mut removed = remove_volatile(&mut recorded, &source.volatile);
    removed.extend(remove_named(&mut recorded));
    let removed: Object = removed.into_iter().collect();
    entry.removed(secrets.redact_object(&removed).unwrap_or(removed));
    entry.output(&recorded);
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
