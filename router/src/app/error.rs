//! Why a shell gets no answer.

use std::path::{Path, PathBuf};

use crate::bundle::Place;
use crate::json::{Object, Value};
use crate::loader::AdapterLoadError;
use crate::{
    bundle, code, config, evidence, interface, notary, register, registry, request, router, seal,
    secret, signal, store, takeover, toolspec,
};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The router has none.
    #[error(transparent)]
    Router(#[from] router::Error),
    /// The request is not one.
    #[error(transparent)]
    Request(#[from] request::Error),
    /// The store has none.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A bundle is not one, or cannot be written.
    #[error(transparent)]
    Bundle(bundle::Error),
    /// A store of the Python router was not taken over.
    #[error(transparent)]
    Takeover(#[from] takeover::Error),
    /// An adapter did not load.
    #[error(transparent)]
    Load(#[from] AdapterLoadError),
    /// Two adapters have the same id, or the default one is not there.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// A tool names an adapter that is not there.
    #[error(transparent)]
    ToolSpec(#[from] toolspec::Error),
    /// The configuration does not fit its adapters.
    #[error(transparent)]
    Config(Box<config::Error>),
    /// A secret cannot be used.
    #[error("{place}")]
    Secret {
        /// Where it is wanted.
        place: String,
        /// Why.
        source: secret::Error,
    },
    /// An adapter is to keep a contract that is not there.
    #[error("adapter '{adapter_id}' is to keep the contract {interface_id}, and there is none")]
    UnknownContract {
        /// The adapter.
        adapter_id: String,
        /// The contract.
        interface_id: String,
    },
    /// An adapter's outputs are to be held to a signal contract that is not there.
    #[error("adapter '{adapter_id}' is to keep the signal contract {signal}, and there is none")]
    UnknownSignal {
        /// The adapter.
        adapter_id: String,
        /// The contract.
        signal: String,
        /// What was perhaps meant.
        meant: Option<String>,
    },
    /// An adapter may not ask for what a source of it says.
    #[error("source '{source_name}' of adapter '{adapter_id}' cannot be used: {why}")]
    Source {
        /// The adapter that would ask.
        adapter_id: String,
        /// The source.
        source_name: String,
        /// Why.
        why: String,
    },
    /// The signal contracts, an acceptance policy, the manifest or the document of the publisher cannot be used.
    #[error("{} cannot be used: {}", file.display(), first_signal(findings))]
    Signals {
        /// The file or the directory.
        file: PathBuf,
        /// Everything that is wrong.
        findings: Vec<signal::Finding>,
    },
    /// The directory of contracts cannot be read or written.
    #[error(transparent)]
    Shelf(#[from] interface::Error),
    /// The register of tools cannot be read or written.
    #[error(transparent)]
    Register(#[from] register::Error),
    /// There is no place for a store.
    #[error("there is no place for the store: neither XDG_STATE_HOME nor HOME is set")]
    NoPlace,
    /// A workspace overlaps with the router's own files.
    #[error(
        "{}adapter '{adapter_id}': workspace {} {overlap}",
        in_file(file.as_deref()),
        workspace.display()
    )]
    Misplaced {
        /// The configuration file.
        file: Option<PathBuf>,
        /// The adapter.
        adapter_id: String,
        /// The workspace.
        workspace: PathBuf,
        /// The own file.
        overlap: String,
    },
    /// There is no such tool.
    #[error("there is no tool '{id}'")]
    UnknownTool {
        /// The id.
        id: String,
        /// What was perhaps meant.
        meant: Option<&'static str>,
    },
    /// What is done cannot be sealed.
    #[error("nothing can be sealed: {message}")]
    Seal {
        /// Why.
        message: String,
        /// The remedy, if there is a better one than that of the code.
        hint: Option<&'static str>,
    },
    /// The log is not the one that the store knows, so it is not continued.
    #[error("nothing is sealed: {0}")]
    Stray(notary::Stray),
    /// It is too much at present.
    #[error("{0}")]
    Overloaded(&'static str),
    /// The request of a tool is not one.
    #[error("{message} (at {pointer:?})")]
    Tool {
        /// What is wrong.
        message: String,
        /// The JSON pointer of the value where it is wrong.
        pointer: String,
        /// The remedy.
        hint: String,
    },
}

impl From<seal::Error> for Error {
    fn from(error: seal::Error) -> Self {
        Self::Seal { message: full_text(&error), hint: Some(error.hint()) }
    }
}

impl From<evidence::KeepError> for Error {
    fn from(error: evidence::KeepError) -> Self {
        Self::Seal { message: full_text(&error), hint: None }
    }
}

impl From<notary::Error> for Error {
    fn from(error: notary::Error) -> Self {
        match error {
            notary::Error::Store(error) => Self::Store(error),
            notary::Error::Stray(stray) => Self::Stray(stray),
            notary::Error::Seal(error) => error.into(),
            other => Self::Seal { message: full_text(&other), hint: None },
        }
    }
}

impl From<bundle::Error> for Error {
    fn from(error: bundle::Error) -> Self {
        match error {
            // A store that fails says nothing about the bundle.
            bundle::Error::Store(error) => Self::Store(error),
            other => Self::Bundle(other),
        }
    }
}

/// Returns the beginning of a message about a file.
fn in_file(file: Option<&Path>) -> String {
    file.map(|file| format!("{}: ", file.display())).unwrap_or_default()
}

/// Tells the first finding about signals, and how many more there are.
fn first_signal(findings: &[signal::Finding]) -> String {
    let Some(signal::Finding { pointer, message, .. }) = findings.first() else {
        return String::new();
    };
    let place = if pointer.is_empty() { String::new() } else { format!(" (at {pointer:?})") };
    match findings.len() {
        1 => format!("{message}{place}"),
        all => format!("{message}{place}; and {} more", all - 1),
    }
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Router(error) => error.code(),
            Self::Request(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Bundle(error) => error.code(),
            Self::Takeover(error) => error.code(),
            Self::Load(error) => error.reason().code(),
            Self::Registry(error) => error.code(),
            Self::ToolSpec(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Secret { source, .. } => source.code(),
            Self::UnknownContract { .. } => "UNKNOWN_CONTRACT",
            Self::UnknownSignal { .. } => "UNKNOWN_SIGNAL_CONTRACT",
            Self::Source { .. } => "SOURCE_UNUSABLE",
            Self::Signals { .. } => "SIGNALS_UNUSABLE",
            Self::Shelf(_) => "CONTRACTS_UNREADABLE",
            Self::Register(_) => "REGISTER_UNREADABLE",
            Self::Seal { .. } => "SEAL_UNUSABLE",
            Self::Stray(_) => "LOG_NOT_OF_STORE",
            Self::NoPlace => "STORE_NO_PLACE",
            Self::Misplaced { .. } => "WORKSPACE_MISPLACED",
            Self::UnknownTool { .. } => "UNKNOWN_TOOL",
            Self::Overloaded(_) => "OVERLOADED",
            Self::Tool { .. } => request::Error::CODE,
        }
    }

    /// Returns the JSON pointer of the part of the request that is wrong, if one is.
    #[must_use]
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::Request(error) | Self::Router(router::Error::Request(error)) => {
                Some(error.pointer())
            }
            Self::Bundle(bundle::Error::Invalid { place: Place::Pointer(pointer), .. })
            | Self::Tool { pointer, .. } => Some(pointer),
            _ => None,
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Router(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Store(error) => error.hint().into_owned(),
            Self::Bundle(error) => error.hint().into_owned(),
            Self::Takeover(error) => error.hint().into_owned(),
            Self::Load(error) => error.hint().to_owned(),
            Self::Registry(error) => error.hint(),
            Self::ToolSpec(toolspec::Error::Adapter { error, .. }) => error.hint(),
            Self::Config(error) => error.hint().to_owned(),
            Self::Secret { source, .. } => source.hint().to_owned(),
            Self::UnknownTool { meant: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::UnknownSignal { meant: Some(meant), .. } => format!("did you mean {meant}?"),
            Self::Seal { hint: Some(hint), .. } => (*hint).to_owned(),
            Self::Stray(stray) => stray.hint().to_owned(),
            Self::NoPlace
            | Self::Misplaced { .. }
            | Self::Seal { .. }
            | Self::UnknownSignal { .. }
            | Self::Source { .. }
            | Self::Signals { .. }
            | Self::UnknownTool { .. }
            | Self::Overloaded(_)
            | Self::UnknownContract { .. }
            | Self::Shelf(_)
            | Self::Register(_) => {
                let known = code::find(self.code()).next();
                known.map(|known| known.remedy).unwrap_or_default().to_owned()
            }
            Self::Tool { hint, .. } => hint.clone(),
        }
    }

    /// Returns the form that callers get; an error that carries a run tells what came of it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let known = match self {
            Self::Router(error) => error.outcome().and_then(|known| known.to_json().into_object()),
            _ => None,
        };
        let mut response = known.unwrap_or_default();
        let mut shown = Object::new();
        shown.insert("code", self.code());
        shown.insert("message", full_text(self));
        shown.insert("hint", self.hint());
        if let Some(pointer) = self.pointer() {
            shown.insert("pointer", pointer);
        }
        if let Self::Router(error) = self
            && let Some(run_id) = error.run_id()
        {
            shown.insert("run_id", run_id);
        }
        if let Self::Router(error) = self
            && let Some(steps) = error.steps()
        {
            shown.insert("steps", steps);
        }
        response.insert("error", shown);
        response.into()
    }
}

/// Returns what an error says, with what lies behind it.
pub(crate) fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
