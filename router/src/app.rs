//! What the shells call: one value that has the store, the adapters and the router, each when needed.
//!
//! Nothing is opened before it is wanted, so that a request that is refused leaves no trace, and whoever
//! only reads creates nothing.

mod boundary;
mod callers;
mod catalogues;
mod command;
mod contracts;
mod disabled;
mod error;
mod fleet;
mod gatekeeping;
mod keepers;
mod loading;
mod misplaced;
mod options;
mod plan;
mod prepared;
mod sealing;
mod setup;
mod signals;
mod slot;
mod sources;
mod state;
mod storage;
mod timeline;
mod tool;
mod trials;
mod unmatched;
mod watchman;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

pub use catalogues::News;
pub use command::StoreOption;
pub(crate) use command::add as add_option;
pub use disabled::ContractChanges;
pub(crate) use disabled::{add_disabled, warn_of_disabled};
pub use error::Error;
pub(crate) use error::full_text;
pub use fleet::{Changes, PassedOver};
pub use gatekeeping::Judged;
pub(crate) use loading::RetryAnswer;
pub use prepared::Prepared;
pub(crate) use slot::WantedAdapter;
pub use slot::{AdapterCounts, LoadFailure, UnreadyAdapter};
pub(crate) use state::{add_confinement, moment, until};
pub use timeline::{Span, SpanStatus, StepForecast, Timeline};
pub use tool::{TOOLS, Tool};
pub(crate) use trials::TrialOutcome;
pub use unmatched::UnmatchedSetting;
pub use watchman::Watchman;

use crate::budget::MemoryBudget;
use crate::bundle::{self, ImportOptions, Imported};
use crate::caller::CallerCheck;
use crate::config::{AdapterEntry, ConfigFile, DEFAULT_STORE, Environment, OwnPaths};
use crate::desk::Desks;
use crate::gate::Witness;
use crate::json::Value;
use crate::listener::Listeners;
use crate::loader::{AskSink, IncidentSink, Loader, NoticeSink, log_notices};
use crate::metrics::Metrics;
use crate::policy::Law;
use crate::registry::Registry;
use crate::router::Router;
use crate::secret::Secrets;
use crate::signal::Discovery;
use crate::store::{self, Store};
use crate::toolspec::Tools;
use contracts::Contracts;
use fleet::{Fleet, Hidden, LoadMode, Sources};
use sealing::Sealing;
use storage::{make_private, read_only, try_import, writable};

/// The name of a store that is gone with its process, as the Python router has it.
const IN_MEMORY: &str = ":memory:";

/// Whether callers of tools may name files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// They may: they are the user who started the program.
    #[default]
    Allowed,
    /// They may not: there is one store, and adapters are those on the adapter path.
    Own,
}

/// What is said for this very use; it comes before the environment and `router.toml`.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The store.
    pub db: Option<PathBuf>,
    /// The directory of everything that is kept.
    pub data_dir: Option<PathBuf>,
    /// More adapters; the first of them is the default one.
    pub adapters: Vec<AdapterEntry>,
    /// More directories with adapters.
    pub adapter_path: Vec<PathBuf>,
    /// Whether callers of tools may name files.
    pub paths: Paths,
    /// Load the adapters beside the program when nothing says which adapters there are.
    pub discover: bool,
    /// Take only the contracts of this program, and no tools: for whoever works on the contracts themselves.
    pub without_contracts: bool,
    /// Read the signal contracts also if no adapter is held to one, because they are told to anybody who asks.
    pub publishes: bool,
    /// Seal also the runs that a process left unsealed.
    pub seals_backlog: bool,
    /// Load the adapters in the background, as a daemon does; nobody waits for them.
    pub in_background: bool,
    /// Where the keys and the log are, if they are not those of the cabinet: then several cabinets share one log.
    pub log_root: Option<PathBuf>,
}

/// A router with everything around it.
pub struct App {
    environment: Environment,
    named: Named,
    /// Own files in use since the start. A reload does not change them.
    own_until_restart: OwnPaths,
    ears: Ears,
    metrics: Metrics,
    witness: Witness,
    caller_check: CallerCheck,
    watchman: Watchman,
    listeners: Listeners,
    desks: Desks,
    news: Arc<News>,
    hidden: Hidden,
    setup: RwLock<Arc<Setup>>,
    store: Mutex<Option<Store>>,
    router: Mutex<Option<Router>>,
    sealing: Mutex<Option<Sealing>>,
    memory: OnceLock<MemoryBudget>,
}

/// What a configuration says, and what was made of it. Replaced as a whole.
struct Setup {
    config: ConfigFile,
    loader: Loader,
    fleet: Mutex<Option<Arc<Fleet>>>,
}

/// Who hears of adapters, whatever the configuration.
struct Ears {
    notices: NoticeSink,
    asks: AskSink,
    incidents: IncidentSink,
}

/// Where the store is.
#[derive(Debug)]
enum Place {
    /// Somebody named it.
    Named(PathBuf),
    /// Nobody did; its directory is made when it is first written.
    Default { directory: PathBuf, file: PathBuf },
    /// Nowhere but in memory.
    Memory,
    /// Nobody did, and there is no home.
    Nowhere,
}

/// What to do when there is no store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Make it.
    Create,
    /// Say so.
    Refuse,
}

impl App {
    /// Puts together what the operator says. Nothing is opened yet.
    #[must_use]
    pub fn new(environment: &Environment, config: ConfigFile, named: Named) -> Self {
        let (metrics, watchman) = (Metrics::default(), Watchman::default());
        let hidden = Hidden::default();
        let incidents = watchman.sink(&metrics, &hidden);
        let (listeners, news) = (Listeners::default(), Arc::<News>::default());
        let notices = news.sink(listeners.sink(log_notices()));
        let desks = Desks::default();
        let ears = Ears { notices, asks: desks.sink(), incidents };
        let places = misplaced::named_places(&named, environment);
        let own_until_restart = OwnPaths::until_restart(&config, environment, places);
        let setup = Setup::new(environment, config, &named, &ears);
        Self {
            environment: environment.clone(),
            named,
            own_until_restart,
            ears,
            metrics,
            witness: Witness::default(),
            caller_check: CallerCheck::default(),
            watchman,
            listeners,
            desks,
            news,
            hidden,
            setup: RwLock::new(Arc::new(setup)),
            store: Mutex::default(),
            router: Mutex::default(),
            sealing: Mutex::default(),
            memory: OnceLock::new(),
        }
    }

    /// Sends what adapters tell while they work to `sink`, free of secrets. Only before they are loaded.
    #[must_use]
    pub fn with_notices(mut self, sink: NoticeSink) -> Self {
        self.ears.notices = self.news.sink(self.listeners.sink(sink));
        let config = self.setup().config.clone();
        let setup = Setup::new(&self.environment, config, &self.named, &self.ears);
        self.setup = RwLock::new(Arc::new(setup));
        self
    }

    fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the configuration that is in force.
    #[must_use]
    pub fn config(&self) -> ConfigFile {
        self.setup().config.clone()
    }

    /// Returns what is counted and measured.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns who is told of calls that are denied.
    #[must_use]
    pub const fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Returns the check of the callers of runs under way.
    #[must_use]
    pub const fn caller_check(&self) -> &CallerCheck {
        &self.caller_check
    }

    /// Returns who hears of catalogues and resources that change.
    #[must_use]
    pub fn news(&self) -> &News {
        &self.news
    }

    /// Returns who is told what befalls workers.
    #[must_use]
    pub const fn watchman(&self) -> &Watchman {
        &self.watchman
    }

    /// Returns the directory of everything that is kept, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn data_dir(&self) -> Result<PathBuf, Error> {
        let configured = self.setup().config.data_dir.clone();
        let named = self.named.data_dir.clone().or_else(|| self.environment.data_dir.clone());
        let directory = named.or(configured).or_else(|| self.environment.state_dir.clone());
        directory.ok_or(Error::NoPlace)
    }

    fn place(&self) -> Place {
        let (environment, named) = (&self.environment, &self.named);
        let configured = &self.setup().config;
        let db = named.db.as_ref().or(environment.db.as_ref()).or(configured.db.as_ref());
        match (db, self.data_dir()) {
            (Some(file), _) if named.paths == Paths::Own && file == Path::new(IN_MEMORY) => {
                Place::Memory
            }
            (Some(file), _) => Place::Named(file.clone()),
            (None, Ok(directory)) => {
                let file = directory.join(DEFAULT_STORE);
                Place::Default { directory, file }
            }
            (None, Err(_)) => Place::Nowhere,
        }
    }

    /// Returns the file of the store, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn db(&self) -> Result<PathBuf, Error> {
        match self.place() {
            Place::Named(file) | Place::Default { file, .. } => Ok(file),
            Place::Memory => Ok(PathBuf::from(IN_MEMORY)),
            Place::Nowhere => Err(Error::NoPlace),
        }
    }

    /// Returns the store for reading. Nothing is created.
    ///
    /// # Errors
    /// When there is none, or it is of another program.
    pub fn reader(&self) -> Result<Store, Error> {
        match &*lock(&self.store) {
            Some(store) => Ok(store.clone()),
            None => read_only(&self.db()?),
        }
    }

    /// Returns the store at a path for reading; its own, if it is that.
    fn reader_at(&self, path: &str) -> Result<Store, Error> {
        if self.is_own(path) { self.reader() } else { read_only(Path::new(path)) }
    }

    /// Returns the store at a path for writing; its own, if it is that.
    fn store_at(&self, path: &str) -> Result<Store, Error> {
        if self.is_own(path) {
            self.store(Absent::Create)
        } else {
            writable(Path::new(path), &self.metrics, &self.config())
        }
    }

    fn is_own(&self, path: &str) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.db().is_ok_and(|own| real(&own) == real(Path::new(path)))
    }

    /// Says whether a path is that of the store, and the store is open for writing.
    fn is_open(&self, path: &str) -> bool {
        self.is_own(path) && lock(&self.store).is_some()
    }

    /// Returns the store for writing.
    ///
    /// # Errors
    /// When it cannot be opened or made.
    pub fn store(&self, absent: Absent) -> Result<Store, Error> {
        let mut opened = lock(&self.store);
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let store = match self.place() {
            Place::Memory => self.store_in_memory()?,
            Place::Nowhere => return Err(Error::NoPlace),
            Place::Named(file) | Place::Default { file, .. }
                if absent == Absent::Refuse && !file.exists() =>
            {
                return Err(store::Error::Missing(file).into());
            }
            Place::Named(file) => writable(&file, &self.metrics, &self.setup().config)?,
            Place::Default { directory, file } => {
                make_private(&directory)?;
                writable(&file, &self.metrics, &self.setup().config)?
            }
        };
        *opened = Some(store.clone());
        Ok(store)
    }

    /// Returns the router; the adapters are loaded before the store is opened.
    ///
    /// # Errors
    /// When an adapter does not load, or the store cannot be opened.
    pub fn router(&self, absent: Absent) -> Result<Router, Error> {
        let mut opened = lock(&self.router);
        if let Some(router) = &*opened {
            return Ok(router.clone());
        }
        let fleet = self.fleet()?;
        let router = self.router_on(self.store(absent)?, &fleet)?;
        self.record_refused(&fleet, None)?;
        *opened = Some(router.clone());
        Ok(router)
    }

    /// Returns the adapters.
    ///
    /// # Errors
    /// When one of them does not load.
    pub fn registry(&self) -> Result<Registry, Error> {
        Ok(self.fleet()?.registry.clone())
    }

    /// Returns the tools.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn tools(&self) -> Result<Tools, Error> {
        Ok(self.fleet()?.tools.clone())
    }

    /// Returns what the operator lays down for every run.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn law(&self) -> Result<Law, Error> {
        Ok(self.fleet()?.law.clone())
    }

    /// Returns what is told of signal contracts to anybody; nothing if this is no program that tells.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn discovery(&self) -> Result<Option<Arc<Discovery>>, Error> {
        Ok(self.fleet()?.contracts.discovery.clone())
    }

    /// Returns the secrets that must not be told.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn secrets(&self) -> Result<Secrets, Error> {
        Ok(self.fleet()?.secrets.clone())
    }

    /// Lists the adapters beside the program that were not loaded, each with the reason.
    ///
    /// # Errors
    /// When an adapter does not load that must.
    pub fn passed_over(&self) -> Result<Vec<PassedOver>, Error> {
        Ok(self.fleet()?.passed_over())
    }

    /// Says whether the catalogue of an adapter could not be had.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn lacks_catalogues(&self) -> Result<bool, Error> {
        Ok(!self.fleet()?.gathered.missing.is_empty())
    }

    /// Imports a bundle into the store, which is made if there is none.
    ///
    /// # Errors
    /// When it is not a sound bundle, or the store cannot be written. Then nothing was changed or made.
    pub fn import(&self, bundle: &Value, options: &ImportOptions) -> Result<Imported, Error> {
        if lock(&self.store).is_none() && !self.db()?.exists() {
            try_import(bundle, options)?;
        }
        Ok(bundle::import_value(&self.store(Absent::Create)?, bundle, options)?)
    }

    /// Carries out a tool of [`TOOLS`].
    ///
    /// # Errors
    /// When there is no such tool, the request is not one, or there is no answer to it.
    pub fn tool(&self, id: &str, request: Value) -> Result<Value, Error> {
        tool::call(self, id, request)
    }

    fn fleet(&self) -> Result<Arc<Fleet>, Error> {
        let setup = self.setup();
        let mut loaded = lock(&setup.fleet);
        if let Some(fleet) = &*loaded {
            return Ok(Arc::clone(fleet));
        }
        let contracts = Arc::new(self.contracts_of(&setup.config, None)?);
        let mode = if self.named.in_background { LoadMode::Later } else { LoadMode::Now };
        let fleet = Arc::new(self.load(&setup, contracts, (None, mode))?);
        if mode == LoadMode::Now {
            self.refuse_failed(&setup.config, &fleet)?;
            fleet.warn_of_failed();
            fleet.law.unusable.iter().for_each(|(id, unusable)| warn_of_disabled(id, unusable));
        }
        *loaded = Some(Arc::clone(&fleet));
        Ok(fleet)
    }

    fn load(
        &self,
        setup: &Setup,
        contracts: Arc<Contracts>,
        (before, mode): (Option<&Fleet>, LoadMode),
    ) -> Result<Fleet, Error> {
        let sources = Sources {
            loader: &setup.loader,
            config: &setup.config,
            named: &self.named.adapters,
            discover: setup.config.discover
                || (self.named.discover && setup.config.source.is_none()),
            hidden: &self.hidden,
        };
        let fleet = Fleet::load(sources, contracts, (before, mode))?;
        self.checked(&setup.config, fleet)
    }

    fn router_on(&self, store: Store, fleet: &Fleet) -> Result<Router, Error> {
        self.begin_sealing(&store)?;
        let options = self.options(&self.setup().config, fleet);
        Ok(Router::new(store, fleet.registry.clone(), options)?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
