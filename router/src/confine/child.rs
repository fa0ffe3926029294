//! The child: confines itself, and then becomes the program, or does with files what it is told.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::act;
use super::wire::{Act, Job, Program, Said};
use crate::grant::Feature;
use crate::sandbox::{self, Entered, Profile};
use crate::worker::{self, Kind, Wire};

/// Runs as the child of a guard.
pub(crate) fn run_child(guard: u32) -> ExitCode {
    match work(guard) {
        Ok(code) => code,
        // The router has gone or speaks another language; there is nobody to tell.
        Err(_) => ExitCode::from(2),
    }
}

fn work(guard: u32) -> io::Result<ExitCode> {
    let job: Job = serde_json::from_slice(&worker::receive_job(io::stdin())?)?;
    // Whoever holds the listener decides on the calls that it hears of.
    let hand = |listener: OwnedFd| {
        let text = serde_json::to_vec(&Said::Asking)?;
        wire()?.send_with(Kind::Said, &text, listener.as_fd())
    };
    let entered = sandbox::enter_handing(&job.profile, guard, hand);
    let wire = wire()?;
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    let Entered { confinement, .. } = match entered {
        Ok(entered) => entered,
        Err(error) => return say(&wire, &Said::Unfit { why: error.to_string() }),
    };
    let missing = job.profile.refused(&confinement);
    if !missing.is_empty() {
        return say(&wire, &Said::Unconfined { missing });
    }
    say(&wire, &Said::Confined { confinement, session: std::process::id() })?;
    let attended = !job.profile.grants.connect.is_empty();
    // The router may be forbidden to do what it must to attend to connects.
    if attended && sandbox::probe().is_err() {
        return say(&wire, &Said::Unconfined { missing: vec![Feature::SeccompNotify] });
    }
    match &job.act {
        Act::Nothing => Ok(ExitCode::SUCCESS),
        Act::Start(program) => {
            let why = start(&job.profile, &job.cwd, program);
            say(&wire, &Said::Unstarted { why: why.to_string() })
        }
        act => {
            let refused = act::carry_out(&job.profile, act).err().map(|error| error.to_string());
            let code = ExitCode::from(u8::from(refused.is_some()));
            say(&wire, &Said::Acted { refused }).map(|_| code)
        }
    }
}

fn say(wire: &Wire, said: &Said) -> io::Result<ExitCode> {
    wire.send(Kind::Said, 0, &serde_json::to_vec(said)?)?;
    Ok(ExitCode::FAILURE)
}

/// Returns the socket, which is closed when another program takes over, as every descriptor is that is made here.
fn wire() -> io::Result<Wire> {
    Ok(Wire::new(File::from(io::stdin().as_fd().try_clone_to_owned()?)))
}

/// Becomes the program; returns only if that cannot be.
fn start(profile: &Profile, cwd: &str, program: &Program) -> io::Error {
    if let Err(error) = enter(profile, cwd).and_then(|()| give(program.stdin.as_deref())) {
        return error;
    }
    let environment =
        program.environment.iter().map(|(name, value)| (name, OsStr::from_bytes(value)));
    let mut arguments = program.argv.iter();
    let name = arguments.next().unwrap_or(&program.file);
    sandbox::heed_all_signals();
    let mut command = Command::new(&program.file);
    let error = command.arg0(name).args(arguments).env_clear().envs(environment).exec();
    io::Error::new(error.kind(), format!("cannot start {}: {error}", program.file))
}

/// Goes to a directory of the workspace, and nowhere where a link leads.
fn enter(profile: &Profile, cwd: &str) -> io::Result<()> {
    let root = act::workspace(profile)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let named = |error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot work in {cwd:?} of the workspace: {error}"))
    };
    let there = act::open_straight(root.as_fd(), cwd, flags, Mode::empty()).map_err(named)?;
    rustix::process::fchdir(&there).map_err(named)
}

/// Puts a text where the program reads it: whole, so that nobody has to wait for it to be read.
fn give(stdin: Option<&str>) -> io::Result<()> {
    let Some(text) = stdin else { return Ok(()) };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
    let mut memory = File::from(rustix::fs::memfd_create("stdin", flags)?);
    io::Write::write_all(&mut memory, text.as_bytes())?;
    io::Seek::rewind(&mut memory)?;
    Ok(rustix::stdio::dup2_stdin(&memory)?)
}
