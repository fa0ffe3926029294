//! The bytes of a library: read once, hashed, and kept as a private copy that only this user can change.
//!
//! The loader opens the copy, never the original. So the bytes that were hashed, examined and tried are
//! the bytes that run, and replacing or overwriting the original hurts nobody.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::error::{AdapterLoadError, Reason};
use crate::digest::Digest;

/// Larger files are refused. A debug build of a large adapter is some 50 MB.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Copies that nobody used for this long are removed when a new one is made.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// A library file, read once.
pub(super) struct Image {
    /// The contents.
    pub(super) bytes: Vec<u8>,
    /// Their digest.
    pub(super) digest: Digest,
}

impl Image {
    /// Reads a library file, and refuses what is not a plain, bounded, trustworthy one.
    pub(super) fn read(
        factory_ref: &str,
        path: &Path,
        pin: Option<Digest>,
    ) -> Result<Self, AdapterLoadError> {
        let fail = |reason, message| AdapterLoadError::new(factory_ref, reason, message);
        let shown = path.display();
        let unreadable = |error: &io::Error| {
            let message = format!("cannot read {shown}: {error}");
            fail(Reason::LibraryUnreadable, message).caused_by("io::Error", error.to_string())
        };
        // Without O_NONBLOCK, opening a pipe waits for a writer.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .map_err(|error| unreadable(&error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&error))?;
        if !metadata.is_file() {
            let kind = kind_of(&metadata);
            return Err(fail(Reason::NotARegularFile, format!("{shown} is {kind}, not a file")));
        }
        if metadata.mode() & 0o002 != 0 {
            let mode = metadata.mode() & 0o7777;
            let message = format!("{shown} is writable by everybody (mode {mode:04o})");
            return Err(fail(Reason::UnsafePermissions, message));
        }
        let too_large = |size: u64| {
            let message = format!("{shown} has {size} bytes; the limit is {MAX_BYTES}");
            fail(Reason::LibraryTooLarge, message)
        };
        if metadata.len() > MAX_BYTES {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        (&file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(too_large(bytes.len() as u64));
        }
        let digest = Digest::of(&bytes);
        if let Some(pin) = pin.filter(|pin| *pin != digest) {
            let message = format!("{shown} has sha256 {digest}; the pin is {pin}");
            return Err(fail(Reason::DigestMismatch, message));
        }
        Ok(Self { bytes, digest })
    }

    /// Returns the private copy of these bytes, and makes it if there is none yet.
    pub(super) fn private_copy(&self, cache_dir: &Path) -> io::Result<PathBuf> {
        let directory = cache_dir.join("libraries");
        private_directory(cache_dir)?;
        private_directory(&directory)?;
        let path = directory.join(format!("{}.so", self.digest));
        if self.is_copied_to(&path)? {
            return Ok(path);
        }
        remove_unused(&directory);
        write_whole(&path, &self.bytes, 0o500)?;
        Ok(path)
    }

    /// Says whether the copy is there, byte for byte. A damaged one is written again.
    fn is_copied_to(&self, path: &Path) -> io::Result<bool> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() != self.bytes.len() as u64 {
            return Ok(false);
        }
        let mut compared = 0;
        let mut block = vec![0; 256 * 1024];
        loop {
            let read = file.read(&mut block)?;
            if read == 0 {
                break;
            }
            if self.bytes.get(compared..compared + read) != Some(&block[..read]) {
                return Ok(false);
            }
            compared += read;
        }
        // The time of last use, for `remove_unused`; failing to note it costs a copy, nothing more.
        drop(file.set_modified(std::time::SystemTime::now()));
        Ok(compared == self.bytes.len())
    }
}

/// Writes a file so that it appears whole, on disk, or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Makes sure that a directory is there, is ours, and is closed to everybody else.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::metadata(path)?;
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

fn remove_unused(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > KEEP) {
            // Somebody else may have been faster.
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn kind_of(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: &[u8]) -> Image {
        Image { bytes: bytes.to_vec(), digest: Digest::of(bytes) }
    }

    #[test]
    fn damaged_copies_are_written_again() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path().join("made");
        let image = image(b"library");
        let copy = image.private_copy(&cache).unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o500);
        for damage in [&b"librarx"[..], b"lib", b"library and more"] {
            fs::remove_file(&copy).unwrap();
            fs::write(&copy, damage).unwrap();
            assert_eq!(image.private_copy(&cache).unwrap(), copy);
            assert_eq!(fs::read(&copy).unwrap(), b"library");
        }
        assert_eq!(fs::read_dir(copy.parent().unwrap()).unwrap().count(), 1, "no temporary left");
    }

    #[test]
    fn directory_that_others_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(image(b"x").private_copy(directory.path()).is_err());
    }
}
