//! Puts a directory of files in its place: whole, or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Error;

/// Writes the files beside the place where they belong, and moves them there together.
pub(super) fn place(
    parent: &Path,
    name: &str,
    files: impl Iterator<Item = (&'static str, String)>,
) -> Result<PathBuf, Error> {
    let no_place = |source| Error::Parent { directory: parent.to_owned(), source };
    let directory = parent.join(name);
    fs::metadata(parent.join(".")).map_err(no_place)?;
    // Not `exists`, which follows a symlink and does not see one that leads nowhere.
    match fs::symlink_metadata(&directory) {
        Ok(_) => return Err(Error::Exists { directory }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(no_place(error)),
    }
    let scratch = tempfile::Builder::new().prefix(".nexus-router-new-").tempdir_in(parent);
    let scratch = scratch.map_err(no_place)?;
    // The scratch directory is private to the user; the crate gets the usual rights.
    let draft = scratch.path().join(name);
    fs::create_dir(&draft).map_err(no_place)?;
    for (file, text) in files {
        let path = draft.join(file);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text)).map_err(|source| Error::File {
            file,
            directory: parent.to_owned(),
            source,
        })?;
    }
    match renameat_with(CWD, &draft, CWD, &directory, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(directory),
        Err(Errno::EXIST) => Err(Error::Exists { directory }),
        // Some file systems cannot refuse to replace; they replace an empty directory at worst.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::rename(&draft, &directory) {
            Ok(()) => Ok(directory),
            Err(error) => Err(no_place(error)),
        },
        Err(error) => Err(no_place(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_half_way_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let files = [("a", "text".to_owned()), ("a/b", "a is no directory".to_owned())];
        let error = place(parent.path(), "new", files.into_iter()).unwrap_err();
        assert!(matches!(error, Error::File { file: "a/b", .. }), "{error}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
