//! An adapter as the host holds it: admitted, and callable.

mod built_in;
mod constructors;
mod refusal;
mod simulated;
mod unconfined;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{Answer, CompletionBox, CompletionV1, CompletionV1_TO};
use nexus_router_sdk::{AdapterError, Capability, Object, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use built_in::Answered;
use built_in::null_output;
use refusal::{CRASHED, QUARANTINED, UNAVAILABLE, of_worker};

use super::description::Description;
use super::library::{Instance, text_of};
use super::placement::Confined;
use super::undeclared::UndeclaredCodes;
use crate::breaker::Breaker;
use crate::digest::Digest;
use crate::envoy::{self, Envoy};
use crate::grant::Feature;
use crate::worker::{self, Team, Ticket};

/// A longer answer is refused. Read into values, it may take a hundred times its length.
pub(super) const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A loaded adapter. Cheap to clone; all clones are the same instance.
#[derive(Clone)]
pub struct Adapter {
    inner: Arc<Inner>,
}

struct Inner {
    factory_ref: String,
    description: Description,
    backing: Backing,
    confined: Confined,
    /// Workers that simulate calls, without network or writes.
    simulation: Option<Team>,
    undeclared: Arc<UndeclaredCodes>,
    breaker: Breaker,
}

enum Backing {
    Library {
        instance: Instance,
        digest: Digest,
    },
    Team {
        team: Team,
        digest: Digest,
    },
    Envoy(Box<Envoy>),
    /// The kernel lacks this, so it never runs.
    Unconfined {
        missing: Vec<Feature>,
        digest: Digest,
    },
    Null,
}

/// One call to an adapter.
#[derive(Clone, Debug, Serialize)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The method of the tool.
    pub method: &'a str,
    /// The arguments.
    pub args: &'a Object,
    /// A name for the call, by which it can be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<&'a str>,
    /// How long the host will wait.
    #[serde(rename = "deadline_ms", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "as_milliseconds")]
    pub time: Option<Duration>,
    /// Whether the adapter must only pretend.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl<'a> Call<'a> {
    /// Makes a call without a name or a time limit.
    #[must_use]
    pub fn new(tool: &'a str, method: &'a str, args: &'a Object) -> Self {
        Self { tool, method, args, call_id: None, time: None, dry_run: false }
    }

    /// Returns the request as it crosses the ABI. Texts and JSON values can always be written.
    pub(super) fn request(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn as_milliseconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let milliseconds = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    milliseconds.serialize(serializer)
}

impl Adapter {
    /// The ref under which the built-in adapter is listed and loaded.
    pub const NULL_REF: &str = "builtin:null";

    /// Says whether this is the very same instance.
    #[must_use]
    pub fn is_same_instance(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the identifier of the instance.
    #[must_use]
    pub fn adapter_id(&self) -> &str {
        &self.inner.description.adapter_id
    }

    /// Returns the type identifier.
    #[must_use]
    pub fn adapter_kind(&self) -> &str {
        &self.inner.description.adapter_kind
    }

    /// Returns the declared capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &BTreeSet<Capability> {
        &self.inner.description.capabilities
    }

    /// Says whether a started call needs no thread while it waits.
    #[must_use]
    pub fn starts_at_once(&self) -> bool {
        self.inner.description.starts_at_once
    }

    /// Says whether it has a catalogue.
    #[must_use]
    pub fn has_catalog(&self) -> bool {
        self.inner.description.catalog
    }

    /// Says whether starting a call takes the thread until the call is over.
    pub(crate) fn blocks(&self) -> bool {
        let here = matches!(self.inner.backing, Backing::Library { .. } | Backing::Envoy(_));
        here && !self.starts_at_once()
    }

    /// Returns where it runs, and how it is confined there.
    #[must_use]
    pub fn confined(&self) -> &Confined {
        &self.inner.confined
    }

    /// Tells how its workers do, if it has any.
    #[must_use]
    pub fn workers(&self) -> Option<Workers> {
        let Backing::Team { team, .. } = &self.inner.backing else { return None };
        let worker::Report { state, processes, restarts, last_end, left } = team.report();
        Some(Workers { state, processes, restarts, last_end, left })
    }

    /// Returns how often it returned each error code that its manifest does not list. Beyond a bound, codes are
    /// counted together.
    #[must_use]
    pub fn undeclared_codes(&self) -> BTreeMap<String, u64> {
        self.inner.undeclared.counts()
    }

    /// Returns how often each operation of its interface contract failed with each code that the contract does not
    /// list. Beyond a bound, codes are counted together.
    #[must_use]
    pub fn undeclared_failures(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        self.inner.undeclared.of_operations()
    }

    /// Counts an error that it returned, with a code that its contract does not list for the operation. Returns whether
    /// that is the first one of its kind. Codes of the boundary and of the router do not count.
    pub(crate) fn count_undeclared_failure(&self, operation: &str, code: &str) -> bool {
        let own = ![CRASHED, UNAVAILABLE, QUARANTINED].contains(&code);
        own && self.inner.undeclared.count_failure(operation, code)
    }

    /// Returns the circuit breaker of the service behind it. What runs in the router without a service has none.
    #[must_use]
    pub fn breaker(&self) -> Option<&Breaker> {
        match &self.inner.backing {
            Backing::Library { .. } | Backing::Team { .. } => Some(&self.inner.breaker),
            Backing::Envoy(_) | Backing::Unconfined { .. } | Backing::Null => None,
        }
    }

    /// Returns whether it is in quarantine, and so rejects calls itself.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.workers().is_some_and(|workers| workers.state == "quarantined")
    }

    /// Lets it out of quarantine. False if it was not in it.
    pub fn release(&self) -> bool {
        self.release_by(None)
    }

    /// As [`release`](Self::release), in the name of somebody.
    pub fn release_by(&self, name: Option<&str>) -> bool {
        let simulating = self.inner.simulation.as_ref().is_some_and(|team| team.release(name));
        match &self.inner.backing {
            Backing::Team { team, .. } => team.release(name) || simulating,
            _ => simulating,
        }
    }

    /// Returns the ref that it was loaded from.
    #[must_use]
    pub fn factory_ref(&self) -> &str {
        &self.inner.factory_ref
    }

    /// Returns the digest of its library; the built-in adapter has none.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match &self.inner.backing {
            Backing::Library { digest, .. }
            | Backing::Team { digest, .. }
            | Backing::Unconfined { digest, .. } => Some(*digest),
            Backing::Envoy(_) | Backing::Null => None,
        }
    }

    /// Carries out a call on this thread.
    ///
    /// # Errors
    /// The adapter's error; a bug error when the answer is not what the ABI says; the operational error
    /// `OUTPUT_TOO_LARGE` when it is too long.
    pub fn call(&self, call: &Call<'_>) -> Result<Object, AdapterError> {
        match &self.inner.backing {
            Backing::Library { instance, .. } => {
                instance.call(&call.request(), |answer| self.inner.undeclared.read_answer(answer))
            }
            Backing::Team { .. } => {
                let (answer, answered) = std::sync::mpsc::sync_channel(1);
                self.start(call, move |result| drop(answer.send(result)));
                answered.recv().unwrap_or_else(|_| Err(AdapterError::bug("the call was lost")))
            }
            Backing::Envoy(envoy) => {
                envoy.call(&call.request()).and_then(|answered| read_answer(Ok(&answered.text)))
            }
            Backing::Unconfined { missing, .. } => Err(envoy::lacking(missing)),
            Backing::Null => Ok(null_output(call)),
        }
    }

    /// Starts a call; `done` gets the answer, perhaps on another thread, perhaps before this returns. It must
    /// not wait: others' answers may come on the same thread.
    pub fn start(
        &self,
        call: &Call<'_>,
        done: impl FnOnce(Result<Object, AdapterError>) + Send + 'static,
    ) {
        let undeclared = Arc::clone(&self.inner.undeclared);
        match &self.inner.backing {
            Backing::Envoy(_) | Backing::Unconfined { .. } => done(self.call(call)),
            Backing::Null => done(Ok(null_output(call))),
            Backing::Library { instance, .. } => {
                let done = Box::new(move |answer: Result<&str, &str>| {
                    done(undeclared.read_answer(answer));
                });
                instance.start(&call.request(), completion(done));
            }
            Backing::Team { team, .. } => {
                let done = Box::new(move |answer| {
                    done(of_worker(answer, &undeclared).and_then(|text| read_output(&text)));
                });
                drop(team.call(call.call_id.unwrap_or_default(), &call.request(), done));
            }
        }
    }

    /// Starts a call that is text already; `done` gets the answer's text, as it crossed the ABI.
    pub(crate) fn start_text(
        &self,
        call_id: &str,
        request: &str,
        done: impl FnOnce(Result<Answered, AdapterError>) + Send + 'static,
    ) -> Started {
        let undeclared = Arc::clone(&self.inner.undeclared);
        match &self.inner.backing {
            Backing::Null => done(Err(AdapterError::bug("the built-in adapter has no calls"))),
            Backing::Library { instance, .. } => {
                let done = Box::new(move |answer: Result<&str, &str>| {
                    done(match answer {
                        Ok(text) => checked_length(text).map(|()| text.to_owned().into()),
                        Err(error) => Err(undeclared.read_error(error)),
                    });
                });
                instance.start(request, completion(done));
            }
            Backing::Envoy(envoy) => done(envoy.call(request).map(Answered::from)),
            Backing::Unconfined { missing, .. } => done(Err(envoy::lacking(missing))),
            Backing::Team { team, .. } => {
                let done = Box::new(move |answer| {
                    done(of_worker(answer, &undeclared).map(Answered::from));
                });
                return Started::InWorker(team.call(call_id, request, done));
            }
        }
        Started::Here
    }

    /// Asks a call to end early. An unknown id is no error.
    pub fn cancel(&self, call_id: &str) {
        match &self.inner.backing {
            Backing::Library { instance, .. } => instance.cancel(call_id),
            Backing::Team { team, .. } => team.cancel(call_id),
            Backing::Envoy(envoy) => envoy.cancel(call_id),
            Backing::Unconfined { .. } | Backing::Null => {}
        }
        if let Some(team) = &self.inner.simulation {
            team.cancel(call_id);
        }
    }
}

/// A call that was started.
pub(crate) enum Started {
    /// In this process.
    Here,
    /// In a worker.
    InWorker(Ticket),
}

impl Started {
    /// Gives up on a call that did not end when it was told to. In a worker it is ended with it; in this
    /// process nothing can be done.
    pub(crate) fn abandon(&self) {
        if let Self::InWorker(ticket) = self {
            ticket.abandon();
        }
    }
}

/// How the workers of an adapter do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// `idle`, `starting`, `serving`, `waiting` or `quarantined`.
    pub state: &'static str,
    /// The ids of the processes that serve.
    pub processes: Vec<u32>,
    /// Workers that were started after another had ended.
    pub restarts: u64,
    /// How the last one ended.
    pub last_end: Option<String>,
    /// How long no worker is started.
    pub left: Option<Duration>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Backing::Library { instance, .. } = &self.backing {
            instance.shutdown();
        }
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter")
            .field("adapter_id", &self.adapter_id())
            .field("adapter_kind", &self.adapter_kind())
            .field("factory_ref", &self.factory_ref())
            .finish_non_exhaustive()
    }
}

/// Reads an answer as it crossed the ABI.
pub(super) fn read_answer(answer: Result<&str, &str>) -> Result<Object, AdapterError> {
    answer.map_err(read_error).and_then(read_output)
}

pub(super) fn read_output(text: &str) -> Result<Object, AdapterError> {
    #[derive(Deserialize)]
    struct Envelope {
        output: Value,
    }
    checked_length(text)?;
    match serde_json::from_str::<Envelope>(text) {
        Ok(Envelope { output: Value::Object(output) }) => Ok(output),
        Ok(_) => Err(AdapterError::bug("the adapter's output is not an object")),
        Err(error) => Err(AdapterError::bug(format!(
            "the adapter's answer is not the answer of the ABI: {error}"
        ))),
    }
}

fn checked_length(text: &str) -> Result<(), AdapterError> {
    if text.len() <= MAX_ANSWER {
        return Ok(());
    }
    Err(too_large(text, MAX_ANSWER))
}

/// Returns the error for an answer that is too long to pass on. Its digest shows which answer the call gave.
pub(super) fn too_large(text: &str, limit: usize) -> AdapterError {
    let message = format!("the answer has {} bytes; the limit is {limit}", text.len());
    let sha256 = crate::digest::Digest::of(text.as_bytes()).to_string();
    AdapterError::operational(code::OUTPUT_TOO_LARGE, message)
        .details(serde_json::json!({ "bytes": text.len(), "sha256": sha256 }))
}

/// Reads the error text of an adapter; a text that is none is a bug of the adapter.
pub(super) fn read_error(text: &str) -> AdapterError {
    serde_json::from_str(text).unwrap_or_else(|_| {
        AdapterError::bug("the adapter's error is not the error object of the ABI")
    })
}

type Done = Box<dyn FnOnce(Result<&str, &str>) + Send>;

/// Makes the receiver of an answer, as it crosses the ABI.
pub(super) fn completion(done: Done) -> CompletionBox {
    CompletionV1_TO::from_value(Receiver { done: Some(done) }, TD_Opaque)
}

/// The host's end of a started call.
struct Receiver {
    done: Option<Done>,
}

impl Receiver {
    fn answer(&mut self, answer: Result<&str, &str>) {
        let Some(done) = self.done.take() else { return };
        // The adapter calls this; a panic of the host's own code must not unwind into it.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(answer))).is_err() {
            tracing::error!("the host panicked while it took an answer");
        }
    }
}

impl CompletionV1 for Receiver {
    fn complete(&mut self, answer: Answer) {
        self.answer(text_of(&answer));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Written out: this is also what an adapter's own error looks like.
        self.answer(Err(
            r#"{"kind":"bug","code":"BUG_ERROR","message":"the adapter dropped a call without an answer"}"#,
        ));
    }
}
