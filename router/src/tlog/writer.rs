//! Writes files so that they are there for good before the checkpoint that covers them.

use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Error;

/// How many files are open at once at most.
const OPEN: usize = 64;

/// The directories whose names are known to be there for good.
pub(super) type Known = HashSet<PathBuf>;

/// What is being written.
pub(super) struct Writer<'a> {
    known: &'a mut Known,
    /// Directories that become known when all is written.
    new: Vec<PathBuf>,
    files: Vec<(PathBuf, File)>,
    /// Directories that gained a name.
    gained: BTreeSet<PathBuf>,
    /// How often the disk was waited for.
    syncs: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(known: &'a mut Known) -> Self {
        Self { known, new: Vec::new(), files: Vec::new(), gained: BTreeSet::new(), syncs: 0 }
    }

    /// Writes a file below a directory that is known. What was there is nothing that anybody relies on: a process ended
    /// before the checkpoint that would have covered it.
    pub(super) fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        if let Some(parent) = path.parent() {
            self.make(parent).map_err(Error::file(parent))?;
            self.gained.insert(parent.to_owned());
        }
        let file = create(path, bytes).map_err(Error::file(path))?;
        self.files.push((path.to_owned(), file));
        if self.files.len() == OPEN { self.sync_files() } else { Ok(()) }
    }

    /// Makes a directory, if it is not known to be there for good. Where a known one was moved, nothing is made in its place.
    fn make(&mut self, directory: &Path) -> io::Result<()> {
        if self.known.contains(directory) || self.new.iter().any(|new| new == directory) {
            return Ok(());
        }
        let unknown = directory.ancestors().take_while(|it| !self.known.contains(*it));
        let unknown: Vec<&Path> = unknown.collect();
        for path in unknown.iter().rev() {
            match std::fs::create_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        for made in unknown {
            self.new.push(made.to_owned());
            self.gained.extend(made.parent().map(Path::to_owned));
        }
        Ok(())
    }

    fn sync_files(&mut self) -> Result<(), Error> {
        for (path, file) in self.files.drain(..) {
            file.sync_all().map_err(Error::file(&path))?;
            self.syncs += 1;
        }
        Ok(())
    }

    /// Waits until all is there for good, then writes the last file in place of the one before. Returns how often the disk
    /// was waited for.
    pub(super) fn finish(mut self, last: &Path, bytes: &[u8]) -> Result<u64, Error> {
        self.sync_files()?;
        for directory in std::mem::take(&mut self.gained) {
            sync_directory(&directory)?;
            self.syncs += 1;
        }
        self.known.extend(std::mem::take(&mut self.new));
        // Whoever writes holds the lock, so one name is enough, and a process that is killed leaves one file at most.
        let beside = last.with_extension("new");
        let file = create(&beside, bytes).map_err(Error::file(&beside))?;
        file.sync_all().map_err(Error::file(&beside))?;
        std::fs::rename(&beside, last).map_err(Error::file(last))?;
        if let Some(directory) = last.parent() {
            sync_directory(directory)?;
        }
        Ok(self.syncs + 2)
    }
}

/// Waits until the names of a directory are there for good.
pub(super) fn sync_directory(directory: &Path) -> Result<(), Error> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(Error::file(directory))
}

/// Writes a file anew. Nobody is waited for who might be at the other end.
fn create(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}
