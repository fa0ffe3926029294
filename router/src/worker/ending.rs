//! How a process ended that was not done.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A signal killed it.
    Crashed { signal: i32 },
    /// It ended by itself.
    Exited { code: i32 },
    /// It was killed because it did not answer in time.
    TimedOut { limit: Duration },
    /// It was killed because it broke the rules of its wire, and how.
    Garbled { how: &'static str },
    /// It was killed because it told more than anybody can read.
    Flooded,
    /// It was killed because it had more processes than it may.
    Overran { most: usize },
    /// It was killed because the router wanted it to be gone.
    Stopped,
}

impl Ending {
    /// Reads it from the status of a process that nobody killed.
    pub(crate) fn of(status: ExitStatus) -> Self {
        match (status.signal(), status.code()) {
            (Some(signal), _) => Self::Crashed { signal },
            (None, code) => Self::Exited { code: code.unwrap_or(-1) },
        }
    }

    /// Writes it for another process.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Crashed { signal } => format!("signal {signal}"),
            Self::Exited { code } => format!("code {code}"),
            Self::Overran { most } => format!("overran {most}"),
            _ => "stopped".to_owned(),
        }
    }

    /// Reads what was written.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        match text.split_once(' ') {
            Some(("signal", signal)) => Some(Self::Crashed { signal: signal.parse().ok()? }),
            Some(("code", code)) => Some(Self::Exited { code: code.parse().ok()? }),
            Some(("overran", most)) => Some(Self::Overran { most: most.parse().ok()? }),
            _ => (text == "stopped").then_some(Self::Stopped),
        }
    }

    /// Says whether the process ended as one does that is done.
    pub(crate) fn is_well(&self) -> bool {
        *self == Self::Exited { code: 0 }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crashed { signal } => write!(f, "crashed with {}", signal_name(*signal)),
            Self::Exited { code } => write!(f, "ended the process with exit code {code}"),
            Self::TimedOut { limit } => write!(f, "did not answer within {}s", limit.as_secs_f64()),
            Self::Garbled { how } => write!(f, "broke the rules of its wire: {how}"),
            Self::Flooded => f.write_str("told more than anybody can read"),
            Self::Overran { most } => write!(f, "had more than {most} processes"),
            Self::Stopped => f.write_str("was stopped"),
        }
    }
}

/// Returns the name of a signal, with its number.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
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
