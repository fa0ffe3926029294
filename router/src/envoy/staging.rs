//! A directory of its own for each execution, which is gone when the execution is.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Where executions have their own directories.
#[derive(Debug)]
pub(super) struct Staging {
    root: PathBuf,
}

/// The directory of one execution.
#[derive(Debug)]
pub(super) struct Staged {
    directory: TempDir,
    /// As long as it is held, nobody sweeps the directory away.
    _held: File,
}

impl Staging {
    /// Makes the place, and sweeps away what processes left that are gone.
    pub(super) fn open(root: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("staging {}: {error}", root.display());
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
        let root = root.canonicalize().map_err(failed)?;
        if root.to_str().is_none() {
            return Err(format!("staging {}: the path is no text", root.display()));
        }
        for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
            let held = File::open(entry.path());
            let free =
                held.is_ok_and(|it| flock(&it, FlockOperation::NonBlockingLockExclusive).is_ok());
            if free {
                drop(std::fs::remove_dir_all(entry.path()));
            }
        }
        Ok(Self { root })
    }

    /// Makes the directory of one execution: a place for what comes out, and one for the moment.
    pub(super) fn directory(&self) -> Result<Staged, String> {
        let failed = |error: std::io::Error| format!("staging {}: {error}", self.root.display());
        let directory = tempfile::Builder::new().prefix("exec-").tempdir_in(&self.root);
        let directory = directory.map_err(failed)?;
        let held = File::open(directory.path()).map_err(failed)?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        for name in ["out", "tmp"] {
            DirBuilder::new().mode(0o700).create(directory.path().join(name)).map_err(failed)?;
        }
        Ok(Staged { directory, _held: held })
    }
}

impl Staged {
    /// What may be written. Not the whole: then a link could take the place of one of these.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        ["out", "tmp"].iter().map(|name| self.directory.path().join(name)).collect()
    }

    /// Where what comes out is put.
    pub(super) fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// What an environment variable of the envoy's own leads to.
    pub(super) fn variable(&self, name: &str) -> Option<PathBuf> {
        match name {
            "ARTIFACTS" => Some(self.out()),
            "TMPDIR" => Some(self.directory.path().join("tmp")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_swept_and_what_is_held_is_not() {
        let place = tempfile::tempdir().unwrap();
        let staging = Staging::open(place.path()).unwrap();
        let held = staging.directory().unwrap();
        std::fs::create_dir(place.path().join("exec-left")).unwrap();
        let again = Staging::open(place.path()).unwrap();
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(names(), 1);
        assert!(held.out().is_dir() && held.variable("TMPDIR").unwrap().is_dir());
        assert_eq!(held.variable("PATH"), None);
        drop((held, again));
        assert_eq!(names(), 0);
    }
}
