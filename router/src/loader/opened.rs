//! A library that was examined without running it: what admits it, and what its failures are called.

use std::path::PathBuf;

use nexus_router_sdk::{AdapterError, code};
use serde_json::Value;

use super::config_schema::ConfigOutcome;
use super::description::{self, Description};
use super::dry_run::{End, Outcome};
use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;
use super::image::Image;
use super::library::Stage;
use super::manifest::{self, ManifestView};
use super::metadata::FactoryRecord;
use super::protocol::read_error;
use super::secrets::Secrets;
use super::versions;
use crate::digest::Digest;

/// A library that was examined without running it.
pub(crate) struct Opened {
    pub(crate) factory_ref: FactoryRef,
    pub(crate) path: PathBuf,
    pub(super) image: Image,
    pub(crate) record: FactoryRecord,
    pub(crate) view: Option<ManifestView>,
    pub(super) adapter_id: Option<String>,
    pub(crate) config: ConfigOutcome,
    pub(super) secrets: Secrets,
}

impl Opened {
    pub(crate) fn digest(&self) -> Digest {
        self.image.digest
    }

    pub(crate) fn size(&self) -> usize {
        self.image.size
    }

    pub(crate) fn records(&self) -> &[FactoryRecord] {
        &self.image.records
    }

    pub(crate) fn scrub(&self, text: &str) -> String {
        self.secrets.scrub(text)
    }

    pub(super) fn fail(&self, reason: Reason, message: impl Into<String>) -> AdapterLoadError {
        AdapterLoadError::new(self.factory_ref.as_str(), reason, message)
    }

    fn check_abi(&self) -> Result<(), AdapterLoadError> {
        let (theirs, ours) = (self.record.abi, nexus_router_abi::ABI_VERSION);
        if theirs == ours {
            return Ok(());
        }
        let (module, sdk) = (self.factory_ref.module(), &self.record.sdk);
        Err(self.fail(
            Reason::AbiMismatch,
            format!("module '{module}' has ABI {theirs} (SDK {sdk}); this router has ABI {ours}"),
        ))
    }

    /// Admits what can be known without running the library.
    pub(super) fn admit_statically(&self) -> Result<(), AdapterLoadError> {
        self.check_abi()?;
        if let Some(manifest) = &self.record.manifest {
            let errors = manifest::schema_errors(manifest);
            if !errors.is_empty() {
                let message = format!("Invalid manifest schema: {}", errors.join("; "));
                return Err(self.fail(Reason::ManifestInvalid, message));
            }
        }
        let specifier =
            self.view.as_ref().and_then(|view| view.supported_router_versions.as_deref());
        match specifier.map_or(versions::Support::Yes, versions::supports) {
            versions::Support::Yes => {}
            versions::Support::No => {
                let ours = versions::router_version();
                let specifier = specifier.unwrap_or_default();
                let message = format!("the adapter supports routers {specifier}; this is {ours}");
                return Err(self.fail(Reason::RouterVersionUnsupported, message));
            }
            versions::Support::Invalid(problem) => {
                let message = format!("supported_router_versions is not a specifier: {problem}");
                return Err(self.fail(Reason::ManifestInvalid, message));
            }
        }
        if self.config.findings.is_empty() {
            return Ok(());
        }
        let findings: Vec<String> = self.config.findings.iter().map(ToString::to_string).collect();
        Err(self.fail(Reason::ConfigInvalid, format!("invalid config: {}", findings.join("; "))))
    }

    /// Admits what an instance says of itself.
    pub(super) fn admit(&self, description: &str) -> Result<Description, AdapterLoadError> {
        description::admit(description).map_err(|(reason, problem)| {
            let function = self.factory_ref.function();
            let problem = self.scrub(&problem);
            self.fail(
                reason,
                format!("Factory '{function}' did not return a valid DispatchAdapter: {problem}"),
            )
        })
    }

    pub(super) fn refused(&self, reason: Reason, text: &str) -> AdapterLoadError {
        let module = self.factory_ref.module();
        let text = self.scrub(text);
        self.fail(reason, format!("Failed to import module '{module}': {text}"))
            .caused_by("dlopen", text)
    }

    pub(super) fn factory_failed(&self, error: &str) -> AdapterLoadError {
        let function = self.factory_ref.function();
        let error = self.scrub_error(read_error(error));
        let reason = if error.code == code::ADAPTER_PANICKED {
            Reason::FactoryPanicked
        } else {
            Reason::FactoryFailed
        };
        self.fail(reason, format!("Factory '{function}' raised: {}", error.message))
            .caused_by(&error.code, error.message)
    }

    pub(super) fn scrub_error(&self, error: AdapterError) -> AdapterError {
        let AdapterError { kind, code, message, details } = error;
        let message = self.scrub(&message);
        let details = self.scrub(&Value::Object(*details).to_string());
        let details = serde_json::from_str(&details).unwrap_or_default();
        AdapterError { kind, code, message, details: Box::new(details) }
    }

    /// Tells how a child ended that did not end well.
    pub(super) fn ending(&self, outcome: Outcome) -> AdapterLoadError {
        let (reason, what, cause_type) = match outcome.end {
            End::Refused { reason, text } => {
                let known = Reason::ALL.iter().find(|known| known.code() == reason);
                return self.refused(known.copied().unwrap_or(Reason::OpenFailed), &text);
            }
            End::FactoryFailed { error } => return self.factory_failed(&error),
            // Only a library that writes to our socket can have us told so.
            End::Done(_) => (Reason::LibraryExited, "spoke for its child".to_owned(), "protocol"),
            ref end @ End::Crashed { .. } => (Reason::LibraryCrashed, end.to_string(), "signal"),
            ref end @ End::Exited { .. } => (Reason::LibraryExited, end.to_string(), "exit"),
            ref end @ End::TimedOut { .. } => (Reason::LibraryTimedOut, end.to_string(), "timeout"),
        };
        let Some(stage) = outcome.stage.map(Stage::doing) else {
            let message = format!("the helper for the dry run {what} and never answered");
            return self.fail(Reason::DryRunUnavailable, message).caused_by(cause_type, what);
        };
        let module = self.factory_ref.module();
        let mut message = format!("module '{module}' {what} {stage}");
        if let Some(line) = last_line(&outcome.printed) {
            message.push_str(&format!("; it printed: {}", self.scrub(line)));
        }
        self.fail(reason, message).caused_by(cause_type, what)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crashed { signal } => write!(f, "crashed with {}", signal_name(*signal)),
            Self::Exited { code } => write!(f, "ended the process with exit code {code}"),
            Self::TimedOut { limit } => write!(f, "did not answer within {}s", limit.as_secs_f64()),
            Self::Done(_) | Self::Refused { .. } | Self::FactoryFailed { .. } => Ok(()),
        }
    }
}

impl Stage {
    /// Tells what was going on.
    fn doing(self) -> &'static str {
        match self {
            Self::Start => "before it was opened",
            Self::Open => "while it was opened (its constructors run then)",
            Self::Header => "while its header was checked",
            Self::Factory => "in its factory",
            Self::Describe => "while it described itself",
            Self::Call => "in a call",
            Self::Drop => "while its instance was dropped",
            Self::Exit => "while the process ended (its destructors run then)",
        }
    }
}

/// Turns the end of a child in a call into the call's error.
pub(super) fn crash_error(end: &End, stage: Option<Stage>) -> AdapterError {
    let message = format!("the adapter {end} {}", stage.map_or("", Stage::doing));
    match end {
        End::TimedOut { .. } => AdapterError::operational(code::TIMEOUT, message),
        _ => AdapterError::bug_with_code("ADAPTER_CRASHED", message),
    }
}

fn last_line(printed: &str) -> Option<&str> {
    let line = printed.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.char_indices().nth(300).map_or(line, |(end, _)| &line[..end]))
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    format!("{name} (signal {signal})")
}
