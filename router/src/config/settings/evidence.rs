//! Whether what is done is sealed, and where that is kept: the section `[evidence]`.

use std::path::PathBuf;

/// What the operator says of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceSettings {
    /// Whether runs, and steps that are carried out in a role, are sealed.
    pub seal: bool,
    /// The directory of all that is sealed, instead of `sealed` beside the store.
    pub directory: Option<PathBuf>,
}

impl Default for EvidenceSettings {
    fn default() -> Self {
        Self { seal: true, directory: None }
    }
}
