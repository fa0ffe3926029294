//! The directory of contracts: a file for each adapter, and the lock beside them.

mod commit;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::document::{Interface, MAX_BYTES};
use super::finding::Finding;
use super::lock::{LOCK_NAME, Lock, MAX_LOCK_BYTES};
use crate::files::staged::{read_staged, staged_for};
use crate::files::{self, mark};

/// How the names of contracts' files end.
pub const EXTENSION: &str = ".interface.json";
/// So few contracts are not worth a thread.
const FEW: usize = 16;
/// A directory with more files is none of contracts.
const MAX_FILES: usize = 10_000;
/// A directory that is written while it is read is read again, so often at most.
const TRIES: u32 = 5;
/// The directory of drafts, inside that of contracts.
const DRAFTS: &str = "drafts";

/// The directory cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    /// The file or the directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Reports whether an error is a lack of descriptors or memory, which passes.
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
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
        let (shelf, unreadable) = Self::read(directory)?;
        match unreadable {
            None => Ok(shelf),
            Some(error) => Err(error),
        }
    }

    /// Reads a directory. A file that cannot be read has a finding that says so.
    ///
    /// # Errors
    /// When the directory itself cannot be read, or descriptors or memory are short: that says nothing about a file.
    pub fn open_readable(directory: &Path) -> Result<Self, Error> {
        let (shelf, unreadable) = Self::read(directory)?;
        match unreadable.filter(|error| is_shortage(&error.source)) {
            None => Ok(shelf),
            Some(error) => Err(error),
        }
    }

    /// The same for a directory that must be there.
    ///
    /// # Errors
    /// When the directory is not there or cannot be read.
    pub fn open_existing(directory: &Path) -> Result<Self, Error> {
        let found = std::fs::read_dir(directory).map(drop);
        found.map_err(|source| Error { path: directory.to_owned(), source })?;
        Self::open_readable(directory)
    }

    /// Reads a directory, again if it is written meanwhile. Returns the first error of a file.
    fn read(directory: &Path) -> Result<(Self, Option<Error>), Error> {
        let lock = directory.join(LOCK_NAME);
        let mut tries = 1..=TRIES;
        loop {
            let before = mark(&lock);
            let read = Self::read_once(directory)?;
            let is_last = tries.next().is_none_or(|one| one == TRIES);
            if is_last || mark(&lock) == before {
                return Ok(read);
            }
        }
    }

    fn read_once(directory: &Path) -> Result<(Self, Option<Error>), Error> {
        let failed = |path: &Path, source| Error { path: path.to_owned(), source };
        let mut shelf = Self { directory: directory.to_owned(), ..Self::empty() };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((shelf, None)),
            Err(error) => return Err(failed(directory, error)),
        };
        let (mut texts, mut unreadable, mut staged) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.map_err(|error| failed(directory, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(EXTENSION) {
                continue;
            }
            if let Some(name) = staged_for(&name) {
                staged.push(name.to_owned());
                continue;
            }
            if texts.len() == MAX_FILES {
                let source = io::Error::other(format!("it has more than {MAX_FILES} contracts"));
                return Err(failed(directory, source));
            }
            match files::read_bounded(&entry.path(), MAX_BYTES) {
                Ok(bytes) => texts.push((name, bytes)),
                // It was moved since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => unreadable.push((name, failed(&entry.path(), error))),
            }
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
            Err(error) => unreadable.push((LOCK_NAME.to_owned(), failed(&path, error))),
        }
        for (name, error) in &unreadable {
            let findings = vec![Finding {
                pointer: String::new(),
                code: "CONTRACTS_UNREADABLE",
                message: format!("cannot be read: {}", error.source),
            }];
            match name.as_str() {
                LOCK_NAME => shelf.lock = Err(findings),
                name => drop(shelf.files.insert(name.to_owned(), Err(findings))),
            }
        }
        shelf.take_moved(&staged);
        Ok((shelf, unreadable.into_iter().next().map(|(_, error)| error)))
    }

    /// Takes the contracts that are locked and whose files are staged, or were moved while the directory was read.
    fn take_moved(&mut self, staged: &[String]) {
        let Ok(lock) = &self.lock else { return };
        let mut moved = Vec::new();
        for name in staged {
            let path = self.directory.join(name);
            let staged = read_staged(&path, MAX_BYTES).ok().flatten();
            // It may have been moved to its place since.
            let staged = staged.or_else(|| files::read_bounded(&path, MAX_BYTES).ok());
            let staged = staged.and_then(|text| Interface::read(&text).ok());
            moved.extend(staged.filter(|it| is_newest(lock, it)).map(|it| (name.clone(), it)));
        }
        for id in lock.revisions.iter().map(|revision| revision.adapter_id.as_str()) {
            let name = format!("{id}{EXTENSION}");
            if self.files.contains_key(&name) || moved.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let text = files::read_bounded(&self.directory.join(&name), MAX_BYTES).ok();
            let found = text.and_then(|text| Interface::read(&text).ok());
            moved.extend(found.map(|found| (name, found)));
        }
        for (name, interface) in moved {
            if name == format!("{}{EXTENSION}", interface.adapter_id) {
                self.files.insert(name, Ok(interface));
            }
        }
    }

    /// Lists the lock and the contracts of a directory, without reading them.
    #[must_use]
    pub fn files_in(directory: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let contract = |name: &String| name.ends_with(EXTENSION) && staged_for(name).is_none();
        let mut names: Vec<String> = names.filter(contract).collect();
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

    /// Returns the file of the draft of an adapter's contract, which nobody is held to.
    #[must_use]
    pub fn draft_path(&self, adapter_id: &str) -> PathBuf {
        self.directory.join(DRAFTS).join(format!("{adapter_id}{EXTENSION}"))
    }

    /// Returns the file of an adapter's contract.
    #[must_use]
    pub fn path(&self, adapter_id: &str) -> PathBuf {
        self.directory.join(format!("{adapter_id}{EXTENSION}"))
    }
}

/// Returns whether a contract is the newest revision of its adapter.
fn is_newest(lock: &Lock, interface: &Interface) -> bool {
    let newest = lock.latest(&interface.adapter_id).and_then(|newest| newest.contract.as_ref());
    newest.is_some_and(|newest| newest.digest == interface.digest)
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
