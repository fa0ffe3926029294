//! Staged files: written beside their place, and moved there once another file is written that names their contents.
//!
//! Several files that must change together are staged first; then the file that names them is replaced, which decides;
//! then the staged ones are moved. A process that is killed in between leaves either staged files that nothing names,
//! or such as readers may take for those in their place. Only one process at a time may write.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use super::read_bounded;

/// Stands before the names of staged files.
const PREFIX: &str = ".staged-";

/// Returns the name of the file that a staged file is for.
pub(crate) fn staged_for(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

/// Returns the path of the staged file for a path.
fn staged(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{PREFIX}{name}"))
}

/// Writes the staged file for a path. Its name is durable when the directory is synchronized.
pub(crate) fn stage(path: &Path, bytes: &[u8]) -> Result<()> {
    let staged = staged(path);
    // What a process left that was killed here; a link is not followed.
    discard(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(staged)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Moves the staged file for a path there.
pub(crate) fn publish(path: &Path) -> Result<()> {
    std::fs::rename(staged(path), path)
}

/// Removes the staged file for a path, if there is one.
pub(crate) fn discard(path: &Path) -> Result<()> {
    match std::fs::remove_file(staged(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads the staged file for a path, if there is one, up to a byte more than it may have.
pub(crate) fn read_staged(path: &Path, most: usize) -> Result<Option<Vec<u8>>> {
    match read_bounded(&staged(path), most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory)?.sync_all()
}

/// Replaces a file, whole and for good, after everything that was staged in its directory before.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    stage(path, bytes)?;
    sync_directory(directory)?;
    publish(path)?;
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_file_is_published_or_discarded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        replace(&path, b"1").unwrap();
        stage(&path, b"half").unwrap();
        stage(&path, b"2").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
        assert_eq!(read_staged(&path, 10).unwrap().unwrap(), b"2");
        publish(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_eq!(read_staged(&path, 10).unwrap(), None);
        stage(&path, b"3").unwrap();
        discard(&path).unwrap();
        discard(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn staging_does_not_follow_links() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a"), place.path().join("other"));
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, staged(&path)).unwrap();
        stage(&path, b"1").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "untouched");
        assert_eq!(staged_for(".staged-a"), Some("a"));
        assert_eq!(staged_for("a"), None);
    }
}
