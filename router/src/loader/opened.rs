//! A library that was examined without running it: what admits it, and what its failures are called.

use std::path::PathBuf;

use nexus_router_sdk::{AdapterError, code};
use serde_json::Value;

use super::adapter::read_error;
use super::config_schema::ConfigOutcome;
use super::description::{self, Description};
use super::elf;
use super::error::{AdapterLoadError, Reason};
use super::factory_ref::FactoryRef;
use super::hearing::Halt;
use super::image::{self, Image};
use super::library::{OPEN_REASONS, Stage};
use super::manifest::{self, ManifestView};
use super::metadata::FactoryRecord;
use super::notice::Notice;
use super::versions;
use crate::digest::Digest;
use crate::secret::Secrets;
use crate::worker::Ending;

/// A hint lists no more factories than these.
const MAX_SHOWN: usize = 20;

/// What stands before the last line that a library printed.
pub(super) const PRINTED: &str = "; it printed: ";

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

    pub(crate) fn scrub_value(&self, value: &Value) -> Value {
        self.secrets.scrub_value(value)
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
        self.config_invalid().map_or(Ok(()), Err)
    }

    /// Returns the error for a configuration that does not fit, or for a default that fits none, unless all is well.
    fn config_invalid(&self) -> Option<AdapterLoadError> {
        let manifest = self.record.manifest.as_ref();
        let wrong_defaults = manifest.map(manifest::default_errors).unwrap_or_default();
        let findings: Vec<String> = self.config.findings.iter().map(ToString::to_string).collect();
        let problems = [wrong_defaults.as_slice(), findings.as_slice()].concat();
        if problems.is_empty() {
            return None;
        }
        let error =
            self.fail(Reason::ConfigInvalid, format!("invalid config: {}", problems.join("; ")));
        let params = self.view.as_ref().map(|view| view.config.as_slice()).unwrap_or_default();
        let error = error.with_parameters(params);
        Some(if wrong_defaults.is_empty() {
            error
        } else {
            error
                .with_hint(
                    "correct the default in the manifest, or report it to the adapter's author",
                )
                .caused_by("manifest", wrong_defaults.join("; "))
        })
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

    /// Checks that the instance bears the id that was asked for: a host registers it under that id.
    pub(super) fn check_id(&self, description: &Description) -> Result<(), AdapterLoadError> {
        match &self.adapter_id {
            Some(asked) if *asked != description.adapter_id => {
                let (function, made) = (self.factory_ref.function(), &description.adapter_id);
                let message = format!(
                    "Factory '{function}' was asked for adapter_id '{asked}', made '{made}'"
                );
                Err(self.fail(Reason::ProtocolInvalid, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the configuration as it crosses the ABI. A JSON value can always be written.
    pub(super) fn config_text(&self) -> String {
        serde_json::to_string(&self.config.config).unwrap_or_default()
    }

    pub(super) fn refused(&self, reason: Reason, text: &str) -> AdapterLoadError {
        let module = self.factory_ref.module();
        let text = self.scrub(text);
        let cause_type = if reason == Reason::AbiMismatch { "abi" } else { "dlopen" };
        self.fail(reason, format!("Failed to import module '{module}': {text}"))
            .caused_by(cause_type, text)
    }

    pub(super) fn factory_failed(&self, error: &str) -> AdapterLoadError {
        // The manifest's own finding is clearer than what a factory makes of a wrong configuration.
        if let Some(error) = self.config_invalid() {
            return error;
        }
        let function = self.factory_ref.function();
        let error = self.scrub_error(read_error(error));
        let reason = if error.code == code::ADAPTER_PANICKED {
            Reason::FactoryPanicked
        } else {
            Reason::FactoryFailed
        };
        let causes = error.details.get("causes").and_then(Value::as_array).into_iter().flatten();
        let chain = std::iter::once(error.message.as_str()).chain(causes.filter_map(Value::as_str));
        let chain: Vec<&str> = chain.collect();
        self.fail(reason, format!("Factory '{function}' raised: {}", error.message))
            .caused_by(&error.code, chain.join(": "))
    }

    pub(super) fn scrub_error(&self, error: AdapterError) -> AdapterError {
        let AdapterError { kind, code, message, details } = error;
        let details = Box::new(self.secrets.scrub_object(&details));
        AdapterError { kind, code, message: self.scrub(&message), details }
    }

    pub(super) fn scrub_notice(&self, notice: &Notice) -> Notice {
        let value = serde_json::to_value(notice).unwrap_or_default();
        serde_json::from_value(self.secrets.scrub_value(&value)).unwrap_or_else(|_| notice.clone())
    }

    /// Tells why a child did not do what it was to do.
    pub(super) fn halted(
        &self,
        halt: &Halt,
        stage: Option<Stage>,
        printed: &str,
    ) -> AdapterLoadError {
        let module = self.factory_ref.module();
        let ending = match halt {
            Halt::Refused { reason, text } => {
                // The child is believed only what opening can end with.
                let known = OPEN_REASONS.iter().find(|known| known.code() == reason);
                return self.refused(known.copied().unwrap_or(Reason::OpenFailed), text);
            }
            Halt::FactoryFailed { error } => return self.factory_failed(error),
            Halt::Unconfined { .. } => {
                return self.fail(Reason::SandboxUnavailable, format!("module '{module}' {halt}"));
            }
            Halt::Unfit { .. } => {
                return self.fail(Reason::GrantUnusable, format!("module '{module}' {halt}"));
            }
            Halt::Ended(ending) => ending,
        };
        let (reason, cause_type) = match ending {
            Ending::Crashed { .. } => (Reason::LibraryCrashed, "signal"),
            Ending::Exited { .. } => (Reason::LibraryExited, "exit"),
            Ending::TimedOut { .. } => (Reason::LibraryTimedOut, "timeout"),
            Ending::Overran { .. } => (Reason::LibraryCrashed, "processes"),
            Ending::Flooded | Ending::Garbled { .. } | Ending::Stopped => {
                (Reason::LibraryCrashed, "wire")
            }
        };
        let Some(stage) = stage else {
            let message = format!("the helper for the dry run {ending} and never answered");
            return self
                .fail(Reason::DryRunUnavailable, message)
                .caused_by(cause_type, ending.to_string());
        };
        let mut message = format!("module '{module}' {ending} {}", stage.doing());
        if let Some(line) = last_line(printed) {
            message.push_str(&format!("{PRINTED}{}", self.scrub(line)));
        }
        self.fail(reason, message).caused_by(cause_type, ending.to_string())
    }
}

/// Turns the end of a child in or after a call into the call's error.
pub(super) fn call_error(ending: &Ending, stage: Stage) -> AdapterError {
    let message = format!("the adapter {ending} {}", stage.doing());
    match ending {
        Ending::TimedOut { .. } => AdapterError::operational(code::TIMEOUT, message),
        _ => AdapterError::bug_with_code("ADAPTER_CRASHED", message),
    }
}

/// Returns the record of the factory that a ref names.
pub(super) fn select<'i>(
    factory_ref: &FactoryRef,
    image: &'i Image,
) -> Result<&'i FactoryRecord, AdapterLoadError> {
    let (module, function) = (factory_ref.module(), factory_ref.function());
    if let Some(record) = image.records.iter().find(|record| record.factory == function) {
        return Ok(record);
    }
    let bytes = image::read(factory_ref.as_str(), &image.copy)?;
    let (reason, message) = if elf::exports(&bytes, function) {
        (Reason::NotAFactory, format!("'{function}' in module '{module}' is not callable"))
    } else {
        (Reason::FactoryNotFound, format!("Module '{module}' has no attribute '{function}'"))
    };
    let names = image.records.iter().map(|record| record.factory.as_str());
    let mut shown = names.take(MAX_SHOWN).collect::<Vec<_>>().join(", ");
    if let Some(more) = image.records.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        shown.push_str(&format!(" and {more} more"));
    }
    Err(AdapterLoadError::new(factory_ref.as_str(), reason, message)
        .with_hint(format!("the library exports {shown}")))
}

fn last_line(printed: &str) -> Option<&str> {
    let line = printed.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.char_indices().nth(300).map_or(line, |(end, _)| &line[..end]))
}
