//! Why a decision about an approval is not taken, and the remedy.

use crate::approval::{Approval, Ruling};

/// Why a decision about an approval is not taken. Nothing was changed, and nothing is carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such approval, or no run of this store waits for it.
    #[error("no run waits here for the approval '{approval_id}'")]
    Unknown {
        /// The id that was given.
        approval_id: String,
    },
    /// It was decided before.
    #[error("the approval '{}' was decided before: {}", approval.approval_id, told(approval))]
    AlreadyDecided {
        /// The approval with its ruling.
        approval: Box<Approval>,
    },
    /// Its time is over.
    #[error("the approval '{}' expired at {}", approval.approval_id, approval.expires_at)]
    Expired {
        /// The approval.
        approval: Box<Approval>,
    },
    /// Whoever asked for a call must not decide about it.
    #[error(
        "'{by}' asked for the call, and may not decide about the approval '{approval_id}' itself"
    )]
    OwnCall {
        /// The approval.
        approval_id: String,
        /// Who tried.
        by: String,
    },
    /// Only an administrator decides about calls of others.
    #[error(
        "'{by}' may not decide about the approval '{approval_id}', which is about a call of others"
    )]
    NotYours {
        /// The approval.
        approval_id: String,
        /// Who tried.
        by: String,
    },
    /// The token of whoever asked for the call is good no longer.
    #[error(
        "the token of '{name}', who asked for the call of the approval '{approval_id}', is good no longer"
    )]
    CallerGone {
        /// The approval.
        approval_id: String,
        /// Who asked for the call.
        name: String,
    },
    /// This process could not execute the call, so the approval is not used up.
    #[error("this process cannot execute the call of the approval '{approval_id}': {why}")]
    NotExecutable {
        /// The approval.
        approval_id: String,
        /// The missing or changed part.
        why: String,
    },
    /// The reason is too long.
    #[error("the reason has {chars} characters, and {max} are the most", max = Refusal::MAX_REASON)]
    ReasonTooLong {
        /// Its length.
        chars: usize,
    },
}

impl Refusal {
    /// The most characters of a reason.
    pub const MAX_REASON: usize = 2000;

    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "APPROVAL_UNKNOWN",
            "There is no approval of that id, or no run of this store waits for it.",
            "list those that are open with `nexus-router approvals list`",
        ),
        (
            "APPROVAL_ALREADY_DECIDED",
            "The approval was decided before; an approval works once.",
            "nothing was carried out; look at the run, and send the plan again if it is still wanted",
        ),
        (
            "APPROVAL_EXPIRED",
            "The time of the approval was over before anybody decided.",
            "send the plan again; policy.approvals.expire_s is how long people have",
        ),
        (
            "APPROVAL_OWN_CALL",
            "Whoever asked for the call tried to decide about it.",
            "let somebody with the scope admin decide, or set policy.approvals.by_caller",
        ),
        (
            "APPROVAL_NOT_YOURS",
            "The approval is about a call of somebody else.",
            "use a token with the scope admin",
        ),
        (
            "APPROVAL_CALLER_GONE",
            "Whoever asked for the call shows a token that was revoked or has expired since.",
            "deny it, or let somebody whose token is good ask again",
        ),
        (
            "APPROVAL_REASON_TOO_LONG",
            "The reason that was given with a decision is too long.",
            "say it in fewer words",
        ),
        (
            "APPROVAL_NOT_EXECUTABLE",
            "This process cannot execute the approved call: an adapter or a setting is missing, or the policy has changed. \
             The approval stays open.",
            "repeat the command with `--config` and the configuration of the run, or approve it through the daemon; or deny \
             it and send the plan again",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::Unknown { .. } => 0,
            Self::AlreadyDecided { .. } => 1,
            Self::Expired { .. } => 2,
            Self::OwnCall { .. } => 3,
            Self::NotYours { .. } => 4,
            Self::CallerGone { .. } => 5,
            Self::ReasonTooLong { .. } => 6,
            Self::NotExecutable { .. } => 7,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        Self::TABLE[self.row()].0
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        Self::TABLE[self.row()].2
    }
}

fn told(approval: &Approval) -> String {
    let Some(Ruling { decision, by, at, .. }) = &approval.ruling else { return String::new() };
    let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    format!("{}{by} at {at}", decision.name())
}
