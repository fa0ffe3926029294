//! Why the configuration cannot be used. No error shows a value of it: it may be a secret.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file, or what variables add to it, is not what it should be.
    #[error("{}{}", first.told(path.as_deref()), more(others.len()))]
    Invalid {
        /// The file, if there is one.
        path: Option<PathBuf>,
        /// The first problem.
        first: Problem,
        /// All others.
        others: Vec<Problem>,
    },
    /// A listener would be open to strangers.
    #[error("the listener on {address} is reached by other machines without {missing}")]
    Unsafe {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: String,
        /// What to do about each.
        hint: String,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was said.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Where a setting was said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nowhere.
    Default,
    /// In the file.
    File {
        /// The line, from 1.
        line: usize,
        /// The character of the line, from 1.
        column: usize,
    },
    /// In a variable of the environment.
    Variable(String),
}

impl Problem {
    fn told(&self, path: Option<&std::path::Path>) -> String {
        let what = match (&self.origin, path) {
            (Origin::Variable(name), _) => format!("the environment variable {name}"),
            (_, Some(path)) => path.display().to_string(),
            (_, None) => "the environment".to_owned(),
        };
        format!("{what} is not a valid configuration: {}", self.placed())
    }

    /// Returns the message with its place in the file.
    #[must_use]
    pub fn placed(&self) -> String {
        match self.origin {
            Origin::File { line, column } => {
                format!("{} (line {line}, column {column})", self.message)
            }
            Origin::Default | Origin::Variable(_) => self.message.clone(),
        }
    }
}

fn more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => "; and one more problem, which `nexus-router config check` tells".to_owned(),
        _ => format!("; and {others} more problems, which `nexus-router config check` tells"),
    }
}

impl Error {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "CONFIG_FILE_UNREADABLE",
            "The configuration file cannot be read.",
            "check the path, and that this user may read the file",
        ),
        (
            "CONFIG_FILE_INVALID",
            "The configuration file is no TOML, or has a key or a value that it should not have.",
            "correct the place that the message names",
        ),
        (
            "CONFIG_VARIABLE_INVALID",
            "A variable NEXUS_ROUTER__SECTION__KEY of the environment names no setting, or has a value \
             that the setting cannot have.",
            "correct or unset the variable that the message names",
        ),
        (
            "LISTENER_UNSAFE",
            "Other machines would reach the daemon without showing a token or without encryption, and \
             nobody said by name that they may.",
            "use tokens and TLS, or listen on 127.0.0.1 alone",
        ),
    ];

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => Self::TABLE[0].0,
            Self::Invalid { first: Problem { origin: Origin::Variable(_), .. }, .. } => {
                Self::TABLE[2].0
            }
            Self::Invalid { .. } => Self::TABLE[1].0,
            Self::Unsafe { .. } => Self::TABLE[3].0,
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Unreadable { .. } => Self::TABLE[0].2,
            Self::Invalid { first, .. } => &first.hint,
            Self::Unsafe { hint, .. } => hint,
        }
    }
}
