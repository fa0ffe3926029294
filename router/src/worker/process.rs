//! One process of a worker: started by a thread that stays, followed, killed and reaped.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, SocketFlags,
    SocketType, shutdown,
};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::frame::{Frame, Kind, MAX_FRAME, cut, try_send};
use super::guard::GUARD;
use super::session;

/// A process may print this much before the rest is dropped.
const MAX_PRINTED: usize = 16 * 1024;

/// How long a guard has to end everything.
pub(crate) const GUARD_TIME: Duration = Duration::from_secs(12);

/// What a process is made of.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) argument: &'static str,
    /// Whether it outlives the thread that starts it.
    pub(crate) lasting: bool,
    /// Whether it may start programs, and so has a guard that ends them.
    pub(crate) guarded: bool,
    /// All that it sees of the environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Where it works, if not where this process does.
    pub(crate) directory: Option<PathBuf>,
    /// What it is told first.
    pub(crate) job: Vec<u8>,
}

/// A process that was started and is not reaped. It is killed and reaped when this is dropped.
pub(crate) struct Process {
    child: Child,
    pidfd: OwnedFd,
    /// Gone when somebody else reads and writes it.
    socket: Option<OwnedFd>,
    printed_pipe: io::PipeReader,
    printed: String,
    prints: bool,
    /// If it is the guard of the worker: lets go of it, and the guard ends everything.
    leash: Option<OwnedFd>,
    /// The session of a guarded worker.
    session: Option<u32>,
    /// The guard was killed, and so has ended nothing.
    guard_killed: bool,
}

/// Why following a process ended.
#[derive(Debug)]
pub(crate) enum Followed {
    /// Whoever listened has heard enough.
    Enough,
    /// It ended; a host that ignores the ends of its children has no status of it.
    Ended(Option<ExitStatus>),
    /// The time is over.
    Late,
    /// It sent what is no frame.
    Garbled,
}

impl Process {
    /// Starts one. It gets its job when it is followed.
    pub(crate) fn start(recipe: &Recipe) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let leash = recipe.guarded.then(|| socket.try_clone()).transpose()?;
        let (printed_pipe, printing) = io::pipe()?;
        rustix::io::ioctl_fionbio(&printed_pipe, true)?;
        let mut command = Command::new(&recipe.program);
        command
            .arg(recipe.argument)
            .arg(std::process::id().to_string())
            .args(recipe.guarded.then_some(GUARD))
            .env_clear()
            .envs(recipe.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(theirs))
            .stdout(printing.try_clone()?)
            .stderr(printing);
        if let Some(directory) = &recipe.directory {
            command.current_dir(directory);
        }
        let child = if recipe.lasting { spawn(command) } else { command.spawn() };
        let mut child = child?;
        let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                return Err(error.into());
            }
        };
        let (socket, printed) = (Some(socket), String::new());
        let (prints, session) = (true, None);
        Ok(Self {
            child,
            pidfd,
            socket,
            printed_pipe,
            printed,
            prints,
            leash,
            session,
            guard_killed: false,
        })
    }

    /// Returns its id, for people.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Says whether it is the guard of the worker.
    pub(super) const fn is_guarded(&self) -> bool {
        self.leash.is_some()
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Gives the socket away; the process cannot be followed any more.
    pub(super) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }

    pub(super) fn printed_pipe(&self) -> BorrowedFd<'_> {
        self.printed_pipe.as_fd()
    }

    /// Takes what was printed so far.
    pub(crate) fn take_printed(&mut self) -> String {
        std::mem::take(&mut self.printed)
    }

    /// Sends the job and listens until `take` has heard enough, the process ends, or the time is over.
    /// With a frame may come a descriptor.
    pub(crate) fn follow(
        &mut self,
        job: &[u8],
        deadline: Instant,
        mut take: impl FnMut(Frame<'_>, Option<OwnedFd>) -> ControlFlow<()>,
    ) -> io::Result<Followed> {
        let mut unsent = cut(Kind::Job, 0, job).peekable();
        let mut buffer = vec![0; MAX_FRAME + 1];
        let mut listening = self.socket.is_some();
        loop {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(Followed::Late);
            };
            let ready = self.wait(left, listening, unsent.peek().is_some())?;
            if ready.printed {
                self.read_printed();
            }
            let Some(socket) = &self.socket else { return Ok(Followed::Late) };
            if ready.room
                && let Some((head, body)) = unsent.peek()
            {
                // One that died at once, or does not read, shows by how it ends.
                if try_send(socket, head.bytes(), body).unwrap_or(true) {
                    unsent.next();
                }
            }
            if ready.message {
                match receive(socket, &mut buffer)? {
                    None => listening = false,
                    Some((length, descriptor)) => {
                        let Some(frame) = Frame::read(&buffer[..length]) else {
                            return Ok(Followed::Garbled);
                        };
                        if take(frame, descriptor).is_break() {
                            return Ok(Followed::Enough);
                        }
                    }
                }
            } else if ready.exited {
                let status = self.reap()?;
                self.read_printed();
                return Ok(Followed::Ended(status));
            }
        }
    }

    fn wait(&self, left: Duration, listening: bool, unsent: bool) -> io::Result<Ready> {
        let none = PollFlags::empty();
        let room = if unsent { PollFlags::OUT } else { none };
        // A closed end that is not asked about would still wake; it is left out instead.
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        if let Some(socket) = self.socket.as_ref().filter(|_| listening) {
            fds.push(PollFd::new(socket, PollFlags::IN | room));
        }
        if self.prints {
            fds.push(PollFd::new(&self.printed_pipe, PollFlags::IN));
        }
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let of = |index: Option<usize>| index.map_or(none, |index| fds[index].revents());
        let socket = of(listening.then_some(1));
        Ok(Ready {
            exited: of(Some(0)) != none,
            room: socket.contains(PollFlags::OUT),
            message: !(socket & !PollFlags::OUT).is_empty(),
            printed: of(self.prints.then_some(1 + usize::from(listening))) != none,
        })
    }

    /// Reads what has been printed, but no more than a full pipe at once: one that prints without end must
    /// not keep anybody from the clock. False when nothing more can come.
    pub(super) fn read_printed(&mut self) -> bool {
        let mut block = [0; 4096];
        for _ in 0..16 {
            match self.printed_pipe.read(&mut block) {
                Ok(0) => {
                    self.prints = false;
                    break;
                }
                Ok(read) => {
                    let room = MAX_PRINTED.saturating_sub(self.printed.len());
                    let kept = &block[..read.min(room)];
                    self.printed.push_str(&String::from_utf8_lossy(kept));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.prints = false;
                    break;
                }
            }
        }
        self.prints
    }

    /// Says in which session a guarded worker is, with all that it starts.
    pub(crate) fn set_session(&mut self, session: u32) {
        if self.guard_killed {
            end_session(session);
        } else {
            self.session = self.leash.as_ref().map(|_| session);
        }
    }

    /// Kills it, or has its guard do so.
    pub(crate) fn kill(&self) {
        let let_go = self.leash.as_ref().map(|leash| shutdown(leash, Shutdown::Write));
        if !matches!(let_go, Some(Ok(()))) {
            self.kill_at_once();
        }
    }

    /// Kills it, and leaves what its guard would have ended to whoever reaps it. It is not reaped before, so
    /// this is nobody else.
    pub(super) fn kill_at_once(&self) {
        // A process that has ended cannot be killed, and need not be.
        let _: Result<(), Errno> = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Kills and reaps it. What it printed before may tell why.
    pub(crate) fn stop(&mut self) {
        self.kill();
        if self.leash.is_some() && !self.ends_within(GUARD_TIME) {
            self.kill_at_once();
        }
        drop(self.reap());
        self.read_printed();
    }

    fn ends_within(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).ok();
        let ended = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], timeout.as_ref());
        ended.is_ok_and(|ended| ended > 0)
    }

    /// Reaps the process that has ended. A host that ignores the ends of its children has no status of it.
    pub(super) fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        // Before it is reaped nobody else has its id, nor its group's. The group is killed too, in case that
        // it is another program and has started more.
        let _: Result<(), Errno> = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let status = self.child.wait();
        // A guard that was killed has ended nothing, and one without a status may have been.
        let killed = status.as_ref().map_or(true, |status| status.signal().is_some());
        self.guard_killed = killed && self.leash.is_some();
        if let Some(session) = self.session.take().filter(|_| killed) {
            end_session(session);
        }
        match status {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.stop();
        }
    }
}

struct Ready {
    exited: bool,
    room: bool,
    message: bool,
    printed: bool,
}

/// Takes a message with the descriptor that may come with it; none when the other side has gone.
pub(crate) fn receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let length = match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags) {
        Ok(received) => received.bytes,
        Err(Errno::CONNRESET) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let descriptor = descriptors.next();
    Ok((length > 0).then_some((length, descriptor)))
}

/// Does the work of a guard that was killed; on a thread, because it may take a while.
fn end_session(session: u32) {
    let thread = std::thread::Builder::new().name("session-end".to_owned());
    if let Err(error) = thread.spawn(move || session::end(session)) {
        tracing::error!(%error, "programs of an adapter may be left: there is no thread");
    }
}

type Spawning = (Command, Sender<io::Result<Child>>);

/// Starts a program on the one thread that starts them. A child asks to be killed when the thread that
/// started it ends, so that thread must not end before the process does.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Spawning>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (spawner, asked) = channel::<Spawning>();
        let work = move || {
            for (mut command, answer) in asked {
                // Whoever asked may have gone; then the child is dropped, and ends with its socket.
                drop(answer.send(command.spawn()));
            }
        };
        let thread = std::thread::Builder::new().name("spawner".to_owned()).spawn(work);
        if let Err(error) = thread {
            tracing::error!(%error, "no worker can be started: there is no thread for it");
        }
        spawner
    });
    let (answer, answered) = channel();
    let gone = || io::Error::other("the thread that starts workers has gone");
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}
