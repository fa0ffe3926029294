//! What an author implements: the adapter, and the factory that makes it.

use serde::de::DeserializeOwned;

use crate::{AdapterError, CallContext, Capability, Completion, Host, Object, code, redact};

/// One configured instance that carries out calls. Many calls may be under way at once.
pub trait Adapter: Send + Sync + 'static {
    /// Returns the stable identifier of this instance.
    fn adapter_id(&self) -> &str;

    /// Returns the type identifier, such as `http`; the manifest's `kind` must equal it.
    fn adapter_kind(&self) -> &str;

    /// Returns the declared capabilities; the manifest's must be the same set.
    fn capabilities(&self) -> &[Capability];

    /// Carries out one call.
    ///
    /// # Errors
    /// Returns an operational error for an expected failure and a bug error for a broken invariant.
    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError>;

    /// Carries out one call without holding the caller's thread, answering through `done`.
    ///
    /// The default runs [`call`](Self::call) on the calling thread. An adapter that can wait without a
    /// thread implements this, and has `call` [`wait`](crate::wait) for it.
    fn start(
        &self,
        context: CallContext,
        tool: String,
        method: String,
        args: Object,
        done: Completion,
    ) {
        done.complete(self.call(&context, &tool, &method, args));
    }

    /// Lets go of what the adapter holds; no call follows.
    fn shutdown(&self) {}
}

/// A function that makes an adapter: `fn(adapter_id, config)`, or `fn(adapter_id, config, host)` for
/// one that wants to log outside of calls. `config` is any type that serde can read.
pub trait Factory<Marker> {
    /// The adapter that the function makes.
    type Adapter: Adapter;

    /// Reads the configuration and calls the function.
    ///
    /// # Errors
    /// Returns `CONFIG_REJECTED` when the configuration does not fit, or the function's own error.
    fn make(
        &self,
        adapter_id: Option<&str>,
        config: &str,
        host: Host,
    ) -> Result<Self::Adapter, AdapterError>;
}

impl<F, C, A> Factory<(C,)> for F
where
    F: Fn(Option<&str>, C) -> Result<A, AdapterError>,
    C: DeserializeOwned,
    A: Adapter,
{
    type Adapter = A;

    fn make(&self, adapter_id: Option<&str>, config: &str, _: Host) -> Result<A, AdapterError> {
        self(adapter_id, read_config(config)?)
    }
}

impl<F, C, A> Factory<(C, Host)> for F
where
    F: Fn(Option<&str>, C, Host) -> Result<A, AdapterError>,
    C: DeserializeOwned,
    A: Adapter,
{
    type Adapter = A;

    fn make(&self, adapter_id: Option<&str>, config: &str, host: Host) -> Result<A, AdapterError> {
        self(adapter_id, read_config(config)?, host)
    }
}

/// Reads the configuration. The text of serde's error may quote a value, so it is redacted.
fn read_config<C: DeserializeOwned>(config: &str) -> Result<C, AdapterError> {
    serde_json::from_str(config).map_err(|error| {
        AdapterError::operational(code::CONFIG_REJECTED, redact::text(&error.to_string()))
    })
}
