//! What can go wrong with the tokens' file, and the remedy. No error shows a token.

use std::path::PathBuf;

use super::token;
use crate::clock::Timestamp;

/// Why the tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the tokens in {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file has all the tokens that it may have.
    #[error("{path} has {tokens} tokens already, as many as it may have")]
    Full {
        /// The file.
        path: PathBuf,
        /// How many that is.
        tokens: usize,
    },
    /// Others than its owner could read or change the file.
    #[error("{path} has mode {mode:04o}, so that others could read or change the tokens")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file is of somebody else.
    #[error("{path} belongs to user {owner}, not to user {user} who runs this program")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// What is there is no plain file.
    #[error("{path} is {kind}, not a plain file")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file is not what it should be.
    #[error("{path} is no valid list of tokens: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// There is a token of that name.
    #[error("there is a token named '{name}' already, made at {created_at}")]
    Exists {
        /// The name.
        name: String,
        /// When it was made.
        created_at: Timestamp,
    },
    /// There is no such token.
    #[error("there is no token '{}' in {path}", token::shown(.wanted))]
    NotFound {
        /// The name or the id.
        wanted: String,
        /// The file.
        path: PathBuf,
    },
    /// A token cannot have that name.
    #[error("'{}' cannot be the name of a token", token::shown(.name))]
    Name {
        /// The name.
        name: String,
    },
}

impl Error {
    /// Every code, with its meaning and the remedy.
    pub const TABLE: &[(&'static str, &'static str, &'static str)] = &[
        (
            "TOKEN_FILE_UNREADABLE",
            "The file with the tokens cannot be read.",
            "check --data-dir, and that this user may read the file",
        ),
        (
            "TOKEN_FILE_UNWRITABLE",
            "The file with the tokens, its lock, or the file for the first token cannot be written.",
            "check that this user may write the directory, and that the disk has room",
        ),
        (
            "TOKEN_FILE_UNSAFE",
            "Others than the owner could read or change the file with the tokens.",
            "make it a plain file of this user with mode 0600: chmod 600 FILE",
        ),
        (
            "TOKEN_FILE_INVALID",
            "The file with the tokens is not what nexus-router token writes.",
            "correct the place that the message names, or move the file away and make new tokens",
        ),
        (
            "TOKEN_EXISTS",
            "There is a token of that name already.",
            "choose another name, or revoke the token first",
        ),
        (
            "TOKEN_NOT_FOUND",
            "There is no token of that name or id.",
            "nexus-router token list lists the tokens",
        ),
        (
            "TOKEN_NAME_INVALID",
            "A token cannot have that name.",
            "use 1 to 64 letters, digits, '_', '.' and '-'; 'local' and names that begin with 'nxr_' are taken",
        ),
    ];

    const fn row(&self) -> usize {
        match self {
            Self::Unreadable { .. } => 0,
            Self::Unwritable { .. } | Self::Full { .. } => 1,
            Self::Mode { .. } | Self::Owner { .. } | Self::NotAFile { .. } => 2,
            Self::Invalid { .. } => 3,
            Self::Exists { .. } => 4,
            Self::NotFound { .. } => 5,
            Self::Name { .. } => 6,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        Self::TABLE[self.row()].0
    }

    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Mode { path, .. } => format!("chmod 600 {}", path.display()),
            Self::Owner { path, user, .. } => format!("chown {user} {}", path.display()),
            Self::NotAFile { .. } => "put the file itself there, with mode 0600".to_owned(),
            Self::Full { .. } => "revoke tokens that nobody uses any more".to_owned(),
            Self::Exists { name, .. } => {
                format!("choose another name, or nexus-router token revoke {name} first")
            }
            _ => Self::TABLE[self.row()].2.to_owned(),
        }
    }
}
