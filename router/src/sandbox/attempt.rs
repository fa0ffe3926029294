//! Attempts of a process under observation: each notice is answered, and described in a few words.
//!
//! No attempt changes anything outside. Calls that reach outside fail with the error that the sandbox gives
//! without an observer, and what is opened for writing is opened here, or not at all. So the memory of the process,
//! which it may change at any moment, only shapes the report. Calls go on by themselves if their registers alone, or
//! the kernel, keep them harmless.

mod names;

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::notify::{Listener, Notice, Target, read_target};
use super::table::{ABSENT, ATTRIBUTES, CHANGES, IDENTITIES, OPENINGS, TIMERS};
use super::{Profile, Reading, files, sys};
use names::{CallAction, CallSubject};

/// Longer subjects are cut off.
const MAX_SUBJECT: usize = 200;

/// Attempt of an observed process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Nothing that anybody needs to know.
    Harmless,
    /// It would have changed something outside of the process, or the process for good.
    Effect(String),
    /// It was denied, and would have changed nothing.
    Denied(String),
    /// The router cannot read the memory of the process, and so cannot tell.
    Unknown,
}

/// Places that an observed process may read.
#[derive(Debug)]
pub(crate) struct ReadablePlaces(Option<Vec<PathBuf>>);

impl ReadablePlaces {
    /// Returns the places of a profile.
    pub(crate) fn of(profile: &Profile) -> Self {
        let bounded = profile.reading == Reading::Granted && sys::landlock_version() > 0;
        let places = || files::readable(profile).filter_map(|path| path.canonicalize().ok());
        Self(bounded.then(|| places().collect()))
    }

    /// Returns whether the sandbox keeps a process from reading what this user may read.
    fn deny(&self, path: &Path) -> bool {
        let Some(places) = &self.0 else { return false };
        // What the machine tells of itself is asked for by every runtime, which copes without it.
        let of_machine = ["/proc", "/sys", "/dev"].iter().any(|place| path.starts_with(place));
        let Some(target) = path.canonicalize().ok().filter(|_| !of_machine) else { return false };
        !places.iter().any(|place| target.starts_with(place))
            && rustix::fs::access(&target, Access::READ_OK).is_ok()
    }
}

/// Returns whether a file that is opened with these flags can be changed.
fn writes(flags: OFlags) -> bool {
    let changes = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    flags.intersects(changes) && !flags.contains(OFlags::PATH)
}

impl Listener {
    /// Answers a notice of a process under observation, and returns the attempt.
    pub(crate) fn observe(&self, notice: &Notice, places: &ReadablePlaces) -> Attempt {
        let call = notice.call();
        if let Some((_, flags)) = OPENINGS.iter().find(|(number, _)| *number == call) {
            let flags = notice.arguments[usize::from(*flags)];
            return self.observe_opening(notice, OFlags::from_bits_retain(low(flags)), places);
        }
        if call == libc::SYS_socket {
            return self.observe_socket(notice);
        }
        if is_own_identity(notice) {
            self.let_through(notice);
            return Attempt::Harmless;
        }
        let attempt = self.attempt(notice);
        if TIMERS.contains(&call) || is_alarm(call) {
            self.let_through(notice);
        } else {
            self.answer(notice, Err(denial(call)));
        }
        attempt
    }

    fn observe_opening(&self, notice: &Notice, flags: OFlags, places: &ReadablePlaces) -> Attempt {
        let of_call = names::action(notice.call());
        let path = match self.subject_path(notice, of_call.subject) {
            Ok(path) => path,
            Err(error @ (Errno::FAULT | Errno::NAMETOOLONG | Errno::SRCH | Errno::BADF)) => {
                self.answer(notice, Err(error));
                return Attempt::Harmless;
            }
            Err(_) if writes(flags) => {
                self.answer(notice, Err(Errno::ACCESS));
                return Attempt::Unknown;
            }
            Err(_) => {
                // Landlock still bounds it.
                self.let_through(notice);
                return Attempt::Unknown;
            }
        };
        if !writes(flags) {
            self.let_through(notice);
            let denied = !flags.contains(OFlags::PATH) && places.deny(&path);
            return if denied {
                Attempt::Denied(path_line("read", &path))
            } else {
                Attempt::Harmless
            };
        }
        match path.as_os_str().as_bytes() {
            b"/dev/null" => {
                self.open_null(notice, flags);
                return Attempt::Harmless;
            }
            b"/dev/zero" | b"/dev/full" | b"/dev/random" | b"/dev/urandom" => {
                self.answer(notice, Err(Errno::ACCESS));
                return Attempt::Harmless;
            }
            _ => self.answer(notice, Err(Errno::ACCESS)),
        }
        if is_own_setting(&path, notice.thread) {
            return Attempt::Harmless;
        }
        Attempt::Effect(path_line("write", &path))
    }

    /// Opens `/dev/null` for the process.
    fn open_null(&self, notice: &Notice, flags: OFlags) {
        let kept = OFlags::WRONLY | OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK;
        let opened = rustix::fs::open("/dev/null", flags & kept | OFlags::CLOEXEC, Mode::empty());
        self.answer_opened(notice, opened, flags.contains(OFlags::CLOEXEC));
    }

    /// Gives the process a socket that reaches nobody, so that it goes on and tells where it would connect to.
    fn observe_socket(&self, notice: &Notice) -> Attempt {
        let [family, kind, ..] = notice.arguments.map(|number| low(number).cast_signed());
        let plain = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        let name = match family {
            libc::AF_UNIX => "unix".to_owned(),
            libc::AF_INET => "IPv4".to_owned(),
            libc::AF_INET6 => "IPv6".to_owned(),
            other => format!("family {other}"),
        };
        let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].contains(&family);
        let kind_of = match plain {
            libc::SOCK_STREAM => Some(SocketType::STREAM),
            libc::SOCK_DGRAM => Some(SocketType::DGRAM),
            _ => None,
        };
        let is_route = family == libc::AF_NETLINK && low(notice.arguments[2]) == 0;
        let text =
            if is_route { "socket: netlink route".to_owned() } else { format!("socket: {name}") };
        let stands_in = match kind_of.filter(|_| known) {
            Some(stand_in) => {
                let mut flags = SocketFlags::CLOEXEC;
                flags.set(SocketFlags::NONBLOCK, kind & libc::SOCK_NONBLOCK != 0);
                let made = rustix::net::socket_with(AddressFamily::UNIX, stand_in, flags, None);
                self.answer_opened(notice, made, kind & libc::SOCK_CLOEXEC != 0)
            }
            None => {
                self.answer(notice, Err(Errno::PERM));
                false
            }
        };
        // The C library asks services, routes and datagram sockets when it looks up names and addresses. Whatever else
        // such a socket is used for is an attempt of its own.
        let is_asking = stands_in && (family == libc::AF_UNIX || plain == libc::SOCK_DGRAM);
        match is_asking || is_route {
            true => Attempt::Denied(text),
            false => Attempt::Effect(text),
        }
    }

    /// Answers with an open file, if there is one. Returns whether the process got it.
    fn answer_opened(&self, notice: &Notice, opened: Result<OwnedFd, Errno>, closes: bool) -> bool {
        match opened {
            Ok(ours) => self.answer_with(notice, ours.as_fd(), closes),
            Err(error) => {
                self.answer(notice, Err(error));
                false
            }
        }
    }

    /// Lets the call return a descriptor of ours, as a new one of the process.
    fn answer_with(&self, notice: &Notice, ours: BorrowedFd<'_>, closes: bool) -> bool {
        let closes = if closes { libc::O_CLOEXEC } else { 0 };
        let mut added = libc::seccomp_notif_addfd {
            id: notice.id,
            flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or_default(),
            srcfd: ours.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: closes.cast_unsigned(),
        };
        // Kernels before 5.14 cannot do it in one step.
        let is_added = self.ask(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut added).is_ok();
        if !is_added {
            self.answer(notice, Err(Errno::ACCESS));
        }
        is_added
    }

    /// Describes what a call would do.
    fn attempt(&self, notice: &Notice) -> Attempt {
        let call = notice.call();
        let CallAction { name, subject, is_effect } = names::action(call);
        let subject = match subject {
            CallSubject::Path { .. } | CallSubject::File(_) => {
                self.subject_path(notice, subject).map_or_else(|_| None, |path| Some(shown(&path)))
            }
            CallSubject::Address { at, length } => {
                match self.address(notice, notice.arguments[at], notice.arguments[length]) {
                    // Nothing can be sent to port 0: it is a question about routes.
                    Some(address)
                        if call == libc::SYS_connect
                            && (names::is_name_service(&address)
                                || address.ends_with(":0")
                                || address == "port 0") =>
                    {
                        return Attempt::Denied(format!("{name}: {}", cut(address)));
                    }
                    Some(address) => Some(address),
                    // Without an address it goes to a socket that is connected, and none is.
                    None if call == libc::SYS_sendto && notice.arguments[at] == 0 => {
                        return Attempt::Denied(name.to_owned());
                    }
                    None => None,
                }
            }
            CallSubject::Message => match self.message_address(notice) {
                Ok(None) => return Attempt::Denied(name.to_owned()),
                Ok(address) => address,
                Err(_) => None,
            },
            CallSubject::Signal { process, signal } => {
                let signal = low(notice.arguments[signal]).cast_signed();
                if signal == 0 {
                    return Attempt::Denied(format!("{name}: to see whether a process is there"));
                }
                let process = process.map(|at| low(notice.arguments[at]).cast_signed());
                let to =
                    process.map_or_else(String::new, |process| format!(" to process {process}"));
                Some(format!("{signal}{to}"))
            }
            CallSubject::Number { at, unit } => Some(format!("{} {unit}", notice.arguments[at])),
            CallSubject::Name(text) => Some(text.to_owned()),
            CallSubject::Nothing => None,
        };
        let text = match subject {
            Some(subject) => format!("{name}: {}", cut(subject)),
            None => name.to_owned(),
        };
        match self.is_harmless(notice) {
            true => Attempt::Harmless,
            false if is_effect && !self.only_asks(notice) => Attempt::Effect(text),
            false => Attempt::Denied(text),
        }
    }

    /// Returns whether a call only asks, or opens a process to itself.
    fn only_asks(&self, notice: &Notice) -> bool {
        let own = || {
            let process = low(notice.arguments[0]);
            Path::new(&format!("/proc/{}/task/{process}", notice.thread)).exists()
        };
        names::only_asks(notice.call(), &notice.arguments)
            || (notice.call() == libc::SYS_pidfd_open && own() && self.is_waiting(notice))
    }

    /// Returns whether a call changes nothing, as far as its arguments in memory tell.
    fn is_harmless(&self, notice: &Notice) -> bool {
        let number = |at: usize| -> Option<u64> {
            let mut bytes = [0; 8];
            self.read(notice, notice.arguments[at], &mut bytes).ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        match notice.call() {
            // Threads begin with the older call then.
            libc::SYS_clone3 => number(0)
                .is_none_or(|flags| flags & u64::from(libc::CLONE_THREAD.cast_unsigned()) != 0),
            libc::SYS_openat2 => {
                number(2).is_none_or(|flags| !writes(OFlags::from_bits_retain(low(flags))))
            }
            // A limit is only asked for.
            libc::SYS_prlimit64 => notice.arguments[2] == 0,
            libc::SYS_setitimer => {
                let mut value = [0; 32];
                let read = self.read(notice, notice.arguments[1], &mut value);
                read.is_err() || value[16..].iter().all(|byte| *byte == 0)
            }
            _ => false,
        }
    }

    /// Returns the path of a call, with the directory at which it begins.
    fn subject_path(&self, notice: &Notice, subject: CallSubject) -> Result<PathBuf, Errno> {
        let link = |name: String| {
            std::fs::read_link(format!("/proc/{}/{name}", notice.thread)).map_err(|_| Errno::BADF)
        };
        let file = |at: usize| link(format!("fd/{}", low(notice.arguments[at]).cast_signed()));
        match subject {
            CallSubject::File(at) => file(at),
            CallSubject::Path { at, path } => {
                let text = self.read_path(notice, notice.arguments[path])?;
                let path = Path::new(OsStr::from_bytes(text.as_bytes()));
                let directory = at.map(|at| low(notice.arguments[at]).cast_signed());
                Ok(match directory {
                    _ if path.is_absolute() => path.to_owned(),
                    Some(directory) if directory != libc::AT_FDCWD => {
                        link(format!("fd/{directory}"))?.join(path)
                    }
                    _ => link("cwd".to_owned())?.join(path),
                })
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns the name of an address; none if there is none.
    fn address(&self, notice: &Notice, at: u64, length: u64) -> Option<String> {
        let length = usize::try_from(low(length)).ok()?;
        let mut bytes = vec![0; length.min(size_of::<libc::sockaddr_storage>())];
        if at == 0 || bytes.len() < 2 || self.read(notice, at, &mut bytes).is_err() {
            return None;
        }
        Some(match read_target(&bytes) {
            Ok(Target::Place(place)) => place.to_string(),
            Ok(Target::Nowhere) => "port 0".to_owned(),
            Ok(Target::Foreign) if bytes[0] == u8::try_from(libc::AF_UNIX).unwrap_or_default() => {
                let path = &bytes[2..];
                let abstract_name = path.first() == Some(&0);
                let path = path.split(|byte| *byte == 0).nth(usize::from(abstract_name));
                let path = String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
                if abstract_name { format!("@{path}") } else { path }
            }
            Ok(Target::Foreign | Target::Nothing) | Err(_) => "another address".to_owned(),
        })
    }

    /// Returns the name of the address of a message; none if it has none.
    fn message_address(&self, notice: &Notice) -> Result<Option<String>, Errno> {
        let mut head = [0; 16];
        self.read(notice, notice.arguments[1], &mut head)?;
        let word = |at: usize| {
            let bytes = head[at..at + 8].try_into().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        };
        if word(0) == 0 {
            return Ok(None);
        }
        Ok(self.address(notice, word(0), word(8)))
    }
}

/// Returns the error of a call that is denied, which is that of the sandbox without an observer.
fn denial(call: i64) -> Errno {
    match call {
        _ if ABSENT.contains(&call) => Errno::NOSYS,
        _ if ATTRIBUTES.contains(&call) => Errno::OPNOTSUPP,
        _ if CHANGES.contains(&call) => Errno::ACCESS,
        _ => Errno::PERM,
    }
}

fn is_alarm(call: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    let alarm = call == libc::SYS_alarm;
    #[cfg(not(target_arch = "x86_64"))]
    let alarm = call < 0;
    alarm
}

/// Returns whether a process takes on the identity that it has. It is that of this process.
fn is_own_identity(notice: &Notice) -> bool {
    let call = notice.call();
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let (own, count) = match call {
        libc::SYS_setuid | libc::SYS_setfsuid => (user, 1),
        libc::SYS_setgid | libc::SYS_setfsgid => (group, 1),
        libc::SYS_setreuid => (user, 2),
        libc::SYS_setregid => (group, 2),
        libc::SYS_setresuid => (user, 3),
        libc::SYS_setresgid => (group, 3),
        _ => return false,
    };
    debug_assert!(IDENTITIES.contains(&call), "every one of them is noticed");
    notice.arguments[..count].iter().all(|id| [own, u32::MAX].contains(&low(*id)))
}

/// Returns whether a path is the name of a thread of the process. Its other files change the process for good.
fn is_own_setting(path: &Path, thread: u32) -> bool {
    let own = thread.to_string();
    let mut parts = path.components().skip(1).map(|part| part.as_os_str());
    let is_own = parts.next() == Some(OsStr::new("proc"))
        && parts.next().is_some_and(|part| {
            [OsStr::new("self"), OsStr::new("thread-self"), OsStr::new(&own)].contains(&part)
        });
    let rest: Vec<&[u8]> = parts.map(OsStr::as_bytes).collect();
    let is_name = match rest[..] {
        [b"comm"] => true,
        [b"task", thread, b"comm"] => thread.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_own && is_name
}

fn path_line(action: &str, path: &Path) -> String {
    format!("{action}: {}", cut(shown(path)))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Cuts a subject off that is long.
fn cut(mut subject: String) -> String {
    if subject.len() > MAX_SUBJECT {
        subject.truncate(subject.floor_char_boundary(MAX_SUBJECT));
        subject.push('…');
    }
    subject
}

#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
const fn low(register: u64) -> u32 {
    register as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_settings_are_own() {
        for own in ["/proc/self/comm", "/proc/thread-self/comm", "/proc/7/task/9/comm"] {
            assert!(is_own_setting(Path::new(own), 7), "{own}");
        }
        for other in [
            "/proc/self/root/etc/passwd",
            "/proc/self/cwd/file",
            "/proc/self/fd/1",
            "/proc/7/oom_score_adj",
            "/proc/self/clear_refs",
            "/proc/self/coredump_filter",
            "/proc/self/mem",
            "/proc/self/task/../../1/comm",
            "/proc/8/comm",
            "/proc/sys/kernel/hostname",
            "/tmp/proc/self/comm",
        ] {
            assert!(!is_own_setting(Path::new(other), 7), "{other}");
        }
    }

    #[test]
    fn reads_outside_of_the_readable_places_are_denied() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        std::fs::write(&outside, "").unwrap();
        let places = ReadablePlaces(Some(vec![inside.canonicalize().unwrap()]));
        assert!(!places.deny(&inside.join("file")));
        assert!(places.deny(&outside));
        assert!(!places.deny(&directory.path().join("absent")));
        assert!(!places.deny(Path::new("/proc/self/status")));
        assert!(!ReadablePlaces(None).deny(&outside));
    }

    #[test]
    fn errors_of_denied_calls_are_those_of_the_sandbox() {
        assert_eq!(denial(libc::SYS_clone3), Errno::NOSYS);
        assert_eq!(denial(libc::SYS_setxattr), Errno::OPNOTSUPP);
        assert_eq!(denial(libc::SYS_unlinkat), Errno::ACCESS);
        assert_eq!(denial(libc::SYS_connect), Errno::PERM);
    }
}
