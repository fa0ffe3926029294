//! Paths without links, compared by name and by identity, and the mounts below them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// A path without links, and the identities of the directories on it, from the path itself up.
pub(super) struct RealPath {
    path: PathBuf,
    identities: Vec<Option<(u64, u64)>>,
}

impl RealPath {
    /// Resolves a path as far as it exists.
    pub(super) fn of(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut missing = Vec::new();
        let mut existing = absolute.as_path();
        let real = loop {
            match (existing.canonicalize(), existing.parent(), existing.components().next_back()) {
                (Ok(real), ..) => break real,
                (Err(_), Some(parent), Some(last)) => {
                    missing.push(last);
                    existing = parent;
                }
                (Err(_), ..) => break absolute.clone(),
            }
        };
        let mut path = real;
        for part in missing.into_iter().rev() {
            match part {
                Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
        }
        Self::known(path)
    }

    /// Resolves the directory of a path, and not the path itself.
    pub(super) fn of_link(path: &Path) -> Option<Self> {
        let absolute = std::path::absolute(path).ok()?;
        let (directory, name) = (absolute.parent()?, absolute.file_name()?);
        Some(Self::known(Self::of(directory).path.join(name)))
    }

    fn known(path: PathBuf) -> Self {
        let identity = |path: &Path| {
            let status = std::fs::symlink_metadata(path).ok()?;
            Some((status.dev(), status.ino()))
        };
        let identities = path.ancestors().map(identity).collect();
        Self { path, identities }
    }

    fn own_identity(&self) -> Option<(u64, u64)> {
        self.identities.first().copied().flatten()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let identity = self.own_identity();
        self.path == other.path || identity.is_some() && identity == other.own_identity()
    }

    pub(super) fn is_below(&self, other: &Self) -> bool {
        let identity = other.own_identity();
        let above = self.identities.iter().skip(1);
        self.path != other.path && self.path.starts_with(&other.path)
            || identity.is_some() && above.into_iter().any(|above| *above == identity)
    }
}

/// Returns the places below a path at which something is mounted.
pub(super) fn mount_points_below(place: &RealPath) -> Vec<RealPath> {
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.split(|byte| *byte == b'\n').filter_map(mount_point);
    let below = points.filter(|point| *point != place.path && point.starts_with(&place.path));
    below.map(RealPath::known).collect()
}

/// Reads the place of a mount from a line of `/proc/PID/mountinfo`.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let written = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((byte, after)) = rest.split_first() {
        // The kernel writes blanks, line breaks and backslashes as octal numbers.
        let digits = after.get(..3).filter(|_| *byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mounts_are_read() {
        let line = b"36 35 98:0 /mnt1 /w/a\\040b\\134c rw,noatime - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some(PathBuf::from("/w/a b\\c")));
        assert_eq!(mount_point(b"36 35"), None);
        let below = mount_points_below(&RealPath::of(Path::new("/")));
        assert!(below.iter().any(|mount| mount.path == Path::new("/proc")));
    }
}
