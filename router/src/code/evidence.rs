//! The codes of evidence and seals.

use super::Row;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        "EVIDENCE_UNWRITABLE",
        "Evidence of a call in a role could not be kept: before the call it was not made, after it its result was dropped.",
        "the message says why; look at the disk and at the directory of evidence (nexus-router config show)",
    ),
    (
        "ROLE_OUTPUT_INVALID",
        "The adapter answers in a role, and its output is not in the frozen form of that role.",
        "details list what is wrong; nexus-router role show prints the form",
    ),
];

/// Of errors.
pub(super) const ERRORS: &[Row] = &[(
    "SEAL_UNUSABLE",
    "What is done cannot be sealed: the keys, the log or the directory of evidence cannot be used.",
    "correct what the message names, or set evidence.seal = false",
)];
