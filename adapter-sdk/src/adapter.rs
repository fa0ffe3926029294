//! What an author implements: the adapter, and the factory that makes it.

use serde::de::DeserializeOwned;

use crate::{
    AdapterError, CallContext, Capability, Catalog, Completion, Host, Object, Passive, code, redact,
};

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

    /// Says whether [`start`](Self::start) returns at once and waits without a thread.
    ///
    /// A host starts calls of such an adapter on its own threads, thousands at a time; calls of any other
    /// get a thread each. Say so only if `start` never blocks.
    fn starts_at_once(&self) -> bool {
        false
    }

    /// Says whether the adapter has a [`catalog`](Self::catalog). Must not wait.
    fn has_catalog(&self) -> bool {
        false
    }

    /// Returns what the adapter offers. The router asks when the adapter was loaded, and again after
    /// [`Host::catalog_changed`].
    ///
    /// # Errors
    /// When it cannot be known at present; the router asks again later.
    fn catalog(&self, context: &CallContext) -> Result<Catalog, AdapterError> {
        let _ = context;
        Ok(Catalog::default())
    }

    /// Declares the adapter passive: an operation of it is a pure function of its arguments. The router holds
    /// it to that when it is validated.
    fn passive(&self) -> Option<Passive> {
        None
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

/// Reads the configuration.
fn read_config<C: DeserializeOwned>(config: &str) -> Result<C, AdapterError> {
    serde_json::from_str(config).map_err(|error| {
        AdapterError::operational(code::CONFIG_REJECTED, without_values(&error.to_string()))
    })
}

/// Removes the values that serde quotes in its messages: a secret may stand in the wrong place. Names of
/// keys stay; they stand in backticks, and the values that do follow a word for their type.
fn without_values(message: &str) -> String {
    let mut shown = message.to_owned();
    for (before, after) in [
        ("string \"", "\", expected"),
        ("integer `", "`, expected"),
        ("floating point `", "`, expected"),
    ] {
        let start = shown.find(before).map(|index| index + before.len());
        let end = shown.rfind(after);
        if let (Some(start), Some(end)) = (start, end)
            && start <= end
        {
            shown.replace_range(start..end, redact::REDACTED);
        }
    }
    redact::text(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_repeated_and_keys_are() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only read")]
        struct Config {
            limit: f64,
            name: Option<String>,
        }
        let message = |config| read_config::<Config>(config).unwrap_err().message;
        for config in [r#"{"limit": "hunter22"}"#, r#"{"limit": "a\", expected hunter22"}"#] {
            let shown = message(config);
            assert!(!shown.contains("hunter22") && shown.contains("expected f64"), "{shown}");
        }
        let shown = message(r#"{"limit": 1, "name": 12345678}"#);
        assert!(!shown.contains("12345678") && shown.contains("expected a string"), "{shown}");
        let shown = message(r#"{"limit": 1, "nmae": ""}"#);
        assert!(shown.contains("unknown field `nmae`"), "{shown}");
    }
}
