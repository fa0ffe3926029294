//! Why there is no answer to a request, and the remedy.

use std::path::PathBuf;

use super::{Refusal, StepsDone};
use crate::budget::Shortage;
use crate::config::MISPLACED_HINT;
use crate::json::Object;
use crate::outcome::Outcome;
use crate::registry::Unavailability;
use crate::share::ShareRefusal;
use crate::{registry, request, store};

/// Why there is no answer to a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is not one.
    #[error(transparent)]
    Request(#[from] request::Error),
    /// The registry has no default adapter.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// The workspace of an envoy overlaps with the store or the evidence.
    #[error("adapter '{adapter_id}': workspace {} {overlap}", workspace.display())]
    Misplaced {
        /// The adapter.
        adapter_id: String,
        /// The workspace.
        workspace: PathBuf,
        /// The own file, and the relation to it.
        overlap: String,
    },
    /// The store failed before anything was recorded. Nothing was called that has effects.
    #[error("nothing was recorded: {0}")]
    Store(store::Error),
    /// The store failed in the middle of the run.
    #[error(
        "run {run_id} could not be recorded to its end: {cause}; steps: {}",
        StepsDone::of(outcome)
    )]
    Unrecorded {
        /// The run.
        run_id: String,
        /// Why.
        cause: store::Error,
        /// What came of it, as far as is known.
        outcome: Box<Outcome>,
    },
    /// An adapter, or what runs it, is broken.
    #[error("run {run_id} failed with a bug in step '{step_id}': {code}: {message}")]
    Bug {
        /// The run.
        run_id: String,
        /// The step.
        step_id: String,
        /// The stable code.
        code: String,
        /// What went wrong.
        message: String,
        /// What came of the run.
        outcome: Box<Outcome>,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key was used for another request, by run {run_id}")]
    KeyTaken {
        /// The run that has it.
        run_id: String,
    },
    /// There are too many runs under way.
    #[error("{limit} runs are under way, which is the limit")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// An adapter of the plan is still being loaded, or that of an approval cannot be called now. Nothing was recorded.
    #[error(transparent)]
    Unavailable(Unavailability),
    /// The token of the caller uses its whole share.
    #[error(transparent)]
    Share(#[from] ShareRefusal),
    /// There is no memory for the record of a run.
    #[error(transparent)]
    Memory(#[from] Shortage),
    /// A decision about an approval is not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This program made a mistake.
    #[error("run {run_id} was given up: {message}")]
    Internal {
        /// The run.
        run_id: String,
        /// What went wrong.
        message: String,
    },
    /// No threads could be had.
    #[error("cannot start the threads of the router: {0}")]
    Threads(String),
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Request(error) => error.code(),
            Self::Registry(error) => error.code(),
            Self::Misplaced { .. } => "WORKSPACE_MISPLACED",
            Self::Store(error) | Self::Unrecorded { cause: error, .. } => error.code(),
            Self::Bug { code, .. } => code,
            Self::KeyTaken { .. } => "IDEMPOTENCY_KEY_TAKEN",
            Self::Busy { .. } => "ROUTER_BUSY",
            Self::Unavailable(_) => Unavailability::CODE,
            Self::Share(refusal) => refusal.code(),
            Self::Memory(shortage) => shortage.code(),
            Self::Refused(refusal) => refusal.code(),
            Self::Internal { .. } | Self::Threads(_) => "ROUTER_FAILED",
        }
    }

    /// Returns the run, if there is one.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        match self {
            Self::Unrecorded { run_id, .. }
            | Self::Bug { run_id, .. }
            | Self::KeyTaken { run_id }
            | Self::Internal { run_id, .. } => Some(run_id),
            _ => None,
        }
    }

    /// Returns what came of the run, as far as is known.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Unrecorded { outcome, .. } | Self::Bug { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Returns the steps of a run that could not be recorded to its end, by what is known of each.
    #[must_use]
    pub fn steps(&self) -> Option<Object> {
        match self {
            Self::Unrecorded { outcome, .. } => Some(StepsDone::of(outcome).to_json()),
            _ => None,
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Request(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Misplaced { .. } => MISPLACED_HINT.to_owned(),
            Self::Store(error) => error.hint().into_owned(),
            Self::Unrecorded { cause, outcome, run_id } => {
                let rest = match StepsDone::of(outcome).has_calls() {
                    true => format!(
                        "look at run {run_id} before anything is sent again: a part of it was carried out"
                    ),
                    false => "nothing was called: the request can be sent again".to_owned(),
                };
                format!("{}; {rest}", cause.hint())
            }
            Self::Bug { .. } => "report it to the adapter's author; the run is recorded".to_owned(),
            Self::KeyTaken { .. } => "use a new key for a new request".to_owned(),
            Self::Busy { .. } | Self::Memory(_) => "send the request again later".to_owned(),
            Self::Unavailable(unavailable) => unavailable.hint().to_owned(),
            Self::Share(refusal) => refusal.hint().to_owned(),
            Self::Refused(refusal) => refusal.hint().to_owned(),
            Self::Internal { .. } | Self::Threads(_) => "report it, with the log".to_owned(),
        }
    }
}

// Their text is a part of ours; as a source it would be told twice.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}
