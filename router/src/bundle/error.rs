//! Why a bundle could not be written or read.

use std::borrow::Cow;

use crate::json::{self, Object, Value};
use crate::replay::{self, Violation};
use crate::store;

/// Why a bundle could not be written, read or stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The text is no bundle.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        place: Place,
    },
    /// The bundle's digest is missing or is not that of its run and events.
    #[error("{0}")]
    DigestMismatch(String),
    /// The bundle's chain does not end as it says.
    #[error("the chain of the events ends with {computed}, and the bundle says {stated}")]
    ChainMismatch {
        /// What the bundle says.
        stated: String,
        /// What its events give.
        computed: String,
    },
    /// Two events have the same place in the sequence.
    // The words are those of the Python router, which passes on what its database says.
    #[error("Duplicate seq {0}: UNIQUE constraint failed: events.run_id, events.seq")]
    SeqDuplicate(i64),
    /// The run has violations, and the caller wants none.
    #[error("the replay of the run found {} violations, so it was not imported", .0.len())]
    ReplayFailed(Vec<Violation>),
    /// A stored run cannot be written as JSON.
    #[error("run {run_id} cannot be exported: {reason}")]
    Unreadable {
        /// The run.
        run_id: String,
        /// Which event, and why.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Where in a bundle something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The message names it.
    Named,
    /// At this JSON pointer.
    Pointer(String),
}

impl Error {
    /// Every code of a bundle's errors, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "INVALID_BUNDLE",
            "The text is not a bundle of the form 0.3.",
            "export the run again; the pointer says what is wrong",
        ),
        (
            "DIGEST_MISMATCH",
            "The bundle's digest is missing or is not that of its run and events.",
            "the bundle was changed after it was exported; get it again from its source",
        ),
        (
            "CHAIN_MISMATCH",
            "The hash chain of the bundle's events does not end as the bundle says.",
            "the bundle, or the store it comes from, was changed; run `nexus-router store check` there",
        ),
        (
            "SEQ_DUPLICATE",
            "Two events of the bundle have the same place in the sequence.",
            "export the run again",
        ),
        (
            "REPLAY_FAILED",
            "The run has violations, and the import was to refuse such runs.",
            "import it without that option to look at it",
        ),
        (
            "RUN_UNREADABLE",
            "A run of a Python store holds what JSON cannot say, such as NaN.",
            "export it with the Python router",
        ),
    ];

    /// Returns the row of the table, or the store's error.
    const fn row(
        &self,
    ) -> Result<&'static (&'static str, &'static str, &'static str), &store::Error> {
        Ok(&Self::TABLE[match self {
            Self::Invalid { .. } => 0,
            Self::DigestMismatch(_) => 1,
            Self::ChainMismatch { .. } => 2,
            Self::SeqDuplicate(_) => 3,
            Self::ReplayFailed(_) => 4,
            Self::Unreadable { .. } => 5,
            Self::Store(error) => return Err(error),
        }])
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.row().map_or_else(store::Error::code, |row| row.0)
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> Cow<'static, str> {
        self.row().map_or_else(store::Error::hint, |row| row.2.into())
    }

    /// Returns the form that callers of import get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = Object::new();
        error.insert("code", self.code());
        error.insert("message", self.to_string());
        if let Self::Invalid { place: Place::Pointer(pointer), .. } = self {
            error.insert("pointer", pointer.as_str());
        }
        let mut response = Object::new();
        response.insert("status", "error");
        response.insert("error", error);
        if let Self::ReplayFailed(violations) = self {
            response.insert("replay_ok", false);
            response.insert("violations", replay::listed(violations));
        }
        response.into()
    }

    pub(super) fn missing(what: &str) -> Self {
        Self::Invalid { message: format!("Missing {what}"), place: Place::Named }
    }

    pub(super) fn at(pointer: String, message: String) -> Self {
        Self::Invalid { message, place: Place::Pointer(pointer) }
    }
}

impl From<json::Error> for Error {
    fn from(error: json::Error) -> Self {
        Self::at(error.pointer().to_owned(), format!("the bundle is not JSON: {error}"))
    }
}
