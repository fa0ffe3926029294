//! Ending a whole session: a worker, and every program that it or they have started. Nobody confined can
//! leave the session, so nothing is missed.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

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

/// Lists the processes of a session that live.
fn members(session: u32) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(move |id| is_member(*id, session))
}

/// Kills every process of a session; false if there was none that lives.
pub(super) fn kill_all(session: u32) -> bool {
    let mut found = false;
    for id in members(session) {
        found = true;
        // Another process may have got its number by now; held by its descriptor, it is asked again.
        let Some(Ok(process)) = Pid::from_raw(id).map(|id| pidfd_open(id, PidfdFlags::empty()))
        else {
            continue;
        };
        if is_member(id, session) {
            let _: Result<(), Errno> = pidfd_send_signal(&process, Signal::KILL);
        }
    }
    found
}

/// Says whether a process is in a session and has not ended.
fn is_member(id: i32, session: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    // The name of the program stands in parentheses, and may hold anything.
    let Some((_, rest)) = status.rsplit_once(") ") else { return false };
    let mut fields = rest.split(' ');
    let state = fields.next();
    let of = fields.nth(2).and_then(|field| field.parse().ok());
    of == Some(session) && !matches!(state, Some("Z" | "X"))
}
