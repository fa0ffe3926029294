//! Ending a whole session: a worker, and every program that it or they have started. Nobody confined can
//! leave the session, so nothing is missed.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::sandbox::{group_of, session_of};

/// How long to go on when processes start others as fast as they are killed.
const LIMIT: Duration = Duration::from_secs(5);

/// Kills every process of a session until none is left.
pub(crate) fn end(session: u32) {
    let until = Instant::now() + LIMIT;
    while kill_all(session) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counts the processes of a session.
pub(super) fn count(session: u32) -> usize {
    members(session).count()
}

/// Lists the processes of a session that have not ended.
pub(crate) fn members(session: u32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(move |id| is_member(*id, session))
}

/// Kills every process of a session. Returns false if none is left.
pub(super) fn kill_all(session: u32) -> bool {
    let mut found = false;
    let mut group = None;
    for id in members(session) {
        found = true;
        // A whole group is killed at once, so that no process in it starts another meanwhile. The group exists as long
        // as one of its processes does.
        if let Some(its) = group_of(id)
            && group != Some(its)
        {
            group = Some(its);
            let _: Result<(), Errno> = kill_process_group(its, Signal::KILL);
            continue;
        }
        // Another process may have its number by now. The descriptor holds one process, which is checked again.
        let held = Pid::from_raw(id).map(|process| pidfd_open(process, PidfdFlags::empty()));
        let Some(Ok(held)) = held else { continue };
        if is_member(id, session) {
            let _: Result<(), Errno> = pidfd_send_signal(&held, Signal::KILL);
        }
    }
    found
}

/// Returns whether a process is in a session and has not ended.
fn is_member(id: i32, session: u32) -> bool {
    session_of(id) == Some(session) && !has_ended(id)
}

/// Returns whether a process has ended. A process whose state is unknown has not: it must be found and killed.
fn has_ended(id: i32) -> bool {
    match StatFields::read(Path::new(&format!("/proc/{id}"))) {
        Ok(fields) => fields.is_end(),
        Err(error) => is_gone(&error),
    }
}

/// Returns whether an error of a file below `/proc` means that its process or thread has gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// The fields of a `stat` file of `/proc`, without the name of the program, which may have any bytes.
pub(crate) struct StatFields(String);

impl StatFields {
    /// Reads the file of a process or a thread.
    pub(crate) fn read(place: &Path) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read(place.join("stat"))?))
    }

    fn parse(line: &[u8]) -> Self {
        // The name is in parentheses; no field behind it has any.
        let behind = line.iter().rposition(|byte| *byte == b')').map_or(0, |end| end + 1);
        Self(String::from_utf8_lossy(&line[behind..]).into_owned())
    }

    /// Returns a field by its number in `proc(5)`.
    fn field(&self, number: usize) -> Option<&str> {
        /// The first one behind the name.
        const STATE: usize = 3;
        self.0.split_ascii_whitespace().nth(number - STATE)
    }

    /// Returns whether the process has ended. If only its first thread has, the state is that of a zombie, and other
    /// threads are counted.
    fn is_end(&self) -> bool {
        let is_zombie = matches!(self.field(3), Some("Z" | "X"));
        let threads = self.field(20).and_then(|field| field.parse().ok());
        is_zombie && threads.is_some_and(|threads: u32| threads <= 1)
    }

    /// Returns whether the thread has ended or is about to. The kernel does not show its files any more.
    pub(crate) fn is_exiting(&self) -> bool {
        const EXITING: u32 = 0x4;
        let flags = self.field(9).and_then(|field| field.parse().ok());
        flags.is_some_and(|flags: u32| flags & EXITING != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::io::{Read as _, Write as _};
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_with_any_name_are_members() {
        let place = tempfile::tempdir().unwrap();
        // The name of the program becomes the name of the process.
        let program = place.path().join(OsStr::from_bytes(b"\xff) Z 1"));
        std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
        // The session of the tests has no number if its leader is in another namespace of processes.
        let mut command = Command::new("setsid");
        command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Its answer shows that it has replaced `setsid`.
        child.stdin.as_mut().unwrap().write_all(b"a").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let id = child.id().cast_signed();
        let own = session_of(id).unwrap();
        assert_eq!(own, child.id(), "it leads its session");
        let found = members(own).any(|member| member == id);
        child.kill().unwrap();
        // It has ended, and nobody has waited for it.
        let mut status = rustix::process::WaitIdOptions::EXITED;
        status |= rustix::process::WaitIdOptions::NOWAIT;
        let of = rustix::process::WaitId::Pid(Pid::from_child(&child));
        rustix::process::waitid(of, status).unwrap();
        let is_left = members(own).any(|member| member == id);
        child.wait().unwrap();
        assert_eq!((found, is_left), (true, false));
    }

    #[test]
    fn a_zombie_with_other_threads_has_not_ended() {
        let status = |name: &[u8], state: &str, threads: u32| {
            let rest = format!(") {state} 1 2 3 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 7\n");
            [b"12 (", name, rest.as_bytes()].concat()
        };
        assert!(!StatFields::parse(&status(b"sh", "S", 1)).is_exiting());
        assert!(StatFields::parse(b"12 (\xff) S 1 2 3 0 -1 4194308 0").is_exiting());
        for (name, state, threads, expected) in [
            (&b"sh"[..], "S", 1, false),
            (b"sh", "Z", 1, true),
            (b"sh", "Z", 2, false),
            (b"sh", "X", 0, true),
            (b"\xff", "S", 1, false),
            (b"\xff) Z 1", "Z", 3, false),
        ] {
            let line = status(name, state, threads);
            assert_eq!(
                StatFields::parse(&line).is_end(),
                expected,
                "{}",
                String::from_utf8_lossy(&line)
            );
        }
        for unknown in [&b""[..], b"12 (sh) Z"] {
            assert!(!StatFields::parse(unknown).is_end(), "an unknown state is not an end");
        }
    }
}
