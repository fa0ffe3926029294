//! Loading an adapter: from `module:function` to an admitted instance, or one typed error.
//!
//! The steps are the same for every library, and each trusts only what the steps before it proved:
//! the ref is parsed, the file found, read once and hashed; its tables and metadata are examined without
//! running it; its manifest, the router's version and the configuration are compared; a confined child
//! opens and tries a private copy; and only then does the host open that copy and admit what it made.

mod adapter;
mod child;
pub mod config_schema;
pub(crate) mod description;
mod dry_run;
mod elf;
mod error;
mod factory_ref;
mod image;
mod library;
pub mod manifest;
mod metadata;
mod notice;
pub(crate) mod protocol;
mod search;
mod secrets;
mod side_effects;
mod verdict;
pub mod versions;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nexus_router_sdk::{AdapterError, ErrorKind, Object, code};
use serde_json::Value;

pub use adapter::{Adapter, Call};
pub use child::{CHILD_ARGUMENT, run_child};
pub use description::Description;
pub use dry_run::DryRun;
pub use error::{AdapterLoadError, Cause, Reason};
pub use factory_ref::FactoryRef;
pub use metadata::FactoryRecord;
pub use notice::{Notice, NoticeSink, log_notices};
pub use search::{AdapterPath, library_name, module_name};

use crate::config::Environment;
use crate::digest::Digest;
use crate::sandbox::Limits;
use config_schema::ConfigOutcome;
use dry_run::{End, Outcome};
use image::Image;
use library::{Factory, Stage};
use manifest::ManifestView;
use protocol::{Job, Observations, Task, read_error};
use secrets::Secrets;
use verdict::Verdict;

/// Loads an adapter with what the environment says: the adapter path of `NEXUS_ROUTER_ADAPTER_PATH` and
/// the executable's directory, and the `nexus-router` binary for the dry run.
///
/// ```no_run
/// use nexus_router::load_adapter;
/// let adapter = load_adapter(
///     "nexus_router_adapter_http:create_adapter",
///     Some("my-http"),
///     serde_json::json!({ "base_url": "https://example.com" }),
/// )?;
/// assert_eq!(adapter.adapter_id(), "my-http");
/// # Ok::<(), nexus_router::AdapterLoadError>(())
/// ```
///
/// # Errors
/// [`AdapterLoadError`], whatever went wrong.
#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
pub fn load_adapter(
    factory_ref: &str,
    adapter_id: Option<&str>,
    config: Value,
) -> Result<Adapter, AdapterLoadError> {
    let loader = Loader::from_environment(&Environment::read());
    loader.load(&LoadRequest { factory_ref, adapter_id, config: &config, pin: None })
}

/// What to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest<'a> {
    /// `module:function`.
    pub factory_ref: &'a str,
    /// The id of the instance, if the adapter's own default is not wanted.
    pub adapter_id: Option<&'a str>,
    /// The configuration: a JSON object.
    pub config: &'a Value,
    /// The digest that the library file must have.
    pub pin: Option<Digest>,
}

/// How to load: where libraries are, and how they are tried.
#[derive(Clone)]
pub struct Loader {
    /// Where libraries are looked up.
    pub adapter_path: AdapterPath,
    /// Where private copies and verdicts are kept.
    pub cache_dir: PathBuf,
    /// How unknown libraries are tried.
    pub dry_run: DryRun,
    /// What a dry run may use.
    pub limits: Limits,
    /// Where notices of adapters go.
    pub notices: NoticeSink,
    /// Where the system's loader looks for what libraries need, besides its own places.
    pub library_path: Option<OsString>,
}

impl Loader {
    /// Makes a loader of what the environment says.
    #[must_use]
    pub fn from_environment(environment: &Environment) -> Self {
        let beside = environment.executable.as_deref().and_then(Path::parent);
        let path = environment.adapter_path.iter().cloned().chain(beside.map(Path::to_owned));
        Self {
            adapter_path: AdapterPath::new(path),
            cache_dir: environment.cache_dir.clone(),
            dry_run: DryRun::Helper(find_helper(environment)),
            limits: Limits::default(),
            notices: log_notices(),
            library_path: environment.library_path.clone(),
        }
    }

    /// Loads an adapter: opens it and admits it.
    ///
    /// # Errors
    /// [`AdapterLoadError`], whatever went wrong.
    pub fn load(&self, request: &LoadRequest<'_>) -> Result<Adapter, AdapterLoadError> {
        let opened = self.prepare(request)?;
        opened.admit_statically()?;
        let copy = self.private_copy(&opened)?;
        if let DryRun::Helper(helper) = &self.dry_run {
            let verdict = Verdict::of(
                &self.cache_dir,
                helper,
                opened.image.digest,
                opened.factory_ref.function(),
                opened.adapter_id.as_deref(),
                &opened.config.config,
            )
            .map_err(|error| helper_error(opened.factory_ref.as_str(), helper, &error))?;
            if !verdict.is_good() {
                let observations = self.try_in_child(&opened, Task::Load)?.into_done();
                opened.admit(&observations.description)?;
                verdict.remember();
            }
        }
        self.load_here(&opened, &copy)
    }

    /// Reads the metadata of every factory of a library, without running any code of it.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when the file is not an adapter library.
    pub fn factories(&self, path: &Path) -> Result<Vec<FactoryRecord>, AdapterLoadError> {
        let shown = path.display().to_string();
        let image = Image::read(&shown, path, None)?;
        elf::examine(&shown, &shown, &image.bytes)
    }

    /// Makes one call in the confined child, which has neither network nor files to write.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when the adapter does not load. The call's own error is in the trial.
    pub fn try_call(
        &self,
        request: &LoadRequest<'_>,
        call: &Call<'_>,
    ) -> Result<Trial, AdapterLoadError> {
        let opened = self.prepare(request)?;
        opened.admit_statically()?;
        let text = call.request().map_err(|error| {
            AdapterLoadError::new(request.factory_ref, Reason::ConfigInvalid, error.to_string())
        })?;
        let outcome = self.run_child(&opened, Task::Call { request: text })?;
        let (stage, answered) = (outcome.stage, outcome.answer.is_some());
        // A child that ended in or after the call has loaded; how it ended is the call's result.
        let answer = match (&outcome.end, outcome.answer) {
            (End::Done(_), Some(answer)) => adapter::read_answer(answer),
            (end, _) if answered || stage == Stage::Call => Err(crash_error(end, stage)),
            _ => {
                let outcome = Outcome { answer: None, ..outcome };
                return Err(opened.ending(outcome));
            }
        };
        let answer = answer.map_err(|error| opened.scrub_error(error));
        Ok(Trial { answer, notices: outcome.notices, printed: outcome.printed })
    }

    /// Opens a library for examination: everything up to a described instance, in the child.
    pub(crate) fn examine(
        &self,
        request: &LoadRequest<'_>,
    ) -> Result<(Opened, Observations), AdapterLoadError> {
        let opened = self.prepare(request)?;
        let outcome = self.try_in_child(&opened, Task::Examine)?;
        let printed = outcome.printed.len();
        let mut observations = outcome.into_done();
        if printed > 0 {
            let effect = format!("output: at least {printed} bytes were printed");
            observations.side_effects.push(effect);
        }
        Ok((opened, observations))
    }

    /// Does everything that needs no code of the library.
    fn prepare(&self, request: &LoadRequest<'_>) -> Result<Opened, AdapterLoadError> {
        let factory_ref = FactoryRef::parse(request.factory_ref)?;
        let (adapter_id, config) = split_config(request)?;
        let path = self.adapter_path.find(&factory_ref)?;
        let image = Image::read(factory_ref.as_str(), &path, request.pin)?;
        let shown = path.display().to_string();
        let records = elf::examine(factory_ref.as_str(), &shown, &image.bytes)?;
        let record = elf::select(&factory_ref, &image.bytes, &records)?.clone();
        let manifest = record.manifest.as_ref().filter(|manifest| manifest.is_object());
        let view = manifest.map(ManifestView::read);
        let config = config_schema::apply(view.as_ref(), &config);
        let secrets = Secrets::of(&config.config);
        Ok(Opened { factory_ref, path, image, records, record, view, adapter_id, config, secrets })
    }

    fn private_copy(&self, opened: &Opened) -> Result<PathBuf, AdapterLoadError> {
        opened.image.private_copy(&self.cache_dir).map_err(|error| {
            let shown = self.cache_dir.display();
            opened
                .fail(Reason::CacheUnusable, format!("cannot keep a private copy in {shown}: {error}"))
                .caused_by("io::Error", error.to_string())
        })
    }

    fn run_child(&self, opened: &Opened, task: Task) -> Result<Outcome, AdapterLoadError> {
        let DryRun::Helper(helper) = &self.dry_run else {
            let message = "a confined child is needed, and dry runs are turned off";
            return Err(opened.fail(Reason::DryRunUnavailable, message));
        };
        let copy = self.private_copy(opened)?;
        let job = Job {
            library: copy.as_os_str().as_bytes().to_vec(),
            function: opened.factory_ref.function().to_owned(),
            adapter_id: opened.adapter_id.clone(),
            config: opened.config.config.clone(),
            task,
            limits: self.limits,
        };
        dry_run::run(helper, self.library_path.as_ref(), &job)
            .map_err(|error| helper_error(opened.factory_ref.as_str(), helper, &error))
    }

    fn try_in_child(&self, opened: &Opened, task: Task) -> Result<Outcome, AdapterLoadError> {
        let outcome = self.run_child(opened, task)?;
        if matches!(outcome.end, End::Done(_)) { Ok(outcome) } else { Err(opened.ending(outcome)) }
    }

    fn load_here(&self, opened: &Opened, copy: &Path) -> Result<Adapter, AdapterLoadError> {
        let function = opened.factory_ref.function();
        let factory = Factory::open(copy, function, |_| ())
            .map_err(|error| opened.refused(error.reason, &error.text))?;
        let config = serde_json::to_string(&opened.config.config)
            .map_err(|error| opened.fail(Reason::ConfigInvalid, error.to_string()))?;
        let host = notice::host(self.notices.clone());
        let instance = factory
            .create(opened.adapter_id.as_deref(), &config, host)
            .map_err(|error| opened.factory_failed(&error))?;
        let description = opened.admit(&instance.describe())?;
        tracing::info!(
            adapter = %description.adapter_id,
            factory_ref = %opened.factory_ref,
            digest = %opened.image.digest,
            "adapter admitted"
        );
        let factory_ref = opened.factory_ref.as_str();
        Ok(Adapter::of_library(factory_ref, description, instance, opened.image.digest))
    }
}

/// What came of a call in the child.
#[derive(Debug)]
pub struct Trial {
    /// The answer.
    pub answer: Result<Object, AdapterError>,
    /// What the adapter told the host.
    pub notices: Vec<Notice>,
    /// What the library printed, which it should not.
    pub printed: String,
}

/// A library that was examined without running it.
pub(crate) struct Opened {
    pub(crate) factory_ref: FactoryRef,
    pub(crate) path: PathBuf,
    image: Image,
    pub(crate) records: Vec<FactoryRecord>,
    pub(crate) record: FactoryRecord,
    pub(crate) view: Option<ManifestView>,
    adapter_id: Option<String>,
    pub(crate) config: ConfigOutcome,
    secrets: Secrets,
}

impl Opened {
    pub(crate) fn digest(&self) -> Digest {
        self.image.digest
    }

    pub(crate) fn size(&self) -> usize {
        self.image.bytes.len()
    }

    pub(crate) fn scrub(&self, text: &str) -> String {
        self.secrets.scrub(text)
    }

    fn fail(&self, reason: Reason, message: impl Into<String>) -> AdapterLoadError {
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
    fn admit_statically(&self) -> Result<(), AdapterLoadError> {
        self.check_abi()?;
        if let Some(manifest) = &self.record.manifest {
            let errors = manifest::schema_errors(manifest);
            if !errors.is_empty() {
                let message = format!("Invalid manifest schema: {}", errors.join("; "));
                return Err(self.fail(Reason::ManifestInvalid, message));
            }
        }
        let specifier = self.view.as_ref().and_then(|view| view.supported_router_versions.as_deref());
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
    fn admit(&self, description: &str) -> Result<Description, AdapterLoadError> {
        description::admit(description).map_err(|(reason, problem)| {
            let function = self.factory_ref.function();
            let problem = self.scrub(&problem);
            self.fail(
                reason,
                format!("Factory '{function}' did not return a valid DispatchAdapter: {problem}"),
            )
        })
    }

    fn refused(&self, reason: Reason, text: &str) -> AdapterLoadError {
        let module = self.factory_ref.module();
        let text = self.scrub(text);
        self.fail(reason, format!("Failed to import module '{module}': {text}"))
            .caused_by("dlopen", text)
    }

    fn factory_failed(&self, error: &str) -> AdapterLoadError {
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

    fn scrub_error(&self, error: AdapterError) -> AdapterError {
        let AdapterError { kind, code, message, details } = error;
        let message = self.scrub(&message);
        let details = self.scrub(&Value::Object(*details).to_string());
        let details = serde_json::from_str(&details).unwrap_or_default();
        AdapterError { kind, code, message, details: Box::new(details) }
    }

    /// Tells how a child ended that did not end well.
    fn ending(&self, outcome: Outcome) -> AdapterLoadError {
        let (reason, what, cause_type) = match outcome.end {
            End::Refused { reason, text } => {
                let known = Reason::ALL.iter().find(|known| known.code() == reason);
                return self.refused(known.copied().unwrap_or(Reason::OpenFailed), &text);
            }
            End::FactoryFailed { error } => return self.factory_failed(&error),
            End::Done(_) => unreachable!("a child that is done ended well"),
            ref end @ End::Crashed { .. } => (Reason::LibraryCrashed, end.to_string(), "signal"),
            ref end @ End::Exited { .. } => (Reason::LibraryExited, end.to_string(), "exit"),
            ref end @ End::TimedOut { .. } => (Reason::LibraryTimedOut, end.to_string(), "timeout"),
        };
        let module = self.factory_ref.module();
        let stage = outcome.stage.doing();
        let mut message = format!("module '{module}' {what} {stage}");
        if let Some(line) = last_line(&outcome.printed) {
            message.push_str(&format!("; it printed: {}", self.scrub(line)));
        }
        self.fail(reason, message).caused_by(cause_type, what)
    }
}

impl Outcome {
    fn into_done(self) -> Observations {
        match self.end {
            End::Done(observations) => *observations,
            _ => Observations::default(),
        }
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
fn crash_error(end: &End, stage: Stage) -> AdapterError {
    let message = format!("the adapter {end} {}", stage.doing());
    match end {
        End::TimedOut { .. } => AdapterError::operational(code::TIMEOUT, message),
        _ => AdapterError {
            kind: ErrorKind::Bug,
            ..AdapterError::bug_with_code("ADAPTER_CRASHED", message)
        },
    }
}

/// Takes `adapter_id` out of the configuration: it is a parameter of every factory, not a key of any.
fn split_config(request: &LoadRequest<'_>) -> Result<(Option<String>, Object), AdapterLoadError> {
    let invalid = |message: &str| {
        AdapterLoadError::new(request.factory_ref, Reason::ConfigInvalid, message.to_owned())
    };
    let Value::Object(config) = request.config else {
        return Err(invalid("config must be a JSON object"));
    };
    let mut config = config.clone();
    let adapter_id = match (request.adapter_id, config.shift_remove("adapter_id")) {
        (Some(id), _) => Some(id.to_owned()),
        (None, None | Some(Value::Null)) => None,
        (None, Some(Value::String(id))) => Some(id),
        (None, Some(_)) => return Err(invalid("config key 'adapter_id' must be a string")),
    };
    Ok((adapter_id, config))
}

/// Finds the program for dry runs: the named one, this one if it is `nexus-router`, or the one beside it,
/// in the directory above (where cargo puts it for tests), or on the program path.
fn find_helper(environment: &Environment) -> PathBuf {
    let name = "nexus-router";
    let own = environment.executable.as_deref();
    let is_router = |path: &&Path| path.file_stem().is_some_and(|stem| stem == name);
    if let Some(named) = environment.helper.as_deref().or_else(|| own.filter(is_router)) {
        return named.to_owned();
    }
    let around = own.into_iter().flat_map(|path| path.ancestors().skip(1).take(2));
    let programs = environment.program_path.iter().map(PathBuf::as_path);
    let mut candidates = around.chain(programs).map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

fn helper_error(factory_ref: &str, helper: &Path, error: &std::io::Error) -> AdapterLoadError {
    let message = format!("cannot run {} for the dry run: {error}", helper.display());
    AdapterLoadError::new(factory_ref, Reason::DryRunUnavailable, message)
        .caused_by("io::Error", error.to_string())
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
