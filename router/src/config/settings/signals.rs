//! Where signal contracts are, and by which policy their fields are accepted: the section `[signals]`.

use std::path::PathBuf;

/// What the operator says of signal contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalSettings {
    /// The directory of signal contracts.
    pub directory: Option<PathBuf>,
    /// The acceptance policy of adapters that have none of their own.
    pub policy: Option<PathBuf>,
}
