//! Watches the disk space and the number of files that an execution uses.
//!
//! Two measures work together. The free space of a disk is cheap to read, but others use the disk too. A survey of the
//! execution's files is exact but slow. It runs on its own thread: soon after free space shrinks, and periodically.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::Limits;
use super::survey::{FileTime, Survey, SurveyScope};

/// The shortest time between two surveys.
const INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a survey, as a multiple of its duration.
const SHARE: u32 = 20;
/// The same while free space shrinks.
const URGENT_SHARE: u32 = 3;
/// Files and directories that the last survey visits, unless a disk was used.
const LAST_ENTRIES: u64 = 20_000;

/// The limit that an execution has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskExcess {
    /// Its files take too much, or too little of the disk is free.
    Bytes,
    /// It has made too many files.
    Files,
    /// Nobody can read a directory of it, so its files are not counted.
    ClosedDirectory(PathBuf),
    /// Nobody can read the open files of a process of it.
    ClosedProcess(i32),
    /// Its processes have too many open files to read them in time.
    TooManyDescriptors,
}

/// Watches the disks on which an execution may write.
#[derive(Debug)]
pub(super) struct DiskWatch {
    places: Vec<PlaceLevel>,
    scope: SurveyScope,
    keep_free: u64,
    running: Option<RunningSurvey>,
    /// The end of the last survey, and its duration.
    last: (Instant, Duration),
    /// Ends a survey that nobody waits for.
    stop: Arc<AtomicBool>,
}

/// Free space of the disk of one place.
#[derive(Debug)]
struct PlaceLevel {
    path: PathBuf,
    /// Free when the execution began.
    before: FreeSpace,
    /// The most that was free since: others may have freed some.
    most: FreeSpace,
}

#[derive(Clone, Copy, Debug)]
struct FreeSpace {
    bytes: u64,
    files: u64,
}

#[derive(Debug)]
struct RunningSurvey {
    thread: JoinHandle<Survey>,
    began: Instant,
}

impl DiskWatch {
    pub(super) fn new(limits: &Limits) -> Self {
        let level = |path: &PathBuf| {
            let before = FreeSpace::of(path)?;
            Some(PlaceLevel { path: path.clone(), before, most: before })
        };
        let scope = SurveyScope {
            places: limits.places.clone(),
            session: None,
            since: now(),
            bytes: limits.disk,
            file: limits.file,
            files: limits.files,
            disk_shrank: false,
            most_entries: u64::MAX,
        };
        Self {
            places: limits.places.iter().filter_map(level).collect(),
            scope,
            keep_free: limits.keep_free,
            running: None,
            last: (Instant::now(), Duration::ZERO),
            stop: Arc::default(),
        }
    }

    /// Returns the limit that was passed, if one is known to be. `session` has the processes of the execution.
    pub(super) fn check(&mut self, session: Option<u32>) -> Option<DiskExcess> {
        for place in &self.places {
            let least = self.keep_free.min(place.before.bytes / 2);
            let now = FreeSpace::of(&place.path).map_or(u64::MAX, |now| now.bytes);
            if now < place.before.bytes && now < least {
                return Some(DiskExcess::Bytes);
            }
        }
        self.measure();
        self.scope.session = session;
        match self.running.take() {
            Some(running) if running.thread.is_finished() => {
                self.last = (Instant::now(), running.began.elapsed());
                running.thread.join().ok().and_then(|survey| survey.excess(&self.scope))
            }
            Some(running) => {
                self.running = Some(running);
                None
            }
            None => {
                self.survey_when_due();
                None
            }
        }
    }

    /// Surveys the files once more, when no process is left, and returns the limit that was passed.
    pub(super) fn check_at_end(&mut self) -> Option<DiskExcess> {
        self.stop.store(true, Ordering::Relaxed);
        self.measure();
        let most_entries = if self.scope.disk_shrank { u64::MAX } else { LAST_ENTRIES };
        let scope = SurveyScope { session: None, most_entries, ..self.scope.clone() };
        scope.survey(&AtomicBool::new(false)).excess(&scope)
    }

    /// Finds out whether more of a disk was used than the limits allow.
    fn measure(&mut self) {
        self.scope.disk_shrank = false;
        for place in &mut self.places {
            let Some(now) = FreeSpace::of(&place.path) else { continue };
            let gone = place.raise(now);
            self.scope.disk_shrank |=
                gone.bytes > self.scope.bytes || gone.files > self.scope.files;
        }
    }

    fn survey_when_due(&mut self) {
        let (ended, took) = self.last;
        let pause =
            if self.scope.disk_shrank { took * URGENT_SHARE } else { INTERVAL.max(took * SHARE) };
        if ended.elapsed() < pause {
            return;
        }
        let (scope, stop) = (self.scope.clone(), Arc::clone(&self.stop));
        let named = std::thread::Builder::new().name("disk-survey".to_owned());
        match named.spawn(move || scope.survey(&stop)) {
            Ok(thread) => {
                self.running = Some(RunningSurvey { thread, began: Instant::now() });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread that surveys files");
                self.last = (Instant::now(), took);
            }
        }
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl PlaceLevel {
    /// Takes a new level, and returns the part that has gone since the highest one.
    fn raise(&mut self, now: FreeSpace) -> FreeSpace {
        let most = &mut self.most;
        (most.bytes, most.files) = (most.bytes.max(now.bytes), most.files.max(now.files));
        FreeSpace { bytes: most.bytes - now.bytes, files: most.files - now.files }
    }
}

impl FreeSpace {
    fn of(place: &Path) -> Option<Self> {
        let status = rustix::fs::statvfs(place).ok()?;
        let bytes = status.f_bavail.saturating_mul(status.f_frsize);
        // Some file systems do not count files: then none ever go.
        Some(Self { bytes, files: status.f_ffree })
    }
}

/// Returns the time that a file would get if it were changed now. Files get the time of the last tick of the kernel.
fn now() -> FileTime {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_older_than_the_time_before_it() {
        use std::os::unix::fs::MetadataExt as _;
        let place = tempfile::tempdir().unwrap();
        for number in 0..100 {
            let before = now();
            let file = place.path().join(number.to_string());
            std::fs::write(&file, "x").unwrap();
            let status = std::fs::metadata(file).unwrap();
            let time = (status.ctime(), u32::try_from(status.ctime_nsec()).unwrap());
            assert!(time >= before, "{time:?} {before:?}");
        }
    }

    #[test]
    fn space_that_others_free_hides_nothing() {
        let space = |bytes| FreeSpace { bytes, files: 0 };
        let mut level = PlaceLevel { path: "/".into(), before: space(100), most: space(100) };
        assert_eq!(level.raise(space(500)).bytes, 0);
        assert_eq!(level.raise(space(450)).bytes, 50);
    }
}
