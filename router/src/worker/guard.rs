//! The guard of a worker that may start programs: when the worker or the router ends, it ends them all.
//!
//! It stands between the two, runs nothing foreign, and is not confined itself. Programs whose parents have
//! ended become its children, so that none is left to nobody. The worker is a fork of it, made while there is
//! nothing but one thread: starting this program a second time would take longer than all else.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open};

use super::ending::Ending;
use super::frame::{self, Kind};
use super::session;

/// What is guarded, and how closely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// How often to look for those whose parents have ended, and to count.
    pub(crate) look: Duration,
    /// One that has more processes is ended with all of them.
    pub(crate) most_processes: usize,
}

impl Watch {
    /// That of workers.
    pub(crate) const WORKER: Self = Self { look: Duration::from_millis(500), most_processes: 1000 };
}

/// The third argument that makes a child a guard.
pub(crate) const GUARD: &str = "guard";

/// Runs as a guard, and as what it guards in a process of its own, which is told who its parent is.
pub(crate) fn run(watch: Watch, work: impl FnOnce(u32) -> ExitCode) -> ExitCode {
    match guard(watch, work) {
        Ok(code) => code,
        Err(_) => ExitCode::from(2),
    }
}

fn guard(watch: Watch, work: impl FnOnce(u32) -> ExitCode) -> io::Result<ExitCode> {
    crate::sandbox::close_inherited_descriptors()?;
    // What a terminal tells the router is not for its workers.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let own = std::process::id();
    let Some(worker) = crate::sandbox::fork()? else { return Ok(work(own)) };
    // Whatever became of the worker, nothing of it stays.
    let ending = wait(worker, watch);
    if ending.is_err() {
        let _: Result<(), Errno> = kill_process(worker, Signal::KILL);
    }
    end_all(id(worker));
    let ending = ending?;
    // The router reads it after all else; if it has gone, nobody does.
    drop(frame::write(io::stdin(), Kind::Ended, 0, ending.written().as_bytes()));
    Ok(ExitCode::SUCCESS)
}

const fn id(process: Pid) -> u32 {
    process.as_raw_pid().unsigned_abs()
}

/// Waits until the worker ends; ends it when the router lets go.
fn wait(worker: Pid, watch: Watch) -> io::Result<Ending> {
    let pidfd = pidfd_open(worker, PidfdFlags::empty())?;
    let session = id(worker);
    let stdin = io::stdin();
    let look = Timespec::try_from(watch.look).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut overran = false;
    loop {
        // What the router says is for the worker; only that it has let go is for us.
        let mut sources =
            [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&stdin, PollFlags::RDHUP)];
        match poll(&mut sources, Some(&look)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (ended, let_go) = (!sources[0].revents().is_empty(), !sources[1].revents().is_empty());
        if !ended && !let_go && session::count(session) > watch.most_processes {
            overran = true;
        }
        if let_go || overran {
            kill_process(worker, Signal::KILL)?;
        }
        // As long as it is not reaped, nobody else has its session.
        if ended && !is_alone(session) || let_go || overran {
            session::kill_all(session);
        }
        if let Some(ending) = reap_until(session) {
            return Ok(match (let_go, overran) {
                (true, _) => Ending::Stopped,
                (_, true) => Ending::Overran { most: watch.most_processes },
                _ => ending,
            });
        }
    }
}

/// Says whether there is nobody but the worker: whoever it left behind is a child of ours too by now, or descends
/// from one. Where the kernel does not tell, nobody is alone.
fn is_alone(worker: u32) -> bool {
    children().is_ok_and(|list| list.iter().all(|child| id(*child) == worker))
}

/// Kills the children of this process: all of them are the worker's, whatever their session. No other process gets
/// their numbers before this process waits for them.
fn kill_children() {
    for child in children().unwrap_or_default() {
        let _: Result<(), Errno> = kill_process(child, Signal::KILL);
    }
}

/// Lists the children of this process, which has one thread.
fn children() -> io::Result<Vec<Pid>> {
    let list = std::fs::read_to_string("/proc/thread-self/children")?;
    Ok(list.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect())
}

/// Reaps those whose parents have ended, and returns the worker's end, if it has ended.
fn reap_until(worker: u32) -> Option<Ending> {
    while let Ok(Some((process, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if id(process) == worker {
            return Some(Ending::of(ExitStatus::from_raw(status.as_raw())));
        }
    }
    None
}

/// Kills and reaps whoever is left. All of them have become our children, or will when their parents end.
fn end_all(session: u32) {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                session::kill_all(session);
                kill_children();
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
