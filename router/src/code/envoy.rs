//! The codes of executions in a role.

use super::Row;

/// Of runs.
pub(super) const RUNS: &[Row] = &[
    (
        "EXECUTOR_FAILED",
        "What an envoy needs to execute something could not be made; nothing was executed.",
        "the message says what; look at the disk and at the cache directory (nexus-router config show)",
    ),
    (
        "PROGRAM_NOT_GRANTED",
        "A step asks an envoy to start a program that the operator does not grant it.",
        "name a granted program, or grant this one with run in the adapter's grants",
    ),
    (
        "SANDBOX_UNAVAILABLE",
        "An execution was rejected because it could not be confined; details name what is missing.",
        "use a kernel with Landlock version 6 or later and seccomp; setup means that a path of the sandbox cannot be opened",
    ),
    (
        "UNKNOWN_OPERATION",
        "The adapter has no such tool or method. Those of an envoy are the classes of its role, each with the method run.",
        "call an operation of the adapter's catalogue (nexus-router role show lists an envoy's classes)",
    ),
    (
        "VARIABLE_NOT_GRANTED",
        "A step asks for an environment variable that the operator does not grant the envoy.",
        "leave it out of env, or grant it with env in the adapter's grants",
    ),
];

/// Of configurations.
pub(super) const ERRORS: &[Row] = &[(
    "WORKSPACE_MISPLACED",
    "A workspace contains or equals one of the router's own files, or lies inside its data, evidence, log, key, cache or \
     contract directory.",
    "name a directory that neither contains the router's own files nor lies in its own directories",
)];
