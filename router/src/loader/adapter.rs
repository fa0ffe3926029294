//! An adapter as the host holds it: admitted, and callable.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{Answer, CompletionV1, CompletionV1_TO};
use nexus_router_sdk::{AdapterError, Capability, Object, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::description::Description;
use super::library::{Instance, text_of};
use crate::digest::Digest;

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
}

enum Backing {
    Library { instance: Instance, digest: Digest },
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

    /// Returns the built-in adapter that stands in for dry runs and can do nothing else.
    #[must_use]
    pub fn null() -> Self {
        let description = Description {
            adapter_id: "null".to_owned(),
            adapter_kind: "null".to_owned(),
            capabilities: BTreeSet::from([Capability::DryRun]),
            starts_at_once: true,
        };
        Self {
            inner: Arc::new(Inner {
                factory_ref: Self::NULL_REF.to_owned(),
                description,
                backing: Backing::Null,
            }),
        }
    }

    pub(super) fn of_library(
        factory_ref: &str,
        description: Description,
        instance: Instance,
        digest: Digest,
    ) -> Self {
        let backing = Backing::Library { instance, digest };
        let factory_ref = factory_ref.to_owned();
        Self { inner: Arc::new(Inner { factory_ref, description, backing }) }
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

    /// Returns the ref that it was loaded from.
    #[must_use]
    pub fn factory_ref(&self) -> &str {
        &self.inner.factory_ref
    }

    /// Returns the digest of its library; the built-in adapter has none.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match &self.inner.backing {
            Backing::Library { digest, .. } => Some(*digest),
            Backing::Null => None,
        }
    }

    /// Carries out a call on this thread.
    ///
    /// # Errors
    /// The adapter's error; a bug error when the answer is not what the ABI says; the operational error
    /// `OUTPUT_TOO_LARGE` when it is too long.
    pub fn call(&self, call: &Call<'_>) -> Result<Object, AdapterError> {
        match &self.inner.backing {
            Backing::Library { instance, .. } => instance.call(&call.request(), read_answer),
            Backing::Null => Ok(null_output(call)),
        }
    }

    /// Starts a call; `done` gets the answer, perhaps on another thread, perhaps before this returns.
    pub fn start(
        &self,
        call: &Call<'_>,
        done: impl FnOnce(Result<Object, AdapterError>) + Send + 'static,
    ) {
        let Backing::Library { instance, .. } = &self.inner.backing else {
            return done(Ok(null_output(call)));
        };
        let done = Box::new(|answer: Result<&str, &str>| done(read_answer(answer)));
        let receiver = Receiver { done: Some(done) };
        instance.start(&call.request(), CompletionV1_TO::from_value(receiver, TD_Opaque));
    }

    /// Starts a call that is text already; `done` gets the answer's text, as it crossed the ABI.
    pub(crate) fn start_text(
        &self,
        request: &str,
        done: impl FnOnce(Result<String, AdapterError>) + Send + 'static,
    ) {
        let Backing::Library { instance, .. } = &self.inner.backing else {
            return done(Err(AdapterError::bug("the built-in adapter has no calls")));
        };
        let done = Box::new(|answer: Result<&str, &str>| {
            done(match answer {
                Ok(text) => checked_length(text).map(|()| text.to_owned()),
                Err(error) => Err(read_error(error)),
            });
        });
        let receiver = Receiver { done: Some(done) };
        instance.start(request, CompletionV1_TO::from_value(receiver, TD_Opaque));
    }

    /// Asks a call to end early. An unknown id is no error.
    pub fn cancel(&self, call_id: &str) {
        if let Backing::Library { instance, .. } = &self.inner.backing {
            instance.cancel(call_id);
        }
    }
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

fn null_output(call: &Call<'_>) -> Object {
    let mut output = Object::new();
    output.insert("simulated".to_owned(), true.into());
    output.insert("tool".to_owned(), call.tool.into());
    output.insert("method".to_owned(), call.method.into());
    output
}

/// Reads an answer as it crossed the ABI.
pub(super) fn read_answer(answer: Result<&str, &str>) -> Result<Object, AdapterError> {
    #[derive(Deserialize)]
    struct Envelope {
        output: Value,
    }
    let text = answer.map_err(read_error)?;
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
    let message = format!("the answer has {} bytes; the limit is {MAX_ANSWER}", text.len());
    Err(AdapterError::operational(code::OUTPUT_TOO_LARGE, message))
}

/// Reads the error text of an adapter; a text that is none is a bug of the adapter.
pub(super) fn read_error(text: &str) -> AdapterError {
    serde_json::from_str(text).unwrap_or_else(|_| {
        AdapterError::bug("the adapter's error is not the error object of the ABI")
    })
}

type Done = Box<dyn FnOnce(Result<&str, &str>) + Send>;

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
