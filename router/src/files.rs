//! Files that the operator names: opened without waiting for whoever is at the other end, and written whole.

pub(crate) mod staged;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Opens a regular file for reading. A pipe that nobody writes to must not be waited for, and a device that
/// never ends is no file.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    Ok(file)
}

/// Returns the permissions of an open file if its group or others have any of them.
pub(crate) fn exposed_mode(file: &File) -> Result<Option<u32>> {
    let mode = file.metadata()?.mode() & 0o777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

/// Opens a regular file that only its owner may read: this user or the superuser.
pub(crate) fn open_private(path: &Path) -> Result<File> {
    let file = open_regular(path)?;
    let denied = |problem| Err(Error::new(ErrorKind::PermissionDenied, problem));
    if let Some(mode) = exposed_mode(&file)? {
        return denied(exposed(path, mode));
    }
    let (owner, user) = (file.metadata()?.uid(), rustix::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        return denied(format!("it belongs to user {owner}; run chown {user} {}", path.display()));
    }
    Ok(file)
}

/// Describes a file that others may read.
pub(crate) fn exposed(path: &Path, mode: u32) -> String {
    let path = path.display();
    format!("its mode is {mode:04o}: group or others have access; run chmod 600 {path}")
}

/// What tells one state of a file from another.
pub(crate) type Mark = Option<(u64, u64, u64, i64, i64)>;

/// Returns the present state of a file; none when there is no such file.
pub(crate) fn mark(path: &Path) -> Mark {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// Reads a regular file, up to a byte more than it may have: whoever parses it tells that it is too long.
pub(crate) fn read_bounded(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Does the same, with standard input for what is named `-`.
pub(crate) fn read_named(path: &Path, most: usize) -> Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return read_bounded(path, most);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Waits until nobody else holds a file, which is made if it is not there, and holds it as long as what is returned
/// is there. A link, or a pipe at whose other end nobody may be, is no such file.
pub(crate) fn seize(path: &Path) -> Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    lock_in_existing(path)
}

/// Does the same where the directory is there. Where it was moved, nothing is made in its place.
pub(crate) fn lock_in_existing(path: &Path) -> Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let opened = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path);
    let unusable = || Error::other("it is no regular file, and cannot be a lock");
    let file = match opened.map_err(|error| (error.raw_os_error(), error)) {
        Ok(file) => file,
        // A link, a pipe that nobody reads, a socket.
        Err((Some(code), _))
            if [Errno::LOOP, Errno::NXIO].iter().any(|it| it.raw_os_error() == code) =>
        {
            return Err(unusable());
        }
        Err((_, error)) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(unusable());
    }
    file.lock()?;
    Ok(file)
}

/// Writes a file so that it is there whole and for good, or as before. Others may read it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// Writes a new file that only its owner reads, so that it is there whole and for good, or not at all.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn private_files_are_for_their_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("key");
        std::fs::write(&path, "x").unwrap();
        for (mode, private) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let opened = open_private(&path);
            assert_eq!(opened.is_ok(), private, "{mode:o}");
            if let Err(error) = opened {
                let message = error.to_string();
                assert!(message.contains(&format!("{mode:04o}")), "{message}");
                assert!(message.contains("chmod 600"), "{message}");
            }
        }
    }

    #[test]
    fn lock_in_a_removed_directory_makes_none() {
        let place = tempfile::tempdir().unwrap();
        let lock = place.path().join("gone/lock");
        assert_eq!(lock_in_existing(&lock).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert!(!place.path().join("gone").exists());
        drop(seize(&lock).unwrap());
        lock_in_existing(&lock).unwrap();
    }

    #[test]
    fn only_a_regular_file_is_a_lock() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        drop(seize(&at("inside/lock")).unwrap());
        std::os::unix::fs::symlink(at("inside/lock"), at("link")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(at("new"), at("dangling")).unwrap();
        for name in ["link", "pipe", "dangling"] {
            let error = seize(&at(name)).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{name}: {error}");
        }
        assert!(!at("new").exists(), "nothing is made at the other end");
        // Somebody reads the pipe, so it can be opened; a lock it is not.
        let _reader =
            rustix::fs::open(at("pipe"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        assert!(seize(&at("pipe")).is_err());
    }
}
