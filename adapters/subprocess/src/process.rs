//! Runs one command in a process group of its own and ends the whole group, whatever happens.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use rustix::process::{kill_process_group, pidfd_open, waitid};

use crate::output::Capture;

/// How long the output of a command that has ended is read on: what is in the pipe is there at once,
/// but a process left behind may write without end.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// How often a kernel without process descriptors is asked whether the command has ended.
const TICK: Duration = Duration::from_millis(10);

/// How long a killed command may take to die, before a thread is left behind to wait for it. Only a
/// command with the rights of another user, which cannot be killed, takes that long.
const DYING_TIME: Duration = Duration::from_secs(2);

/// How a command came to its end.
#[derive(Debug)]
pub(crate) enum Ending {
    /// By itself, or by somebody's signal.
    Exited(ExitStatus),
    /// It was killed: its time was over.
    TimedOut,
    /// It was killed: the caller no longer wants the answer.
    Cancelled,
    /// It was killed: it wrote more than was allowed.
    TooLarge,
}

/// A running command; dropping it kills its process group.
pub(crate) struct Process {
    /// The command, until it is reaped.
    child: Option<Child>,
    group: Pid,
    /// Becomes readable when the command has ended; not every kernel has it.
    exit: Option<OwnedFd>,
}

impl Process {
    /// Starts a command without any descriptor of this process but its input and its two pipes.
    pub(crate) fn spawn(command: &mut Command, input: Stdio) -> io::Result<Self> {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // The standard library marks its own descriptors; foreign code in the host may not have.
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let exit = pidfd_open(group, PidfdFlags::empty()).ok();
        Ok(Self { child: Some(child), group, exit })
    }

    /// Waits for the end and collects the output; `stop` becomes readable on cancellation.
    pub(crate) fn watch(
        mut self,
        stdout: &mut Capture,
        stderr: &mut Capture,
        deadline: Option<Instant>,
        stop: BorrowedFd<'_>,
    ) -> io::Result<Ending> {
        let child = self.child.as_mut();
        let (out, err) = child.map(|it| (it.stdout.take(), it.stderr.take())).unwrap_or_default();
        let mut out = Stream::new(out.map(OwnedFd::from), stdout)?;
        let mut err = Stream::new(err.map(OwnedFd::from), stderr)?;
        loop {
            if self.has_exited()? {
                drain(&mut out, &mut err)?;
                return Ok(match self.end()? {
                    Some(status) if !out.is_full() => Ending::Exited(status),
                    _ => Ending::TooLarge,
                });
            }
            let now = Instant::now();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            let ending = if out.is_full() {
                Some(Ending::TooLarge)
            } else if is_readable(stop)? {
                Some(Ending::Cancelled)
            } else if left == Some(Duration::ZERO) {
                Some(Ending::TimedOut)
            } else {
                None
            };
            if let Some(ending) = ending {
                self.end()?;
                drain(&mut out, &mut err)?;
                return Ok(ending);
            }
            self.wait(&[Some(stop), out.fd(), err.fd()], left)?;
            out.read()?;
            err.read()?;
        }
    }

    /// Says whether the command has ended. It stays unreaped, so that its id still names its group.
    fn has_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(retry_on_intr(|| waitid(WaitId::Pid(self.group), options))?.is_some())
    }

    /// Waits until the command ends, a descriptor has something to tell, or the time is over.
    fn wait(&self, fds: &[Option<BorrowedFd<'_>>], time: Option<Duration>) -> io::Result<()> {
        let exit = self.exit.as_ref().map(AsFd::as_fd);
        let time = if exit.is_some() { time } else { Some(time.unwrap_or(TICK).min(TICK)) };
        // A time too long for the kernel's clock is as good as none.
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let fds = fds.iter().copied().chain([exit]).flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills what is left of the group and reaps the command. Returns no status if it cannot be killed.
    fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        // It fails when nothing is left, or nothing that this process may kill.
        let _: Result<(), Errno> = kill_process_group(self.group, Signal::KILL);
        let patience = Instant::now() + DYING_TIME;
        while !self.has_exited()? {
            let left = patience.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let child = self.child.take();
                std::thread::spawn(move || child.map(|mut child| child.wait()));
                return Ok(None);
            }
            self.wait(&[], Some(left))?;
        }
        self.child.take().map(|mut child| child.wait()).transpose()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            // Nobody is left to hear of a failure.
            drop(self.end());
        }
    }
}

/// One of the command's pipes and what was read from it.
struct Stream<'a> {
    pipe: Option<std::fs::File>,
    capture: &'a mut Capture,
}

impl<'a> Stream<'a> {
    fn new(pipe: Option<OwnedFd>, capture: &'a mut Capture) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pipe: pipe.map(Into::into), capture })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    fn is_full(&self) -> bool {
        self.capture.is_full()
    }

    /// Reads what is there, up to a buffer; returns whether there was anything.
    fn read(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut buffer = [0; 32 * 1024];
        match pipe.read(&mut buffer) {
            Ok(0) => {
                self.pipe = None;
                Ok(false)
            }
            Ok(length) => {
                self.capture.take(&buffer[..length]);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                _ => Err(error),
            },
        }
    }
}

/// Reads what is left in both pipes.
fn drain(out: &mut Stream<'_>, err: &mut Stream<'_>) -> io::Result<()> {
    let end = Instant::now() + DRAIN_TIME;
    loop {
        let (more_out, more_err) = (out.read()?, err.read()?);
        if !(more_out || more_err) || out.is_full() || Instant::now() > end {
            return Ok(());
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())))? > 0)
}
