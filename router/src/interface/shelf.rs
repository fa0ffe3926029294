//! The directory of contracts: a file for each adapter, and the lock beside them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::document::{Interface, MAX_BYTES};
use super::finding::Finding;
use super::lock::{LOCK_NAME, Lock, MAX_LOCK_BYTES};
use crate::files;

/// How the names of contracts' files end.
pub const EXTENSION: &str = ".interface.json";
/// So few contracts are not worth a thread.
const FEW: usize = 16;
/// A directory with more files is none of contracts.
const MAX_FILES: usize = 10_000;

/// The directory cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file or the directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// What is in a directory of contracts, well formed or not.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    /// The files by name.
    pub files: BTreeMap<String, Result<Interface, Vec<Finding>>>,
    /// The lock.
    pub lock: Result<Lock, Vec<Finding>>,
}

impl Shelf {
    /// Returns a shelf without a contract.
    #[must_use]
    pub fn empty() -> Self {
        Self { directory: PathBuf::new(), files: BTreeMap::new(), lock: Ok(Lock::default()) }
    }

    /// Reads a directory. One that is not there is empty.
    ///
    /// # Errors
    /// When something of it cannot be read.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let failed = |path: &Path, source| Error { path: path.to_owned(), source };
        let mut shelf = Self { directory: directory.to_owned(), ..Self::empty() };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(shelf),
            Err(error) => return Err(failed(directory, error)),
        };
        let mut texts = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(directory, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(EXTENSION) {
                continue;
            }
            if texts.len() == MAX_FILES {
                let source = io::Error::other(format!("it has more than {MAX_FILES} contracts"));
                return Err(failed(directory, source));
            }
            let bytes = files::read_bounded(&entry.path(), MAX_BYTES)
                .map_err(|error| failed(&entry.path(), error))?;
            texts.push((name, bytes));
        }
        shelf.files = read_all(&texts);
        let path = directory.join(LOCK_NAME);
        match files::read_bounded(&path, MAX_LOCK_BYTES) {
            Ok(bytes) => {
                let read = shelf.files.values().flatten();
                let known =
                    read.map(|interface| (*interface.digest.as_bytes(), interface)).collect();
                shelf.lock = Lock::read_beside(&bytes, &known);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, error)),
        }
        Ok(shelf)
    }

    /// Lists the lock and the contracts of a directory, without reading them.
    #[must_use]
    pub fn files_in(directory: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(EXTENSION)).collect();
        names.sort_unstable();
        names.push(LOCK_NAME.to_owned());
        names.into_iter().map(|name| directory.join(name)).collect()
    }

    /// Waits until nobody else changes the lock, and keeps others from it as long as what is returned is there.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub fn seize(directory: &Path) -> Result<File, Error> {
        files::seize(&directory.join(".interfaces.seized"))
            .map_err(|source| Error { path: directory.to_owned(), source })
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the file of an adapter's contract.
    #[must_use]
    pub fn path(&self, adapter_id: &str) -> PathBuf {
        self.directory.join(format!("{adapter_id}{EXTENSION}"))
    }

    /// Writes the lock, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written; then it is as before.
    pub fn write_lock(&self, lock: &Lock) -> Result<(), Error> {
        let path = self.directory.join(LOCK_NAME);
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| files::write_whole(&path, lock.to_text().as_bytes()))
            .map_err(|source| Error { path, source })
    }

    /// Writes the file of a contract, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written; then it is as before.
    pub fn write(&self, interface: &Interface) -> Result<PathBuf, Error> {
        let path = self.path(&interface.adapter_id);
        let text = crate::json::to_pretty(&interface.document) + "\n";
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| files::write_whole(&path, text.as_bytes()))
            .map_err(|source| Error { path: path.clone(), source })?;
        Ok(path)
    }
}

/// Reads contracts on all processors: a thousand of them would keep a start waiting.
fn read_all(texts: &[(String, Vec<u8>)]) -> BTreeMap<String, Result<Interface, Vec<Finding>>> {
    let read = |(name, text): &(String, Vec<u8>)| (name.clone(), Interface::read(text));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let share = texts.len().div_ceil(processors).max(FEW);
    std::thread::scope(|scope| {
        let shares: Vec<_> = texts
            .chunks(share)
            .map(|texts| scope.spawn(move || texts.iter().map(read).collect::<Vec<_>>()))
            .collect();
        // A thread that panics takes its share with it, and whoever waits for it panics too.
        shares.into_iter().flat_map(|share| share.join().unwrap_or_else(resume)).collect()
    })
}

fn resume<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}
