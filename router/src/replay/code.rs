//! The codes of violations, each with its meaning and the remedy.

/// Every code of a violation, with its meaning and the remedy. The rules of a run have the codes of
/// [`crate::run::Illegal::CODES`].
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "RUN_NOT_FOUND",
        "The store has no run of that id.",
        "list the runs with `nexus-router runs list`",
    ),
    (
        "NO_EVENTS",
        "The run has no events.",
        "nothing was recorded; ask whoever made the store or the bundle",
    ),
    (
        "SEQ_NOT_ZERO",
        "The first event is not that at seq 0.",
        "events are missing; import a complete bundle",
    ),
    (
        "SEQ_GAP",
        "An event does not have the seq that follows.",
        "events are missing; import a complete bundle",
    ),
    (
        "RUN_STARTED_NOT_FIRST",
        "RUN_STARTED stands at another place than seq 0.",
        "do not trust the order of this log",
    ),
    (
        "PLAN_BEFORE_RUN_STARTED",
        "PLAN_CREATED stands before RUN_STARTED.",
        "do not trust the order of this log",
    ),
    (
        "TOOL_CALL_WITHOUT_STEP",
        "A call was requested for a step that was not open.",
        "do not trust the order of this log",
    ),
    (
        "TOOL_RESULT_WITHOUT_STEP",
        "A result stands for a step that was not open.",
        "do not trust the order of this log",
    ),
    (
        "STEP_COMPLETED_WITHOUT_START",
        "A step was completed that was not open.",
        "do not trust the order of this log",
    ),
    ("NO_RUN_STARTED", "There is no RUN_STARTED.", "events are missing; import a complete bundle"),
    (
        "NO_PLAN_CREATED",
        "There is no PLAN_CREATED.",
        "a run of the Python router whose adapter could not be chosen has none; else events are missing",
    ),
    (
        "NO_TERMINAL_EVENT",
        "The log does not say how the run ended.",
        "the run goes on, or was interrupted: see `nexus-router runs recover`",
    ),
    (
        "EVENT_INVALID",
        "A stored event cannot be read.",
        "run `nexus-router store check`, and restore a backup",
    ),
    (
        "PAYLOAD_INVALID",
        "The payload of an event is no JSON object, or lacks sense.",
        "the event was damaged or written by a faulty program; restore a backup",
    ),
    (
        "EVENT_RUN_ID_MISMATCH",
        "An event names another run than the one it stands in.",
        "the log was put together from several; do not trust it",
    ),
    (
        "UNKNOWN_EVENT_TYPE",
        "An event is of a type that this program does not know.",
        "use the program that wrote the log, or a newer one",
    ),
    (
        "CHAIN_BROKEN",
        "The hash chain of the events does not end as recorded.",
        "the events or the record were changed after they were stored; restore a backup",
    ),
    (
        "STATUS_MISMATCH",
        "The recorded status is not the one that the log tells.",
        "trust the log; the status was changed, or a crash came between the two",
    ),
    (
        "PROVENANCE_MISMATCH",
        "The digest of request and results is not the one that the log gives.",
        "the log was changed, or a program recorded something else than it did",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_explained() {
        let codes: std::collections::BTreeSet<_> = CODES.iter().map(|row| row.0).collect();
        assert_eq!(codes.len(), CODES.len());
        assert!(CODES.iter().all(|row| row.1.ends_with('.') && !row.2.is_empty()));
    }
}
