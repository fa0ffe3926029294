//! Opens and makes stores.

use std::path::Path;

use super::{Error, IN_MEMORY};
use crate::bundle::{self, ImportOptions};
use crate::json::Value;
use crate::metrics::Metrics;
use crate::store::{self, Store};

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

pub(super) fn writable(path: &Path, metrics: &Metrics) -> Result<Store, Error> {
    Ok(Store::open_with(file_name(path)?, store_options(metrics))?)
}

pub(super) fn store_options(metrics: &Metrics) -> store::Options {
    store::Options { metrics: metrics.clone(), ..Default::default() }
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
