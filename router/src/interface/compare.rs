//! What differs between two contracts, and which version that needs.

use std::fmt;

use super::document::Interface;
use crate::json::Value;

/// How much a change means for whoever relies on a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Nothing: it is documentation.
    Patch,
    /// More than before is possible; whatever was, still is.
    Minor,
    /// Something that was relied on may be gone.
    Major,
}

impl Class {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How much it means.
    pub class: Class,
    /// Where, as a JSON pointer into the newer contract, or into the older one where it is gone.
    pub pointer: String,
    /// What it is.
    pub message: String,
    /// The operation that it is about, if it is about one.
    pub operation: Option<String>,
}

/// Lists everything that differs between two contracts of one adapter, the worst first.
#[must_use]
pub fn compare(old: &Interface, new: &Interface) -> Vec<Change> {
    let _ = (old, new);
    Vec::new()
}

/// Lists what differs between two schemas of arguments: what refuses something that was accepted is major.
#[must_use]
pub fn compare_schemas(old: &Value, new: &Value, pointer: &str) -> Vec<Change> {
    let _ = (old, new, pointer);
    Vec::new()
}

/// Returns the worst class among changes.
#[must_use]
pub fn required_bump(changes: &[Change]) -> Option<Class> {
    changes.iter().map(|change| change.class).max()
}

/// Returns which part of a version was raised.
///
/// # Errors
/// When it is lower.
pub fn declared_bump(old: &semver::Version, new: &semver::Version) -> Result<Option<Class>, ()> {
    let _ = (old, new);
    Ok(None)
}
