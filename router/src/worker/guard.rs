//! The guard of a worker that may start programs: when the worker or the router ends, it ends them all.
//!
//! It stands between the two, runs nothing foreign, and is not confined itself. Programs whose parents have
//! ended become its children, so that none is left to nobody.

use std::io;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};

use super::ending::Ending;
use super::frame::{self, Kind};
use super::session;

/// The third argument that makes a child a guard.
pub(crate) const GUARD: &str = "guard";

/// Runs as a guard: starts this program again with another first argument, and waits.
pub(crate) fn run(argument: &str) -> ExitCode {
    match guard(argument) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn guard(argument: &str) -> io::Result<()> {
    crate::sandbox::close_inherited_descriptors()?;
    // What a terminal tells the router is not for its workers.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let own = std::process::id().to_string();
    let mut worker = Command::new("/proc/self/exe").arg(argument).arg(own).spawn()?;
    // Whatever became of the worker, nothing of it stays.
    let ending = wait(&mut worker);
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
fn wait(worker: &mut Child) -> io::Result<Ending> {
    let pidfd = pidfd_open(Pid::from_child(worker), PidfdFlags::empty())?;
    let stdin = io::stdin();
    loop {
        // What the router says is for the worker; only that it has let go is for us.
        let mut sources =
            [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(&stdin, PollFlags::RDHUP)];
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !sources[0].revents().is_empty() {
            // As long as it is not reaped, nobody else has its session.
            session::kill_all(worker.id());
            return Ok(Ending::of(worker.wait()?));
        }
        if !sources[1].revents().is_empty() {
            worker.kill()?;
            session::kill_all(worker.id());
            worker.wait()?;
            return Ok(Ending::Stopped);
        }
    }
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
