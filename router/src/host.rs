//! Carries out what the gate permits: one call, in its turn, within its time.

mod backoff;
mod failure;
mod retry_stop;
mod slot;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, code};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::breaker::{Breaker, BreakerPass, BreakerSettings, CallKind, CircuitChange, OpenCircuit};
use crate::config::RunLimits;
use crate::evidence::Report;
use crate::gate::Permit;
use crate::json::{self, Limits, Object, Value};
use crate::loader::{self, Adapter, Incident, IncidentReporter, Started};
use crate::metrics::Metrics;
use crate::policy::KeptOperation;
use crate::registry::Registry;
use crate::share::FairPool;
use crate::trace::TraceContext;
pub(crate) use backoff::{pause, random};
use failure::service_outcome;
pub(crate) use failure::{is_retryable, retry_after};
use retry_stop::RetryStop;
pub(crate) use slot::{CallSlot, SlotQueue, TakenSlot};

/// How long an adapter has to give up a call after it was asked to.
const GRACE: Duration = Duration::from_millis(250);

/// What may be under way at once.
#[derive(Clone, Debug)]
pub struct CallLimits {
    /// Calls that one adapter carries out at once; none means what suits the adapter.
    pub calls: Option<usize>,
    /// How long a call may take, if neither its step nor its run says.
    pub timeout: Duration,
    /// When the circuit of an adapter opens.
    pub breaker: BreakerSettings,
}

impl Default for CallLimits {
    fn default() -> Self {
        let limits = RunLimits::default();
        Self {
            calls: limits.calls_per_adapter,
            timeout: limits.call_timeout,
            breaker: BreakerSettings::default(),
        }
    }
}

/// What all adapters may do, and what single ones may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits<'a> {
    pub(crate) all: &'a CallLimits,
    pub(crate) own: &'a BTreeMap<String, CallLimits>,
    /// Runs that may be under way, none of which needs more than one slot at a time.
    pub(crate) in_flight: usize,
    /// Calls of one token that may wait for one adapter.
    pub(crate) queued_per_token: usize,
    pub(crate) metrics: &'a Metrics,
    pub(crate) incidents: &'a IncidentReporter,
}

/// How many calls of an adapter are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Calls that it carries out at once.
    pub calls: usize,
    /// Calls that it carries out now, also those that nobody waits for any more.
    pub busy: usize,
}

/// The places in which calls are carried out.
#[derive(Debug)]
pub(crate) struct Host {
    runtime: Handle,
    metrics: Metrics,
    incidents: IncidentReporter,
    slots: HashMap<String, Slots>,
    /// Ends waits for further attempts.
    retry_stop: Arc<RetryStop>,
}

/// The places of one adapter.
#[derive(Debug)]
struct Slots {
    pool: FairPool,
    calls: usize,
    timeout: Duration,
    breaker: BreakerSettings,
}

/// How a call ended, and how long it took.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) answer: Result<Object, AdapterError>,
    pub(crate) time: Duration,
    /// What the router knows of an execution of its own.
    pub(crate) report: Option<Box<Report>>,
}

/// When to stop waiting for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience<'a> {
    /// The name by which the call can be cancelled.
    pub(crate) call_id: &'a str,
    /// The time that the step has.
    pub(crate) step: Option<Duration>,
    /// When the time of the whole run is over.
    pub(crate) run: Option<Instant>,
    /// Tells that the caller gave up.
    pub(crate) cancelled: &'a Notify,
    /// The trace that the call is a part of.
    pub(crate) trace: Option<&'a TraceContext>,
}

impl Host {
    /// Makes the slots. An adapter that was there before keeps its calls under way.
    pub(crate) fn new(
        runtime: Handle,
        registry: &Registry,
        limits: SlotLimits<'_>,
        before: Option<&Self>,
    ) -> Self {
        let slots = |adapter: &Adapter| {
            let adapter_id = adapter.adapter_id().to_owned();
            let own = limits.own.get(&adapter_id).unwrap_or(limits.all);
            let suits =
                if adapter.starts_at_once() { limits.in_flight } else { RunLimits::BLOCKING_CALLS };
            let calls = own.calls.unwrap_or(suits).max(1);
            let known = before.and_then(|before| before.slots.get(&adapter_id));
            let pool = match known {
                Some(slots) => {
                    // The same pool, so that calls in it stay counted and calls in line keep their turn.
                    slots.pool.resize(calls, limits.queued_per_token);
                    slots.pool.clone()
                }
                None => FairPool::new(calls, limits.queued_per_token),
            };
            (adapter_id, Slots { pool, calls, timeout: own.timeout, breaker: own.breaker })
        };
        let metrics = limits.metrics.clone();
        let slots = registry.adapters().map(slots).collect();
        let incidents = limits.incidents.clone();
        let retry_stop = before.map(|before| Arc::clone(&before.retry_stop)).unwrap_or_default();
        Self { runtime, metrics, incidents, slots, retry_stop }
    }

    /// Returns how many calls of an adapter are under way, of how many.
    pub(crate) fn occupancy(&self, adapter_id: &str) -> Option<Occupancy> {
        let slots = self.slots.get(adapter_id)?;
        Some(Occupancy { calls: slots.calls, busy: slots.pool.in_use() })
    }

    /// Returns the limit of a token that has as many calls in the queue of an adapter as it may have.
    pub(crate) fn full_queue(&self, adapter_id: &str, token: &str) -> Option<usize> {
        self.slots.get(adapter_id)?.pool.full_queue(token)
    }

    /// Returns how long a call of an adapter may take that begins now.
    pub(crate) fn time_of(&self, adapter_id: &str, patience: Patience<'_>) -> Duration {
        patience.time_from(Instant::now(), self.call_timeout(adapter_id))
    }

    /// Takes a free slot of an adapter, or a place in the queue for one. An open circuit rejects the call.
    pub(crate) fn take_slot(&self, adapter: &Adapter, kind: Option<CallKind>) -> TakenSlot {
        let adapter_id = adapter.adapter_id();
        let slots = self.slots.get(adapter_id);
        let settings = slots.map(|slots| slots.breaker).unwrap_or_default();
        let pass = match breaker_pass(adapter, &settings, kind) {
            Ok(pass) => pass,
            Err(error) => return TakenSlot::Rejected(error),
        };
        let waits = self.metrics.call_waits(adapter_id);
        match slots {
            None => TakenSlot::Free(CallSlot::unlimited(waits, pass)),
            Some(slots) => {
                let circuit = (adapter, settings, kind);
                CallSlot::take(circuit, &slots.pool, waits, slots.timeout, pass)
            }
        }
    }

    /// Returns how long a call of an adapter may take that has no time of its own.
    pub(crate) fn call_timeout(&self, adapter_id: &str) -> Duration {
        self.limits_of(adapter_id).0
    }

    /// Returns the time of a call of an adapter, and when its circuit opens.
    fn limits_of(&self, adapter_id: &str) -> (Duration, BreakerSettings) {
        match self.slots.get(adapter_id) {
            Some(slots) => (slots.timeout, slots.breaker),
            None => {
                let CallLimits { timeout, breaker, .. } = CallLimits::default();
                (timeout, breaker)
            }
        }
    }

    /// Ends waits for further attempts at calls, now and from now on.
    pub(crate) fn end_retries(&self) {
        self.retry_stop.set();
    }

    /// Reports whether no further attempts at calls are made.
    pub(crate) fn is_ending_retries(&self) -> bool {
        self.retry_stop.is_set()
    }

    /// Waits before a further attempt, until the time is over or no attempts are made any more.
    pub(crate) async fn wait_for_retry(&self, time: Duration) {
        self.retry_stop.sleep(time).await;
    }

    /// Closes the circuit of an adapter in the name of somebody. Returns whether it was open.
    pub(crate) fn reset_circuit(&self, adapter: &Adapter, by: Option<&str>) -> bool {
        let was_open = adapter.breaker().is_some_and(Breaker::reset);
        if was_open {
            let change = CircuitChange::Closed;
            self.incidents.report(&Incident::of_circuit(adapter.adapter_id(), &change, by));
        }
        was_open
    }

    /// Tells the circuit breaker of an adapter how a call went.
    fn report<T>(
        &self,
        (adapter, pass): (&Adapter, BreakerPass),
        settings: &BreakerSettings,
        answer: &Result<T, AdapterError>,
        is_narrowed: bool,
    ) {
        let Some(breaker) = adapter.breaker() else { return };
        let outcome = service_outcome(answer, is_narrowed);
        if let Some(change) = breaker.report(settings, pass, outcome, Instant::now) {
            self.incidents.report(&Incident::of_circuit(adapter.adapter_id(), &change, None));
        }
    }

    /// Makes the call in its slot, and uses up the permit. The host calls `slow` when the call takes its time.
    pub(crate) async fn call(
        &self,
        permit: Permit<'_>,
        mut slot: CallSlot,
        patience: Patience<'_>,
        slow: impl FnOnce(),
    ) -> Answered {
        let pass = slot.take_pass();
        // Waiting for a slot does not shorten the call; only the run's own time goes on.
        let from = Instant::now();
        let (limit, settings) = self.limits_of(permit.adapter().adapter_id());
        let time = patience.time_from(from, limit);
        let is_narrowed = time < permit.timeout().unwrap_or(limit);
        let request = request_text(&permit, patience, time);
        let adapter = permit.adapter().clone();
        let dry_run = permit.is_dry_run();
        let operation = permit.into_operation();
        let (answer, mut answered) = oneshot::channel();
        let done = move |text| {
            // The slot is free when the adapter is done, not when the caller stops waiting.
            drop(slot);
            drop(answer.send(text));
        };
        let started = if dry_run {
            adapter.start_simulated(patience.call_id, &request, done)
        } else if adapter.blocks() {
            let (adapter, call_id) = (adapter.clone(), patience.call_id.to_owned());
            let start = move || drop(adapter.start_text(&call_id, &request, done));
            drop(self.runtime.spawn_blocking(start));
            Started::Here
        } else {
            adapter.start_text(patience.call_id, &request, done)
        };
        // Most calls in this process are over before anyone could look at the clock.
        let (answer, by_host) = match answered.try_recv() {
            Ok(answer) => (answer, false),
            Err(TryRecvError::Closed) => (Err(lost()), true),
            Err(TryRecvError::Empty) => {
                Box::pin(wait((&adapter, &started), &mut answered, time, patience, slow)).await
            }
        };
        let time = from.elapsed();
        if !dry_run {
            if let (Err(error), Some(operation), false) = (&answer, &operation, by_host) {
                count_undeclared(&adapter, operation, error);
            }
            self.report((&adapter, pass), &settings, &answer, is_narrowed);
        }
        match answer {
            Ok(loader::Answered { text, report }) => {
                Answered { answer: read_output(&text), time, report }
            }
            Err(error) => Answered { answer: Err(error), time, report: None },
        }
    }
}

impl Patience<'_> {
    /// Returns how long a call may take that begins now.
    fn time_from(&self, now: Instant, limit: Duration) -> Duration {
        time_from(now, limit, self.step, self.run)
    }
}

/// Returns the time from now on of a step in a run. Without a time of its own, the step has the limit.
fn time_from(
    now: Instant,
    limit: Duration,
    step: Option<Duration>,
    run: Option<Instant>,
) -> Duration {
    let remaining = run.map(|end| end.saturating_duration_since(now));
    step.unwrap_or(limit).min(remaining.unwrap_or(Duration::MAX))
}

/// A timer cannot be set further ahead.
const FOREVER: Duration = Duration::from_secs(86_400 * 365);

type Answer = Result<loader::Answered, AdapterError>;

/// Counts a failure that an adapter returned and its contract does not list for the operation.
fn count_undeclared(adapter: &Adapter, operation: &KeptOperation, error: &AdapterError) {
    let (operation, declared) = (operation.name.as_str(), &operation.failure_codes);
    let code = error.code.as_str();
    if !declared.contains(code) && adapter.count_undeclared_failure(operation, code) {
        let adapter_id = adapter.adapter_id();
        tracing::warn!(adapter_id, operation, code, "the contract does not list this failure");
    }
}

/// Asks the circuit breaker of an adapter whether a call may be made. The quarantine of an adapter
/// says more than an open circuit.
fn breaker_pass(
    adapter: &Adapter,
    settings: &BreakerSettings,
    kind: Option<CallKind>,
) -> Result<BreakerPass, AdapterError> {
    let (Some(breaker), Some(kind)) = (adapter.breaker(), kind) else {
        return Ok(BreakerPass::default());
    };
    match breaker.admit(settings, kind, Instant::now) {
        Ok(pass) => Ok(pass),
        Err(_) if adapter.is_quarantined() => Ok(BreakerPass::default()),
        Err(open) => Err(circuit_open(adapter.adapter_id(), &open)),
    }
}

/// Waits for an answer, and gives up when the time is over or the caller does not want it any more. Says whether this host
/// gave up.
async fn wait(
    (adapter, started): (&Adapter, &Started),
    answered: &mut oneshot::Receiver<Answer>,
    time: Duration,
    patience: Patience<'_>,
    slow: impl FnOnce(),
) -> (Answer, bool) {
    let deadline = tokio::time::Instant::now() + time.min(FOREVER);
    let soon = deadline.min(tokio::time::Instant::now() + SLOW);
    let first = tokio::select! {
        answer = &mut *answered => return received(answer),
        () = tokio::time::sleep_until(soon) => None,
        () = patience.cancelled.notified() => Some(cancelled()),
    };
    slow();
    let why = match first {
        Some(why) => why,
        None => tokio::select! {
            answer = &mut *answered => return received(answer),
            () = tokio::time::sleep_until(deadline) => timed_out(time),
            () = patience.cancelled.notified() => cancelled(),
        },
    };
    adapter.cancel(patience.call_id);
    // What it says now is late, but tells whether it still runs.
    let stopped = tokio::time::timeout(GRACE, answered).await.is_ok();
    if !stopped {
        started.abandon();
    }
    (Err(why.details(serde_json::json!({ "stopped": stopped }))), true)
}

/// Returns an answer that came, and that this host did not give up.
fn received(answer: Result<Answer, oneshot::error::RecvError>) -> (Answer, bool) {
    answer.map_or_else(|_| (Err(lost()), true), |answer| (answer, false))
}

/// After so long a wait, what is recorded so far is made visible to others.
const SLOW: Duration = Duration::from_millis(50);

fn lost() -> AdapterError {
    AdapterError::bug("the call ended without an answer")
}

fn timed_out(time: Duration) -> AdapterError {
    let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    AdapterError::operational(code::TIMEOUT, format!("no answer after {timeout_ms} milliseconds"))
        .details(serde_json::json!({ "timeout_ms": timeout_ms }))
}

/// The code of a call that an open circuit rejected.
pub(crate) const CIRCUIT_OPEN: &str = "CIRCUIT_OPEN";

fn circuit_open(adapter_id: &str, open: &OpenCircuit) -> AdapterError {
    let OpenCircuit { failures, code, left } = open;
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
    let message = format!(
        "the circuit of adapter '{adapter_id}' is open after {failures} failures in a row; the last: {code}"
    );
    AdapterError::operational(CIRCUIT_OPEN, message).details(serde_json::json!({
        "called": false, "failures": failures, "last_error_code": code, "retry_after_ms": left,
    }))
}

fn cancelled() -> AdapterError {
    AdapterError::operational(code::CANCELLED, "the run was cancelled")
}

/// Writes the request as it crosses the ABI, with the arguments in the order given.
fn request_text(permit: &Permit<'_>, patience: Patience<'_>, time: Duration) -> String {
    let (tool, method, args) = permit.call();
    let mut text = String::with_capacity(512);
    text.push_str("{\"tool\":");
    json::write_canonical_str(&mut text, tool);
    text.push_str(",\"method\":");
    json::write_canonical_str(&mut text, method);
    text.push_str(",\"args\":");
    json::write_compact_object(&mut text, args);
    if let Some(interaction) = permit.interaction() {
        text.push_str(",\"interaction\":");
        json::write_compact_object(&mut text, interaction);
    }
    if let Some(grants) = permit.grants() {
        text.push_str(",\"grants\":");
        json::write_canonical(&mut text, grants);
    }
    text.push_str(",\"call_id\":");
    json::write_canonical_str(&mut text, patience.call_id);
    if let Some(trace) = patience.trace {
        // Writing to a string does not fail.
        let _ = write!(text, ",\"traceparent\":\"{trace}\"");
    }
    if permit.is_dry_run() {
        text.push_str(",\"dry_run\":true");
    }
    // Rounded up: an adapter does not give up before its host does.
    let _ = write!(text, ",\"deadline_ms\":{}}}", time.as_micros().div_ceil(1000));
    text
}

/// Reads the output out of an answer as it crossed the ABI.
fn read_output(text: &str) -> Result<Object, AdapterError> {
    let limits = Limits { bytes: usize::MAX, values: usize::MAX, ..Limits::REQUEST };
    let answer = json::parse(text.as_bytes(), limits).map_err(|error| {
        AdapterError::bug(format!("the adapter's answer cannot be recorded: {error}"))
    })?;
    match answer.into_object().and_then(|mut answer| answer.remove("output")) {
        Some(Value::Object(output)) => Ok(output),
        Some(_) => Err(AdapterError::bug("the adapter's output is not an object")),
        None => Err(AdapterError::bug("the adapter's answer is not the answer of the ABI")),
    }
}
