//! The bytes of a library: read once, hashed, examined, and kept as a private copy.
//!
//! Only this user can change the copy, and the loader opens the copy, never the original. So the bytes
//! that were hashed, examined and tried are the bytes that run, and replacing or overwriting the original
//! hurts nobody. A file that has not changed since is not read again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::cache::{self, private_directory, remove_unused, write_new, write_whole};
use super::elf;
use super::error::{AdapterLoadError, Reason};
use super::library_cache::{HeldLibrary, LibraryCache};
use super::metadata::FactoryRecord;
use crate::digest::Digest;

/// Larger files are refused. A debug build of a large adapter is some 50 MB.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// What is known of a library is its records, each of which is bounded.
const MAX_KNOWN: u64 = 64 * 1024 * 1024;

/// A file that changed less long ago may change again unnoticed.
const SETTLED: Duration = Duration::from_secs(2);

/// A library file that was examined, and its private copy.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Image {
    /// The digest of the bytes.
    pub(super) digest: Digest,
    /// How many they are.
    pub(super) size: usize,
    /// What the metadata says of each factory.
    pub(super) records: Vec<FactoryRecord>,
    /// Where the private copy is.
    #[serde(skip)]
    pub(super) copy: PathBuf,
    /// What tells that the copy has not been touched.
    copy_identity: String,
    /// Keeps the copy in the cache as long as this is there.
    #[serde(skip)]
    _held: Option<HeldLibrary>,
}

impl Image {
    /// Reads and examines a library, and makes its private copy; or recalls what is known of it.
    ///
    /// With a pin, the bytes are always read and hashed.
    pub(super) fn take(
        factory_ref: &str,
        path: &Path,
        pin: Option<Digest>,
        (cache_dir, cache_bytes): (&Path, u64),
    ) -> Result<Self, AdapterLoadError> {
        let libraries = LibraryCache::new(cache_dir, cache_bytes);
        let unusable = |error: io::Error| {
            let shown = cache_dir.display();
            let message = format!("cannot keep a private copy in {shown}: {error}");
            AdapterLoadError::new(factory_ref, Reason::CacheUnusable, message)
                .caused_by("io::Error", error.to_string())
        };
        let source = Source::open(factory_ref, path)?;
        // Before anything in it is believed.
        private_directory(cache_dir).map_err(unusable)?;
        let known = identity(&source.metadata).map(|identity| {
            let name =
                Digest::of_parts(&[env!("CARGO_PKG_VERSION").as_bytes(), identity.as_bytes()]);
            cache_dir.join("known").join(name.to_string())
        });
        if let (None, Some(known)) = (pin, &known)
            && let Some(image) = Self::recall(known, cache_dir, (&libraries, path))
        {
            return Ok(image);
        }
        let bytes = source.read(pin)?;
        let records = elf::examine(factory_ref, &path.display().to_string(), &bytes.bytes)?;
        let held = libraries.hold(bytes.digest, path);
        let copy = bytes.private_copy(cache_dir, &libraries).map_err(unusable)?;
        let metadata = fs::symlink_metadata(&copy).map_err(unusable)?;
        let copy_identity = format!("{:?}", fields(&metadata));
        let (digest, size) = (bytes.digest, bytes.bytes.len());
        let image = Self { digest, size, records, copy, copy_identity, _held: held };
        if let Some(known) = known {
            image.remember(&known);
        }
        Ok(image)
    }

    fn recall(
        known: &Path,
        cache_dir: &Path,
        (libraries, source): (&LibraryCache, &Path),
    ) -> Option<Self> {
        let known_file = cache::open(known, MAX_KNOWN).ok()?;
        let mut image: Self = serde_json::from_reader(io::BufReader::new(known_file)).ok()?;
        image.copy = copy_path(cache_dir, image.digest);
        for directory in [known.parent()?, image.copy.parent()?] {
            private_directory(directory).ok()?;
        }
        // Held before it is looked at, so that it stays.
        image._held = libraries.hold(image.digest, source);
        let metadata = fs::symlink_metadata(&image.copy).ok()?;
        (format!("{:?}", fields(&metadata)) == image.copy_identity).then_some(image)
    }

    /// Failing to remember is no harm: the file is read again.
    fn remember(&self, known: &Path) {
        let written = serde_json::to_vec(self).map_err(io::Error::from).and_then(|text| {
            let directory = known.parent().unwrap_or(known);
            private_directory(directory)?;
            remove_unused(directory);
            write_whole(known, &text, 0o400)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "image not remembered");
        }
    }
}

/// Reads a library without keeping a copy.
pub(super) fn read(factory_ref: &str, path: &Path) -> Result<Vec<u8>, AdapterLoadError> {
    Ok(Source::open(factory_ref, path)?.read(None)?.bytes)
}

/// A library file that is open, and plain, bounded and trustworthy.
struct Source<'a> {
    factory_ref: &'a str,
    path: &'a Path,
    file: File,
    metadata: fs::Metadata,
}

impl<'a> Source<'a> {
    fn open(factory_ref: &'a str, path: &'a Path) -> Result<Self, AdapterLoadError> {
        // Without O_NONBLOCK, opening a pipe waits for a writer.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| unreadable(factory_ref, path, &error))?;
        let source = Self { factory_ref, path, file, metadata };
        let (shown, metadata) = (path.display(), &source.metadata);
        if !metadata.is_file() {
            let message = format!("{shown} is {}, not a file", kind_of(metadata));
            return Err(source.fail(Reason::NotARegularFile, message));
        }
        if metadata.mode() & 0o002 != 0 {
            let mode = metadata.mode() & 0o7777;
            let message = format!("{shown} is writable by everybody (mode {mode:04o})");
            return Err(source.fail(Reason::UnsafePermissions, message));
        }
        if metadata.len() > MAX_BYTES {
            return Err(source.too_large(metadata.len()));
        }
        Ok(source)
    }

    fn read(&self, pin: Option<Digest>) -> Result<Bytes, AdapterLoadError> {
        let mut bytes =
            Vec::with_capacity(usize::try_from(self.metadata.len()).unwrap_or_default());
        (&self.file)
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(self.factory_ref, self.path, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(self.too_large(bytes.len() as u64));
        }
        let digest = Digest::of(&bytes);
        if let Some(pin) = pin.filter(|pin| *pin != digest) {
            let shown = self.path.display();
            let message = format!("{shown} has sha256 {digest}; the pin is {pin}");
            return Err(self.fail(Reason::DigestMismatch, message));
        }
        Ok(Bytes { bytes, digest })
    }

    fn fail(&self, reason: Reason, message: String) -> AdapterLoadError {
        AdapterLoadError::new(self.factory_ref, reason, message)
    }

    fn too_large(&self, size: u64) -> AdapterLoadError {
        let shown = self.path.display();
        let message = format!("{shown} has {size} bytes; the limit is {MAX_BYTES}");
        self.fail(Reason::LibraryTooLarge, message)
    }
}

fn unreadable(factory_ref: &str, path: &Path, error: &io::Error) -> AdapterLoadError {
    let message = format!("cannot read {}: {error}", path.display());
    AdapterLoadError::new(factory_ref, Reason::LibraryUnreadable, message)
        .caused_by("io::Error", error.to_string())
}

/// Identifies the state of a file without reading it. A file that changed just now has no identity: it
/// could change again within the same tick of the clock.
fn identity(metadata: &fs::Metadata) -> Option<String> {
    let changed = u64::try_from(metadata.ctime()).ok()?;
    let age =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(changed));
    age.is_ok_and(|age| age > SETTLED).then(|| format!("{:?}", fields(metadata)))
}

fn fields(metadata: &fs::Metadata) -> [u64; 7] {
    [
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.ctime().cast_unsigned(),
        metadata.ctime_nsec().cast_unsigned(),
    ]
}

fn copy_path(cache_dir: &Path, digest: Digest) -> PathBuf {
    cache_dir.join("libraries").join(format!("{digest}.so"))
}

/// The bytes of a library and their digest.
struct Bytes {
    bytes: Vec<u8>,
    digest: Digest,
}

impl Bytes {
    /// Returns the private copy of these bytes, and makes it if there is none yet.
    fn private_copy(&self, cache_dir: &Path, libraries: &LibraryCache) -> io::Result<PathBuf> {
        let path = copy_path(cache_dir, self.digest);
        let directory = path.parent().unwrap_or(cache_dir);
        private_directory(directory)?;
        if self.is_copied_to(&path)? {
            return Ok(path);
        }
        // A copy that another thread or process has just made stays. Another copy in its place would be another file for
        // a child that is about to open it.
        if !write_new(&path, &self.bytes, 0o500)? && !self.is_copied_to(&path)? {
            write_whole(&path, &self.bytes, 0o500)?;
        }
        libraries.shrink();
        Ok(path)
    }

    /// Says whether the copy is there, byte for byte. A damaged one is written again.
    fn is_copied_to(&self, path: &Path) -> io::Result<bool> {
        // Whatever stands there instead is replaced.
        let Ok(mut file) = cache::open(path, MAX_BYTES) else { return Ok(false) };
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
        Ok(compared == self.bytes.len())
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

    #[test]
    fn concurrent_loads_share_one_copy() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path().join("made");
        private_directory(&cache).unwrap();
        let image = image(&vec![7; 1 << 20]);
        let libraries = LibraryCache::new(&cache, u64::MAX);
        let inodes: std::collections::BTreeSet<u64> = std::thread::scope(|scope| {
            let copy =
                || fs::metadata(image.private_copy(&cache, &libraries).unwrap()).unwrap().ino();
            let copies: Vec<_> = (0..16).map(|_| scope.spawn(copy)).collect();
            copies.into_iter().map(|copy| copy.join().unwrap()).collect()
        });
        assert_eq!(inodes.len(), 1);
    }

    fn image(bytes: &[u8]) -> Bytes {
        Bytes { bytes: bytes.to_vec(), digest: Digest::of(bytes) }
    }

    #[test]
    fn damaged_copies_are_written_again() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path().join("made");
        let image = image(b"library");
        let libraries = LibraryCache::new(&cache, u64::MAX);
        let copy = image.private_copy(&cache, &libraries).unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o500);
        for damage in [&b"librarx"[..], b"lib", b"library and more"] {
            fs::remove_file(&copy).unwrap();
            fs::write(&copy, damage).unwrap();
            assert_eq!(image.private_copy(&cache, &libraries).unwrap(), copy);
            assert_eq!(fs::read(&copy).unwrap(), b"library");
        }
        assert_eq!(fs::read_dir(copy.parent().unwrap()).unwrap().count(), 1, "no temporary left");
    }
}
