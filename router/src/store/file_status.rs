//! Identity, size and number of names of a file, looked up without its times.
//!
//! Since Linux 6.13, a file whose times were looked up gets new times with its next write, and the `fsync` after that
//! write commits them to the journal. The writer looks at its files around each commit, so it asks for no times.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};

/// Identity, size and number of names of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileStatus {
    /// Device and inode.
    pub(super) identity: (u64, u64),
    pub(super) size: u64,
    /// How many names the file has.
    pub(super) names: u32,
}

impl FileStatus {
    /// Looks up the file behind a path, through links.
    pub(super) fn of_path(path: &Path) -> rustix::io::Result<Self> {
        Self::look_up(CWD, path, AtFlags::empty())
    }

    /// Looks up what has a path as its name: a link itself.
    pub(super) fn of_name(path: &Path) -> rustix::io::Result<Self> {
        Self::look_up(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Looks up an open file.
    pub(super) fn of_opened(file: impl AsFd) -> rustix::io::Result<Self> {
        Self::look_up(file, Path::new(""), AtFlags::EMPTY_PATH)
    }

    fn look_up(directory: impl AsFd, path: &Path, flags: AtFlags) -> rustix::io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::NLINK;
        rustix::fs::statx(directory, path, flags, wanted).map(|found| Self::from(&found))
    }
}

impl From<&Statx> for FileStatus {
    fn from(found: &Statx) -> Self {
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self { identity: (device, found.stx_ino), size: found.stx_size, names: found.stx_nlink }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "four").unwrap();
        std::fs::hard_link(&file, directory.path().join("other")).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let expected = std::fs::metadata(&file).unwrap();
        let opened = std::fs::File::open(&file).unwrap();
        for status in [
            FileStatus::of_path(&file),
            FileStatus::of_path(&link),
            FileStatus::of_name(&file),
            FileStatus::of_opened(&opened),
        ] {
            let status = status.unwrap();
            assert_eq!(status.identity, (expected.dev(), expected.ino()));
            assert_eq!((status.size, status.names), (4, 2));
        }
        let status = FileStatus::of_name(&link).unwrap();
        assert_eq!(status.identity.1, std::fs::symlink_metadata(&link).unwrap().ino());
        let missing = FileStatus::of_path(&directory.path().join("missing"));
        assert_eq!(missing.unwrap_err(), rustix::io::Errno::NOENT);
    }
}
