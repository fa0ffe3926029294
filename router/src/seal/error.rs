//! Why something cannot be sealed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::key::PublicKey;
use crate::python_text::visible;
use crate::{attest, key, tlog};

/// Something cannot be sealed. Everybody who waits for the same append gets the same error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The statement is none.
    #[error(transparent)]
    Statement(#[from] attest::Error),
    /// A key cannot be had.
    #[error(transparent)]
    Key(Arc<key::Error>),
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(Arc<tlog::Error>),
    /// A file cannot be read or written.
    #[error("{}: {source}", visible(&path.to_string_lossy()))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// Others may put keys into the directory.
    #[error("{}: others than its owner may write to it (mode {mode:o})", visible(&path.to_string_lossy()))]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A link stands where a directory has to be.
    #[error("{}: it is a link, and is not followed", visible(&path.to_string_lossy()))]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The file that says which keys are trusted is none.
    #[error("{}: it says not which keys are trusted: {reason}", visible(&path.to_string_lossy()))]
    Trust {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is a log, and nothing says with which keys.
    #[error("{}: it is not there, and there is a log which was made with keys that it names", visible(&path.to_string_lossy()))]
    TrustIsGone {
        /// The file that says which keys are trusted.
        path: PathBuf,
    },
    /// There are keys, and the log that they are of is not there.
    #[error("{}: it is not there, and trust.json says that the log was begun", visible(&path.to_string_lossy()))]
    LogIsGone {
        /// The checkpoint of the log.
        path: PathBuf,
    },
    /// The log is shorter than it was when a key was replaced.
    #[error("the log has {size} entries, and trust.json says that entry {index} replaced a key")]
    Behind {
        /// How many entries it has.
        size: u64,
        /// The entry that replaced a key.
        index: u64,
    },
    /// An older log was put in the place of the one that was here.
    #[error("the log has {size} entries, and it had {seen}: an older copy was put in its place")]
    RolledBack {
        /// How many entries it has.
        size: u64,
        /// How many were seen.
        seen: u64,
    },
    /// A file has another key than is trusted.
    #[error("{}: it is the key {found}, and trusted is {expected}", visible(&path.to_string_lossy()))]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// The key that it has.
        found: PublicKey,
        /// The key that `trust.json` names.
        expected: PublicKey,
    },
    /// The log has another name than it should have.
    #[error("the log is {found}, and is wanted as {wanted}; its name is fixed when it is begun")]
    Origin {
        /// The name that it has.
        found: String,
        /// The name that it should have.
        wanted: String,
    },
    /// The last checkpoint is signed by a key that was not, or is no longer, the log's at that size.
    #[error(
        "the checkpoint of {size} entries is not signed by the key that the log had then, {expected}"
    )]
    Checkpoint {
        /// How many entries it covers.
        size: u64,
        /// What it should be signed with.
        expected: String,
    },
    /// Where the log should have that a key was replaced, it has something else.
    #[error("entry {index} of the log should say that a key was replaced, and says something else")]
    Succession {
        /// Which entry.
        index: u64,
    },
    /// The thread that seals is gone.
    #[error("the thread that seals has ended")]
    Gone,
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Statement(error) => error.hint(),
            Self::Key(error) => error.hint(),
            Self::Log(error) => error.hint(),
            Self::File { .. } => {
                "check the path, that there is room, and that this user may use it"
            }
            Self::Exposed { .. } => {
                "chmod 700 the directory; look whether its keys are those that you know"
            }
            Self::Link { .. } => {
                "put the directory itself there, or name the one that it leads to as evidence.directory"
            }
            Self::Trust { .. } | Self::TrustIsGone { .. } => "restore trust.json from a copy",
            Self::OtherKey { .. } => {
                "restore the key from a copy; to replace a key, rotate it while the old one is there"
            }
            Self::Origin { .. } => "use the name that the log has, or begin another log elsewhere",
            Self::LogIsGone { .. } => {
                "restore the log from a copy; to begin another, use another directory"
            }
            Self::RolledBack { .. } => {
                "put the log back as it was: two histories of one log are a lie that this program does not sign"
            }
            Self::Checkpoint { .. } | Self::Succession { .. } | Self::Behind { .. } => {
                "trust.json and the log do not belong together: restore both from the same copy"
            }
            Self::Gone => "start the program again, and report what its log says",
        }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source: Arc::new(source) }
    }
}

impl From<tlog::Error> for Error {
    fn from(error: tlog::Error) -> Self {
        Self::Log(Arc::new(error))
    }
}

impl From<key::Error> for Error {
    fn from(error: key::Error) -> Self {
        Self::Key(Arc::new(error))
    }
}
