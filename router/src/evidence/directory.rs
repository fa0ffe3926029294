//! Directories by descriptor: whatever is done below one stays there, whoever changes names meanwhile.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::settle::Part;

/// Only their owner reads what is sealed; whom else to show it is the operator's to say.
const DIRECTORY_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What is deeper was not made here, and is left for the operator to look at.
const DEEPEST: usize = 64;

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

/// What came of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renamed {
    /// It has its new name.
    Done,
    /// Something has that name already.
    Taken,
    /// The file system cannot rename without replacing.
    Unable,
}

impl Directory {
    /// Opens the directory that the operator named, and makes it if need be.
    pub(super) fn make_all(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory in this one. A link to a directory is none.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a directory in this one.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, DIRECTORY_MODE)?)
    }

    /// Opens a directory in this one, and makes it if it is not there.
    pub(super) fn ensure(&self, name: &str) -> io::Result<Self> {
        match self.make(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.enter(name),
        }
    }

    /// Writes a new file, which is not durable yet.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.0, name, flags, FILE_MODE)?);
        file.write_all(bytes)
    }

    /// Opens a file that was written, so that it can become durable.
    pub(super) fn written(&self, name: &str) -> io::Result<Part> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Part::File(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Returns this directory, so that the names in it can become durable.
    pub(super) fn named(self) -> Part {
        Part::Directory(self.0)
    }

    /// Reads a regular file, up to a byte more than it may have.
    pub(super) fn read(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Says whether there is anything of this name.
    pub(super) fn has(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the names in this directory are durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Gives something in this directory another place and name, unless something has that already.
    pub(super) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<Renamed> {
        match rustix::fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Renamed::Done),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(Renamed::Taken),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(Renamed::Unable),
            Err(error) => Err(error.into()),
        }
    }

    /// Holds this directory alone, if nobody else holds it.
    pub(super) fn seize(&self) -> io::Result<bool> {
        self.lock(FlockOperation::NonBlockingLockExclusive)
    }

    /// Holds this directory with others, and waits for whoever holds it alone.
    pub(super) fn share(&self) -> io::Result<bool> {
        self.lock(FlockOperation::LockShared)
    }

    fn lock(&self, operation: FlockOperation) -> io::Result<bool> {
        match rustix::io::retry_on_intr(|| rustix::fs::flock(&self.0, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens this directory once more, for a lock of its own.
    pub(super) fn again(&self) -> io::Result<Self> {
        self.enter(".")
    }

    /// Returns the names in this directory, up to a bound, each with whether it is a directory.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            // A name that is no text was not made here.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let directory = match entry.file_type() {
                FileType::Unknown => self.enter(name).is_ok(),
                kind => kind == FileType::Directory,
            };
            names.push((name.to_owned(), directory));
            if names.len() >= most {
                break;
            }
        }
        Ok(names)
    }

    /// Removes a file from this directory, if it is there.
    pub(super) fn unlink(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a directory in this one with all that is in it.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        self.remove_at(name, DEEPEST)
    }

    fn remove_at(&self, name: &str, depth: usize) -> io::Result<()> {
        if depth == 0 {
            return Err(io::Error::other("it is nested too deeply to have been made here"));
        }
        let inside = self.enter(name)?;
        loop {
            // In parts, so that a million names take no more room than a few.
            let names = inside.names(1024)?;
            if names.is_empty() {
                break;
            }
            for (name, directory) in names {
                if directory {
                    inside.remove_at(&name, depth - 1)?;
                } else {
                    rustix::fs::unlinkat(&inside.0, &name, AtFlags::empty())?;
                }
            }
        }
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_never_followed() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(outside.path(), place.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), place.path().join("file"))
            .unwrap();
        let directory = Directory::make_all(place.path()).unwrap();
        assert!(directory.enter("link").is_err() && directory.ensure("link").is_err());
        assert!(directory.write("file", b"x").is_err() && directory.read("file", 10).is_err());
        assert!(directory.remove("link").is_err() && directory.has("link").unwrap());
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"s");
    }

    #[test]
    fn a_rename_never_replaces() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::make_all(place.path()).unwrap();
        for name in ["a", "b", "c"] {
            directory.make(name).unwrap();
        }
        directory.enter("c").unwrap().write("x", b"").unwrap();
        assert_eq!(directory.rename("a", &directory, "b").unwrap(), Renamed::Taken);
        assert_eq!(directory.rename("a", &directory, "c").unwrap(), Renamed::Taken);
        assert_eq!(directory.rename("a", &directory, "d").unwrap(), Renamed::Done);
        assert!(directory.rename("a", &directory, "e").is_err());
    }

    #[test]
    fn trees_are_removed_with_whatever_is_in_them() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "s").unwrap();
        let directory = Directory::make_all(place.path()).unwrap();
        let tree = directory.ensure("tree").unwrap();
        for index in 0..1500 {
            tree.write(&index.to_string(), b"").unwrap();
        }
        tree.ensure("deep").unwrap().ensure("deeper").unwrap().write("x", b"").unwrap();
        std::os::unix::fs::symlink(outside.path(), place.path().join("tree/link")).unwrap();
        directory.remove("tree").unwrap();
        assert!(!directory.has("tree").unwrap());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn a_pipe_or_a_directory_is_no_file() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::make_all(place.path()).unwrap();
        let kind = FileType::Fifo;
        rustix::fs::mknodat(&directory.0, "pipe", kind, FILE_MODE, 0).unwrap();
        directory.make("directory").unwrap();
        assert!(directory.read("pipe", 10).is_err() && directory.read("directory", 10).is_err());
    }
}
