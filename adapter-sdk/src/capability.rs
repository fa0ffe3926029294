//! The closed set of capabilities. The router defines it; adapters cannot add one.

use serde::{Deserialize, Serialize};

/// What an adapter declares that it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Executes operations; required in apply mode.
    Apply,
    /// Returns meaningful simulated output.
    DryRun,
    /// Reaches beyond the process: network, programs, files.
    External,
    /// Enforces a time limit by itself.
    Timeout,
}

impl Capability {
    /// Every capability, in the order of their names.
    pub const ALL: &[Self] = &[Self::Apply, Self::DryRun, Self::External, Self::Timeout];

    /// Returns the name that stands in manifests and descriptions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::DryRun => "dry_run",
            Self::External => "external",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the capability of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|capability| capability.name() == name)
    }
}
