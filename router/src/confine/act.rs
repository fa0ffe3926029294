//! What the child does with files itself: no link is followed, whoever may have put it there meanwhile.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::archive;
use super::wire::{Act, Content, WriteMode};
use crate::sandbox::Profile;

/// How paths are looked up: below where they begin, and through no link.
pub(super) const STRAIGHT: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

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
    rustix::fs::openat2(from, path, flags, mode, STRAIGHT).map_err(|error| named(path, error))
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
