//! What adapters tell the host while they work, and where it goes.

use std::sync::{Arc, OnceLock};

use nexus_router_abi::abi_stable::std_types::RStr;
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{Answer, HostBox, HostV1, HostV1_TO};
use nexus_router_sdk::{AdapterError, Object, code};
use serde::{Deserialize, Serialize};

use crate::worker::{Kind, Wire};

/// Longer notices are dropped: a log line is no way to move data.
const MAX_NOTICE: usize = 1024 * 1024;

/// One thing that an adapter tells the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// A line for the log.
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The line.
        message: String,
        /// What belongs to it.
        #[serde(default)]
        fields: Object,
        /// The call that it belongs to, if any.
        #[serde(default)]
        call_id: Option<String>,
    },
    /// How far a call has come.
    Progress {
        /// The part that is done.
        done: f64,
        /// The whole, if it is known.
        #[serde(default)]
        total: Option<f64>,
        /// What is being done.
        #[serde(default)]
        message: String,
        /// The call that it belongs to, if it has an id.
        #[serde(default)]
        call_id: Option<String>,
    },
    /// Text that a call produced for people.
    Output {
        /// The text.
        text: String,
        /// The call that it belongs to, if it has an id.
        #[serde(default)]
        call_id: Option<String>,
    },
    /// The catalogue is not what it was.
    CatalogChanged {},
    /// A resource is not what it was.
    ResourceUpdated {
        /// The resource.
        uri: String,
    },
}

impl Notice {
    /// Returns the call that it belongs to, if any.
    #[must_use]
    pub fn call_id(&self) -> Option<&str> {
        match self {
            Self::Log { call_id, .. }
            | Self::Progress { call_id, .. }
            | Self::Output { call_id, .. } => call_id.as_deref(),
            Self::CatalogChanged {} | Self::ResourceUpdated { .. } => None,
        }
    }
}

/// A receiver of notices: it gets the id of the adapter, and what it tells.
pub type NoticeSink = Arc<dyn Fn(&str, Notice) + Send + Sync>;

/// Returns the sink that writes notices to the log. Each line has the adapter as its field `adapter_id`.
#[must_use]
pub fn log_notices() -> NoticeSink {
    Arc::new(|adapter_id, notice| match notice {
        Notice::Log { level, message, fields, call_id } => {
            let fields = serde_json::Value::Object(fields);
            match level.as_str() {
                "error" => tracing::error!(adapter_id, call_id, %fields, "adapter: {message}"),
                "warn" => tracing::warn!(adapter_id, call_id, %fields, "adapter: {message}"),
                "info" => tracing::info!(adapter_id, call_id, %fields, "adapter: {message}"),
                _ => tracing::debug!(adapter_id, call_id, %fields, "adapter: {message}"),
            }
        }
        Notice::Progress { done, total, message, call_id } => {
            tracing::debug!(adapter_id, call_id, done, total, message, "adapter progress");
        }
        Notice::Output { text, call_id } => {
            tracing::info!(adapter_id, call_id, text, "adapter output");
        }
        Notice::CatalogChanged {} => {
            tracing::debug!(adapter_id, "an adapter's catalogue changed");
        }
        Notice::ResourceUpdated { uri } => tracing::debug!(adapter_id, uri, "a resource changed"),
    })
}

/// Reads a notice of an adapter, if its id is known, as it crossed the ABI; none if it is not understood.
pub(super) fn read(adapter_id: Option<&str>, text: &[u8]) -> Option<Notice> {
    match serde_json::from_slice(text) {
        Ok(notice) => Some(notice),
        Err(error) => {
            tracing::debug!(adapter_id, %error, "adapter notice dropped: not understood");
            None
        }
    }
}

/// Makes the host that an adapter is given in a process of its own: what it tells and asks goes on as it is.
pub(super) fn forwarding_host(wire: Wire) -> HostBox {
    HostV1_TO::from_value(ForwardingHost(wire), TD_Opaque)
}

struct ForwardingHost(Wire);

impl HostV1 for ForwardingHost {
    fn notify(&self, notice: RStr<'_>) {
        // Whoever is told drops what is too long; it need not be sent.
        if notice.len() <= MAX_NOTICE {
            drop(self.0.send(Kind::Notice, 0, notice.as_str().as_bytes()));
        }
    }

    fn ask(&self, request: RStr<'_>) -> Answer {
        match self.0.ask(request.as_str()) {
            Some(Ok(answer)) => Answer::ROk(answer.into()),
            Some(Err(error)) => Answer::RErr(error.into()),
            None => unanswered(),
        }
    }
}

/// Makes the host that an adapter is given in this process.
pub(super) fn host(adapter: Arc<AdapterName>, sink: NoticeSink) -> HostBox {
    HostV1_TO::from_value(SinkHost { adapter, sink }, TD_Opaque)
}

/// Name under which an adapter's notices are told: what it is loaded as until its id is known.
pub(super) struct AdapterName {
    label: String,
    adapter_id: OnceLock<String>,
}

impl AdapterName {
    pub(super) fn new(label: String) -> Arc<Self> {
        Arc::new(Self { label, adapter_id: OnceLock::new() })
    }

    /// Sets the id by which it describes itself. Only the first one counts.
    pub(super) fn set(&self, adapter_id: &str) {
        drop(self.adapter_id.set(adapter_id.to_owned()));
    }

    fn get(&self) -> &str {
        self.adapter_id.get().unwrap_or(&self.label)
    }
}

struct SinkHost {
    adapter: Arc<AdapterName>,
    sink: NoticeSink,
}

impl HostV1 for SinkHost {
    fn notify(&self, notice: RStr<'_>) {
        let (adapter_id, text) = (self.adapter.get(), notice.as_str());
        if text.len() > MAX_NOTICE {
            tracing::warn!(adapter_id, bytes = text.len(), "adapter notice dropped: too long");
            return;
        }
        // A panic of the host's own sink must not unwind into the adapter.
        if let Some(notice) = read(Some(adapter_id), text.as_bytes()) {
            let told = std::panic::AssertUnwindSafe(|| (self.sink)(adapter_id, notice));
            if std::panic::catch_unwind(told).is_err() {
                tracing::error!(adapter_id, "the host's notice sink panicked");
            }
        }
    }

    fn ask(&self, _: RStr<'_>) -> Answer {
        unanswered()
    }
}

fn unanswered() -> Answer {
    let error = AdapterError::operational(code::UNSUPPORTED, "this host answers no requests");
    Answer::RErr(serde_json::to_string(&error).unwrap_or_default().into())
}
