//! Removes directories that executions wrote to, with any modes, depth and names.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Directories that may be emptied a second time.
const ATTEMPTS: usize = 1000;

/// Removes a directory with everything in it. Follows no links.
pub(super) fn remove_directory(path: &Path) -> Result<(), Errno> {
    let top = open_directory(CWD, path)?;
    let mut moved = 0;
    // A directory moves to the top before it is emptied, so that no depth takes too many descriptors.
    let mut pending = empty(&top, &top, &mut moved)?;
    let mut attempts = ATTEMPTS;
    while let Some(name) = pending.pop() {
        let directories = empty(&open_directory(&top, &name)?, &top, &mut moved)?;
        match rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR) {
            // Not every file system lists all entries while some are removed.
            Err(Errno::NOTEMPTY) if attempts > 0 => {
                attempts -= 1;
                pending.push(name);
            }
            removed => removed?,
        }
        pending.extend(directories);
    }
    rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)
}

/// Removes the files of a directory, moves its directories to the top, and returns the names that they have there.
fn empty(directory: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> Result<Vec<CString>, Errno> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if !is_directory(directory, name)? {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
        } else if std::ptr::eq(directory, top) {
            directories.push(name.to_owned());
        } else {
            // Only who may write to a directory may move it elsewhere.
            drop(open_directory(directory, name)?);
            *moved += 1;
            let new_name = CString::new(format!("moved-{moved}")).map_err(|_| Errno::INVAL)?;
            rustix::fs::renameat(directory, name, top, &new_name)?;
            directories.push(new_name);
        }
    }
    Ok(directories)
}

fn is_directory(directory: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(status.st_mode) == FileType::Directory)
}

/// Opens a directory, and gives its owner all rights first if some are missing.
fn open_directory(from: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(from, name, flags, Mode::empty())?;
    let all = Mode::RWXU;
    if !Mode::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).contains(all) {
        rustix::fs::chmodat(CWD, path_of(found.as_fd()), all, AtFlags::empty())?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(&found, ".", flags, Mode::empty())
}

/// Returns a path that leads to an open file of this process, wherever the file is.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn locked_and_linked_directories_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("exec");
        let outside = place.path().join("outside");
        for path in [&top.join("tmp/a/b/c"), &outside] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::fs::write(outside.join("file"), "x").unwrap();
        std::fs::write(top.join("tmp/a/b/c/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, top.join("tmp/a/link")).unwrap();
        for (name, mode) in [("tmp/a/b/c", 0o000), ("tmp/a/b", 0o500), ("tmp/a", 0o300)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(top.join(name), mode).unwrap();
        }
        remove_directory(&top).unwrap();
        assert!(!top.exists() && outside.join("file").exists());
        assert_eq!(remove_directory(&top), Err(Errno::NOENT));
    }

    #[test]
    fn deep_directories_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("exec");
        std::fs::create_dir(&top).unwrap();
        let mut directory = open_directory(CWD, &top).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
            directory = open_directory(&directory, "d").unwrap();
        }
        remove_directory(&top).unwrap();
        assert!(!top.exists());
    }
}
