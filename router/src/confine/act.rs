//! What the child does with files itself: no link is followed, whoever may have put it there meanwhile.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::archive;
use super::wire::{Act, Content, WriteMode};
use crate::sandbox::Profile;

/// Opens the workspace.
pub(super) fn workspace(profile: &Profile) -> io::Result<OwnedFd> {
    let workspace = profile.workspace.as_ref().ok_or(io::ErrorKind::NotFound)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&workspace.root, flags, Mode::empty())?)
}

/// Does what is to be done with files.
pub(super) fn carry_out(profile: &Profile, act: &Act) -> io::Result<()> {
    let root = workspace(profile)?;
    match act {
        Act::Nothing | Act::Start(_) => Ok(()),
        Act::Write { path, content, mode } => write(&root, path, &bytes(content)?, *mode),
        Act::Pack { paths, directory, name } => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(directory.as_str(), flags, Mode::empty())?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = open(&directory, name, flags)?;
            archive::pack(&root, paths, File::from(file))
        }
    }
}

fn bytes(content: &Content) -> io::Result<Vec<u8>> {
    match content {
        Content::Text(text) => Ok(text.clone().into_bytes()),
        Content::Base64(text) => STANDARD.decode(text).map_err(io::Error::other),
    }
}

/// Opens something below a directory, and names it in the error.
pub(super) fn open(from: impl AsFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let mode =
        if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
    // What waits for somebody at its other end is not waited for.
    let waits = !flags.contains(OFlags::PATH);
    let flags = flags | OFlags::CLOEXEC | if waits { OFlags::NONBLOCK } else { OFlags::empty() };
    open_straight(from.as_fd(), path, flags, mode).map_err(|error| named(path, error))
}

/// Opens something below a directory, part by part, and follows no link. The sandbox denies `openat2`, which could do
/// that in one call.
pub(super) fn open_straight(
    from: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
    let mut directory: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        if part == ".." {
            return Err(Errno::XDEV);
        }
        let at = directory.as_ref().map_or(from, AsFd::as_fd);
        let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let flags = if parts.peek().is_some() { between } else { flags } | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(at, part, flags, mode);
        // A link can be opened itself, or is only known not to be a directory.
        let is_link = match &opened {
            Ok(opened) => is_link(&rustix::fs::fstat(opened)?),
            Err(Errno::NOTDIR) => {
                is_link(&rustix::fs::statat(at, part, AtFlags::SYMLINK_NOFOLLOW)?)
            }
            Err(_) => false,
        };
        if is_link {
            return Err(Errno::LOOP);
        }
        let opened = opened?;
        if parts.peek().is_none() {
            return Ok(opened);
        }
        directory = Some(opened);
    }
    rustix::fs::openat(from, ".", flags, mode)
}

fn is_link(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::Symlink
}

pub(super) fn named(path: &str, error: Errno) -> io::Error {
    if error == Errno::LOOP {
        return io::Error::other(format!("{path:?}: a link is not followed"));
    }
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{path:?}: {error}"))
}

fn write(root: &OwnedFd, path: &str, bytes: &[u8], mode: WriteMode) -> io::Result<()> {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    let directory = make_all(root, parent)?;
    match mode {
        WriteMode::Create => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            put(open(&directory, name, flags)?, path, bytes)
        }
        WriteMode::Append => put(
            open(&directory, name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?,
            path,
            bytes,
        ),
        WriteMode::Replace => {
            // Whoever reads it meanwhile sees one or the other, and a link is replaced, not followed.
            let new = format!(".{}.new", std::process::id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let written = put(open(&directory, &new, flags)?, path, bytes).and_then(|()| {
                rustix::fs::renameat(&directory, new.as_str(), &directory, name)
                    .map_err(|error| named(path, error))
            });
            written.inspect_err(|_| {
                let _: Result<(), Errno> =
                    rustix::fs::unlinkat(&directory, new.as_str(), AtFlags::empty());
            })
        }
    }
}

fn put(file: OwnedFd, path: &str, bytes: &[u8]) -> io::Result<()> {
    let status = rustix::fs::fstat(&file).map_err(|error| named(path, error))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::Error::other(format!("{path:?} is no regular file")));
    }
    let mut file = File::from(file);
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{path:?}: {error}"));
    file.write_all(bytes).map_err(told)?;
    file.sync_all().map_err(told)
}

/// Opens a directory below another one, and makes those that are not there.
fn make_all(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut directory = open(root, ".", OFlags::PATH | OFlags::DIRECTORY)?;
    for part in path.split('/').filter(|part| *part != ".") {
        match rustix::fs::mkdirat(&directory, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(named(path, error)),
        }
        directory = open(&directory, part, OFlags::PATH | OFlags::DIRECTORY)?;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_on_a_path() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/b/file"), "x").unwrap();
        for (target, link) in [("a", "to-directory"), ("b/file", "a/to-file"), ("b", "a/to-b")] {
            std::os::unix::fs::symlink(target, place.path().join(link)).unwrap();
        }
        let root = File::open(place.path()).unwrap();
        let directory = OFlags::PATH | OFlags::DIRECTORY;
        for (path, flags, expected) in [
            ("a/b/file", OFlags::RDONLY, Ok(())),
            ("./a//b", directory, Ok(())),
            (".", directory, Ok(())),
            ("to-directory/b", directory, Err(Errno::LOOP)),
            ("to-directory", directory, Err(Errno::LOOP)),
            ("to-directory", OFlags::PATH, Err(Errno::LOOP)),
            ("a/to-b/file", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/to-file", OFlags::RDONLY, Err(Errno::LOOP)),
            ("a/to-file", OFlags::PATH, Err(Errno::LOOP)),
            ("a/b/file/x", OFlags::PATH, Err(Errno::NOTDIR)),
            ("a/../a", directory, Err(Errno::XDEV)),
            ("nowhere/file", OFlags::PATH, Err(Errno::NOENT)),
        ] {
            let opened = open_straight(root.as_fd(), path, flags, Mode::empty()).map(drop);
            assert_eq!(opened, expected, "{path}");
        }
    }
}
