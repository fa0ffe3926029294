//! What lies in a directory: opened once, walked by descriptors, hashed in one pass, and bounded in every way.
//!
//! Nothing is opened that is no regular file or directory, no link is followed, and nothing is read of a file that is
//! larger than allowed: its size alone refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::verdict::{Finding, Findings, Reason};
use crate::digest::Digest;
use crate::python_text::visible;

/// So much is read at once.
const CHUNK: usize = 128 * 1024;
/// A longer path has no file of a bundle.
const MAX_PATH: usize = 1024;

/// What the verifier takes upon itself. Beyond it, it says that it cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most files and directories of a bundle.
    pub entries: usize,
    /// The most levels of directories in a bundle.
    pub depth: usize,
    /// The most bytes of a file.
    pub file_bytes: u64,
    /// The most bytes of all files of a bundle.
    pub total_bytes: u64,
    /// The most bytes of a file whose content matters, and not only its digest.
    pub document_bytes: usize,
    /// The most bundles of a cabinet.
    pub bundles: usize,
    /// The most findings that are told; the others are counted.
    pub findings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 200_000,
            depth: 32,
            file_bytes: 1 << 30,
            total_bytes: 4 << 30,
            document_bytes: 32 << 20,
            bundles: 20_000_000,
            findings: 100,
        }
    }
}

/// A regular file that was read to its end.
pub(super) struct File {
    /// The digest of its bytes.
    pub(super) sha256: Digest,
    /// Its bytes, if they were asked for and are not too many.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Whether the content of a file matters, and not only its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Always: a file that is too large for it is not judged.
    Always,
    /// Only if there is not too much of it.
    IfSmall,
    /// Never.
    Never,
}

/// What there is in a directory, by paths relative to it.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) files: BTreeMap<String, File>,
    pub(super) directories: BTreeSet<String>,
    /// Whether there may be more than was seen.
    pub(super) cut: bool,
}

/// Opens a directory that somebody named. What is named by a link is not what was named.
pub(super) fn open_named(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, DIRECTORY, Mode::empty())?)
}

/// Opens a directory in another one.
pub(super) fn open_in(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const REGULAR: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Walks directories, with one buffer for all files.
pub(super) struct Walker {
    limits: Limits,
    buffer: Vec<u8>,
}

/// The walk of one bundle.
struct Walk<'a> {
    walker: &'a mut Walker,
    /// Whether the content of a file matters.
    matters: &'a dyn Fn(&str) -> Wanted,
    findings: &'a mut Findings,
    contents: Contents,
    entries: usize,
    bytes: u64,
}

impl Walker {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, buffer: vec![0; CHUNK] }
    }

    /// Reads everything that is below a directory.
    pub(super) fn read(
        &mut self,
        directory: OwnedFd,
        matters: &dyn Fn(&str) -> Wanted,
        findings: &mut Findings,
    ) -> Contents {
        let contents = Contents::default();
        let mut walk = Walk { walker: self, matters, findings, contents, entries: 0, bytes: 0 };
        walk.directory(directory, "", 0);
        walk.contents
    }
}

impl Walk<'_> {
    fn tell(&mut self, reason: Reason, file: &str, message: impl Into<String>) {
        self.findings.push(Finding::new(reason, file, message));
    }

    fn directory(&mut self, directory: OwnedFd, path: &str, depth: usize) {
        let Some((directory, names)) = self.names(directory, path) else { return };
        let Ok(parent) = directory.fd() else { return };
        for (name, kind) in names {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match kind {
                FileType::RegularFile => self.file(parent, &name, &inner),
                FileType::Directory if depth + 1 >= self.walker.limits.depth => {
                    self.contents.cut = true;
                    let most = self.walker.limits.depth;
                    let message = format!("it is deeper than the {most} levels that are looked at");
                    self.tell(Reason::TooDeep, &inner, message);
                }
                FileType::Directory => match open_in(parent, &name) {
                    Ok(below) => {
                        self.contents.directories.insert(inner.clone());
                        self.directory(below, &inner, depth + 1);
                    }
                    Err(error) => self.unreadable(&inner, &error),
                },
                other => self.special(&inner, other),
            }
        }
    }

    /// Returns the names in a directory, with what they are; sorted, so that the same bundle has the same verdict.
    fn names(&mut self, directory: OwnedFd, path: &str) -> Option<(Dir, Vec<(String, FileType)>)> {
        let mut directory = match Dir::new(directory) {
            Ok(directory) => directory,
            Err(error) => {
                self.unreadable(path, &error.into());
                return None;
            }
        };
        let mut names = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.unreadable(path, &error.into());
                    return None;
                }
            };
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > self.walker.limits.entries {
                let most = self.walker.limits.entries;
                let message = format!("there are more than the {most} entries that are looked at");
                if !self.contents.cut {
                    self.tell(Reason::TooManyEntries, path, message);
                }
                self.contents.cut = true;
                break;
            }
            let name = entry.file_name();
            match name.to_str().ok().filter(|name| is_plain(name)) {
                Some(name) => names.push((name.to_owned(), entry.file_type())),
                None => self.misnamed(path, name),
            }
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (name, kind) in &mut names {
            // Some file systems do not tell what an entry is until it is asked for.
            if *kind == FileType::Unknown
                && let Ok(stat) =
                    statat(directory.fd().ok()?, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            {
                *kind = FileType::from_raw_mode(stat.st_mode);
            }
        }
        Some((directory, names))
    }

    fn misnamed(&mut self, path: &str, name: &std::ffi::CStr) {
        let shown = CString::from(name).to_string_lossy().into_owned();
        let message =
            format!("the name {} has other characters than A-Z a-z 0-9 . _ -", visible(&shown));
        let shown = if path.is_empty() { shown } else { format!("{path}/{shown}") };
        self.tell(Reason::BadName, &shown, message);
    }

    fn special(&mut self, path: &str, kind: FileType) {
        let (reason, what) = match kind {
            FileType::Symlink => (Reason::Symlink, "a symbolic link"),
            FileType::Fifo => (Reason::SpecialFile, "a pipe"),
            FileType::Socket => (Reason::SpecialFile, "a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => (Reason::SpecialFile, "a device"),
            _ => (Reason::SpecialFile, "of no known kind"),
        };
        let message = format!("it is {what}; a bundle has files and directories alone");
        self.tell(reason, path, message);
    }

    fn unreadable(&mut self, path: &str, error: &io::Error) {
        self.contents.cut = true;
        self.tell(Reason::Unreadable, path, format!("it cannot be read: {error}"));
    }

    fn file(&mut self, parent: BorrowedFd<'_>, name: &str, path: &str) {
        if path.len() > MAX_PATH {
            let message = format!("its path is longer than {MAX_PATH} bytes");
            return self.tell(Reason::BadName, path, message);
        }
        let opened = openat(parent, name, REGULAR, Mode::empty());
        let read = opened.and_then(|file| {
            let stat = fstat(&file)?;
            Ok((file, FileType::from_raw_mode(stat.st_mode), stat.st_size.cast_unsigned()))
        });
        let (file, kind, size) = match read {
            Ok(read) => read,
            // It became a link since the directory was read.
            Err(Errno::LOOP) => return self.special(path, FileType::Symlink),
            Err(error) => return self.unreadable(path, &error.into()),
        };
        if kind != FileType::RegularFile {
            return self.special(path, kind);
        }
        let limits = self.walker.limits;
        if size > limits.file_bytes {
            self.contents.cut = true;
            let message =
                format!("it has {size} bytes, more than the {} that are read", limits.file_bytes);
            return self.tell(Reason::FileTooLarge, path, message);
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > limits.total_bytes {
            self.contents.cut = true;
            let most = limits.total_bytes;
            let message =
                format!("the files up to it have more than the {most} bytes that are read");
            return self.tell(Reason::FileTooLarge, path, message);
        }
        let wanted = (self.matters)(path);
        let small = size <= limits.document_bytes as u64;
        if wanted == Wanted::Always && !small {
            self.contents.cut = true;
            let most = limits.document_bytes;
            let message = format!("it has {size} bytes, more than the {most} of a document");
            return self.tell(Reason::FileTooLarge, path, message);
        }
        match self.walker.content(file.as_fd(), size, small && wanted != Wanted::Never) {
            Ok(Some(file)) => drop(self.contents.files.insert(path.to_owned(), file)),
            Ok(None) => {
                self.contents.cut = true;
                let message = "its size changed while it was read; look again when nobody writes";
                self.tell(Reason::Changing, path, message);
            }
            Err(error) => self.unreadable(path, &error.into()),
        }
    }
}

impl Walker {
    /// Returns the digest of a file.
    pub(super) fn digest(&mut self, path: &Path) -> io::Result<Digest> {
        let file = openat(CWD, path, REGULAR, Mode::empty())?;
        let size = fstat(&file)?.st_size.cast_unsigned();
        let content = self.content(file.as_fd(), size, false)?;
        content.map(|file| file.sha256).ok_or_else(|| io::Error::other("its size changed"))
    }

    /// Reads a file of a size; none if it has another.
    fn content(
        &mut self,
        file: BorrowedFd<'_>,
        size: u64,
        keep: bool,
    ) -> Result<Option<File>, Errno> {
        let mut hasher = Sha256::new();
        let mut bytes = keep.then(|| Vec::with_capacity(usize::try_from(size).unwrap_or(0)));
        let mut read = 0_u64;
        loop {
            let got = match rustix::io::read(file, &mut *self.buffer) {
                Err(Errno::INTR) => continue,
                got => got?,
            };
            let chunk = self.buffer.get(..got).unwrap_or_default();
            hasher.update(chunk);
            if let Some(bytes) = &mut bytes {
                bytes.extend_from_slice(chunk);
            }
            read += got as u64;
            if read > size {
                return Ok(None);
            }
            // Of a regular file a short answer is the last one.
            if got < self.buffer.len() {
                break;
            }
        }
        let sha256 = Digest::from_bytes(hasher.finalize().into());
        Ok((read == size).then_some(File { sha256, bytes }))
    }
}

/// Says whether a name is one that a bundle may have.
pub(super) fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.bytes().all(plain) && !matches!(name, "" | "." | "..")
}

/// Names with what they are.
type Names = Vec<(Vec<u8>, FileType)>;

/// Lists the names in a directory, sorted, up to some; the second is whether there are more.
pub(super) fn list(directory: BorrowedFd<'_>, most: usize) -> io::Result<(Names, bool)> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() >= most {
            return Ok((names, true));
        }
        let kind = match entry.file_type() {
            FileType::Unknown => statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        names.push((name.to_bytes().to_owned(), kind));
    }
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok((names, false))
}
