//! Everything that can be wrong with a log, a note or a proof, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::python_text::visible;

/// A log, a note or a proof cannot be used, or does not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the log cannot be read or written.
    #[error("{}: {source}", visible(&path.to_string_lossy()))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The name of a log or key is none.
    #[error(
        "a name of a log or key has no blanks, no plus and no control characters, and is not empty: {}",
        visible(name)
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A text is no verifier key.
    #[error("it is no verifier key: {why}")]
    VerifierKey {
        /// What is wrong.
        why: &'static str,
    },
    /// A text is no signed note, or no checkpoint.
    #[error("it is no signed checkpoint: {why}")]
    Note {
        /// What is wrong.
        why: &'static str,
    },
    /// A text is no proof.
    #[error("it is no proof of inclusion: {why}")]
    Proof {
        /// What is wrong.
        why: &'static str,
    },
    /// A checkpoint is not signed by any known key.
    #[error(
        "the checkpoint of {} is signed by {}, and none of these is a key of that log which is known here ({})",
        visible(origin),
        visible(signed),
        visible(known)
    )]
    UnknownKey {
        /// What log it is of.
        origin: String,
        /// The keys that signed it.
        signed: String,
        /// The keys that would do.
        known: String,
    },
    /// A signature is not that of the key it names.
    #[error("the signature of {} is not that of this key for this text", visible(key))]
    Signature {
        /// The key.
        key: String,
    },
    /// A checkpoint is of another log.
    #[error("the checkpoint is of the log {}, and not of {}", visible(found), visible(expected))]
    Origin {
        /// The log that it is of.
        found: String,
        /// The log that it should be of.
        expected: String,
    },
    /// An entry is not where a proof says, or the proof is of another tree.
    #[error(
        "the entry is not shown to be number {index} of the {size} entries that the checkpoint covers"
    )]
    NotIncluded {
        /// Where it should be.
        index: u64,
        /// How many entries the checkpoint covers.
        size: u64,
    },
    /// An entry is too long.
    #[error("entry {number} of the batch has {length} bytes, and an entry has at most 65535")]
    TooLong {
        /// Which of the batch.
        number: usize,
        /// How many bytes it has.
        length: usize,
    },
    /// An entry or a subtree is beyond the end of the log.
    #[error("the log has {size} entries, and needs {needed} for this")]
    Beyond {
        /// How many there are.
        size: u64,
        /// How many there would have to be.
        needed: u64,
    },
    /// A file of the log has not the content that it must have.
    #[error("{}: {why}", visible(&path.to_string_lossy()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The tiles are not those of the checkpoint.
    #[error("{}: the tiles {tiles} have the root {found}, and the checkpoint of {size} entries says {expected}",
        visible(&path.to_string_lossy()))]
    Root {
        /// The directory of the log.
        path: PathBuf,
        /// The tiles that the root was made of.
        tiles: String,
        /// How many entries the checkpoint covers.
        size: u64,
        /// What the checkpoint says.
        expected: Digest,
        /// What the tiles have.
        found: Digest,
    },
    /// A checkpoint does not continue one that was seen before.
    #[error("{}: the checkpoint of {found} entries does not continue that of {seen}, which was seen before: {why}",
        visible(&path.to_string_lossy()))]
    Forked {
        /// The directory of the log.
        path: PathBuf,
        /// How many entries were seen.
        seen: u64,
        /// How many the checkpoint covers.
        found: u64,
        /// Why it does not.
        why: &'static str,
    },
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } => {
                "check the path, that there is room, and that this user may use it"
            }
            Self::Name { .. } => "name the log like example.com/log",
            Self::VerifierKey { .. } => "a verifier key is NAME+8 HEX DIGITS+BASE64, on one line",
            Self::Note { .. } | Self::Proof { .. } => "get the file from its source again",
            Self::UnknownKey { .. } => {
                "if the log changed its key, add the key to the trusted ones; otherwise do not trust it"
            }
            Self::Signature { .. } | Self::NotIncluded { .. } => {
                "it was changed, or belongs to something else: do not trust it"
            }
            Self::Origin { .. } => "name the directory or the keys of the same log",
            Self::TooLong { .. } => "log a digest of it instead",
            Self::Beyond { .. } => "wait for a checkpoint that covers it",
            Self::Damaged { .. } | Self::Root { .. } | Self::Forked { .. } => {
                "restore the directory of the log from a copy; never continue it with other tiles"
            }
        }
    }

    /// Returns the error of a file.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Returns the error of a file whose content is wrong.
    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), why: why.into() }
    }
}
