//! Why `router.toml` cannot be used. No error shows a value of it: it may be a secret.

use std::path::PathBuf;

/// `router.toml` cannot be used.
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
    /// The file is not what it should be.
    #[error("{path} is not a valid configuration: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
        /// What was perhaps meant.
        hint: String,
    },
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
    ];

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => Self::TABLE[0].0,
            Self::Invalid { .. } => Self::TABLE[1].0,
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Unreadable { .. } => Self::TABLE[0].2,
            Self::Invalid { hint, .. } => hint,
        }
    }
}
