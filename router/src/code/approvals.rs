//! The codes of calls that need an approval, and of runs that resume.

use super::Row;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        "APPROVAL_TOO_LATE",
        "The call began before its process ended, and the policy in force now requires an approval for it.",
        "send the plan again",
    ),
    (
        "HELD_ARGUMENTS_UNREADABLE",
        "Redaction changed the plan of the run, and the held original is missing, was changed, or has another key.",
        "run `nexus-router store check`, and send the plan again",
    ),
    (
        "STORE_KEY_UNUSABLE",
        "The secret key of the store cannot be read, so the digest of the approval cannot be computed.",
        "check the key file beside the store, or store.key in router.toml",
    ),
];

/// Of adapters.
pub(super) const ADAPTERS: &[Row] = &[(
    "SOURCE_NEEDS_APPROVAL",
    "A rule requires an approval for the call of a source, and such a call cannot wait for a person.",
    "require the approval for the step that uses the source, and allow the call of the source",
)];
