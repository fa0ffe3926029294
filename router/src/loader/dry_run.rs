//! The host's side of a dry run: starts the child, listens until a deadline, and names its end.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::adapter::MAX_ANSWER;
use super::child::CHILD_ARGUMENT;
use super::library::Stage;
use super::notice::Notice;
use super::wire::{Job, Message, Observations};
use crate::sandbox::Confinement;

/// How unknown libraries are tried before a host opens them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// In a confined child: this program, with [`CHILD_ARGUMENT`] as its argument.
    Helper(PathBuf),
    /// Not at all. A library that crashes when it is opened then takes the host with it.
    Off,
}

/// A dry run gets at least and at most this long, whatever the limits say.
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// The child may print this much before the rest is dropped.
const MAX_PRINTED: usize = 16 * 1024;

/// A longer line of the child ends it. An answer is JSON inside JSON, so quotes and backslashes, which may
/// be all of it, stand twice.
const MAX_LINE: usize = 2 * MAX_ANSWER + 1024 * 1024;

/// Any other line is shorter; a longer one is none of the child's, and is not read.
const MAX_OTHER_LINE: usize = 2 * 1024 * 1024;

/// More notices are dropped.
const MAX_NOTICES: usize = 1000;

/// Notices beyond this many bytes in all are dropped.
const MAX_NOTICE_BYTES: usize = 4 * 1024 * 1024;

/// What came of a dry run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What the child saw, or how it ended before it was done.
    pub(super) result: Result<Observations, Ending>,
    /// The step that the child had reached; nothing when it never spoke, and so is no child of ours.
    pub(super) stage: Option<Stage>,
    /// What the library printed.
    pub(super) printed: String,
    /// What the adapter told the host.
    pub(super) notices: Vec<Notice>,
    /// The answer to the call.
    pub(super) answer: Option<Result<String, String>>,
}

/// How a dry run ended that did not end well.
#[derive(Debug)]
pub(super) enum Ending {
    /// The library could not be opened; the reason's code, and the text behind it.
    Refused { reason: String, text: String },
    /// The factory returned this error text.
    FactoryFailed { error: String },
    /// A signal killed the child.
    Crashed { signal: i32 },
    /// The child ended by itself before it was done.
    Exited { code: i32 },
    /// The child was killed at the deadline.
    TimedOut { limit: Duration },
    /// The child was killed because it sent a line without end.
    Flooded,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { text, .. } => write!(f, "could not be opened: {text}"),
            Self::FactoryFailed { .. } => f.write_str("has a factory that failed"),
            Self::Crashed { signal } => write!(f, "crashed with {}", signal_name(*signal)),
            Self::Exited { code } => write!(f, "ended the process with exit code {code}"),
            Self::TimedOut { limit } => write!(f, "did not answer within {}s", limit.as_secs_f64()),
            Self::Flooded => write!(f, "sent more than {MAX_LINE} bytes in one line"),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    format!("{name} (signal {signal})")
}

/// Runs a job in a child.
pub(super) fn run(
    helper: &Path,
    library_path: Option<&OsString>,
    job: &Job,
) -> io::Result<Outcome> {
    let (ours, theirs) = UnixStream::pair()?;
    let (printed, printing) = io::pipe()?;
    let mut command = Command::new(helper);
    command
        .arg(CHILD_ARGUMENT)
        .env_clear()
        .envs(library_path.map(|path| ("LD_LIBRARY_PATH", path)))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(printing.try_clone()?)
        .stderr(printing);
    let child = command.spawn()?;
    // The command holds the child's ends; the socket must see the end when the child goes.
    drop(command);
    Watch::new(child, ours, printed).follow(job)
}

/// A child under watch. It is killed and reaped when this is dropped.
struct Watch {
    child: Child,
    socket: UnixStream,
    printed_pipe: io::PipeReader,
    unsent: Vec<u8>,
    line: Vec<u8>,
    confinement: Option<Confinement>,
    result: Option<Result<Observations, Ending>>,
    stage: Option<Stage>,
    printed: String,
    notices: Vec<Notice>,
    notice_bytes: usize,
    answer: Option<Result<String, String>>,
}

impl Watch {
    fn new(child: Child, socket: UnixStream, printed_pipe: io::PipeReader) -> Self {
        Self {
            child,
            socket,
            printed_pipe,
            unsent: Vec::new(),
            line: Vec::new(),
            confinement: None,
            result: None,
            stage: None,
            printed: String::new(),
            notices: Vec::new(),
            notice_bytes: 0,
            answer: None,
        }
    }

    fn follow(mut self, job: &Job) -> io::Result<Outcome> {
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let limit = job.time.clamp(MIN_TIME, MAX_TIME);
        let deadline = Instant::now() + limit;
        self.unsent = serde_json::to_vec(job)?;
        self.unsent.push(b'\n');
        self.socket.set_nonblocking(true)?;
        rustix::io::ioctl_fionbio(&self.printed_pipe, true)?;
        let (mut listening, mut printing) = (true, true);
        let status = loop {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(self.give_up(Ending::TimedOut { limit }));
            };
            let ready = self.wait(&pidfd, left, listening, printing)?;
            if ready.printed {
                printing = self.read_printed()?;
            }
            if ready.room {
                self.send();
            }
            if ready.message {
                match self.read_messages()? {
                    Reading::More => {}
                    Reading::Ended => listening = false,
                    Reading::Flooded => return Ok(self.give_up(Ending::Flooded)),
                }
            } else if ready.exited {
                break self.reap()?;
            }
        };
        self.read_printed()?;
        let result = match (self.result.take(), status.and_then(ended_by)) {
            // Destructors of the library run after the last message, and may still crash.
            (Some(Ok(mut observations)), None) => {
                observations.confinement = self.confinement.take().unwrap_or_default();
                Ok(observations)
            }
            (Some(Ok(_)) | None, Some(ending)) | (Some(Err(ending)), _) => Err(ending),
            (None, None) => Err(Ending::Exited { code: 0 }),
        };
        Ok(self.into_outcome(result))
    }

    /// Sends more of the job. A child that died at once, or does not read, shows by how it ends.
    fn send(&mut self) {
        match (&self.socket).write(&self.unsent) {
            Ok(sent) => drop(self.unsent.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.unsent.clear(),
        }
    }

    /// Reaps the child that has ended. A host that ignores the ends of its children has no status of it.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        match self.child.wait() {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait(
        &self,
        pidfd: &OwnedFd,
        left: Duration,
        listening: bool,
        printing: bool,
    ) -> io::Result<Ready> {
        let none = PollFlags::empty();
        let unsent = if self.unsent.is_empty() { none } else { PollFlags::OUT };
        // A closed end that is not asked about would still wake; it is left out instead.
        let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
        if listening {
            fds.push(PollFd::new(&self.socket, PollFlags::IN | unsent));
        }
        if printing {
            fds.push(PollFd::new(&self.printed_pipe, PollFlags::IN));
        }
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let of = |index: Option<usize>| index.map_or(none, |index| fds[index].revents());
        let socket = of(listening.then_some(1));
        Ok(Ready {
            exited: of(Some(0)) != none,
            room: socket.contains(PollFlags::OUT),
            message: !(socket & !PollFlags::OUT).is_empty(),
            printed: of(printing.then_some(1 + usize::from(listening))) != none,
        })
    }

    /// Reads what has been printed, but no more than a full pipe at once: a child that prints without
    /// end must not keep its watch from the clock. False when nothing more can come.
    fn read_printed(&mut self) -> io::Result<bool> {
        let mut block = [0; 4096];
        for _ in 0..16 {
            match self.printed_pipe.read(&mut block) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    let room = MAX_PRINTED.saturating_sub(self.printed.len());
                    let kept = &block[..read.min(room)];
                    self.printed.push_str(&String::from_utf8_lossy(kept));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn read_messages(&mut self) -> io::Result<Reading> {
        let mut block = [0; 64 * 1024];
        let read = match (&self.socket).read(&mut block) {
            Ok(0) => return Ok(Reading::Ended),
            Ok(read) => read,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Reading::More),
                    io::ErrorKind::ConnectionReset => Ok(Reading::Ended),
                    _ => Err(error),
                };
            }
        };
        for part in block[..read].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let is_answer = line.starts_with(br#"{"answer":"#);
                if line.len() > MAX_OTHER_LINE && !is_answer {
                    continue;
                }
                // A line that is no message comes from the library's own writing; it is not believed.
                if let Ok(message) = serde_json::from_slice(&line) {
                    self.take(message, line.len());
                }
            }
        }
        Ok(if self.line.len() > MAX_LINE { Reading::Flooded } else { Reading::More })
    }

    fn take(&mut self, message: Message, length: usize) {
        match message {
            // The first was sent before the library ran; another could be the library's.
            Message::Confined(confinement) => {
                self.confinement.get_or_insert(confinement);
                self.stage.get_or_insert(Stage::Start);
            }
            Message::Stage(stage) => self.stage = Some(stage),
            Message::Refused { reason, text } => {
                self.result = Some(Err(Ending::Refused { reason, text }));
            }
            Message::FactoryFailed { error } => {
                self.result = Some(Err(Ending::FactoryFailed { error }));
            }
            Message::Notice(notice) => {
                self.notice_bytes = self.notice_bytes.saturating_add(length);
                if self.notices.len() < MAX_NOTICES && self.notice_bytes <= MAX_NOTICE_BYTES {
                    self.notices.push(notice);
                }
            }
            Message::Answer(answer) => self.answer = Some(answer),
            Message::Done(observations) => self.result = Some(Ok(observations)),
        }
    }

    /// Kills the child and returns what is known.
    fn give_up(mut self, ending: Ending) -> Outcome {
        self.kill();
        // What was printed before may tell why.
        drop(self.read_printed());
        self.into_outcome(Err(ending))
    }

    fn into_outcome(mut self, result: Result<Observations, Ending>) -> Outcome {
        Outcome {
            result,
            stage: self.stage,
            printed: std::mem::take(&mut self.printed),
            notices: std::mem::take(&mut self.notices),
            answer: self.answer.take(),
        }
    }

    fn kill(&mut self) {
        // The child is not reaped before `wait`, so neither its id nor its group's is anybody else's. The
        // group is killed too, in case that the helper is another program and has started more.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

struct Ready {
    exited: bool,
    room: bool,
    message: bool,
    printed: bool,
}

enum Reading {
    More,
    Ended,
    Flooded,
}

/// Tells how a child ended, unless it ended well.
fn ended_by(status: ExitStatus) -> Option<Ending> {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Some(Ending::Crashed { signal }),
        (None, Some(0)) => None,
        (None, code) => Some(Ending::Exited { code: code.unwrap_or(-1) }),
    }
}
