//! Who seals: the keys, the log, and many seals in one append.
//!
//! A seal of something is a signed [statement](crate::attest::Statement) about it, and a proof that the statement is in the
//! log. [`Sealer`] makes them with what is in one directory: `keys/` has a key for statements, another for the log, and
//! `trust.json`, which says what each is good for; `log/` is the log. [`verify()`] takes a seal, a [`Trust`] and nothing else.
//! [`rotate_attestation`] and [`rotate_log`] replace a key, and put that into the log.

mod desk;
mod error;
mod keys;
mod leaf;
mod rotation;
mod sealer;
mod succession;
mod trust;
mod verify;

use std::path::{Path, PathBuf};

pub use error::Error;
pub use leaf::{Entry, Kind, Leaf};
pub use rotation::{Rotation, remove_former_keys, rotate_attestation, rotate_log};
pub use sealer::{Pending, Seal, Sealer};
pub use succession::Succession;
pub use trust::{AttestationKey, LogKey, Trust};
pub(crate) use verify::signed;
pub use verify::{Broken, Verified, verify};

/// Returns where the log is, below the directory of all that is sealed.
#[must_use]
pub fn log_directory(root: &Path) -> PathBuf {
    keys::Keys::of(root).log_directory().to_owned()
}

/// Returns where it is said which keys are trusted.
#[must_use]
pub fn trust_path(root: &Path) -> PathBuf {
    keys::Keys::of(root).trust_path()
}

#[cfg(test)]
mod tests;
