//! Whether the files of an execution take more than they may.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Limits;

/// Looking at files takes no longer than this many of them.
const MOST_FILES: usize = 200_000;

/// Watches the disks on which an execution may write.
#[derive(Debug)]
pub(super) struct Disk {
    /// Each place, with what was free there before.
    places: Vec<(PathBuf, u64)>,
    since: i64,
    most: u64,
    keep_free: u64,
}

impl Disk {
    pub(super) fn new(limits: &Limits) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let places = limits.places.iter().filter_map(|place| Some((place.clone(), free(place)?)));
        Self {
            places: places.collect(),
            since: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            most: limits.disk,
            keep_free: limits.keep_free,
        }
    }

    /// Says whether it is too much. What is free is asked first, since that is cheap: only where much has gone,
    /// files are looked at, for others may have written too. Where next to nothing is left, nobody is asked.
    pub(super) fn is_filled(&self) -> bool {
        self.places.iter().any(|(place, before)| {
            let Some(now) = free(place) else { return false };
            let least = self.keep_free.min(before / 2);
            let gone = before.saturating_sub(now);
            gone > 0 && now < least || gone > self.most && self.changed() > self.most
        })
    }

    /// Returns what the files take that were made or changed since, in all places.
    fn changed(&self) -> u64 {
        let mut left = MOST_FILES;
        self.places.iter().map(|(place, _)| changed(place, self.since, &mut left)).sum()
    }
}

fn free(place: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(place).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// The time of the last change cannot be set by anybody, unlike the others.
fn changed(directory: &Path, since: i64, left: &mut usize) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if *left == 0 {
            return sum;
        }
        *left -= 1;
        let Ok(status) = entry.metadata() else { continue };
        if status.is_dir() {
            sum += changed(&entry.path(), since, left);
        } else if status.ctime() >= since {
            sum += status.blocks() * 512;
        }
    }
    sum
}
