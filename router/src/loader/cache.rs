//! The cache directory: private to this user, written whole, and cleared of what nobody uses.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

/// What nobody used for this long is removed.
pub(super) const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// Writes a file so that it appears whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    temporary(path, bytes, mode)?.persist(path)?;
    Ok(())
}

/// Does the same unless something is there already. Returns whether the file was written.
pub(super) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    match temporary(path, bytes, mode)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(failed) => Err(failed.error),
    }
}

/// Writes a file without a lasting name beside a path.
fn temporary(path: &Path, bytes: &[u8], mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Opens a file of the cache for reading: a plain one, not too large, and no link to another.
pub(super) fn open(path: &Path, max_size: u64) -> io::Result<fs::File> {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > max_size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(file)
}

/// Makes sure that a directory is there, is ours, and cannot be written by anybody else.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    check_private(path, &fs::metadata(path)?)
}

/// Checks that a directory is there, is ours, cannot be written by anybody else, and is not a link to another.
pub(super) fn check_plain_private(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", path.display())));
    }
    check_private(path, &metadata)
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(io::Error::other(format!(
            "{} belongs to user {}, not to {user}",
            path.display(),
            metadata.uid()
        )));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("{} is writable by others", path.display())));
    }
    Ok(())
}

/// Removes what nobody used for long. Called when something new is written.
pub(super) fn remove_unused(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let used = metadata.accessed().into_iter().chain(metadata.modified()).max();
        let age = used.and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > KEEP) {
            // Somebody else may have been faster.
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_others_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(private_directory(directory.path()).is_ok());
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(private_directory(directory.path()).is_err());
    }

    #[test]
    fn only_what_nobody_used_for_long_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "").unwrap();
        write_whole(&new, b"", 0o400).unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * KEEP;
        let times = fs::FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
        fs::File::options().write(true).open(&old).unwrap().set_times(times).unwrap();
        remove_unused(directory.path());
        assert!(!old.exists() && new.exists());
    }
}
