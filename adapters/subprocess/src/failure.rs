//! The errors of a call, each with its code, its message and the digest of the arguments.

use std::io;
use std::os::unix::fs::PermissionsExt as _;

use nexus_router_sdk::{AdapterError, code};
use serde_json::json;

/// The program of the command does not exist.
pub(crate) const COMMAND_NOT_FOUND: &str = "COMMAND_NOT_FOUND";
/// The working directory does not exist.
pub(crate) const CWD_NOT_FOUND: &str = "CWD_NOT_FOUND";
/// The working directory is something else.
pub(crate) const CWD_NOT_DIRECTORY: &str = "CWD_NOT_DIRECTORY";
/// The call was to be a dry run, which a command cannot promise.
pub(crate) const DRY_RUN_UNSUPPORTED: &str = "DRY_RUN_UNSUPPORTED";
/// A configured environment variable cannot be one.
pub(crate) const ENV_INVALID: &str = "ENV_INVALID";
/// The output is not a JSON object.
pub(crate) const INVALID_JSON_OUTPUT: &str = "INVALID_JSON_OUTPUT";
/// The operating system refused something else.
pub(crate) const OS_ERROR: &str = "OS_ERROR";
/// The program may not be executed.
pub(crate) const PERMISSION_DENIED: &str = "PERMISSION_DENIED";
/// The command wrote to stderr, and the configuration forbids it.
pub(crate) const STDERR_ON_SUCCESS: &str = "STDERR_ON_SUCCESS";

/// Every code that a call may end with.
pub(crate) const CODES: &[&str] = &[
    code::CANCELLED,
    COMMAND_NOT_FOUND,
    CWD_NOT_DIRECTORY,
    CWD_NOT_FOUND,
    DRY_RUN_UNSUPPORTED,
    ENV_INVALID,
    code::INVALID_ARGUMENT,
    INVALID_JSON_OUTPUT,
    code::NONZERO_EXIT,
    OS_ERROR,
    code::OUTPUT_TOO_LARGE,
    PERMISSION_DENIED,
    STDERR_ON_SUCCESS,
    code::TIMEOUT,
];

/// Says whether a program could be executed if nothing else spoke against it.
fn is_executable(program: &str) -> bool {
    // Looked for by its name alone it was found, or it would not be denied.
    !program.contains('/')
        || std::fs::metadata(program)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Makes the errors of one call.
pub(crate) struct Failures {
    /// The beginning of the digest of the arguments.
    pub(crate) args_digest: String,
}

impl Failures {
    /// Makes an operational error.
    pub(crate) fn error(&self, code: &str, message: impl Into<String>) -> AdapterError {
        self.of_this_call(AdapterError::operational(code, message))
    }

    /// Adds to an error which arguments the call had.
    pub(crate) fn of_this_call(&self, error: AdapterError) -> AdapterError {
        error.details(json!({ "args_digest": self.args_digest }))
    }

    /// Makes the error for a command that could not be started.
    pub(crate) fn not_started(&self, program: &str, error: &io::Error) -> AdapterError {
        match error.kind() {
            io::ErrorKind::NotFound => {
                self.error(COMMAND_NOT_FOUND, format!("Command not found: {program}"))
            }
            io::ErrorKind::PermissionDenied => {
                let message = format!("Permission denied executing command: {program}");
                let error = self.error(PERMISSION_DENIED, message);
                if !is_executable(program) {
                    return error;
                }
                let hint = "in a worker, only programs run that its grants name under 'run'";
                error.details(json!({ "hint": hint }))
            }
            _ => self.system(error),
        }
    }

    /// Makes the error for whatever else the operating system refused.
    pub(crate) fn system(&self, error: &io::Error) -> AdapterError {
        let text = error.to_string();
        let text = match error.raw_os_error() {
            Some(number) => {
                let suffix = format!(" (os error {number})");
                format!("[Errno {number}] {}", text.strip_suffix(&suffix).unwrap_or(&text))
            }
            None => text,
        };
        self.error(OS_ERROR, format!("OS error executing command: {text}"))
    }
}
