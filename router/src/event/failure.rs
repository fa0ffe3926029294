//! Why a run failed: what `RUN_FAILED` says.

use super::object_text::ObjectText;
use super::output_digest::OutputDigest;
use crate::budget::Shortage;
use crate::caller::Revocation;
use crate::json::Object;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// No adapter could be chosen for a step.
    Selection {
        /// The stable code.
        code: &'static str,
        /// What went wrong.
        message: String,
        /// What else is known.
        details: Object,
    },
    /// The plan has more steps than the policy allows; nothing was carried out.
    MaxSteps {
        /// What the policy allows.
        max_steps: u64,
        /// What the plan has.
        plan_steps: u64,
    },
    /// An adapter, or what runs it, is broken.
    Bug {
        /// The step.
        step_id: String,
        /// The stable code.
        code: String,
    },
    /// One or more steps failed.
    Step {
        /// The first of them.
        step_id: String,
        /// Its code.
        code: String,
    },
    /// The process that carried it out is gone, and it cannot or must not go on.
    Interrupted {
        /// Why it does not go on.
        message: String,
        /// Whether a call was under way of which nobody knows what it did.
        in_doubt: bool,
    },
    /// The original arguments of its plan cannot be read, so it cannot resume.
    HeldArguments {
        /// The problem.
        message: String,
    },
    /// The caller gave it up.
    Cancelled,
    /// The time for the whole run was over.
    TimedOut {
        /// The time it was given.
        timeout_ms: u64,
    },
    /// The record has no room for another step.
    RecordLimit {
        /// Bytes that the record may have.
        limit: u64,
    },
    /// Answers of runs use too much memory for another step.
    MemoryLimit {
        /// Whose answers they are.
        shortage: Shortage,
    },
    /// The token of its caller is no longer valid.
    Revoked {
        /// The token and its state.
        message: String,
    },
}

impl Failure {
    /// The reason of a run that failed with a bug.
    pub const BUG: &str = "bug_error";

    /// Returns the reason in one word.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Selection { .. } => "dispatch_selection_failed",
            Self::MaxSteps { .. } => "max_steps_exceeded",
            Self::Bug { .. } => Self::BUG,
            Self::Step { .. } => "step_failed",
            Self::Interrupted { .. } | Self::HeldArguments { .. } => "interrupted",
            Self::Cancelled => "cancelled",
            Self::TimedOut { .. } => "timed_out",
            Self::RecordLimit { .. } => "record_limit",
            Self::MemoryLimit { .. } => "memory_limit",
            Self::Revoked { .. } => "revoked",
        }
    }

    /// Returns the code and the message for a caller, where the failure is not that of a step.
    #[must_use]
    pub fn error(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Selection { code, message, .. } => Some((code, message.clone())),
            Self::MaxSteps { max_steps, plan_steps } => Some((
                "MAX_STEPS_EXCEEDED",
                format!("the plan has {plan_steps} steps, and the policy allows {max_steps}"),
            )),
            Self::Interrupted { message, .. } => Some(("RUN_INTERRUPTED", message.clone())),
            Self::HeldArguments { message } => Some(("HELD_ARGUMENTS_UNREADABLE", message.clone())),
            Self::Cancelled => Some(("RUN_CANCELLED", "the run was cancelled".to_owned())),
            Self::TimedOut { timeout_ms } => Some((
                "RUN_TIMED_OUT",
                format!("the run was not over after {timeout_ms} milliseconds"),
            )),
            Self::RecordLimit { limit } => Some((
                OutputDigest::CODE,
                format!("the record of the run has no room for another step within {limit} bytes"),
            )),
            Self::MemoryLimit { shortage } => {
                let whose = match shortage {
                    Shortage::Share => "runs of the same token",
                    Shortage::Total => "all runs",
                };
                let message = format!("answers of {whose} use too much memory for another step");
                Some(("MEMORY_LIMIT", message))
            }
            Self::Revoked { message } => Some((Revocation::CODE, message.clone())),
            Self::Bug { .. } | Self::Step { .. } => None,
        }
    }

    fn code(&self) -> &str {
        match self {
            Self::Bug { code, .. } | Self::Step { code, .. } => code,
            _ => self.error().map_or("", |(code, _)| code),
        }
    }

    pub(super) fn write(&self, object: &mut ObjectText<'_>) {
        if let Self::Selection { details, .. } = self {
            object.object("details", details);
        }
        object.text("error_code", self.code());
        if let Self::Interrupted { in_doubt, .. } = self {
            object.flag("in_doubt", *in_doubt);
        }
        if let Self::RecordLimit { limit } = self {
            object.number("limit", *limit);
        }
        if let Self::MaxSteps { max_steps, .. } = self {
            object.number("max_steps", *max_steps);
        }
        if let Some((_, message)) = self.error() {
            object.text("message", &message);
        }
        object.text("outcome", "error");
        if let Self::MaxSteps { plan_steps, .. } = self {
            object.number("plan_steps", *plan_steps);
        }
        object.text("reason", self.reason());
        if let Self::Bug { step_id, .. } | Self::Step { step_id, .. } = self {
            object.text("step_id", step_id);
        }
        if let Self::TimedOut { timeout_ms } = self {
            object.number("timeout_ms", *timeout_ms);
        }
    }
}
