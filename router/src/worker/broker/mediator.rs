//! Changes of modes, owners and times for an execution, inside the places that it may write.
//!
//! The file that a process names is found first, without an effect on it. Then it is opened a second time, from a
//! place that was opened before the process began, through no link. Only that descriptor is changed. A process that
//! changes its memory, links or directories meanwhile reaches nothing outside.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sandbox::{ChangeKind, ChangeTarget, FileChange, Profile};

/// Path resolution below a place, through no link.
const STRAIGHT: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Attempts to find a file that is being moved.
const ATTEMPTS: usize = 8;

/// The places of an execution in which the router changes the metadata of files.
#[derive(Debug)]
pub(crate) struct MetadataMediator {
    places: Vec<OwnedFd>,
}

impl MetadataMediator {
    /// Opens the places that a profile may write. Call it before the process begins.
    pub(crate) fn new(profile: &Profile) -> Self {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |path| rustix::fs::open(path, flags, Mode::empty()).ok();
        let mut places: Vec<OwnedFd> = profile.grants.write.iter().filter_map(open).collect();
        if let Some(workspace) = &profile.workspace
            && let Some(root) = open(&workspace.root)
        {
            let below = |path: &String| {
                rustix::fs::openat2(&root, path.as_str(), flags, Mode::empty(), STRAIGHT).ok()
            };
            places.extend(workspace.write.iter().filter_map(below));
        }
        Self { places }
    }

    /// Makes a change, with no more rights than the process has.
    pub(super) fn apply(&self, change: &FileChange) -> Result<(), Errno> {
        let _scope = UnprivilegedScope::enter()?;
        let file = self.find(&change.target)?;
        let status = rustix::fs::fstat(&file)?;
        let file_type = FileType::from_raw_mode(status.st_mode);
        if matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice) {
            return Err(Errno::PERM);
        }
        let path = path_of(file.as_fd());
        match &change.kind {
            ChangeKind::Mode(mode) => {
                let sticky = mode & 0o1000 != 0 && file_type != FileType::Directory;
                // Without them, the next execution cannot open the workspace.
                let locks_place = mode & 0o700 != 0o700
                    && file_type == FileType::Directory
                    && self.is_place(&status);
                if mode & 0o6000 != 0 || sticky || locks_place {
                    return Err(Errno::PERM);
                }
                let mode = Mode::from_raw_mode(*mode);
                rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())
            }
            // A file keeps its owner. Programs that copy owners ask for the one that it has.
            ChangeKind::Owner(user, group) => {
                let same = user.is_none_or(|user| user == status.st_uid)
                    && group.is_none_or(|group| group == status.st_gid);
                if same { Ok(()) } else { Err(Errno::PERM) }
            }
            ChangeKind::Times(times) => rustix::fs::utimensat(CWD, path, times, AtFlags::empty()),
        }
    }

    /// Opens the file of a change, below one of the places.
    fn find(&self, target: &ChangeTarget) -> Result<OwnedFd, Errno> {
        for _ in 0..ATTEMPTS {
            let opened;
            let found = match target {
                ChangeTarget::Descriptor(descriptor) => descriptor.as_fd(),
                ChangeTarget::Path { base, path, follow } => {
                    opened = resolve(base.as_ref(), path, *follow)?;
                    opened.as_fd()
                }
            };
            if let Some(file) = self.reopen(found)? {
                return Ok(file);
            }
        }
        Err(Errno::PERM)
    }

    /// Returns whether a file is one of the places itself.
    fn is_place(&self, status: &Stat) -> bool {
        let stat = |place| rustix::fs::fstat(place).ok();
        self.places.iter().filter_map(stat).any(|place| is_same(&place, status))
    }

    /// Opens a file again from one of the places. None if it is not where it was a moment ago.
    fn reopen(&self, found: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
        let wanted = rustix::fs::fstat(found)?;
        let name = rustix::fs::readlink(path_of(found), Vec::new())?;
        let mut within = false;
        for place in &self.places {
            let place_name = rustix::fs::readlink(path_of(place.as_fd()), Vec::new())?;
            let Some(rest) = name.to_bytes().strip_prefix(place_name.to_bytes()) else { continue };
            let reopened = match rest {
                [] => rustix::io::fcntl_dupfd_cloexec(place, 0),
                [b'/', below @ ..] => {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat2(place, below, flags, Mode::empty(), STRAIGHT)
                }
                _ => continue,
            };
            within = true;
            if let Ok(file) = reopened
                && is_same(&rustix::fs::fstat(&file)?, &wanted)
            {
                return Ok(Some(file));
            }
        }
        if within { Ok(None) } else { Err(Errno::PERM) }
    }
}

/// Finds a file by its path as the kernel would, without opening it.
fn resolve(base: Option<&OwnedFd>, path: &CString, follow: bool) -> Result<OwnedFd, Errno> {
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | link;
    let base = base.map_or(CWD, AsFd::as_fd);
    // Magic links of /proc lead elsewhere in this process than in the caller.
    rustix::fs::openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Returns a path that leads to an open file of this process, wherever the file is.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Drops the superuser capabilities of this thread until dropped. The kernel then checks a change as if the confined
/// process made it.
struct UnprivilegedScope {
    before: Option<CapabilitySets>,
}

impl UnprivilegedScope {
    fn enter() -> Result<Self, Errno> {
        let before = rustix::thread::capabilities(None)?;
        if before.effective.is_empty() {
            return Ok(Self { before: None });
        }
        let none = CapabilitySets { effective: CapabilitySet::empty(), ..before };
        rustix::thread::set_capabilities(None, none)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for UnprivilegedScope {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && let Err(error) = rustix::thread::set_capabilities(None, before)
        {
            tracing::error!(%error, "cannot restore the capabilities of a thread");
        }
    }
}
