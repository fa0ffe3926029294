//! The codes of interface contracts, of their lock, and of calls that they do not allow.

use super::Row;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        "OPERATION_NOT_IN_CONTRACT",
        "The adapter keeps an interface contract, and the call is no operation of it; nothing was called.",
        "call an operation of the contract (nexus-router interface show ID), or add it to a newer version",
    ),
    (
        "CONTRACT_REMOVED",
        "The interface contract of the adapter was removed; nothing was called.",
        "remove the adapter from router.toml, or freeze a newer revision of its contract",
    ),
    (
        "CONTRACT_INVALID",
        "The interface contract of the adapter does not hold, so the adapter is disabled; nothing was called.",
        "nexus-router interface verify tells everything that is wrong; the adapter serves again when that is corrected",
    ),
    (
        "CONTRACT_REQUIRED",
        "The operator wants a contract of every adapter, and this one has none; nothing was called.",
        "write one with nexus-router interface freeze --from REF, or set contracts.required = false",
    ),
    (
        "SIGNALS_REJECTED",
        "The call succeeded, and the acceptance policy rejects what its signals say.",
        "details name the contract and the rule; nexus-router contract evaluate explains what a policy decides",
    ),
];

/// Of errors and findings.
pub(super) const ERRORS: &[Row] = &[
    (
        "CONTRACTS_BROKEN",
        "Not reported any more: calls of adapters whose contract does not hold fail with CONTRACT_INVALID.",
        "nexus-router interface verify tells everything that is wrong",
    ),
    (
        "CONTRACTS_UNREADABLE",
        "The directory of interface contracts, or a file in it, cannot be read or written.",
        "check the path, and that this user may use it",
    ),
    (
        "REGISTER_UNREADABLE",
        "The register of tools cannot be read or written.",
        "check the directory of contracts.tools, and take up register.json again if it is damaged",
    ),
    (
        "UNKNOWN_CONTRACT",
        "router.toml says that an adapter keeps a contract that is not there.",
        "nexus-router interface list lists the contracts",
    ),
    (
        "UNKNOWN_SIGNAL_CONTRACT",
        "router.toml holds the outputs of an adapter to a signal contract that is not there.",
        "put ID.adapter_contract.json into the directory of signals, or correct signal in [[adapters]]",
    ),
    (
        "SIGNALS_UNUSABLE",
        "The directory of signal contracts cannot be read, an acceptance policy is none or does not fit its contract, or \
         what is to be published is no manifest or no document of a publisher.",
        "correct what the message names; nexus-router config check tells everything that is wrong",
    ),
    (
        "SIGNAL_CONTRACT_NOT_FOUND",
        "There is no signal contract of this id, or not in this version.",
        "GET /protocol/adapter-contracts lists those that there are",
    ),
    (
        "NOT_PUBLISHED",
        "The operator publishes no such document here.",
        "name the file under [signals] in router.toml: manifest or publisher",
    ),
    (
        "INTERFACE_MALFORMED",
        "A file is no interface contract.",
        "correct what the finding names; nexus-router interface show loki --format json shows a sound one",
    ),
    (
        "INTERFACE_NOT_LOCKED",
        "A contract is newer than what is locked.",
        "lock it with nexus-router interface freeze FILE",
    ),
    (
        "INTERFACE_CHANGED",
        "A contract was changed without another version.",
        "put it back, or raise its version and freeze it",
    ),
    (
        "INTERFACE_BUMP_TOO_SMALL",
        "The version of a contract does not say how much it changes.",
        "raise the part of the version that nexus-router interface diff tells",
    ),
    (
        "INTERFACE_ROLLED_BACK",
        "A contract is older than what is locked.",
        "take up the newest one again, or write a newer one",
    ),
    (
        "INTERFACE_REMOVED",
        "A contract is locked and its file is gone, or it is removed in the lock and its file is there.",
        "put the file back or delete it; nexus-router interface freeze --remove ID removes for good",
    ),
    (
        "INTERFACE_NOT_APPROVED",
        "A revision breaks others, and lacks the signature of an author or of a reviewer who is known.",
        "nexus-router interface approve ID, by both; their keys stand in [contracts] of router.toml",
    ),
    (
        "INTERFACE_HISTORY_REPLACED",
        "The history of a contract lacks the revision that [contracts.anchors] of router.toml has.",
        "restore contracts and lock from version control; if the change was meant, remove the contract's line from \
         [contracts.anchors], and print the new one with nexus-router interface anchors",
    ),
    (
        "INTERFACE_NOT_ANCHORED",
        "The newest revision of a contract is not anchored in router.toml.",
        "nexus-router interface anchors prints the line for [contracts.anchors]",
    ),
    (
        "INTERFACE_NOT_TESTED",
        "A revision breaks others, and the examples of its operations have not passed on it.",
        "nexus-router interface test ID --adapter REF, before it is approved",
    ),
    (
        "INTERFACE_NOT_PINNED",
        "A contract that is a part of this program is not the one that was frozen.",
        "use a program that was not tampered with",
    ),
    (
        "LOCK_MALFORMED",
        "interfaces.lock is no lock.",
        "take it up again as it was committed last; only nexus-router interface writes it",
    ),
    (
        "LOCK_BROKEN",
        "The revisions in interfaces.lock do not follow each other: one was changed, taken out or put in.",
        "take it up again as it was committed last",
    ),
    (
        "SCHEMA_INVALID",
        "A JSON Schema cannot be used.",
        "correct what the finding names; it is held to the draft of 2020-12",
    ),
    (
        "SCHEMA_KEYWORD_REFUSED",
        "A JSON Schema has a keyword that contracts must not have.",
        "refer to places under $defs by JSON pointers, and leave out the keyword",
    ),
    (
        "SCHEMA_REF_REMOTE",
        "A JSON Schema refers to something that would have to be fetched.",
        "put it under $defs",
    ),
    (
        "SCHEMA_REF_RECURSIVE",
        "A JSON Schema refers to itself.",
        "write out as many levels as are meant",
    ),
    (
        "SCHEMA_REF_DANGLING",
        "A reference in a JSON Schema leads to no schema.",
        "correct the JSON pointer",
    ),
    (
        "SCHEMA_TOO_LARGE",
        "A JSON Schema is too large, too deep, or unfolds to too much.",
        "split the operation, or say less",
    ),
];
