//! Opens and makes stores.

use std::path::Path;
use std::sync::Arc;

use super::{App, Error, IN_MEMORY};
use crate::budget::MemoryBudget;
use crate::bundle::{self, ImportOptions};
use crate::config::ConfigFile;
use crate::json::Value;
use crate::loader::LibraryCache;
use crate::metrics::Metrics;
use crate::store::{self, Store, StoreKey};

/// Refuses what SQLite would not take for the name of a file.
fn file_name(path: &Path) -> Result<&Path, Error> {
    if path.as_os_str().is_empty() || path == Path::new(IN_MEMORY) {
        let message = "it is not the name of a file".to_owned();
        return Err(store::Error::Unopenable { path: path.to_owned(), message }.into());
    }
    Ok(path)
}

pub(super) fn read_only(path: &Path) -> Result<Store, Error> {
    let store = Store::open_read_only(file_name(path)?)?;
    // The first read reports a store that cannot be read.
    if store.is_moved().unwrap_or_default() {
        let moved = store::Error::Moved(path.to_owned());
        tracing::warn!(code = moved.code(), "{moved}; it can only be read; {}", moved.hint());
    }
    Ok(store)
}

/// Opens a store for writing, with the key that the configuration refers to or the key file.
pub(super) fn writable(
    path: &Path,
    metrics: &Metrics,
    config: &ConfigFile,
) -> Result<Store, Error> {
    let key = configured_key(config)?.map(Arc::new);
    Ok(Store::open_with(file_name(path)?, store::Options { key, ..store_options(metrics) })?)
}

/// Reads the key that the configuration refers to.
fn configured_key(config: &ConfigFile) -> Result<Option<StoreKey>, Error> {
    let key = config.store.key.as_ref().map(|key| key.read(config.source.as_deref()));
    Ok(key.transpose().map_err(store::Error::KeyUnusable)?)
}

pub(super) fn store_options(metrics: &Metrics) -> store::Options {
    store::Options { metrics: metrics.clone(), ..Default::default() }
}

impl App {
    /// Returns the memory budget. Its limits are those of the first configuration.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        self.memory.get_or_init(|| {
            let server = self.config().server;
            let share = server.memory_bytes / 100 * server.token_memory_percent;
            MemoryBudget::with_room_for_small(server.memory_bytes, share)
        })
    }

    /// Removes what a lost key encrypted from the store. Returns the number of runs that lost their arguments.
    ///
    /// # Errors
    /// When there is no store, it is in use, or the present key cannot be read.
    pub fn forget_store_key(&self) -> Result<u64, Error> {
        let key = configured_key(&self.config())?;
        Ok(store::forget_key(&self.db()?, key.as_ref())?)
    }

    /// Removes private copies of libraries that the cache has no room for, on a thread of its own.
    pub(crate) fn prune_cache(&self) {
        let cache = LibraryCache::new(&self.environment.cache_dir, self.config().cache.max_bytes);
        let thread = std::thread::Builder::new().name("cache-prune".to_owned());
        if let Err(error) = thread.spawn(move || cache.shrink()) {
            tracing::debug!(%error, "the library cache was not pruned");
        }
    }

    /// Makes the store in memory.
    pub(super) fn store_in_memory(&self) -> Result<Store, Error> {
        let memory_bytes = self.config().limits.memory_store_bytes;
        let options = store_options(&self.metrics);
        Ok(Store::in_memory_with(store::Options { memory_bytes, ..options })?)
    }
}

/// Imports a bundle into a store that nobody sees, to know whether it is worth making one.
pub(super) fn try_import(bundle: &Value, options: &ImportOptions) -> Result<(), Error> {
    bundle::import_value(&Store::in_memory()?, bundle, options)?;
    Ok(())
}

/// Makes a directory into which nobody else can look.
pub(super) fn make_private(directory: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|error| {
        let message = error.to_string();
        store::Error::Unopenable { path: directory.to_owned(), message }.into()
    })
}
