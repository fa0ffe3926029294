//! Files of an open store: detects that one was moved, removed or replaced while it was open.
//!
//! SQLite goes on writing into files that have lost their names, and what it writes there is gone with the process. So the
//! writer compares the files behind the paths with those that it opened, before each commit and once more before it
//! acknowledges the commit. The files are held as paths (`O_PATH`): to open and close them otherwise would drop the locks
//! that SQLite holds on them. A symbolic link in the place of a file is another file: SQLite names the WAL after the file
//! that the link leads to.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::fs::{Mode, OFlags};

use super::Error;
use super::backup::beside;
use super::file_status::FileStatus;
use super::lost_log::{WAL_FRAME_HEADER, WAL_HEADER};

/// A check of this age is good enough where no commit is acknowledged.
const RECENT: Duration = Duration::from_millis(1);

/// How long a failed rescue waits until it is tried again, at first and at most.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// Displacement of a store: the first file that is not behind its path, and the state of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Displacement {
    /// The path of the file.
    pub path: PathBuf,
    /// The change.
    pub change: FileChange,
    /// The state of what was acknowledged.
    pub rescue: Rescue,
}

/// Change of a file of an open store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// The file has no name any more.
    Removed,
    /// The file, or its directory, has another name.
    Moved,
    /// Another file has its name.
    Replaced,
    /// The file is shorter than it was.
    Truncated,
    /// The path cannot be looked up.
    Unreachable,
}

impl FileChange {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Moved => "moved",
            Self::Replaced => "replaced",
            Self::Truncated => "truncated",
            Self::Unreachable => "unreachable",
        }
    }
}

/// State of what a displaced store acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rescue {
    /// It is in files that may be gone with the process.
    #[default]
    Pending,
    /// All of it is in the file of the store.
    InPlace,
    /// All of it is in a copy.
    Copied(PathBuf),
}

impl Rescue {
    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InPlace => "in_place",
            Self::Copied(_) => "copied",
        }
    }
}

/// Names the file without its directory: callers of any scope see the text.
impl std::fmt::Display for Displacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = file_name(&self.path);
        match self.change {
            FileChange::Unreachable => write!(f, "{name} cannot be reached")?,
            change => write!(f, "{name} was {}", change.name())?,
        }
        f.write_str(" while the store was open")
    }
}

/// Returns the name of a file without its directory.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Displacement {
    /// Returns the state for people, without paths.
    #[must_use]
    pub const fn summary(&self) -> &'static str {
        match self.rescue {
            Rescue::Pending => {
                "STORE_DISPLACED: a file of the store was truncated, replaced, moved or removed; what was acknowledged is \
                 not safe yet"
            }
            Rescue::InPlace | Rescue::Copied(_) => {
                "STORE_DISPLACED: a file of the store was truncated, replaced, moved or removed; what was acknowledged is \
                 safe; put the files back or restart the daemon"
            }
        }
    }
}

/// A file that the store has open.
#[derive(Debug)]
struct OpenedFile {
    path: PathBuf,
    opened: OwnedFd,
    identity: (u64, u64),
    /// The largest size that was seen, of a file that never shrinks.
    size: Option<AtomicU64>,
}

impl OpenedFile {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let failed = |errno: rustix::io::Errno| Error::Unopenable {
            path: path.clone(),
            message: std::io::Error::from(errno).to_string(),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
        let identity = FileStatus::of_opened(&opened).map_err(failed)?.identity;
        Ok(Self { path, opened, identity, size: None })
    }

    /// Opens a file that never shrinks.
    fn open_growing(path: PathBuf) -> Result<Self, Error> {
        let file = Self::open(path)?;
        let size = FileStatus::of_opened(&file.opened).map_or(0, |status| status.size);
        Ok(Self { size: Some(AtomicU64::new(size)), ..file })
    }

    /// Returns the largest size that was seen so far. It is read before the size now, which may grow in between.
    fn seen_size(&self) -> u64 {
        self.size.as_ref().map_or(0, |size| size.load(Ordering::Acquire))
    }

    fn is_truncated(&self) -> bool {
        let seen = self.seen_size();
        FileStatus::of_opened(&self.opened).is_ok_and(|status| status.size < seen)
    }

    /// Returns whether the file has any name.
    fn has_name(&self) -> bool {
        FileStatus::of_opened(&self.opened).is_ok_and(|status| status.names > 0)
    }

    fn change(&self) -> Option<FileChange> {
        use rustix::io::Errno;
        let seen = self.seen_size();
        match FileStatus::of_name(&self.path) {
            Ok(FileStatus { identity, size, .. }) if identity == self.identity => {
                self.size.as_ref().map(|seen| seen.fetch_max(size, Ordering::AcqRel));
                (size < seen).then_some(FileChange::Truncated)
            }
            Ok(_) => Some(FileChange::Replaced),
            Err(_) if !self.has_name() => Some(FileChange::Removed),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(FileChange::Moved),
            Err(_) => Some(FileChange::Unreachable),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    displacement: Option<Displacement>,
    /// The files must not be used again, even if they come back.
    is_final: bool,
    /// How long the next attempt at a rescue waits, and since when.
    retry: Option<(Duration, Instant)>,
}

/// The files that a store has open.
#[derive(Debug)]
pub(super) struct StoreFiles {
    main: OpenedFile,
    /// The path that the store was opened with, if links in it lead to the file.
    link: Option<PathBuf>,
    wal: OpenedFile,
    /// The size that the WAL had when the writer looked last. A checkpoint may empty it.
    log_size: AtomicU64,
    /// The shared index of the WAL, and the lock of the owner.
    others: Vec<OpenedFile>,
    is_displaced: AtomicBool,
    state: Mutex<State>,
    begun: Instant,
    /// Nanoseconds from the beginning to the last check that found nothing.
    checked: AtomicU64,
}

impl StoreFiles {
    /// Takes note of the files of a store that was just opened, its WAL included. `given` is the path that it was opened
    /// with, and `path` the one name of the file.
    pub(super) fn open(
        path: &Path,
        given: &Path,
        owner_lock: Option<&(PathBuf, File)>,
    ) -> Result<Self, Error> {
        let mut others = vec![OpenedFile::open(beside(path, "-shm"))?];
        if let Some((path, _)) = owner_lock {
            others.push(OpenedFile::open(path.clone())?);
        }
        let wal = OpenedFile::open(beside(path, "-wal"))?;
        Ok(Self {
            main: OpenedFile::open_growing(path.to_owned())?,
            link: std::path::absolute(given).ok().filter(|given| given != path),
            log_size: AtomicU64::new(FileStatus::of_opened(&wal.opened).map_or(0, |it| it.size)),
            wal,
            others,
            is_displaced: AtomicBool::new(false),
            state: Mutex::default(),
            begun: Instant::now(),
            checked: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares all files with their paths.
    pub(super) fn check(&self) -> Result<(), Error> {
        let changed = self.changed();
        if changed.is_none() && !self.is_displaced.load(Ordering::Acquire) {
            let age = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.checked.store(age, Ordering::Relaxed);
            return Ok(());
        }
        self.note(changed)
    }

    /// Compares all files with their paths, and a WAL that shrank with its index. Must be called outside of a transaction.
    pub(super) fn check_with_log(&self, connection: &Connection) -> Result<(), Error> {
        self.check()?;
        let look = || FileStatus::of_opened(&self.wal.opened).ok().map(|status| status.size);
        let Some(size) = look() else { return Ok(()) };
        // Another process may write between two looks, so only a log that stays too short was cut.
        let is_cut = size < self.log_size.load(Ordering::Acquire)
            && size < indexed_log_bytes(connection)?
            && look() == Some(size);
        if is_cut {
            return self.note(Some((&self.wal.path, FileChange::Truncated)));
        }
        self.log_size.store(size, Ordering::Release);
        Ok(())
    }

    /// The same as `check`, unless that was done within the last moment.
    pub(super) fn check_recent(&self) -> Result<(), Error> {
        let checked = Duration::from_nanos(self.checked.load(Ordering::Relaxed));
        let is_recent = self.begun.elapsed().saturating_sub(checked) < RECENT;
        if is_recent && !self.is_displaced.load(Ordering::Acquire) { Ok(()) } else { self.check() }
    }

    fn all(&self) -> impl Iterator<Item = &OpenedFile> {
        [&self.main, &self.wal].into_iter().chain(&self.others)
    }

    fn changed(&self) -> Option<(&Path, FileChange)> {
        let changed = self.all().find_map(|file| Some((file.path.as_path(), file.change()?)));
        changed.or_else(|| Some((self.link.as_deref()?, self.link_change()?)))
    }

    /// Returns the change of what the path leads to that the store was opened with.
    fn link_change(&self) -> Option<FileChange> {
        use rustix::io::Errno;
        match FileStatus::of_path(self.link.as_ref()?) {
            Ok(status) if status.identity == self.main.identity => None,
            Ok(_) => Some(FileChange::Replaced),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(FileChange::Moved),
            Err(_) => Some(FileChange::Unreachable),
        }
    }

    /// Takes note of a change, or that there is none any more.
    fn note(&self, changed: Option<(&Path, FileChange)>) -> Result<(), Error> {
        let mut state = self.state();
        match (changed, &state.displacement) {
            (None, Some(_)) if !state.is_final => {
                tracing::warn!(store = %self.main.path.display(), "the files of the store are back");
                *state = State::default();
                self.is_displaced.store(false, Ordering::Release);
                Ok(())
            }
            (_, Some(displacement)) => {
                let error = Err(Error::Displaced(Box::new(displacement.clone())));
                state.is_final |= self.is_lost();
                error
            }
            (Some((file, change)), None) => {
                let (path, rescue) = (file.to_owned(), Rescue::Pending);
                let displacement = Displacement { path, change, rescue };
                state.is_final = change == FileChange::Truncated || self.is_lost();
                state.displacement = Some(displacement.clone());
                self.is_displaced.store(true, Ordering::Release);
                let error = Error::Displaced(Box::new(displacement));
                let file = file.display().to_string();
                tracing::error!(code = error.code(), file, "{error}; runs are refused");
                Err(error)
            }
            (None, None) => Ok(()),
        }
    }

    /// Returns whether the files must not be used again: one has no name or was truncated, or a part is gone from a store
    /// that is in its place or behind a link, so that another process may have begun without it.
    fn is_lost(&self) -> bool {
        let parts = || std::iter::once(&self.wal).chain(&self.others);
        // The directory may be renamed between two looks, so the last one is at the main file.
        !self.all().all(OpenedFile::has_name)
            || self.main.is_truncated()
            || self.is_linked()
            || (parts().any(|file| file.change().is_some()) && self.main.change().is_none())
    }

    /// Returns whether a link to the file is in its place: SQLite then gives the WAL another name.
    fn is_linked(&self) -> bool {
        let path = &self.main.path;
        self.main.change() == Some(FileChange::Replaced)
            && FileStatus::of_path(path).is_ok_and(|status| status.identity == self.main.identity)
    }

    /// Returns the displacement that was found last.
    pub(super) fn displacement(&self) -> Option<Displacement> {
        if !self.is_displaced.load(Ordering::Acquire) {
            return None;
        }
        self.state().displacement.clone()
    }

    /// Returns the displacement if what was acknowledged is not safe yet, and it is time to try, with whether that is the
    /// first time.
    pub(super) fn due_rescue(&self) -> Option<(Displacement, bool)> {
        let displacement = self.displacement().filter(|it| it.rescue == Rescue::Pending)?;
        let retry = self.state().retry;
        let is_due = retry.is_none_or(|(pause, since)| since.elapsed() >= pause);
        is_due.then_some((displacement, retry.is_none()))
    }

    /// Takes note of an attempt to make safe what was acknowledged.
    pub(super) fn note_rescue(&self, attempt: Result<Rescue, Error>) {
        let mut state = self.state();
        match (attempt, &mut state.displacement) {
            (Ok(rescue), Some(displacement)) => displacement.rescue = rescue,
            (Err(_), Some(_)) => {
                let pause = state.retry.map_or(RETRY, |(pause, _)| (pause * 2).min(MAX_RETRY));
                state.retry = Some((pause, Instant::now()));
            }
            (_, None) => {}
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.main.path
    }

    /// Returns the path of the file of the store at present, if it has any name.
    pub(super) fn present_path(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd as _;
        let name = format!("/proc/self/fd/{}", self.main.opened.as_raw_fd());
        std::fs::read_link(name).ok().filter(|_| self.has_main())
    }

    /// Returns whether the file of the store has any name.
    pub(super) fn has_main(&self) -> bool {
        self.main.has_name()
    }

    /// Returns whether the file of the store has any name and all of its pages.
    pub(super) fn is_main_whole(&self) -> bool {
        self.has_main() && !self.main.is_truncated()
    }

    /// Returns whether another file has the name of the store.
    pub(super) fn is_main_replaced(&self) -> bool {
        self.main.change() == Some(FileChange::Replaced)
    }

    /// Returns whether all files have their names.
    pub(super) fn is_all_in_place(&self) -> bool {
        self.all().all(|file| file.change().is_none())
    }

    /// Returns whether the file of the store and its WAL have their names.
    pub(super) fn is_log_in_place(&self) -> bool {
        self.main.change().is_none() && self.wal.change().is_none()
    }

    /// Returns whether no other process can have written a WAL: nobody made another index, and a new WAL is empty.
    pub(super) fn is_log_unused(&self) -> bool {
        let index = self.others.first().and_then(OpenedFile::change);
        let is_unused = |wal: &Path| match FileStatus::of_path(wal) {
            Ok(status) => status.identity == self.wal.identity || status.size == 0,
            Err(_) => true,
        };
        // Who opens the file by another name has a WAL beside that.
        let present = self.present_path().is_none_or(|path| is_unused(&beside(&path, "-wal")));
        is_unused(&self.wal.path) && present && index != Some(FileChange::Replaced)
    }

    /// Removes the names of the WAL and of its index as far as they are those of this store.
    pub(super) fn remove_log_names(&self) {
        for file in std::iter::once(&self.wal).chain(self.others.first()) {
            if file.change().is_none() {
                drop(std::fs::remove_file(&file.path));
            }
        }
    }
}

/// Returns how large the WAL must be to hold every frame that its index names.
fn indexed_log_bytes(connection: &Connection) -> Result<u64, Error> {
    let frames: i64 =
        connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get("log"))?;
    let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let unsigned = |number: i64| u64::try_from(number).unwrap_or_default();
    let frames = unsigned(frames);
    Ok(if frames == 0 { 0 } else { WAL_HEADER + frames * (WAL_FRAME_HEADER + unsigned(page)) })
}

#[cfg(test)]
mod tests;
