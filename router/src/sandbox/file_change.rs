//! Changes of modes, owners and times that a confined process asks for, read from its registers and memory.
//!
//! Everything is copied here, once. The process may change its memory meanwhile; nobody reads it again.

use std::ffi::CString;
use std::os::fd::{OwnedFd, RawFd};

use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;

use super::notify::{Listener, Notice};
use super::table::FCHMODAT2;

/// A change of a file's metadata.
#[derive(Debug)]
pub(crate) struct FileChange {
    pub(crate) target: ChangeTarget,
    pub(crate) kind: ChangeKind,
}

/// The file of a change.
#[derive(Debug)]
pub(crate) enum ChangeTarget {
    /// An open file of the process.
    Descriptor(OwnedFd),
    /// A path.
    Path {
        /// The directory at which a relative path begins.
        base: Option<OwnedFd>,
        path: CString,
        /// Whether a link at its end is followed.
        follow: bool,
    },
}

/// The new metadata.
#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    Mode(u32),
    /// The new owner and group, where they are to change.
    Owner(Option<u32>, Option<u32>),
    Times(Timestamps),
}

/// Positions of the arguments of a call.
struct CallForm {
    directory: Option<usize>,
    path: Option<usize>,
    value: usize,
    flags: Option<usize>,
    kind: ValueKind,
    follow: bool,
}

/// The type of the value that a call sets.
#[derive(Clone, Copy)]
enum ValueKind {
    Mode,
    Owner,
    /// Seconds.
    Seconds,
    /// Seconds and microseconds.
    Microseconds,
    /// Seconds and nanoseconds.
    Nanoseconds,
}

impl Listener {
    /// Reads the change that a notice asks for.
    pub(crate) fn file_change(&self, notice: &Notice) -> Result<FileChange, Errno> {
        let form = CallForm::of(notice.call()).ok_or(Errno::NOSYS)?;
        let kind = self.change_kind(notice, &form)?;
        let target = self.change_target(notice, &form)?;
        Ok(FileChange { target, kind })
    }

    fn change_target(&self, notice: &Notice, form: &CallForm) -> Result<ChangeTarget, Errno> {
        let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        let flags = form.flags.map_or(0, |at| number(notice.arguments[at]));
        if flags & !known != 0 {
            return Err(Errno::INVAL);
        }
        let directory = form.directory.map_or(libc::AT_FDCWD, |at| number(notice.arguments[at]));
        let open_file = || self.file(notice, directory).map(ChangeTarget::Descriptor);
        let Some(path) = form.path.map(|at| notice.arguments[at]) else { return open_file() };
        // Only calls that set times take a descriptor without a path.
        if path == 0 && directory != libc::AT_FDCWD && form.kind.takes_descriptor() {
            return if flags == 0 { open_file() } else { Err(Errno::INVAL) };
        }
        let path = self.read_path(notice, path)?;
        let follow = form.follow && flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        if let Some(descriptor) = own_descriptor(path.to_bytes()).filter(|_| follow) {
            return self.file(notice, descriptor).map(ChangeTarget::Descriptor);
        }
        let base = match (path.to_bytes().first(), directory) {
            (Some(b'/'), _) => None,
            (_, libc::AT_FDCWD) => Some(self.working_directory(notice)?),
            (_, directory) => Some(self.file(notice, directory)?),
        };
        match (path.is_empty(), base) {
            (true, Some(base)) if flags & libc::AT_EMPTY_PATH != 0 => {
                Ok(ChangeTarget::Descriptor(base))
            }
            (true, _) => Err(Errno::NOENT),
            (false, base) => Ok(ChangeTarget::Path { base, path, follow }),
        }
    }

    fn change_kind(&self, notice: &Notice, form: &CallForm) -> Result<ChangeKind, Errno> {
        let value = notice.arguments[form.value];
        let nanoseconds_of = match form.kind {
            ValueKind::Mode => return Ok(ChangeKind::Mode(low(value) & 0o7777)),
            ValueKind::Owner => {
                let group = notice.arguments[form.value + 1];
                return Ok(ChangeKind::Owner(owner(value), owner(group)));
            }
            ValueKind::Seconds => None,
            ValueKind::Microseconds => Some(1000),
            ValueKind::Nanoseconds => Some(1),
        };
        if value == 0 {
            let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            return Ok(ChangeKind::Times(times));
        }
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..if nanoseconds_of.is_some() { 32 } else { 16 }];
        self.read(notice, value, bytes)?;
        let numbers: Vec<i64> = bytes.chunks_exact(8).filter_map(signed).collect();
        read_times(&numbers, nanoseconds_of).map(ChangeKind::Times).ok_or(Errno::INVAL)
    }
}

impl ValueKind {
    const fn takes_descriptor(self) -> bool {
        matches!(self, Self::Microseconds | Self::Nanoseconds)
    }
}

impl CallForm {
    /// Returns the form of a call.
    fn of(call: i64) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        use ValueKind::{Microseconds, Seconds};
        use ValueKind::{Mode, Nanoseconds, Owner};
        let by_path = |kind| Self {
            directory: None,
            path: Some(0),
            value: 1,
            flags: None,
            kind,
            follow: true,
        };
        let by_descriptor = |kind| Self { directory: Some(0), path: None, ..by_path(kind) };
        let below = |kind| Self { directory: Some(0), path: Some(1), value: 2, ..by_path(kind) };
        Some(match call {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => by_path(Mode),
            libc::SYS_fchmod => by_descriptor(Mode),
            libc::SYS_fchmodat => below(Mode),
            FCHMODAT2 => Self { flags: Some(3), ..below(Mode) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => by_path(Owner),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => Self { follow: false, ..by_path(Owner) },
            libc::SYS_fchown => by_descriptor(Owner),
            libc::SYS_fchownat => Self { flags: Some(4), ..below(Owner) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => by_path(Seconds),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => by_path(Microseconds),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => below(Microseconds),
            libc::SYS_utimensat => Self { flags: Some(3), ..below(Nanoseconds) },
            _ => return None,
        })
    }
}

/// Returns the descriptor that a path such as `/proc/self/fd/3` names. The C library uses such paths to change modes
/// without following links. In the router, the path would name one of its own descriptors.
fn own_descriptor(path: &[u8]) -> Option<RawFd> {
    let places: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
    let number = places.into_iter().find_map(|place| path.strip_prefix(place))?;
    let plain = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(number).ok().filter(|_| plain)?.parse().ok()
}

/// Reads the times of the last access and the last modification.
fn read_times(numbers: &[i64], nanoseconds_of: Option<i64>) -> Option<Timestamps> {
    let time = |seconds: i64, fraction: i64| {
        let nanoseconds = match nanoseconds_of {
            // The kernel checks these itself; UTIME_NOW and UTIME_OMIT are valid.
            None | Some(1) => fraction,
            Some(unit) => {
                let within = (0..1_000_000_000 / unit).contains(&fraction);
                Some(fraction * unit).filter(|_| within)?
            }
        };
        Some(Timespec { tv_sec: seconds, tv_nsec: nanoseconds })
    };
    let (access, modification) = match *numbers {
        [access, modification] => (time(access, 0)?, time(modification, 0)?),
        [access, of_access, modification, of_modification] => {
            (time(access, of_access)?, time(modification, of_modification)?)
        }
        _ => return None,
    };
    Some(Timestamps { last_access: access, last_modification: modification })
}

fn signed(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_ne_bytes)
}

/// Returns the owner in a register; none means no change.
fn owner(register: u64) -> Option<u32> {
    Some(low(register)).filter(|id| *id != u32::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
const fn low(register: u64) -> u32 {
    register as u32
}

const fn number(register: u64) -> RawFd {
    low(register).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::table::{MODES, OWNERS, TIMES};

    #[test]
    fn every_mediated_call_has_a_form() {
        for (number, mode) in MODES {
            let form = CallForm::of(*number).unwrap();
            assert_eq!(form.value, usize::from(*mode), "{number}");
        }
        for number in TIMES.iter().chain(OWNERS) {
            assert!(CallForm::of(*number).is_some(), "{number}");
        }
        assert!(CallForm::of(libc::SYS_connect).is_none());
    }

    #[test]
    fn paths_of_own_descriptors_are_known() {
        assert_eq!(own_descriptor(b"/proc/self/fd/17"), Some(17));
        assert_eq!(own_descriptor(b"/dev/fd/0"), Some(0));
        for other in
            ["/proc/self/fd/", "/proc/self/fd/1/x", "/proc/self/fd/+1", "/proc/1/fd/1", "1"]
        {
            assert_eq!(own_descriptor(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn times_are_read_in_every_unit() {
        let seconds = read_times(&[1, 2], None).unwrap();
        assert_eq!((seconds.last_access.tv_sec, seconds.last_modification.tv_sec), (1, 2));
        let micro = read_times(&[1, 3, 2, 999_999], Some(1000)).unwrap();
        assert_eq!(
            (micro.last_access.tv_nsec, micro.last_modification.tv_nsec),
            (3000, 999_999_000)
        );
        assert!(read_times(&[1, 1_000_000, 2, 0], Some(1000)).is_none());
        assert!(read_times(&[1, -1, 2, 0], Some(1000)).is_none());
        let nano = read_times(&[1, rustix::fs::UTIME_OMIT, 2, 7], Some(1)).unwrap();
        assert_eq!(nano.last_access.tv_nsec, rustix::fs::UTIME_OMIT);
    }
}
