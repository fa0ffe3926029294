//! Ending a whole session: a worker, and every program that it or they have started. Nobody confined can
//! leave the session, so nothing is missed.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

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

/// Tells how many threads there are on this machine, of all processes; 0 if nobody knows.
pub(super) fn crowd() -> usize {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = told.split(' ').nth(3).and_then(|field| field.split_once('/')?.1.parse().ok());
    all.unwrap_or_default()
}

/// Kills every process of a session; false if there was none that lives.
pub(super) fn kill_all(session: u32) -> bool {
    let mut found = false;
    let mut group = None;
    for id in members(session) {
        found = true;
        // A whole group is killed at once, so that nobody in it starts another meanwhile. It is there as long as
        // somebody in it is.
        let its = group_of(id, session);
        if its.is_some() && its != group {
            group = its;
            let group = its.and_then(|group| Pid::from_raw(group.cast_signed()));
            let _: Option<Result<(), Errno>> =
                group.map(|group| kill_process_group(group, Signal::KILL));
            continue;
        }
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
    group_of(id, session).is_some()
}

/// Returns the group of a process, if it is in a session and has not ended.
fn group_of(id: i32, session: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    let (_, rest) = status.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next();
    let group = fields.nth(1).and_then(|field| field.parse().ok());
    let of = fields.next().and_then(|field| field.parse().ok());
    group.filter(|_| of == Some(session) && !matches!(state, Some("Z" | "X")))
}
