//! Measures the files of an execution: those in its places that it made or changed, and files without a name that it
//! has open or mapped.

mod open_files;

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};

use super::disk::DiskExcess;

/// A path below an open directory gets no longer than this: the kernel takes 4,096 bytes.
const LONGEST_PATH: usize = 3000;
/// Directories that are nested deeper than so many such paths count as too many files.
const MOST_BASES: usize = 64;

/// Seconds and nanoseconds since 1970, as files have them.
pub(super) type FileTime = (i64, u32);

/// The files that count, and the limits for them.
#[derive(Clone, Debug)]
pub(super) struct SurveyScope {
    pub(super) places: Vec<PathBuf>,
    /// The processes that may have files open.
    pub(super) session: Option<u32>,
    /// Files that were changed before this time do not count.
    pub(super) since: FileTime,
    /// Bytes that the files may take.
    pub(super) bytes: u64,
    /// Bytes that a single file may take.
    pub(super) file: u64,
    /// Limit of new files.
    pub(super) files: u64,
    /// Whether more of a disk was used since the execution began than the limits allow. Others may have used it.
    pub(super) disk_shrank: bool,
    /// Files and directories after which the survey ends.
    pub(super) most_entries: u64,
}

/// The result of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    bytes: u64,
    files: u64,
    /// The first part that cannot be counted.
    uncounted: Option<DiskExcess>,
}

impl Survey {
    /// Returns the limit that is passed.
    pub(super) fn excess(&self, scope: &SurveyScope) -> Option<DiskExcess> {
        if self.bytes > scope.bytes {
            return Some(DiskExcess::Bytes);
        }
        if self.files > scope.files {
            return Some(DiskExcess::Files);
        }
        self.uncounted.clone()
    }
}

/// A directory that is to be surveyed.
struct PendingDirectory {
    base: Arc<OpenBase>,
    path: PathBuf,
}

/// An open directory at which paths begin.
struct OpenBase {
    directory: OwnedFd,
    /// The path for messages.
    name: PathBuf,
    depth: usize,
}

/// A survey under way.
struct Surveyor<'a> {
    scope: &'a SurveyScope,
    stop: &'a AtomicBool,
    found: Survey,
    /// Files that were counted and may be met again.
    counted: HashSet<(u32, u32, u64)>,
    pending: Vec<PendingDirectory>,
    /// Files and directories that were visited.
    entries: u64,
}

impl SurveyScope {
    /// Counts until a limit is passed, or nobody waits for it any more.
    pub(super) fn survey(&self, stop: &AtomicBool) -> Survey {
        let mut surveyor = Surveyor {
            scope: self,
            stop,
            found: Survey::default(),
            counted: HashSet::new(),
            pending: Vec::new(),
            entries: 0,
        };
        for place in &self.places {
            if let Ok(directory) = open_directory(CWD, place) {
                let base = Arc::new(OpenBase { directory, name: place.clone(), depth: 0 });
                surveyor.pending.push(PendingDirectory { base, path: ".".into() });
            }
        }
        while let Some(directory) = surveyor.pending.pop()
            && !surveyor.is_over()
        {
            surveyor.survey_directory(&directory);
        }
        surveyor.survey_open_files();
        surveyor.found
    }
}

impl Surveyor<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.entries > self.scope.most_entries
            || self.found.excess(self.scope).is_some()
    }

    fn survey_directory(&mut self, directory: &PendingDirectory) {
        let Ok(opened) = open_directory(&directory.base.directory, &directory.path) else {
            return self.count_unreadable(directory);
        };
        let Ok(entries) = Dir::read_from(&opened) else { return };
        let opened = Arc::new(opened);
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.is_over() {
                return;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(status) = rustix::fs::statx(&*opened, name, flags, mask()) else { continue };
            if FileType::from_raw_mode(status.stx_mode.into()) == FileType::Directory {
                self.count_files(u64::from(is_made_since(&status, self.scope.since)));
                self.add_directory(directory, name);
            } else {
                self.count(&status);
            }
        }
    }

    /// Counts an unreadable directory of this user as too many files, because its content is unknown. If the execution
    /// did not change the directory, it can still write to files in it whose names it knows, unless the directory is not
    /// searchable either. Such a directory counts if a disk was used meanwhile.
    fn count_unreadable(&mut self, directory: &PendingDirectory) {
        let (base, flags) = (&directory.base.directory, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(status) = rustix::fs::statx(base, &directory.path, flags, mask()) else { return };
        let is_directory = FileType::from_raw_mode(status.stx_mode.into()) == FileType::Directory;
        let is_own = status.stx_uid == rustix::process::geteuid().as_raw();
        let is_closed = status.stx_mode & 0o500 != 0o500;
        let is_changed = time(status.stx_ctime) >= self.scope.since;
        let may_be_used = status.stx_mode & 0o100 != 0 && self.scope.disk_shrank;
        if is_directory && is_own && is_closed && (is_changed || may_be_used) {
            let path = directory.base.name.join(&directory.path);
            self.found.uncounted = Some(DiskExcess::ClosedDirectory(path));
        }
    }

    fn add_directory(&mut self, parent: &PendingDirectory, name: &CStr) {
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        let path = if parent.path == Path::new(".") { name.into() } else { parent.path.join(name) };
        let directory = PendingDirectory { base: Arc::clone(&parent.base), path };
        if directory.path.as_os_str().len() < LONGEST_PATH {
            self.pending.push(directory);
            return;
        }
        let depth = parent.base.depth + 1;
        if depth > MOST_BASES {
            self.found.files = u64::MAX;
        } else if let Ok(opened) = open_directory(&directory.base.directory, &directory.path) {
            // The whole path would be too long for a message.
            let base = Arc::new(OpenBase { directory: opened, name: "...".into(), depth });
            self.pending.push(PendingDirectory { base, path: ".".into() });
        } else {
            self.count_unreadable(&directory);
        }
    }

    fn count(&mut self, status: &Statx) {
        if status.stx_nlink != 1 && !self.counted.insert(identity(status)) {
            return;
        }
        if time(status.stx_ctime) >= self.scope.since {
            self.found.bytes = self.found.bytes.saturating_add(status.stx_blocks * 512);
        }
        self.count_files(u64::from(is_made_since(status, self.scope.since)));
    }

    fn count_files(&mut self, files: u64) {
        self.found.files = self.found.files.saturating_add(files);
    }
}

/// Returns whether a file was created since a time. Without a creation time, the change time counts.
fn is_made_since(status: &Statx, since: FileTime) -> bool {
    let known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
    time(if known { status.stx_btime } else { status.stx_ctime }) >= since
}

const fn time(stamp: StatxTimestamp) -> FileTime {
    (stamp.tv_sec, stamp.tv_nsec)
}

fn identity(status: &Statx) -> (u32, u32, u64) {
    (status.stx_dev_major, status.stx_dev_minor, status.stx_ino)
}

const fn mask() -> StatxFlags {
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME)
}

fn open_directory(from: impl std::os::fd::AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| rustix::io::Errno::INVAL)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(from, path.as_c_str(), flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    pub(super) fn scope(place: &Path) -> SurveyScope {
        SurveyScope {
            places: vec![place.to_owned()],
            session: None,
            since: (0, 0),
            bytes: u64::MAX,
            file: u64::MAX,
            files: u64::MAX,
            disk_shrank: false,
            most_entries: u64::MAX,
        }
    }

    fn survey(scope: &SurveyScope) -> Survey {
        scope.survey(&AtomicBool::new(false))
    }

    #[test]
    fn every_new_file_counts_once() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/one"), vec![1; 100_000]).unwrap();
        std::fs::hard_link(place.path().join("a/one"), place.path().join("a/b/two")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join("link")).unwrap();
        let all = survey(&scope(place.path()));
        assert_eq!(all.files, 4, "two directories, a file with two names, a link");
        assert!((100_000..200_000).contains(&all.bytes), "{all:?}");
        let later = SurveyScope { since: (i64::MAX, 0), ..scope(place.path()) };
        assert_eq!(survey(&later), Survey::default());
        let few = SurveyScope { files: 2, ..scope(place.path()) };
        assert_eq!(survey(&few).excess(&few), Some(DiskExcess::Files));
        let little = SurveyScope { bytes: 10_000, ..scope(place.path()) };
        assert_eq!(survey(&little).excess(&little), Some(DiskExcess::Bytes));
        let short = SurveyScope { most_entries: 1, ..scope(place.path()) };
        assert!(survey(&short).files < 4, "it ends after one entry");
    }

    #[test]
    fn times_are_compared_in_nanoseconds() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let status = std::fs::metadata(file).unwrap();
        let (seconds, nanoseconds) = (status.ctime(), u32::try_from(status.ctime_nsec()).unwrap());
        for (since, files) in [((seconds, nanoseconds), 1), ((seconds, nanoseconds + 1), 0)] {
            assert_eq!(survey(&SurveyScope { since, ..scope(place.path()) }).files, files);
        }
    }

    #[test]
    fn unreadable_directories_count_if_they_may_have_changed() {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("a/closed");
        std::fs::create_dir_all(&closed).unwrap();
        let set_mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&closed, mode).unwrap();
        };
        let uncounted = |mode, since, disk_shrank| {
            set_mode(mode);
            survey(&SurveyScope { since, disk_shrank, ..scope(place.path()) }).uncounted.is_some()
        };
        let later = (i64::MAX, 0);
        let found = [
            uncounted(0o300, (0, 0), false),
            uncounted(0o000, (0, 0), false),
            uncounted(0o300, later, true),
            uncounted(0o000, later, true),
            uncounted(0o300, later, false),
            uncounted(0o700, (0, 0), true),
        ];
        set_mode(0o700);
        // A superuser reads every directory.
        let unreadable = !rustix::process::geteuid().is_root();
        assert_eq!(found, [unreadable, unreadable, unreadable, false, false, false]);
    }

    #[test]
    fn files_below_very_long_paths_count() {
        let place = tempfile::tempdir().unwrap();
        let name = "d".repeat(250);
        let root: OwnedFd = std::fs::File::open(place.path()).unwrap().into();
        let mut directory = root;
        for _ in 0..40 {
            rustix::fs::mkdirat(&directory, name.as_str(), Mode::RWXU).unwrap();
            directory = open_directory(&directory, Path::new(&name)).unwrap();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        drop(rustix::fs::openat(&directory, "deep", flags, Mode::RUSR).unwrap());
        assert_eq!(survey(&scope(place.path())).files, 41);
    }
}
