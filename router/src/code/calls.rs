//! The codes of calls: why one does not fit what callers were told, and refusals that only MCP has.

use super::Row;
use crate::caller::Revocation;
use crate::policy::Law;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        Revocation::CODE,
        "The token of the run was revoked, expired or lost a scope before the next step.",
        "send the steps that are left with a valid token",
    ),
    (
        "ARGUMENTS_INVALID",
        "The arguments do not fit the schema of the operation; nothing was called.",
        "correct what the message names; the tool's input schema says what is wanted",
    ),
    (
        "CIRCUIT_OPEN",
        "The service behind the adapter failed several times in a row, so its circuit breaker rejects calls for a while; \
         nothing was called.",
        "call again after details.retry_after_ms; see nexus-router adapter list --running for the last error, and close the \
         circuit with nexus-router adapter release once the service works",
    ),
    (
        "NOT_OFFERED",
        "The operation is not offered to callers below admin scope; nothing was called.",
        "offer it with [[tools]] or [adapters.offer], or use a token of scope admin",
    ),
    (
        Law::CONDITION_FAILED,
        "The condition of a policy rule has no result for the call; nothing was called.",
        "correct the arguments that the condition reads, or guard it in router.toml with has()",
    ),
    (
        "OPERATION_NAME_INVALID",
        "The tool or method of a call is not a plain name; nothing was called.",
        "use letters, digits and _ . / : -, 128 at most",
    ),
    (
        "SECRET_NOT_BOUND",
        "The arguments refer to a secret that the operator did not bind to the call; nothing was called.",
        "ask the operator to add the call to adapters, tools and tokens of [secrets.NAME] in router.toml",
    ),
    (
        "CATALOGUE_UNKNOWN",
        "The adapter has not told its catalogue yet, so the law cannot judge its operations.",
        "try again in a moment; the log says what keeps the adapter from answering",
    ),
];

/// Of adapters.
pub(super) const ADAPTERS: &[Row] = &[(
    "UPSTREAM_ERROR",
    "The server behind the adapter answered with an error of the protocol.",
    "look at details.code and details.message, which are the server's own",
)];

/// Of requests.
pub(super) const REQUESTS: &[Row] = &[
    (
        "REQUEST_STATE_INVALID",
        "The requestState is not one that was given to this caller for this call.",
        "send it back as it came, with the same arguments, within a day",
    ),
    (
        "INPUT_INVALID",
        "An answer in inputResponses is not an object.",
        "answer with the result of the request that was asked",
    ),
    ("CURSOR_INVALID", "The cursor is not one of the list.", "send back nextCursor as it came"),
    (
        "UNKNOWN_PROMPT",
        "There is no prompt of that name, or none for this caller.",
        "list what there is with prompts/list",
    ),
    (
        "UNKNOWN_TASK",
        "There is no task of that id, or it is somebody else's.",
        "use a taskId that you were given",
    ),
    (
        "TASK_UNRESUMABLE",
        "The call of a task cannot be made again: its arguments were not recorded in full.",
        "put secrets as {\"$secret\": \"NAME\"} into arguments",
    ),
];
