//! Following an execution: what it writes, how it ends, and when to end it.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::disk::{DiskExcess, DiskWatch};
use super::wire::{Act, Said};
use super::{End, Errand, GUARD, Limits, Ran, Unrun};
use crate::sandbox::{Confinement, Metadata};
use crate::worker::broker::{self, Broker, Census, ExecutionServices, Journal, MetadataMediator};
use crate::worker::{
    self, CHILD_ARGUMENT, Ending, Frame, GUARD_TIME, Gathering, Kind, MAX_FRAME, session,
};

/// How often to look at the disk.
const LOOK: Duration = Duration::from_millis(100);
/// What the child says is short.
const MAX_SAID: usize = 64 * 1024;

/// An execution under way.
pub(super) struct Course<'a> {
    errand: &'a Errand,
    guard: Child,
    pidfd: OwnedFd,
    socket: OwnedFd,
    stdout: Stream,
    stderr: Stream,
    deadline: Instant,
    disk: DiskWatch,
    mediator: Option<MetadataMediator>,
    heard: Heard,
    /// Where what is said arrives: kept, because to make and clear it each time takes longer than to listen.
    frame: Vec<u8>,
    /// Why it is being ended, and since when.
    cut: Option<(End, Instant)>,
}

/// What the child and its guard have said.
#[derive(Default)]
struct Heard {
    gathering: Gathering,
    confinement: Option<Confinement>,
    session: Option<u32>,
    listener: Option<OwnedFd>,
    journal: Journal,
    census: Option<Census>,
    broker: Option<Broker>,
    unrun: Option<Unrun>,
    unstarted: Option<String>,
    acted: Option<Option<String>>,
    epitaph: Option<Ending>,
}

/// What is written to one of the standard descriptors.
struct Stream {
    pipe: PipeReader,
    bytes: Vec<u8>,
    open: bool,
}

impl<'a> Course<'a> {
    /// Starts the guard.
    pub(super) fn begin(errand: &'a Errand) -> io::Result<Self> {
        let (socket, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let (stdout, out) = Stream::new()?;
        let (stderr, err) = Stream::new()?;
        let deadline = Instant::now() + errand.limits.time;
        let disk = DiskWatch::new(&errand.limits);
        let profile = &errand.job.profile;
        let mediates = profile.metadata == Metadata::Mediated;
        let mediator = mediates.then(|| MetadataMediator::new(profile));
        let mut command = Command::new(&errand.helper);
        command
            .arg(CHILD_ARGUMENT)
            .arg(std::process::id().to_string())
            .arg(GUARD)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(out)
            .stderr(err);
        let mut guard = command.spawn()?;
        // The ends of the pipes that are the guard's.
        drop(command);
        let pidfd = match pidfd_open(Pid::from_child(&guard), PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                drop(guard.kill());
                drop(guard.wait());
                return Err(error.into());
            }
        };
        let (heard, frame) = (Heard::default(), vec![0; MAX_FRAME + 1]);
        Ok(Self {
            errand,
            guard,
            pidfd,
            socket,
            stdout,
            stderr,
            deadline,
            disk,
            mediator,
            heard,
            frame,
            cut: None,
        })
    }

    /// Follows it to its end.
    pub(super) fn follow(mut self, stop: &OwnedFd) -> io::Result<Result<Ran, Unrun>> {
        let job = serde_json::to_vec(&self.errand.job)?;
        let mut unsent = worker::cut(Kind::Job, 0, &job).peekable();
        let mut looked = Instant::now();
        loop {
            let ready = self.wait(stop, unsent.peek().is_some())?;
            if ready.room
                && let Some((head, body)) = unsent.peek()
                // One that died at once shows by how it ends.
                && worker::try_send(&self.socket, head.bytes(), body).unwrap_or(true)
            {
                unsent.next();
            }
            self.hear()?;
            let most = self.errand.limits.output;
            if !self.stdout.read(most) || !self.stderr.read(most) {
                self.end(End::Flooded);
            }
            if ready.stopped {
                self.end(End::Cancelled);
            }
            if Instant::now() >= self.deadline {
                self.end(End::TimedOut);
            }
            if looked.elapsed() >= LOOK {
                if let Some(excess) = self.disk.check(self.heard.session) {
                    self.end(disk_end(&excess, &self.errand.limits));
                }
                looked = Instant::now();
            }
            if let Some(full) = self.heard.census.as_ref().filter(|census| census.is_full()) {
                let most = full.most();
                self.end(End::Swarmed { most });
            }
            let overdue = |cut: &(End, Instant)| cut.1.elapsed() > GUARD_TIME;
            if self.cut.as_ref().is_some_and(overdue) {
                // The guard should have ended everything by now; what it has not is ended here.
                drop(self.guard.kill());
            }
            if ready.exited {
                return self.over();
            }
        }
    }

    /// Has the guard end everything.
    fn end(&mut self, why: End) {
        if self.cut.is_none() {
            self.cut = Some((why, Instant::now()));
            if shutdown(&self.socket, Shutdown::Write).is_err() {
                drop(self.guard.kill());
            }
        }
    }

    fn wait(&self, stop: &OwnedFd, unsent: bool) -> io::Result<Ready> {
        let until = self.deadline.saturating_duration_since(Instant::now());
        let timeout = match self.cut {
            None => until.min(LOOK),
            Some(_) => LOOK,
        };
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (none, data) = (PollFlags::empty(), PollFlags::IN);
        let room = if unsent { PollFlags::OUT } else { none };
        let mut fds = vec![PollFd::new(&self.pidfd, data), PollFd::new(&self.socket, data | room)];
        // A closed end that is not asked about would still wake; it is left out instead.
        if self.cut.is_none() {
            fds.push(PollFd::new(stop, data));
        }
        let streams = [&self.stdout, &self.stderr].into_iter().filter(|stream| stream.open);
        fds.extend(streams.map(|stream| PollFd::new(&stream.pipe, data)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Ready {
            exited: fds[0].revents() != none,
            room: fds[1].revents().contains(PollFlags::OUT),
            stopped: self.cut.is_none() && fds[2].revents() != none,
        })
    }

    /// Takes whatever was said.
    fn hear(&mut self) -> io::Result<()> {
        loop {
            let (length, descriptor) = match worker::receive(&self.socket, &mut self.frame) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(frame) = Frame::read(&self.frame[..length]) else { continue };
            let kind = frame.kind;
            let Ok(Some(text)) = self.heard.gathering.add(frame, MAX_SAID) else { continue };
            match kind {
                Kind::Ended => self.heard.epitaph = Ending::read(&text),
                Kind::Said => {
                    if let Ok(said) = serde_json::from_slice(&text) {
                        self.said(said, descriptor);
                    }
                }
                _ => {}
            }
        }
    }

    fn said(&mut self, said: Said, descriptor: Option<OwnedFd>) {
        match said {
            Said::Asking => self.heard.listener = descriptor,
            Said::Confined { confinement, session } => {
                self.heard.confinement = Some(confinement);
                self.heard.session = Some(session);
                if let Some(listener) = self.heard.listener.take() {
                    self.attend(listener, session);
                }
            }
            Said::Unconfined { missing } => self.heard.unrun = Some(Unrun::Lacking(missing)),
            Said::Unfit { why } => self.heard.unrun = Some(Unrun::Unfit(why)),
            Said::Unstarted { why } => self.heard.unstarted = Some(why),
            Said::Acted { refused } => self.heard.acted = Some(refused),
        }
    }

    /// Decides on what the program asks for, from before it begins.
    fn attend(&mut self, listener: OwnedFd, session: u32) {
        let profile = &self.errand.job.profile;
        let census = Census::new(session, profile.processes.unwrap_or(usize::MAX));
        self.heard.census = Some(census.clone());
        let (journal, mediator) = (self.heard.journal.clone(), self.mediator.take());
        let services = ExecutionServices { journal, census, mediator };
        let connect = profile.grants.connect.clone();
        match broker::attend_execution(listener, connect, &self.errand.label, services) {
            Ok(broker) => self.heard.broker = Some(broker),
            Err(error) => {
                let why = format!("its calls cannot be attended to: {error}");
                self.heard.unrun = Some(Unrun::Unfit(why));
                self.end(End::Cancelled);
            }
        }
    }

    /// Reaps the guard, and puts together what came of it all.
    fn over(mut self) -> io::Result<Result<Ran, Unrun>> {
        self.hear()?;
        let status = self.guard.wait();
        // A guard that said how it ended has ended everything. One that was killed has not.
        if self.heard.epitaph.is_none()
            && let Some(session) = self.heard.session
        {
            session::end(session);
        }
        let most = self.errand.limits.output;
        let flooded = !self.stdout.read_all(most) | !self.stderr.read_all(most);
        let Heard { confinement, unrun, unstarted, acted, epitaph, journal, broker, .. } =
            self.heard;
        drop(broker);
        if let Some(unrun) = unrun {
            return Ok(Err(unrun));
        }
        let Some(confinement) = confinement else {
            let why = match (self.cut, status) {
                (Some((End::TimedOut, _)), _) => "it was not confined in its time".to_owned(),
                (_, Ok(status)) => format!("it ended before it was confined: {status}"),
                (_, Err(error)) => format!("it ended before it was confined: {error}"),
            };
            return Ok(Err(Unrun::Unfit(why)));
        };
        let in_process = !matches!(self.errand.job.act, Act::Start(_));
        let end = match (self.cut, unstarted, acted, epitaph) {
            (Some((cut, _)), ..) => cut,
            (None, Some(why), ..) => End::Failed { why },
            (None, None, Some(Some(why)), _) => End::Refused { why },
            (None, None, Some(None), _) => End::Done,
            (None, None, None, Some(Ending::Overran { most })) => End::Swarmed { most },
            (None, None, None, Some(Ending::Crashed { signal })) => End::Signalled(signal),
            (None, None, None, Some(Ending::Exited { code: 0 })) if in_process => End::Done,
            (None, None, None, Some(Ending::Exited { code })) => End::Exited(code),
            (None, None, None, other) => {
                let told = other.map_or("its guard was killed".to_owned(), |end| end.to_string());
                End::Failed { why: format!("how it ended is not known: {told}") }
            }
        };
        // A program may pass a limit and end before anybody notices.
        let end = match end {
            End::Exited(_) if flooded => End::Flooded,
            End::Exited(code) => self
                .disk
                .check_at_end()
                .map_or(End::Exited(code), |excess| disk_end(&excess, &self.errand.limits)),
            end => end,
        };
        let (stdout, stderr) = (self.stdout.bytes, self.stderr.bytes);
        Ok(Ok(Ran { end, stdout, stderr, confinement, contacts: journal.take() }))
    }
}

/// Returns the end of an execution that passed a limit.
fn disk_end(excess: &DiskExcess, limits: &Limits) -> End {
    match excess {
        DiskExcess::Bytes => {
            End::Filled { why: "its files took more of the disk than they may".to_owned() }
        }
        DiskExcess::ClosedProcess(id) => End::Filled {
            why: format!("its open files cannot be counted: process {id} is not readable"),
        },
        DiskExcess::TooManyDescriptors => {
            End::Filled { why: "its processes had too many open files to count them".to_owned() }
        }
        DiskExcess::Files => {
            End::TooManyFiles { why: format!("it made more than {} files", limits.files) }
        }
        DiskExcess::ClosedDirectory(path) => End::TooManyFiles {
            why: format!(
                "its files cannot be counted: directory {} is not readable",
                path.display()
            ),
        },
    }
}

struct Ready {
    exited: bool,
    room: bool,
    stopped: bool,
}

impl Stream {
    fn new() -> io::Result<(Self, File)> {
        let (pipe, end) = io::pipe()?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok((Self { pipe, bytes: Vec::new(), open: true }, File::from(OwnedFd::from(end))))
    }

    /// Reads what there is, but no more than a full pipe at once: one that writes without end must not keep
    /// anybody from the clock. What is beyond the limit is dropped; false if there was any.
    fn read(&mut self, most: usize) -> bool {
        let mut block = [0; 16 * 1024];
        let mut within = true;
        for _ in 0..8 {
            if !self.open {
                break;
            }
            match self.pipe.read(&mut block) {
                Ok(0) => self.open = false,
                Ok(read) => {
                    let room = most.saturating_sub(self.bytes.len());
                    within &= read <= room;
                    self.bytes.extend_from_slice(&block[..read.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.open = false,
            }
        }
        within
    }

    /// Reads the rest, when nobody writes any more. False if there was more than there may be.
    fn read_all(&mut self, most: usize) -> bool {
        // A pipe holds a mebibyte at most, and somebody who cannot be killed may hold it open.
        (0..16).fold(true, |within, _| self.read(most) && within)
    }
}
