//! Codes of the memory budget and of the limit of records.

use super::{Code, Kind, row};

/// Codes of the memory budget and of the limit of records.
pub(super) const TABLE: &[Code] = &[
    row(
        "MEMORY_SHARE_USED",
        Kind::Error,
        "The token uses its whole share of the memory budget, or sends as many bodies at once as one token may.",
        "read answers to their end, send fewer requests at once, or raise server.token_memory_percent or \
         server.token_bodies",
    ),
    row(
        "MEMORY_LIMIT",
        Kind::Run,
        "Answers of runs use so much memory that no further step was begun. Side effects are not undone.",
        "read answers to their end, run fewer plans with large answers at once, or raise server.memory_bytes",
    ),
    row(
        "RECORD_LIMIT",
        Kind::Run,
        "The record of the run has no room for the answer or for another step. Side effects are not undone; \
         output_digest describes an answer that was recorded by its digest.",
        "split the plan, ask for less at once, or raise limits.run_record_bytes",
    ),
];
