//! The guard of a worker that may start programs: when the worker or the router ends, it ends them all.
//!
//! It stands between the two, runs nothing foreign, and is not confined itself. Programs whose parents have
//! ended become its children, so that none is left to nobody.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};

use super::ending::Ending;
use super::frame::{self, Kind};
use super::session;

/// What is guarded, and how closely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// The third argument that makes the guarded process what it is.
    pub(crate) word: Option<&'static str>,
    /// How often to look for those whose parents have ended, and to count.
    pub(crate) look: Duration,
    /// One that has more processes is ended with all of them.
    pub(crate) most_processes: usize,
}

impl Watch {
    /// That of workers.
    pub(crate) const WORKER: Self =
        Self { word: None, look: Duration::from_millis(500), most_processes: 1000 };
}

/// How often to count in any case.
const COUNT: Duration = Duration::from_millis(500);

/// The third argument that makes a child a guard.
pub(crate) const GUARD: &str = "guard";

/// Runs as a guard: starts this program again with another first argument, and waits.
pub(crate) fn run(argument: &str, watch: Watch) -> ExitCode {
    match guard(argument, watch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn guard(argument: &str, watch: Watch) -> io::Result<()> {
    crate::sandbox::close_inherited_descriptors()?;
    // What a terminal tells the router is not for its workers.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let own = std::process::id().to_string();
    let mut worker = Command::new("/proc/self/exe");
    let mut worker = worker.arg(argument).arg(own).args(watch.word).spawn()?;
    // Whatever became of the worker, nothing of it stays.
    let ending = wait(&mut worker, watch);
    if ending.is_err() {
        drop(worker.kill());
    }
    end_all(worker.id());
    let ending = ending?;
    // The router reads it after all else; if it has gone, nobody does.
    drop(frame::write(io::stdin(), Kind::Ended, 0, ending.written().as_bytes()));
    Ok(())
}

/// Waits until the worker ends; ends it when the router lets go.
fn wait(worker: &mut Child, watch: Watch) -> io::Result<Ending> {
    let pidfd = pidfd_open(Pid::from_child(worker), PidfdFlags::empty())?;
    let stdin = io::stdin();
    let look = Timespec::try_from(watch.look).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (mut overran, mut counted, crowd) = (false, Instant::now(), session::crowd());
    loop {
        // What the router says is for the worker; only that it has let go is for us.
        let mut sources =
            [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&stdin, PollFlags::RDHUP)];
        match poll(&mut sources, Some(&look)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (ended, let_go) = (!sources[0].revents().is_empty(), !sources[1].revents().is_empty());
        // To count them takes a while. That there are many more of all processes is seen at once.
        let many = session::crowd() > crowd + watch.most_processes / 2;
        if !ended && !let_go && (many || counted.elapsed() >= COUNT) {
            overran |= session::count(worker.id()) > watch.most_processes;
            counted = Instant::now();
        }
        if let_go || overran {
            worker.kill()?;
        }
        // As long as it is not reaped, nobody else has its session.
        if ended || let_go || overran {
            session::kill_all(worker.id());
        }
        if let Some(ending) = reap_until(worker.id()) {
            return Ok(match (let_go, overran) {
                (true, _) => Ending::Stopped,
                (_, true) => Ending::Overran { most: watch.most_processes },
                _ => ending,
            });
        }
    }
}

/// Reaps those whose parents have ended, and returns the worker's end, if it has ended.
fn reap_until(worker: u32) -> Option<Ending> {
    while let Ok(Some((process, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if process.as_raw_pid().unsigned_abs() == worker {
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
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
