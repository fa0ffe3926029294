//! What the shells call: one value that has the store, the adapters and the router, each when needed.
//!
//! Nothing is opened before it is wanted, so that a request that is refused leaves no trace, and whoever
//! only reads creates nothing.

mod error;
mod fleet;
mod timeline;
mod tool;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use error::Error;
pub use timeline::{Span, SpanStatus, Timeline};
pub use tool::{TOOLS, Tool};

use crate::bundle::{self, ImportOptions, Imported};
use crate::config::{AdapterEntry, ConfigFile, Environment};
use crate::json::Value;
use crate::loader::{Loader, NoticeSink};
use crate::registry::Registry;
use crate::router::{CallLimits, Options, Router};
use crate::store::{self, Store};
use fleet::Fleet;

/// The name of the store's file when nobody names one.
const DEFAULT_STORE: &str = "runs.db";

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
    /// More adapters; the first of them is the default one.
    pub adapters: Vec<AdapterEntry>,
    /// More directories with adapters.
    pub adapter_path: Vec<PathBuf>,
    /// Whether callers of tools may name files.
    pub paths: Paths,
}

/// A router with everything around it.
pub struct App {
    loader: Loader,
    config: ConfigFile,
    named: Named,
    place: Place,
    fleet: Mutex<Option<Arc<Fleet>>>,
    store: Mutex<Option<Store>>,
    router: Mutex<Option<Router>>,
}

/// Where the store is.
#[derive(Debug)]
enum Place {
    /// Somebody named it.
    Named(PathBuf),
    /// Nobody did; its directory is made when it is first written.
    Default { directory: PathBuf, file: PathBuf },
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
        let loader = Loader::with_path(environment, &named.adapter_path, &config.adapter_path);
        let db = named.db.as_ref().or(environment.db.as_ref()).or(config.db.as_ref());
        let place = match (db, &environment.state_dir) {
            (Some(file), _) => Place::Named(file.clone()),
            (None, Some(directory)) => {
                Place::Default { directory: directory.clone(), file: directory.join(DEFAULT_STORE) }
            }
            (None, None) => Place::Nowhere,
        };
        Self {
            loader,
            config,
            named,
            place,
            fleet: Mutex::default(),
            store: Mutex::default(),
            router: Mutex::default(),
        }
    }

    /// Sends what adapters tell while they work to `sink`, free of secrets. Only before they are loaded.
    #[must_use]
    pub fn with_notices(mut self, sink: NoticeSink) -> Self {
        self.loader.notices = sink;
        self
    }

    /// Returns the file of the store, whether it is there or not.
    ///
    /// # Errors
    /// When there is no place for one.
    pub fn db(&self) -> Result<&Path, Error> {
        match &self.place {
            Place::Named(file) | Place::Default { file, .. } => Ok(file),
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
            None => read_only(self.db()?),
        }
    }

    /// Returns the store at a path for reading; its own, if it is that.
    fn reader_at(&self, path: &str) -> Result<Store, Error> {
        if self.is_own(path) { self.reader() } else { read_only(Path::new(path)) }
    }

    /// Returns the store at a path for writing; its own, if it is that.
    fn store_at(&self, path: &str) -> Result<Store, Error> {
        if self.is_own(path) { self.store(Absent::Create) } else { writable(Path::new(path)) }
    }

    fn is_own(&self, path: &str) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.db().is_ok_and(|own| real(own) == real(Path::new(path)))
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
        let file = self.db()?;
        if absent == Absent::Refuse && !file.exists() {
            return Err(store::Error::Missing(file.to_owned()).into());
        }
        if let Place::Default { directory, .. } = &self.place {
            make_private(directory)?;
        }
        let store = writable(file)?;
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

    /// Imports a bundle into the store, which is made if there is none.
    ///
    /// # Errors
    /// When it is not a sound bundle, or the store cannot be written. Then nothing was changed or made.
    pub fn import(&self, bundle: &Value, options: &ImportOptions) -> Result<Imported, Error> {
        if !self.db()?.exists() {
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
        let mut loaded = lock(&self.fleet);
        if let Some(fleet) = &*loaded {
            return Ok(Arc::clone(fleet));
        }
        let fleet = Arc::new(Fleet::load(&self.loader, &self.config, &self.named.adapters)?);
        *loaded = Some(Arc::clone(&fleet));
        Ok(fleet)
    }

    fn router_on(&self, store: Store, fleet: &Fleet) -> Result<Router, Error> {
        let (limits, default) = (self.config.limits, Options::default());
        let calls = CallLimits {
            calls: limits.calls_per_adapter,
            timeout: limits.call_timeout.unwrap_or(default.calls.timeout),
        };
        let adapter_calls = fleet.limits.iter().map(|(adapter_id, (own, timeout))| {
            let own = CallLimits {
                calls: own.or(calls.calls),
                timeout: timeout.unwrap_or(calls.timeout),
            };
            (adapter_id.clone(), own)
        });
        let options = Options {
            adapter_calls: adapter_calls.collect(),
            runs_in_flight: limits.runs_in_flight.unwrap_or(default.runs_in_flight),
            calls,
            secrets: fleet.secrets.clone(),
            ..default
        };
        Ok(Router::new(store, fleet.registry.clone(), options)?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses what SQLite would not take for the name of a file.
fn file_name(path: &Path) -> Result<&Path, Error> {
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        let message = "it is not the name of a file".to_owned();
        return Err(store::Error::Unopenable { path: path.to_owned(), message }.into());
    }
    Ok(path)
}

fn read_only(path: &Path) -> Result<Store, Error> {
    Ok(Store::open_read_only(file_name(path)?)?)
}

fn writable(path: &Path) -> Result<Store, Error> {
    Ok(Store::open(file_name(path)?)?)
}

/// Imports a bundle into a store that nobody sees, to know whether it is worth making one.
fn try_import(bundle: &Value, options: &ImportOptions) -> Result<(), Error> {
    bundle::import_value(&Store::in_memory()?, bundle, options)?;
    Ok(())
}

/// Makes a directory into which nobody else can look.
fn make_private(directory: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|error| {
        let message = error.to_string();
        store::Error::Unopenable { path: directory.to_owned(), message }.into()
    })
}
