//! One call: from the checks before the command to the verdict about its output.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_sdk::{AdapterError, CallContext, Object, canonical, code};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::failure::{self, Failures};
use crate::output::{self, Capture};
use crate::process::{Ending, Process};
use crate::{Config, json_error, short_digest};

/// How much of an output that is not JSON an error shows, at its beginning and at its end; of one that
/// is no longer than both, all.
const HEAD_CHARS: usize = 500;
const TAIL_CHARS: usize = 200;

/// The name under which a command finds the arguments that come by its standard input.
const BY_INPUT: &str = "/dev/stdin";
/// What every pipe takes at once.
const PIPE_HOLDS: usize = 4096;

/// A call that is about to be made.
pub(crate) struct Call<'a> {
    config: &'a Config,
    timeout: Duration,
    tool: &'a str,
    method: &'a str,
    args: Value,
    failures: Failures,
}

/// The moment at which the command is killed, and how that is told.
struct Limit {
    deadline: Option<Instant>,
    seconds: f64,
    is_callers: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        config: &'a Config,
        timeout: Duration,
        tool: &'a str,
        method: &'a str,
        args: Object,
    ) -> Self {
        let args = Value::Object(args);
        let args_digest = short_digest(&canonical::to_string(&args), 12);
        Self { config, timeout, tool, method, args, failures: Failures { args_digest } }
    }

    /// Makes the call.
    pub(crate) fn run(self, context: &CallContext) -> Result<Object, AdapterError> {
        self.check(context)?;
        let mut command = self.command()?;
        let system = |error: io::Error| self.failures.system(&error);
        let (path, input, _args_file) = match self.write_args() {
            Ok(file) => (file.path.to_path_buf(), Stdio::null(), Some(file)),
            Err(error) if is_denied(&error) => {
                let input = self.pipe_args().map_err(system)?;
                (BY_INPUT.into(), input, None)
            }
            Err(error) => return Err(system(error)),
        };
        command.args(["call", self.tool, self.method, "--json-args-file"]).arg(path);

        let stop = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|error| system(error.into()))?,
        );
        let limit = self.limit(context);
        let mut stdout = Capture::new(self.config.max_output_bytes);
        let mut stderr = Capture::new(self.stderr_bytes());
        // A command has effects, so none is started for a call that is over.
        context.check().map_err(|error| self.failures.of_this_call(error))?;
        let process = Process::spawn(&mut command, input)
            .map_err(|error| self.failures.not_started(self.program(), &error))?;
        let signal = Arc::clone(&stop);
        context.on_cancel(move || {
            // It fails only when the counter is full, and then it is readable already.
            let _: Result<usize, Errno> = rustix::io::write(&*signal, &1_u64.to_ne_bytes());
        });
        let ending = process
            .watch(&mut stdout, &mut stderr, limit.deadline, stop.as_fd())
            .map_err(system)?;
        match ending {
            Ending::Exited(status) => self.verdict(status, &stdout, &stderr),
            ending => Err(self.killed(&ending, &limit, &stdout, &stderr)),
        }
    }

    /// Refuses what must not reach a command line.
    fn check(&self, context: &CallContext) -> Result<(), AdapterError> {
        if context.dry_run() {
            return Err(self.failures.error(
                failure::DRY_RUN_UNSUPPORTED,
                "a command cannot promise to have no effects",
            ));
        }
        for (name, word) in [("tool", self.tool), ("method", self.method)] {
            let problem = if word.starts_with('-') {
                "must not begin with '-': the command would take it for an option"
            } else if word.contains('\0') {
                "must not contain NUL"
            } else {
                continue;
            };
            let message = format!("{name} {problem}");
            return Err(self.failures.error(code::INVALID_ARGUMENT, message));
        }
        Ok(())
    }

    /// Makes the command with its directory and environment, without the words of the call.
    fn command(&self) -> Result<Command, AdapterError> {
        let mut command = Command::new(self.program());
        command.args(self.config.base_cmd.iter().skip(1)).env_clear();
        if let Some(cwd) = &self.config.cwd {
            let path = Path::new(cwd);
            if !path.is_dir() {
                return Err(if path.exists() {
                    let message = format!("Working directory is not a directory: {cwd}");
                    self.failures.error(failure::CWD_NOT_DIRECTORY, message)
                } else {
                    let message = format!("Working directory not found: {cwd}");
                    self.failures.error(failure::CWD_NOT_FOUND, message)
                });
            }
            command.current_dir(path);
        }
        for name in &self.config.env_allow {
            if let Some(value) = std::env::var_os(OsStr::new(name)) {
                command.env(name, value);
            }
        }
        for (name, value) in &self.config.env {
            command.env(name, self.variable(name, value)?);
        }
        Ok(command)
    }

    /// Returns the value of a configured variable if it can be one.
    fn variable<'v>(&self, name: &str, value: &'v Value) -> Result<&'v str, AdapterError> {
        let invalid = |why: &str| {
            let message = format!("Invalid env variable: {why}");
            self.failures.error(failure::ENV_INVALID, message).details(json!({ "key": name }))
        };
        let Value::String(text) = value else {
            return Err(invalid("key and value must be strings")
                .details(json!({ "value_type": canonical::type_name(value) })));
        };
        if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
            return Err(invalid(
                "key must not be empty or contain '=', and neither may contain NUL",
            ));
        }
        Ok(text)
    }

    /// Writes the arguments to a file that only this user can read or even find.
    fn write_args(&self) -> io::Result<ArgsFile> {
        let directory = tempfile::Builder::new()
            .prefix("nexus-router-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(std::path::absolute(std::env::temp_dir())?)?;
        let mut file = tempfile::Builder::new()
            .prefix("nexus-router-args-")
            .suffix(".json")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(directory.path())?;
        file.write_all(self.args_text().as_bytes())?;
        Ok(ArgsFile { path: file.into_temp_path(), _directory: directory })
    }

    /// Makes a pipe from which the arguments can be read, by a command that reads them or not.
    fn pipe_args(&self) -> io::Result<Stdio> {
        let (input, mut writer) = io::pipe()?;
        let text = self.args_text();
        if text.len() <= PIPE_HOLDS {
            writer.write_all(text.as_bytes())?;
        } else {
            // It ends when nobody can read any more, and the command's whole group does.
            let write = move || drop(writer.write_all(text.as_bytes()));
            drop(std::thread::Builder::new().name("args".to_owned()).spawn(write)?);
        }
        Ok(input.into())
    }

    fn args_text(&self) -> String {
        let call = json!({ "tool": self.tool, "method": self.method, "args": self.args });
        canonical::to_string(&call)
    }

    fn limit(&self, context: &CallContext) -> Limit {
        let now = Instant::now();
        let remaining = context.remaining(self.timeout);
        let is_callers = remaining < self.timeout;
        let seconds = if is_callers {
            (remaining.as_secs_f64() * 1000.0).round() / 1000.0
        } else {
            self.config.timeout_s
        };
        Limit { deadline: now.checked_add(remaining), seconds, is_callers }
    }

    /// Returns how much of stderr an excerpt can need: four bytes for a character.
    fn stderr_bytes(&self) -> usize {
        let excerpt = self.config.max_stderr_chars.saturating_mul(4).saturating_add(4);
        excerpt.min(self.config.max_output_bytes)
    }

    fn program(&self) -> &str {
        self.config.base_cmd.first().map_or("", String::as_str)
    }

    /// Makes the error for a command that had to be killed.
    fn killed(
        &self,
        ending: &Ending,
        limit: &Limit,
        stdout: &Capture,
        stderr: &Capture,
    ) -> AdapterError {
        let error = match ending {
            Ending::TooLarge => {
                let bytes = self.config.max_output_bytes;
                let message = format!("Command wrote more than {bytes} bytes to stdout");
                self.failures
                    .error(code::OUTPUT_TOO_LARGE, message)
                    .details(json!({ "max_output_bytes": bytes }))
            }
            Ending::Cancelled => self.failures.error(code::CANCELLED, "Command was cancelled"),
            Ending::TimedOut | Ending::Exited(_) => {
                let seconds = canonical::float(limit.seconds);
                let mut details = json!({ "timeout_s": limit.seconds });
                if limit.is_callers {
                    details["limited_by"] = "the call's deadline".into();
                }
                self.failures
                    .error(code::TIMEOUT, format!("Command timed out after {seconds}s"))
                    .details(details)
            }
        };
        let mut details = json!({ "cmd_first_token": self.program() });
        if let Some(cwd) = &self.config.cwd {
            details["cwd"] = cwd.as_str().into();
        }
        if !stdout.bytes().is_empty() {
            details["stdout_excerpt"] = stdout.excerpt(self.config.max_stdout_chars).into();
        }
        if !stderr.bytes().is_empty() {
            details["stderr_excerpt"] = self.stderr_excerpt(stderr);
        }
        error.details(details)
    }

    fn stderr_excerpt(&self, stderr: &Capture) -> Value {
        stderr.excerpt(self.config.max_stderr_chars).into()
    }

    /// Judges a command that ended by itself.
    fn verdict(
        &self,
        status: ExitStatus,
        stdout: &Capture,
        stderr: &Capture,
    ) -> Result<Object, AdapterError> {
        if !status.success() {
            let number = status.code().or_else(|| status.signal().map(|signal| -signal));
            let number = number.unwrap_or(-1);
            return Err(self
                .failures
                .error(code::NONZERO_EXIT, format!("Command exited with code {number}"))
                .details(json!({
                    "returncode": number, "stderr_excerpt": self.stderr_excerpt(stderr)
                })));
        }
        let output = self.parse(stdout.bytes())?;
        if self.config.strict_stderr && !stderr.is_blank() {
            return Err(self
                .failures
                .error(
                    failure::STDERR_ON_SUCCESS,
                    "Command produced stderr output (strict_stderr mode)",
                )
                .details(json!({ "stderr_excerpt": self.stderr_excerpt(stderr) })));
        }
        Ok(output)
    }

    fn parse(&self, stdout: &[u8]) -> Result<Object, AdapterError> {
        let text = std::str::from_utf8(stdout).map_err(|error| {
            let problem = format!("Invalid UTF-8 at byte {}", error.valid_up_to());
            self.not_json(&problem, &String::from_utf8_lossy(stdout))
        })?;
        json_error::check(text).map_err(|problem| self.not_json(&problem, text))?;
        match serde_json::from_str(text) {
            Ok(Value::Object(output)) => Ok(output),
            Ok(other) => {
                let message =
                    format!("Output is not a JSON object: {}", canonical::type_name(&other));
                Err(self.failures.error(failure::INVALID_JSON_OUTPUT, message))
            }
            Err(error) => Err(self.not_json(&error.to_string(), text)),
        }
    }

    fn not_json(&self, problem: &str, text: &str) -> AdapterError {
        let length = text.chars().count();
        let is_long = length > HEAD_CHARS + TAIL_CHARS;
        let head = if is_long { HEAD_CHARS } else { HEAD_CHARS + TAIL_CHARS };
        let mut details = json!({
            "stdout_len": length,
            "json_error": problem,
            "stdout_head": output::head(text, head),
        });
        if is_long {
            details["stdout_tail"] = output::tail(text, TAIL_CHARS).into();
        }
        self.failures
            .error(failure::INVALID_JSON_OUTPUT, format!("Invalid JSON output: {problem}"))
            .details(details)
    }
}

/// Says whether no file may be made, as where nothing is granted but the command.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The file with the arguments; it goes with this, and so does the directory around it.
struct ArgsFile {
    path: tempfile::TempPath,
    _directory: TempDir,
}
