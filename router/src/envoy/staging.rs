//! A directory of its own for each execution that has a use for one, which is gone when the execution is.

mod removal;

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Where executions have their own directories.
#[derive(Debug)]
pub(super) struct Staging {
    root: PathBuf,
}

/// A place of an execution's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// For what comes out.
    Artifacts,
    /// For the moment.
    Temporary,
}

impl Place {
    /// Returns the place that a variable of the envoy's own leads to.
    pub(super) fn of_variable(name: &str) -> Option<Self> {
        match name {
            "ARTIFACTS" => Some(Self::Artifacts),
            "TMPDIR" => Some(Self::Temporary),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Artifacts => "out",
            Self::Temporary => "tmp",
        }
    }
}

/// The directory of one execution; none where it has no use for one.
#[derive(Debug, Default)]
pub(super) struct Staged {
    directory: Option<StagingDirectory>,
    places: Vec<Place>,
}

/// A directory that is removed when this is dropped.
#[derive(Debug)]
struct StagingDirectory {
    path: PathBuf,
    /// As long as it is locked, no other process removes the directory.
    _lock: File,
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory. The next process that starts removes the rest.
fn remove(path: &Path) {
    if let Err(error) = removal::remove_directory(path) {
        let path = path.display();
        tracing::warn!(%path, %error, "cannot remove the directory of an execution");
    }
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
                remove(&entry.path());
            }
        }
        Ok(Self { root })
    }

    /// Makes the directory of one execution, with these places in it.
    pub(super) fn directory(&self, places: Vec<Place>) -> Result<Staged, String> {
        // Whoever knows of no place cannot write there, and making directories takes longer than most else.
        if places.is_empty() {
            return Ok(Staged::default());
        }
        let failed = |error: std::io::Error| format!("staging {}: {error}", self.root.display());
        let directory = tempfile::Builder::new().prefix("exec-").tempdir_in(&self.root);
        let directory = directory.map_err(failed)?;
        let lock = File::open(directory.path()).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        let directory = StagingDirectory { path: directory.keep(), _lock: lock };
        for place in &places {
            let path = directory.path.join(place.name());
            DirBuilder::new().mode(0o700).create(path).map_err(failed)?;
        }
        Ok(Staged { directory: Some(directory), places })
    }
}

impl Staged {
    /// What may be written. Not the whole: then a link could take the place of one of these.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        self.places.iter().filter_map(|place| self.place(*place)).collect()
    }

    /// Returns where a place is, if there is one.
    pub(super) fn place(&self, place: Place) -> Option<PathBuf> {
        let directory = self.directory.as_ref().filter(|_| self.places.contains(&place))?;
        Some(directory.path.join(place.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_swept_and_what_is_held_is_not() {
        let place = tempfile::tempdir().unwrap();
        let staging = Staging::open(place.path()).unwrap();
        let held = staging.directory(vec![Place::Artifacts, Place::Temporary]).unwrap();
        std::fs::create_dir(place.path().join("exec-left")).unwrap();
        let again = Staging::open(place.path()).unwrap();
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(names(), 1);
        assert_eq!(held.writable().len(), 2);
        assert!(held.writable().iter().all(|place| place.is_dir()));
        drop((held, again));
        assert_eq!(names(), 0);
    }

    #[test]
    fn there_is_no_place_but_those_that_are_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let staging = Staging::open(place.path()).unwrap();
        let nothing = staging.directory(Vec::new()).unwrap();
        assert_eq!(nothing.writable(), Vec::<PathBuf>::new());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let one = staging.directory(vec![Place::of_variable("TMPDIR").unwrap()]).unwrap();
        assert_eq!(one.place(Place::Artifacts), None);
        assert_eq!(one.writable(), [one.place(Place::Temporary).unwrap()]);
        assert_eq!(Place::of_variable("PATH"), None);
    }
}
