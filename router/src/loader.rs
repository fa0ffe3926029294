//! Loading an adapter: from `module:function` to an admitted instance, or one typed error.
//!
//! The steps are the same for every library, and each trusts only what the steps before it proved:
//! the ref is parsed, the file found, read once and hashed; its tables and metadata are examined without
//! running it; its manifest, the router's version and the configuration are compared; a confined child
//! opens and tries a private copy; and only then does the host open that copy and admit what it made.

mod adapter;
mod asking;
mod cache;
mod catalog;
mod child;
pub mod config_schema;
pub(crate) mod description;
mod dry_run;
mod elf;
mod error;
mod factory_ref;
mod hearing;
mod image;
mod incident;
mod library;
pub mod manifest;
mod metadata;
mod notice;
mod opened;
mod placement;
mod rehearsal;
mod search;
mod side_effects;
mod simulation;
mod trial_places;
mod verdict;
pub mod versions;
pub(crate) mod wire;
mod working;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::{AdapterError, Object};
use serde_json::Value;

pub use adapter::{Adapter, Call, Workers};
pub(crate) use adapter::{Answered, Started};
pub use asking::{Ask, AskSink, refuse_asks};
pub use child::run_child;
pub use description::Description;
pub use dry_run::DryRun;
pub use error::{AdapterLoadError, Cause, Reason};
pub use factory_ref::FactoryRef;
pub use incident::{Incident, IncidentKind, IncidentSink, log_incidents};
pub use metadata::FactoryRecord;
pub use notice::{Notice, NoticeSink, log_notices};
pub(crate) use opened::Opened;
pub use placement::{Confined, Placement};
pub(crate) use rehearsal::Text as Rehearsed;
pub use search::{AdapterPath, library_name, module_name};
pub use trial_places::TrialPlaces;

use crate::config::{Environment, MISPLACED_HINT, OwnKind, OwnPaths};
use crate::digest::Digest;
use crate::envoy;
use crate::grant::{Feature, Grants, Isolation};
use crate::sandbox::{Limits, Metadata, Profile, Reading};
use crate::secret::{Secrets, secret_values};
pub use crate::worker::CHILD_ARGUMENT;
use crate::worker::Recipe;
use dry_run::Outcome;
use hearing::Halt;
use image::Image;
use library::{Factory, Stage};
use manifest::ManifestView;
use opened::call_error;
use rehearsal::Surroundings;
use verdict::Verdict;
use wire::{Observations, Task};

/// Loads an adapter with what the environment says: the adapter path of `NEXUS_ROUTER_ADAPTER_PATH` and
/// the executable's directory, and the `nexus-router` binary for the dry run.
///
/// ```no_run
/// use nexus_router::load_adapter;
/// let adapter = load_adapter(
///     "nexus_router_adapter_http:create_adapter",
///     Some("my-http"),
///     &serde_json::json!({ "base_url": "https://example.com" }),
/// )?;
/// assert_eq!(adapter.adapter_id(), "my-http");
/// # Ok::<(), nexus_router::AdapterLoadError>(())
/// ```
///
/// # Errors
/// [`AdapterLoadError`], whatever went wrong.
pub fn load_adapter(
    factory_ref: &str,
    adapter_id: Option<&str>,
    config: &Value,
) -> Result<Adapter, AdapterLoadError> {
    let loader = Loader::from_environment(&Environment::read());
    loader.load(&LoadRequest { factory_ref, adapter_id, config, pin: None })
}

/// Reads the metadata of every factory from the bytes of a library, without running any code of it.
///
/// # Errors
/// [`AdapterLoadError`] when the bytes are no adapter library.
pub fn factories_in(bytes: &[u8]) -> Result<Vec<FactoryRecord>, AdapterLoadError> {
    elf::examine("", "the library", bytes)
}

/// Processor time that a dry run may have beyond its time: the deadline comes first.
const GRACE: Duration = Duration::from_secs(2);

/// How many descriptors a dry run may have open.
const DESCRIPTORS: u64 = 256;

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
    /// Who answers what calls in workers ask.
    pub asks: AskSink,
    /// Where the system's loader looks for what libraries need, besides its own places.
    pub library_path: Option<OsString>,
    /// Where adapters run. A host that loads one says so by that alone that it trusts it; in `router.toml`
    /// workers are the default.
    pub placement: Placement,
    /// Who is told what befalls workers.
    pub incidents: IncidentSink,
    /// Places for trials, if several libraries are loaded at once.
    pub places: Option<TrialPlaces>,
}

impl Loader {
    /// Makes a loader of what the environment says.
    #[must_use]
    pub fn from_environment(environment: &Environment) -> Self {
        Self::with_path(environment, &[], &[])
    }

    /// Makes a loader of what the environment says, with more directories: those that were named for
    /// this very purpose come first, those of a configuration file after the environment's.
    #[must_use]
    pub fn with_path(environment: &Environment, named: &[PathBuf], configured: &[PathBuf]) -> Self {
        let beside = environment.executable.as_deref().and_then(Path::parent).map(Path::to_owned);
        let directories = named.iter().chain(&environment.adapter_path).chain(configured).cloned();
        Self {
            adapter_path: AdapterPath::new(directories.chain(beside)),
            cache_dir: environment.cache_dir.clone(),
            dry_run: DryRun::Helper(find_helper(environment)),
            limits: Limits::default(),
            notices: log_notices(),
            asks: refuse_asks(),
            library_path: environment.library_path.clone(),
            placement: Placement::inline(),
            incidents: log_incidents(),
            places: None,
        }
    }

    /// Loads an adapter: opens it and admits it.
    ///
    /// # Errors
    /// [`AdapterLoadError`], whatever went wrong.
    pub fn load(&self, request: &LoadRequest<'_>) -> Result<Adapter, AdapterLoadError> {
        if request.factory_ref == Adapter::NULL_REF {
            return Ok(Adapter::null());
        }
        if request.factory_ref == envoy::REF {
            return self.load_envoy(request);
        }
        let opened = self.prepare(request)?;
        opened.admit_statically()?;
        if self.placement.isolation == Isolation::Worker {
            return working::load(self, opened);
        }
        if let DryRun::Helper(helper) = &self.dry_run {
            let verdict = Verdict::of(&self.cache_dir, helper, &opened, "inline")
                .map_err(|error| helper_error(opened.factory_ref.as_str(), helper, &error))?;
            if verdict.recall::<bool>() != Some(true) {
                let (observations, _) = self.try_in_child(&opened, Task::Load)?;
                opened.admit(&observations.description)?;
                let confinement = &observations.confinement;
                if !confinement.is_full() {
                    let factory_ref = opened.factory_ref.as_str();
                    tracing::warn!(factory_ref, %confinement, "tried without full confinement");
                }
                verdict.remember(&true);
            }
        }
        self.load_here(&Arc::new(opened))
    }

    /// Makes the adapter that carries out actions of role `envoy`.
    fn load_envoy(&self, request: &LoadRequest<'_>) -> Result<Adapter, AdapterLoadError> {
        let refused = |reason, message: String| {
            AdapterLoadError::new(envoy::REF, reason, format!("{}: {message}", envoy::REF))
        };
        let (adapter_id, config) = split_config(request)?;
        let adapter_id = adapter_id.unwrap_or_else(|| envoy::DEFAULT_ID.to_owned());
        if request.pin.is_some() {
            let message = "it is part of the router and has no library that a pin could be of";
            return Err(refused(Reason::ConfigInvalid, message.to_owned()));
        }
        let DryRun::Helper(helper) = &self.dry_run else {
            let message = "a confined child is needed, and dry runs are turned off".to_owned();
            return Err(refused(Reason::DryRunUnavailable, message));
        };
        let settings = envoy::Settings::read(&Value::Object(config))
            .map_err(|why| refused(Reason::ConfigInvalid, why))?;
        let mut own = OwnPaths::default();
        own.add("the cache", OwnKind::Directory, &self.cache_dir);
        own.add("the program", OwnKind::File, helper);
        if let Some(overlap) = own.overlap(&settings.workspace) {
            let place = settings.workspace.display();
            let message = format!("workspace {place} {overlap}; {MISPLACED_HINT}");
            return Err(refused(Reason::ConfigInvalid, message));
        }
        let makings = envoy::Makings {
            adapter_id: adapter_id.clone(),
            grants: self.placement.grants.clone(),
            memory: self.placement.memory,
            helper: helper.clone(),
            staging: self.cache_dir.join("staging"),
        };
        let envoy = envoy::Envoy::open(settings, makings)
            .map_err(|why| refused(Reason::ConfigInvalid, why))?;
        let confinement = envoy.confinement().to_string();
        tracing::info!(adapter = %adapter_id, confinement, "envoy admitted");
        Ok(Adapter::of_envoy(&adapter_id, envoy))
    }

    /// Returns the file that a ref would be loaded from now, if there is one. The built-in adapter has none.
    #[must_use]
    pub fn find(&self, factory_ref: &str) -> Option<PathBuf> {
        let parsed = FactoryRef::parse(factory_ref).ok()?;
        self.adapter_path.find(&parsed).ok().filter(|_| !Adapter::is_built_in(factory_ref))
    }

    /// Returns the digest of the library that would be loaded now; the built-in adapter has none.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when there is no such library, or it is no adapter.
    pub fn digest(&self, request: &LoadRequest<'_>) -> Result<Option<Digest>, AdapterLoadError> {
        if Adapter::is_built_in(request.factory_ref) {
            return Ok(None);
        }
        Ok(Some(self.prepare(request)?.digest()))
    }

    /// Reads the metadata of every factory of a library, without running any code of it.
    ///
    /// # Errors
    /// [`AdapterLoadError`] when the file is not an adapter library.
    pub fn factories(path: &Path) -> Result<Vec<FactoryRecord>, AdapterLoadError> {
        let shown = path.display().to_string();
        elf::examine(&shown, &shown, &image::read(&shown, path)?)
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
        let outcome = self.run_child(
            &opened,
            Task::Call { request: call.request() },
            &Surroundings::default(),
        )?;
        let answer = match (outcome.result, outcome.answer, outcome.stage) {
            (Ok(_), Some(answer), _) => {
                adapter::read_answer(answer.as_deref().map_err(String::as_str))
            }
            (Ok(_), None, _) => {
                Err(AdapterError::bug("the adapter ended the call without an answer"))
            }
            // A child that ended in or after the call has loaded; how it ended is the call's result.
            (Err(Halt::Ended(ending)), _, Some(stage)) if stage >= Stage::Call => {
                Err(call_error(&ending, stage))
            }
            (Err(halt), _, stage) => return Err(opened.halted(&halt, stage, &outcome.printed)),
        };
        let notices = outcome.notices.iter().map(|notice| opened.scrub_notice(notice)).collect();
        let printed = opened.scrub(&outcome.printed);
        Ok(Trial { answer: answer.map_err(|error| opened.scrub_error(error)), notices, printed })
    }

    /// Opens a library for examination: everything up to a described instance, in the child.
    pub(crate) fn examine(
        &self,
        request: &LoadRequest<'_>,
    ) -> Result<(Opened, Observations), AdapterLoadError> {
        let opened = self.prepare(request)?;
        let (mut observations, printed) = self.try_in_child(&opened, Task::Examine)?;
        if !printed.is_empty() {
            let effect = format!("output: at least {} bytes were printed", printed.len());
            observations.side_effects.push(effect);
        }
        Ok((opened, observations))
    }

    /// Does everything that needs no code of the library.
    fn prepare(&self, request: &LoadRequest<'_>) -> Result<Opened, AdapterLoadError> {
        let factory_ref = FactoryRef::parse(request.factory_ref)?;
        if Adapter::is_built_in(request.factory_ref) {
            let message = format!("{factory_ref} is part of the router; it has no library");
            return Err(AdapterLoadError::new(factory_ref.as_str(), Reason::NotALibrary, message)
                .with_hint("load it as it is; there is nothing to validate"));
        }
        let (adapter_id, config) = split_config(request)?;
        let path = self.adapter_path.find(&factory_ref)?;
        let image = Image::take(factory_ref.as_str(), &path, request.pin, &self.cache_dir)?;
        let record = opened::select(&factory_ref, &image)?.clone();
        let manifest = record.manifest.as_ref().filter(|manifest| manifest.is_object());
        let view = manifest.map(ManifestView::read);
        let config = config_schema::apply(view.as_ref(), &config);
        let secrets = Secrets::empty().with_hidden_values(secret_values(&config.config));
        Ok(Opened { factory_ref, path, image, record, view, adapter_id, config, secrets })
    }

    /// Returns the program that children run.
    fn helper(&self, opened: &Opened) -> Result<&Path, AdapterLoadError> {
        match &self.dry_run {
            DryRun::Helper(helper) => Ok(helper),
            DryRun::Off => {
                let message = "a confined child is needed, and dry runs are turned off";
                Err(opened.fail(Reason::DryRunUnavailable, message))
            }
        }
    }

    fn run_child(
        &self,
        opened: &Opened,
        task: Task,
        surroundings: &Surroundings,
    ) -> Result<Outcome, AdapterLoadError> {
        let helper = self.helper(opened)?;
        let unusable =
            |error: &std::io::Error| helper_error(opened.factory_ref.as_str(), helper, error);
        let job = opened.job(task, self.profile(opened));
        let library_path = self.library_path.clone().map(|path| ("LD_LIBRARY_PATH".into(), path));
        let recipe = Recipe {
            program: helper.to_owned(),
            argument: CHILD_ARGUMENT,
            lasting: false,
            guarded: !self.placement.grants.run.is_empty(),
            environment: library_path.into_iter().chain(surroundings.environment.clone()).collect(),
            directory: surroundings.directory.clone(),
            job: serde_json::to_vec(&job).map_err(|error| unusable(&error.into()))?,
        };
        let place = self.trial_place(opened)?;
        dry_run::run(&recipe, place.limit(self.limits.time)).map_err(|error| unusable(&error))
    }

    /// Returns what the child of a dry run may use and reach: what a worker may, or, for one that is to be
    /// opened here, nothing but reading, and as far as the kernel can do it.
    fn profile(&self, opened: &Opened) -> Profile {
        let worker = self.placement.isolation == Isolation::Worker;
        let all = || Feature::ALL.iter().map(|(_, feature)| *feature).collect();
        let Placement { grants, accept_missing, .. } = &self.placement;
        Profile {
            memory: self.limits.memory,
            processor: Some(self.limits.time.saturating_add(GRACE)),
            descriptors: DESCRIPTORS,
            reading: if worker { Reading::Granted } else { Reading::Anything },
            library_path: self.readable(opened),
            grants: if worker { grants.clone() } else { Grants::default() },
            workspace: None,
            metadata: Metadata::Denied,
            processes: None,
            file_size: None,
            accept: if worker { accept_missing.clone() } else { all() },
        }
    }

    /// Returns what a child must be able to read.
    fn readable(&self, opened: &Opened) -> Vec<PathBuf> {
        let places = self.library_path.iter().flat_map(std::env::split_paths);
        places.filter(|place| place.is_absolute()).chain([opened.image.copy.clone()]).collect()
    }

    /// Returns what the child saw, and what the library printed.
    fn try_in_child(
        &self,
        opened: &Opened,
        task: Task,
    ) -> Result<(Observations, String), AdapterLoadError> {
        let Outcome { result, stage, printed, .. } =
            self.run_child(opened, task, &Surroundings::default())?;
        match result {
            Ok(observations) => Ok((observations, printed)),
            Err(halt) => Err(opened.halted(&halt, stage, &printed)),
        }
    }

    fn load_here(&self, opened: &Arc<Opened>) -> Result<Adapter, AdapterLoadError> {
        let function = opened.factory_ref.function();
        let factory = Factory::open(&opened.image.copy, function, |_| ())
            .map_err(|error| opened.refused(error.reason, &error.text))?;
        let host = notice::host(self.notices.clone());
        let instance = factory
            .create(opened.adapter_id.as_deref(), &opened.config_text(), host)
            .map_err(|error| opened.factory_failed(&error))?;
        let described = instance.describe();
        let description = opened.admit(&described)?;
        opened.check_id(&description)?;
        tracing::info!(
            adapter = %description.adapter_id,
            factory_ref = %opened.factory_ref,
            digest = %opened.image.digest,
            "adapter admitted"
        );
        let (factory_ref, digest) = (opened.factory_ref.as_str(), opened.image.digest);
        let simulation = simulation::workers(self, opened, &description, &described);
        Ok(Adapter::of_library(factory_ref, description, instance, digest, simulation))
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
        (Some(id), _) if !id.is_empty() => Some(id.to_owned()),
        (Some(_), _) => None,
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
