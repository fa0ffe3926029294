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
mod checks;
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
mod library_cache;
pub mod manifest;
mod metadata;
mod notice;
mod observer;
mod opened;
mod parameters;
mod pin;
mod placement;
mod rehearsal;
mod search;
mod side_effects;
mod simulation;
mod trial;
mod trial_places;
mod undeclared;
mod verdict;
pub mod versions;
pub(crate) mod wire;
mod working;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_router_sdk::{AdapterError, Object};
use serde_json::Value;

pub use adapter::{Adapter, Call, Workers};
pub(crate) use adapter::{Answered, Started};
pub use asking::{Ask, AskSink, refuse_asks};
pub use checks::{CHECKS, Check, CheckResult, Status, Strictness};
pub(crate) use checks::{Candidate, declared_lines, load_failure, run_checks, run_failing_checks};
pub use child::run_child;
pub use description::Description;
pub use dry_run::DryRun;
pub use error::{AdapterLoadError, Cause, Reason};
pub use factory_ref::FactoryRef;
pub use incident::{Incident, IncidentKind, IncidentReporter, IncidentSink, log_incidents};
pub use library_cache::{CachedLibrary, LibraryCache, PruneReport, PruneRule};
pub use metadata::FactoryRecord;
pub use notice::{Notice, NoticeSink, log_notices};
pub(crate) use opened::Opened;
pub use parameters::shown_manifest;
pub use placement::{Confined, Placement};
pub(crate) use rehearsal::Text as Rehearsed;
pub use search::{AdapterPath, library_name, module_name};
pub use trial_places::TrialPlaces;

use crate::config::{CacheSettings, Environment, MISPLACED_HINT, OwnKind, OwnPaths};
use crate::digest::Digest;
use crate::envoy;
use crate::grant::Isolation;
use crate::sandbox::Limits;
use crate::secret::{Secrets, secret_values};
pub use crate::worker::CHILD_ARGUMENT;
use image::Image;
use library::Factory;
use manifest::ManifestView;
use parameters::split_config;
use verdict::{KnownLoad, TrialVerdict};

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
    /// The most bytes of the private copies.
    pub cache_bytes: u64,
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
    /// What the system's loader loads into this process before anything else.
    pub library_preload: Option<OsString>,
    /// Where adapters run. A host that loads one says so by that alone that it trusts it; in `router.toml`
    /// workers are the default.
    pub placement: Placement,
    /// Receiver of the incidents of workers.
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
            cache_bytes: CacheSettings::default().max_bytes,
            dry_run: DryRun::Helper(find_helper(environment)),
            limits: Limits::default(),
            notices: log_notices(),
            asks: refuse_asks(),
            library_path: environment.library_path.clone(),
            library_preload: environment.library_preload.clone(),
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
        if self.dry_run != DryRun::Off {
            self.try_before_opening(&opened)?;
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

    /// Does everything that needs no code of the library.
    fn prepare(&self, request: &LoadRequest<'_>) -> Result<Opened, AdapterLoadError> {
        let factory_ref = FactoryRef::parse(request.factory_ref)?;
        if Adapter::is_built_in(request.factory_ref) {
            let message = format!("{factory_ref} is part of the router; it has no library");
            return Err(AdapterLoadError::new(factory_ref.as_str(), Reason::NotALibrary, message)
                .with_hint("load it as it is; there is nothing to validate"));
        }
        let (adapter_id, config) =
            split_config(request).map_err(|error| self.with_parameters(error, &factory_ref))?;
        let path = self.adapter_path.find(&factory_ref)?;
        let cache = (&*self.cache_dir, self.cache_bytes);
        let image = Image::take(factory_ref.as_str(), &path, request.pin, cache)?;
        if request.pin.is_some() {
            self.check_pinned_load(&factory_ref, &path, &image)?;
        }
        let record = opened::select(&factory_ref, &image)?.clone();
        let manifest = record.manifest.as_ref().filter(|manifest| manifest.is_object());
        let view = manifest.map(ManifestView::read);
        let config = config_schema::apply(view.as_ref(), &config);
        let secrets = Secrets::empty().with_hidden_values(secret_values(&config.config));
        Ok(Opened { factory_ref, path, image, record, view, adapter_id, config, secrets })
    }

    /// Tries a library that is to be opened here, unless it is known to load.
    fn try_before_opening(&self, opened: &Opened) -> Result<(), AdapterLoadError> {
        let verdict = self.verdict_of(opened)?;
        match verdict.recall() {
            Some(TrialVerdict::Refused(refusal)) => return Err(refusal.error(opened)),
            Some(TrialVerdict::Loads(_)) => return Ok(()),
            None => {}
        }
        let observations = self.admit_tried(opened, &verdict).map_err(|failed| failed.error)?;
        let confinement = &observations.confinement;
        if !confinement.is_full() || !observations.is_observed {
            let factory_ref = opened.factory_ref.as_str();
            tracing::warn!(factory_ref, %confinement, "tried without full confinement and observation");
        }
        verdict.remember_load(KnownLoad { worker: None });
        Ok(())
    }

    fn load_here(&self, opened: &Arc<Opened>) -> Result<Adapter, AdapterLoadError> {
        let function = opened.factory_ref.function();
        let factory = Factory::open(&opened.image.copy, function, |_| ())
            .map_err(|error| opened.refused(error.reason, &error.text))?;
        let name = notice::AdapterName::new(opened.label());
        let host = notice::host(Arc::clone(&name), self.notices.clone());
        let instance = factory
            .create(opened.adapter_id.as_deref(), &opened.config_text(), host)
            .map_err(|error| opened.factory_failed(&error))?;
        let described = instance.describe();
        let description = opened.admit(&described)?;
        opened.check_id(&description)?;
        name.set(&description.adapter_id);
        tracing::info!(
            adapter = %description.adapter_id,
            factory_ref = %opened.factory_ref,
            digest = %opened.image.digest,
            "adapter admitted"
        );
        let (factory_ref, digest) = (opened.factory_ref.as_str(), opened.image.digest);
        let simulation = simulation::workers(self, opened, &description, &described);
        let adapter = Adapter::of_library(factory_ref, description, instance, digest, simulation);
        Ok(adapter.counting_undeclared(opened.view.as_ref()))
    }
}

/// Outcome of a call in the child.
#[derive(Debug)]
pub struct Trial {
    /// The answer.
    pub answer: Result<Object, AdapterError>,
    /// What the adapter told the host.
    pub notices: Vec<Notice>,
    /// What the library printed, which it should not.
    pub printed: String,
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
