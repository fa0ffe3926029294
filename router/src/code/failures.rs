//! The codes of tools that report their failure in an output.

use nexus_router_sdk::code;

use super::Row;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        "TOOL_ERROR",
        "The tool answered with isError: true; the output of the step is its answer.",
        "read the output; give the step \"expect\": \"any\" if the plan is to continue after it",
    ),
    (
        "ROLE_FAILED",
        "The adapter of a role answered with ok: false; the output of the step is its answer.",
        "read errors in the output; give the step \"expect\": \"any\" if the plan is to continue after it",
    ),
    (
        code::NONZERO_EXIT,
        "A program of an executing class ended with a non-zero exit code; the output of the step is its answer.",
        "read stdout and stderr in the output; give the step \"expect\": \"any\" if the plan is to continue after it",
    ),
];
