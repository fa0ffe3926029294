//! Where signal contracts are, by which policy their fields are accepted, and what is published: `[signals]`.

use std::path::PathBuf;

/// What the operator says of signal contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalSettings {
    /// The directory of signal contracts.
    pub directory: Option<PathBuf>,
    /// The acceptance policy of adapters that have none of their own.
    pub policy: Option<PathBuf>,
    /// The signed manifest that is told to anybody.
    pub manifest: Option<PathBuf>,
    /// The document of the publisher, with its public key, that is told to anybody.
    pub publisher: Option<PathBuf>,
}
