//! The cache of private library copies: which there are, who uses them, and which are removed.
//!
//! Beside each copy stands a mark: its time is that of the last use, its text the library that was copied, and every process
//! that may still open the copy has it locked. Only copies that nobody has locked are removed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::cache::{KEEP, check_plain_private, private_directory};
use crate::digest::Digest;

/// Longer paths of libraries are not shown.
const MAX_SOURCE: u64 = 4096;
/// A file that is being written is gone or renamed long before.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The cache of private library copies.
#[derive(Clone, Debug)]
pub struct LibraryCache {
    directory: PathBuf,
    max_bytes: u64,
}

/// A private copy of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedLibrary {
    /// The copy.
    pub path: PathBuf,
    /// The digest of its bytes, which is its name.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When a process began to use it last.
    pub last_use: SystemTime,
    /// The library that was copied last with these bytes, if it is known.
    pub source: Option<PathBuf>,
    /// Whether a process uses it now.
    pub is_in_use: bool,
}

/// Which copies are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneRule {
    /// The bytes of the copies that stay. Those that were not used for longest go first.
    pub max_bytes: u64,
    /// Copies that were not used for longer go in any case.
    pub max_age: Duration,
}

/// Result of pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The copies that were removed.
    pub removed: Vec<CachedLibrary>,
    /// The number of copies that stay.
    pub kept: usize,
    /// The bytes of the copies that stay.
    pub kept_bytes: u64,
}

/// Keeps a copy from being removed.
#[derive(Debug)]
pub(super) struct HeldLibrary {
    _mark: File,
}

impl LibraryCache {
    /// Returns the library cache in a cache directory, with the most bytes of all copies.
    #[must_use]
    pub fn new(cache_dir: &Path, max_bytes: u64) -> Self {
        Self { directory: cache_dir.join("libraries"), max_bytes }
    }

    /// Returns the rule that holds by itself: the most bytes, and the age after which nobody needs a copy.
    #[must_use]
    pub const fn rule(&self) -> PruneRule {
        PruneRule { max_bytes: self.max_bytes, max_age: KEEP }
    }

    /// Keeps the copy with a digest from being removed, whether it is there yet or not, and notes that it is used now. In a
    /// directory that cannot be written nothing is held, and nothing removed.
    pub(super) fn hold(&self, digest: Digest, source: &Path) -> Option<HeldLibrary> {
        private_directory(&self.directory).ok()?;
        loop {
            let mut mark = self.open_mark(&digest.to_string()).ok()?;
            mark.lock_shared().ok()?;
            if mark.metadata().ok()?.nlink() > 0 {
                // Only people read it.
                drop(note_use(&mut mark, source));
                return Some(HeldLibrary { _mark: mark });
            }
            // It was removed with its copy just before it was locked.
        }
    }

    fn mark(&self, digest: &str) -> PathBuf {
        self.directory.join(format!("{digest}.use"))
    }

    fn open_mark(&self, digest: &str) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        open_plain(&mut options, &self.mark(digest))
    }

    /// Checks that copies in the directory can only be ours. False if there is no directory.
    fn check_directory(&self) -> io::Result<bool> {
        match check_plain_private(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            checked => checked?,
        }
        // A user who can write there can put a link in its place.
        self.directory.parent().map_or(Ok(()), private_directory)?;
        Ok(true)
    }

    /// Lists the copies, the one first that was not used for longest.
    ///
    /// # Errors
    /// When the directory cannot be read, is a link, or is not private to this user. One that is not there is empty.
    pub fn list(&self) -> io::Result<Vec<CachedLibrary>> {
        if !self.check_directory()? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&self.directory)?;
        let mut found: Vec<_> = entries.flatten().filter_map(|entry| self.look(&entry)).collect();
        found.sort_by(|a, b| a.last_use.cmp(&b.last_use).then_with(|| a.digest.cmp(&b.digest)));
        Ok(found)
    }

    fn look(&self, entry: &fs::DirEntry) -> Option<CachedLibrary> {
        let name = entry.file_name();
        let digest = digest_of(name.to_str()?, ".so")?.to_owned();
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let mark = open_plain(fs::OpenOptions::new().read(true), &self.mark(&digest)).ok();
        let used = mark.as_ref().and_then(|mark| mark.metadata().ok()?.modified().ok());
        let copied = metadata.accessed().into_iter().chain(metadata.modified()).max();
        Some(CachedLibrary {
            path: entry.path(),
            digest,
            bytes: metadata.len(),
            last_use: used.or(copied).unwrap_or(SystemTime::UNIX_EPOCH),
            source: mark.as_ref().and_then(read_source),
            is_in_use: mark
                .is_some_and(|mark| matches!(mark.try_lock(), Err(TryLockError::WouldBlock))),
        })
    }

    /// Removes copies that no process uses.
    ///
    /// # Errors
    /// When the directory cannot be read, is a link, or is not private to this user. Then nothing is removed.
    pub fn prune(&self, rule: &PruneRule) -> io::Result<PruneReport> {
        if !self.check_directory()? {
            return Ok(PruneReport::default());
        }
        self.remove_abandoned();
        let all = self.list()?;
        let kept_bytes = all.iter().map(|copy| copy.bytes).sum();
        let mut report = PruneReport { removed: Vec::new(), kept: all.len(), kept_bytes };
        for copy in all {
            let age = copy.last_use.elapsed().unwrap_or_default();
            if report.kept_bytes <= rule.max_bytes && age <= rule.max_age {
                continue;
            }
            if !copy.is_in_use && self.remove(&copy).is_ok_and(|removed| removed) {
                report.kept_bytes -= copy.bytes;
                report.kept -= 1;
                report.removed.push(copy);
            }
        }
        Ok(report)
    }

    /// Removes what the rule of the cache does not keep. A failure is harmless: the next one tries again.
    pub fn shrink(&self) {
        match self.prune(&self.rule()) {
            Ok(report) if !report.removed.is_empty() => {
                let bytes: u64 = report.removed.iter().map(|copy| copy.bytes).sum();
                tracing::debug!(copies = report.removed.len(), bytes, "library copies removed");
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the library cache was not pruned"),
        }
    }

    /// Removes a copy unless a process holds it.
    fn remove(&self, copy: &CachedLibrary) -> io::Result<bool> {
        let mark = self.open_mark(&copy.digest)?;
        if mark.try_lock().is_err() || mark.metadata()?.nlink() == 0 {
            return Ok(false);
        }
        fs::remove_file(&copy.path)?;
        fs::remove_file(self.mark(&copy.digest))?;
        Ok(true)
    }

    /// Removes files that were never finished, and marks without a copy that nobody holds.
    fn remove_abandoned(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let age = entry.metadata().ok().and_then(|it| it.modified().ok()?.elapsed().ok());
            if age.is_none_or(|age| age < ABANDONED) {
                continue;
            }
            if let Some(digest) = digest_of(name, ".use") {
                let is_alone = !self.directory.join(format!("{digest}.so")).exists();
                let free = self.open_mark(digest).ok().filter(|mark| mark.try_lock().is_ok());
                if is_alone && free.is_some() {
                    drop(fs::remove_file(entry.path()));
                }
            } else if name.starts_with(".new-") {
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

/// Returns the digest that a file of the cache is named after.
fn digest_of<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digest = name.strip_suffix(suffix)?;
    (digest.len() == 64 && digest.bytes().all(is_hex)).then_some(digest)
}

/// Opens a plain file, and nothing that stands in its place.
fn open_plain(options: &mut fs::OpenOptions, path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe would wait for a writer.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(file)
}

fn note_use(mark: &mut File, source: &Path) -> io::Result<()> {
    if read_source(mark).as_deref() != Some(source) {
        mark.set_len(0)?;
        mark.rewind()?;
        mark.write_all(source.as_os_str().as_bytes())?;
    }
    mark.set_modified(SystemTime::now())
}

fn read_source(mut mark: &File) -> Option<PathBuf> {
    mark.rewind().ok()?;
    let mut bytes = Vec::new();
    mark.take(MAX_SOURCE).read_to_end(&mut bytes).ok()?;
    (!bytes.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a copy of so many bytes that was used so many hours ago.
    fn copy(cache: &LibraryCache, text: &str, bytes: usize, hours: u64) -> Digest {
        let digest = Digest::of(text.as_bytes());
        drop(cache.hold(digest, Path::new("/lib").join(text).as_path()).unwrap());
        fs::write(cache.directory.join(format!("{digest}.so")), vec![0; bytes]).unwrap();
        let used = SystemTime::now() - Duration::from_secs(hours * 3600);
        let mark = fs::File::options().write(true).open(cache.mark(&digest.to_string())).unwrap();
        mark.set_modified(used).unwrap();
        digest
    }

    fn names(copies: &[CachedLibrary]) -> Vec<String> {
        let name = |copy: &CachedLibrary| copy.source.clone().unwrap().display().to_string();
        copies.iter().map(name).collect()
    }

    #[test]
    fn copies_unused_for_longest_are_removed_first() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 250);
        for (text, hours) in [("b", 2), ("c", 1), ("a", 3)] {
            copy(&cache, text, 100, hours);
        }
        assert_eq!(names(&cache.list().unwrap()), ["/lib/a", "/lib/b", "/lib/c"]);
        let report = cache.prune(&cache.rule()).unwrap();
        assert_eq!(names(&report.removed), ["/lib/a"]);
        assert_eq!((report.kept, report.kept_bytes), (2, 200));
        assert_eq!(names(&cache.list().unwrap()), ["/lib/b", "/lib/c"]);
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), 4, "the mark went along");
        assert_eq!(cache.prune(&cache.rule()).unwrap().removed, []);
    }

    #[test]
    fn old_copies_go_in_any_size() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), u64::MAX);
        copy(&cache, "old", 1, 31 * 24);
        copy(&cache, "new", 1, 1);
        assert_eq!(names(&cache.prune(&cache.rule()).unwrap().removed), ["/lib/old"]);
        let rule = PruneRule { max_bytes: 0, max_age: KEEP };
        assert_eq!(names(&cache.prune(&rule).unwrap().removed), ["/lib/new"]);
    }

    #[test]
    fn held_copies_stay() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 0);
        let digest = copy(&cache, "held", 100, 5);
        copy(&cache, "free", 100, 1);
        let held = cache.hold(digest, Path::new("/lib/held")).unwrap();
        let used: Vec<bool> = cache.list().unwrap().iter().map(|copy| copy.is_in_use).collect();
        assert_eq!(used, [false, true], "holding it is a use");
        let report = cache.prune(&cache.rule()).unwrap();
        assert_eq!(names(&report.removed), ["/lib/free"]);
        assert_eq!((report.kept, report.kept_bytes), (1, 100));
        drop(held);
        assert_eq!(names(&cache.prune(&cache.rule()).unwrap().removed), ["/lib/held"]);
    }

    #[test]
    fn holding_and_pruning_do_not_miss_each_other() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 0);
        let digest = Digest::of(b"library");
        let path = cache.directory.join(format!("{digest}.so"));
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let prune = || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    cache.prune(&cache.rule()).unwrap();
                }
            };
            scope.spawn(prune);
            for _ in 0..300 {
                let held = cache.hold(digest, Path::new("/lib")).unwrap();
                fs::write(&path, "library").unwrap();
                for _ in 0..10 {
                    assert!(path.exists(), "a held copy was removed");
                }
                drop(held);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn link_and_shared_directory_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(&place.path().join("cache"), 0);
        copy(&cache, "own", 1, 1);
        let linked = LibraryCache::new(&place.path().join("linked"), 0);
        fs::create_dir(place.path().join("linked")).unwrap();
        std::os::unix::fs::symlink(&cache.directory, &linked.directory).unwrap();
        assert!(linked.list().is_err() && linked.prune(&linked.rule()).is_err());
        for directory in [cache.directory.clone(), place.path().join("cache")] {
            let set = |mode| {
                fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            };
            set(0o777);
            assert!(cache.list().is_err() && cache.prune(&cache.rule()).is_err());
            set(0o700);
        }
        assert_eq!(names(&cache.prune(&cache.rule()).unwrap().removed), ["/lib/own"]);
    }

    #[test]
    fn files_with_other_names_are_not_copies() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 0);
        let digest = copy(&cache, "own", 1, 1).to_string();
        let others = [
            "libc.so".to_owned(),
            format!("{}.so", digest.to_uppercase()),
            format!("{digest}0.so"),
            "other.use".to_owned(),
        ];
        for name in &others {
            let file = fs::File::create(cache.directory.join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        }
        assert_eq!(names(&cache.prune(&cache.rule()).unwrap().removed), ["/lib/own"]);
        assert!(others.iter().all(|name| cache.directory.join(name).exists()));
    }

    #[test]
    fn pipe_in_place_of_mark_does_not_block() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 0);
        let digest = copy(&cache, "piped", 1, 1);
        let mark = cache.mark(&digest.to_string());
        fs::remove_file(&mark).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &mark, kind, mode, 0).unwrap();
        let listed = cache.list().unwrap();
        assert_eq!((listed.len(), &listed[0].source), (1, &None));
        assert!(cache.hold(digest, Path::new("/lib/piped")).is_none());
        assert_eq!(cache.prune(&cache.rule()).unwrap().kept, 1, "nobody can hold it");
    }

    #[test]
    fn unfinished_files_are_removed_when_they_are_old() {
        let place = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(place.path(), 0);
        drop(cache.hold(Digest::of(b"x"), Path::new("/lib/x")));
        let (old, new) = (cache.directory.join(".new-old"), cache.directory.join(".new-new"));
        for file in [&old, &new] {
            fs::write(file, "").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * ABANDONED;
        for file in [&old, &cache.mark(&Digest::of(b"x").to_string())] {
            fs::File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
        }
        cache.prune(&cache.rule()).unwrap();
        let left: Vec<PathBuf> =
            fs::read_dir(&cache.directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [new]);
    }
}
