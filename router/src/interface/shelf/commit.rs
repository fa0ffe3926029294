//! Writes contracts and their lock together: after a kill at any point, readers see all of it or nothing.
//!
//! The contracts are staged, then the lock is replaced, which decides, then the contracts are moved to their places.
//! Readers take a staged contract that is the newest revision in the lock for the file in its place. The next
//! writer moves it there, and removes other staged files.

use std::io;
use std::path::{Path, PathBuf};

use super::{EXTENSION, Error, Interface, MAX_FILES, Shelf, is_newest};
use crate::files;
use crate::files::staged;
use crate::interface::document::MAX_BYTES;
use crate::interface::finding::Finding;
use crate::interface::lock::{LOCK_NAME, Lock, MAX_LOCK_BYTES};
use crate::json;

impl Shelf {
    /// Writes the lock, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written, or would be too large to be read; then it is as before.
    pub fn write_lock(&self, lock: &Lock) -> Result<(), Error> {
        self.commit(lock, &[]).map(drop)
    }

    /// Writes contracts and the lock that has them as newest revisions: all of it, or nothing. Returns the files of the
    /// contracts. The caller must hold the directory.
    ///
    /// # Errors
    /// When something cannot be written, or would be too large to be read.
    pub fn commit(&self, lock: &Lock, contracts: &[&Interface]) -> Result<Vec<PathBuf>, Error> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error { path, source }
        };
        let lock_path = self.directory.join(LOCK_NAME);
        let lock_text = readable_lock(lock).map_err(at(&lock_path))?;
        let new = contracts.iter().filter(|it| !self.files.contains_key(&file_name(it))).count();
        if self.files.len() + new > MAX_FILES {
            let problem = format!("it would have more than {MAX_FILES} contracts");
            return Err(at(&self.directory)(io::Error::other(problem)));
        }
        std::fs::create_dir_all(&self.directory).map_err(at(&self.directory))?;
        let mut paths = Vec::with_capacity(contracts.len());
        for contract in contracts {
            let path = self.path(&contract.adapter_id);
            let text = readable_text(contract).map_err(at(&path))?;
            staged::stage(&path, text.as_bytes()).map_err(at(&path))?;
            paths.push(path);
        }
        staged::replace(&lock_path, lock_text.as_bytes()).map_err(at(&lock_path))?;
        for path in &paths {
            staged::publish(path).map_err(at(path))?;
        }
        if !paths.is_empty() {
            staged::sync_directory(&self.directory).map_err(at(&self.directory))?;
        }
        Ok(paths)
    }

    /// Writes a draft of a contract, whole or not at all, without locking it.
    ///
    /// # Errors
    /// When it cannot be written, or would be too large to be read.
    pub fn write_draft(&self, contract: &Interface) -> Result<PathBuf, Error> {
        let path = self.draft_path(&contract.adapter_id);
        let write = || {
            let text = readable_text(contract)?;
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            files::write_whole(&path, text.as_bytes())
        };
        write().map_err(|source| Error { path: path.clone(), source })?;
        Ok(path)
    }

    /// Finishes or undoes what was interrupted when contracts were written. Returns the files that it moved to their
    /// places. The caller must hold the directory.
    ///
    /// # Errors
    /// When something cannot be read or written.
    pub fn repair(directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error { path, source }
        };
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at(directory))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(at(directory))?.file_name();
            let name = name.to_string_lossy();
            let staged = staged::staged_for(&name);
            let own = |name: &&str| *name == LOCK_NAME || name.ends_with(EXTENSION);
            names.extend(staged.filter(own).map(str::to_owned));
        }
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let lock_path = directory.join(LOCK_NAME);
        let lock = match files::read_bounded(&lock_path, MAX_LOCK_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Lock::default(),
            // An unreadable lock says nothing about the staged files; the next reader reports it.
            text => match Lock::read(&text.map_err(at(&lock_path))?) {
                Ok(lock) => lock,
                Err(_) => return Ok(Vec::new()),
            },
        };
        let mut moved = Vec::new();
        for name in names {
            let path = directory.join(&name);
            let text = staged::read_staged(&path, MAX_BYTES).map_err(at(&path))?;
            let contract = text.and_then(|text| Interface::read(&text).ok());
            if contract.is_some_and(|it| file_name(&it) == name && is_newest(&lock, &it)) {
                staged::publish(&path).map_err(at(&path))?;
                moved.push(path);
            } else {
                staged::discard(&path).map_err(at(&path))?;
            }
        }
        staged::sync_directory(directory).map_err(at(directory))?;
        Ok(moved)
    }
}

fn file_name(contract: &Interface) -> String {
    format!("{}{EXTENSION}", contract.adapter_id)
}

/// Returns the text of a contract's file: as people read it, if that is not too long.
fn readable_text(contract: &Interface) -> io::Result<String> {
    let mut text = json::to_pretty(&contract.document) + "\n";
    if text.len() > MAX_BYTES {
        text = json::to_compact(&contract.document);
    }
    match text.len() {
        0..=MAX_BYTES => Ok(text),
        long => Err(too_large(long, MAX_BYTES)),
    }
}

/// Returns the text of a lock, if it can be read again.
fn readable_lock(lock: &Lock) -> io::Result<String> {
    let text = lock.to_text();
    if text.len() > MAX_LOCK_BYTES {
        return Err(too_large(text.len(), MAX_LOCK_BYTES));
    }
    match Lock::read(text.as_bytes()) {
        Ok(_) => Ok(text),
        Err(findings) => {
            let first = findings.first().map(Finding::to_string).unwrap_or_default();
            Err(io::Error::other(format!("it could not be read again: {first}")))
        }
    }
}

fn too_large(bytes: usize, most: usize) -> io::Error {
    io::Error::other(format!("it would have {bytes} bytes; files up to {most} bytes can be read"))
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;
    use crate::interface::{Revision, frozen};

    /// Returns a contract of the adapter `shop`, whose description has a length.
    fn contract(version: &str, length: usize) -> Interface {
        let mut document = frozen()[0].document.clone();
        let json::Value::Object(object) = &mut document else { panic!("it is an object") };
        object.insert("adapter_id", "shop");
        object.insert("version", version);
        object.insert("description", "d".repeat(length));
        Interface::from_document(document).unwrap()
    }

    fn lock(contracts: &[&Interface]) -> Lock {
        let revision = |contract: &&Interface| Revision {
            adapter_id: contract.adapter_id.clone(),
            version: contract.version.clone(),
            previous: None,
            contract: Some((*contract).clone()),
            approvals: Vec::new(),
            tested: None,
        };
        Lock { revisions: contracts.iter().map(revision).collect() }
    }

    /// Returns the versions of file and lock as readers see them.
    fn seen(directory: &Path) -> [Option<Version>; 2] {
        let shelf = Shelf::open(directory).unwrap();
        let file = shelf.files.get("shop.interface.json");
        let file = file.map(|file| file.as_ref().unwrap().version.clone());
        let locked = shelf.lock.unwrap().latest("shop").map(|latest| latest.version.clone());
        [file, locked]
    }

    #[test]
    fn readers_see_file_and_lock_change_together() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        let (old, new) = (contract("1.0.0", 1), contract("1.0.1", 2));
        let [one, two] = [&old, &new].map(|contract| Some(contract.version.clone()));
        let shelf = Shelf::open(directory).unwrap();
        shelf.commit(&lock(&[&old]), &[&old]).unwrap();
        assert_eq!(seen(directory), [one.clone(), one.clone()]);
        // Killed before the lock is replaced.
        let path = shelf.path("shop");
        staged::stage(&path, readable_text(&new).unwrap().as_bytes()).unwrap();
        staged::stage(&directory.join(LOCK_NAME), b"half").unwrap();
        assert_eq!(seen(directory), [one.clone(), one.clone()]);
        assert!(Shelf::repair(directory).unwrap().is_empty());
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 2);
        assert_eq!(seen(directory), [one.clone(), one]);
        // Killed after it.
        staged::stage(&path, readable_text(&new).unwrap().as_bytes()).unwrap();
        shelf.write_lock(&lock(&[&old, &new])).unwrap();
        assert_eq!(seen(directory), [two.clone(), two.clone()]);
        assert_eq!(Shelf::repair(directory).unwrap(), [path]);
        assert_eq!(seen(directory), [two.clone(), two]);
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 2);
    }

    #[test]
    fn staged_contract_of_another_name_is_not_taken() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        let old = contract("1.0.0", 1);
        let shelf = Shelf::open(directory).unwrap();
        shelf.write_lock(&lock(&[&old])).unwrap();
        let other = directory.join("other.interface.json");
        staged::stage(&other, readable_text(&old).unwrap().as_bytes()).unwrap();
        assert!(Shelf::open(directory).unwrap().files.is_empty());
        assert!(Shelf::repair(directory).unwrap().is_empty());
        assert!(!other.exists());
    }

    #[test]
    fn refuses_to_write_what_nobody_could_read() {
        let place = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(place.path()).unwrap();
        let large: Vec<Interface> =
            (0..17).map(|n| contract(&format!("1.0.{n}"), 4_000_000)).collect();
        let large: Vec<&Interface> = large.iter().collect();
        let error = shelf.write_lock(&lock(&large)).unwrap_err();
        assert!(error.to_string().contains("can be read"), "{error}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        shelf.write_lock(&lock(&large[..15])).unwrap();
        assert_eq!(Shelf::open(place.path()).unwrap().lock.unwrap().revisions.len(), 15);
    }

    #[test]
    fn contract_that_is_too_long_for_people_is_written_compactly() {
        let others = json::to_compact(&contract("1.0.0", 1).document).len();
        let largest = contract("1.0.0", MAX_BYTES - others);
        assert!(json::to_pretty(&largest.document).len() > MAX_BYTES);
        let text = readable_text(&largest).unwrap();
        assert!(Interface::read(text.as_bytes()).is_ok());
        let error = readable_text(&contract("1.0.0", MAX_BYTES)).unwrap_err();
        assert!(error.to_string().contains("bytes can be read"), "{error}");
    }
}
