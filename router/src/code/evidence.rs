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
        "OUTCOME_NOT_KEPT",
        "In evidence: a call was let through, and what came of it was not kept, because its process ended or it could not be written.",
        "look whether the call was carried out; look at the disk and at the log of the router of that time",
    ),
    (
        "ROLE_OUTPUT_INVALID",
        "The adapter answers in a role, and its output is not in the frozen form of that role.",
        "details list what is wrong; nexus-router role show prints the form",
    ),
];

/// Of errors.
pub(super) const ERRORS: &[Row] = &[
    (
        "LOG_NOT_OF_STORE",
        "The log is not the one that the store knows: it is gone, older than the store's last seal, or another one.",
        "put the directory of evidence back that belongs to the store; if it is lost, nexus-router evidence begin begins another log",
    ),
    (
        "SEAL_UNUSABLE",
        "What is done cannot be sealed: the keys, the log or the directory of evidence cannot be used.",
        "correct what the message names, or set evidence.seal = false",
    ),
];
