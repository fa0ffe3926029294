//! The program of a server: started in a process group of its own, and ended with all that it started.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nexus_router_sdk::Level;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::config::{INHERITED, Program};
use crate::log::Log;

/// How long a program may take to go by itself, and then again when it is asked to.
const GRACE: Duration = Duration::from_millis(700);

/// How much of one line of standard error is read at most before it is told.
const MAX_LINE: usize = 8192;

/// A running program; dropping it kills its group.
pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
}

/// The two ends of a program that messages go through.
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

impl Process {
    /// Starts the program. What it writes to standard error goes to the log.
    pub(crate) fn start(program: &Program, log: Arc<Log>) -> io::Result<(Self, Pipes)> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&program.env);
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        // The standard library marks its own descriptors; foreign code in the host may not have.
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, group };
        let (Some(input), Some(output)) = (input, output) else {
            return Err(io::Error::other("a pipe is missing"));
        };
        if let Some(errors) = errors {
            tokio::spawn(report(errors, log));
        }
        Ok((process, Pipes { input, output }))
    }

    /// Waits a moment for the end of a program that has closed its output.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        timeout(GRACE, self.child.wait()).await.ok()?.ok()
    }

    /// Ends the program, whose input was closed before: it may go by itself, is asked to, and is made to.
    pub(crate) async fn end(&mut self) {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            if timeout(GRACE, self.child.wait()).await.is_ok() {
                break;
            }
        }
        // Something that it started may have stayed.
        self.signal(Signal::KILL);
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails when nothing is left, or nothing that this process may signal.
            let _: Result<(), Errno> = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Passes on what a program writes to standard error, line by line.
async fn report(errors: ChildStderr, log: Arc<Log>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        let (used, complete) = {
            let Ok(read) = errors.fill_buf().await else { return };
            if read.is_empty() {
                break;
            }
            let end = read.iter().position(|&byte| byte == b'\n');
            let text = &read[..end.unwrap_or(read.len())];
            // The rest of a line that is too long is lost.
            let room = MAX_LINE.saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            (end.map_or(read.len(), |end| end + 1), end.is_some())
        };
        errors.consume(used);
        if complete {
            tell(&log, &line);
            line.clear();
        }
    }
    tell(&log, &line);
}

fn tell(log: &Log, line: &[u8]) {
    let line = String::from_utf8_lossy(line);
    if !line.trim().is_empty() {
        log.pass(Level::Info, &line, None);
    }
}
