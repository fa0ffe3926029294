//! A configuration whose adapters are loaded, and which is not in force yet.

use std::sync::Arc;

use super::fleet::Fleet;
use super::{Setup, catalogues};
use crate::config::ConfigFile;
use crate::policy::Law;
use crate::toolspec::Tools;

/// A configuration that can be put in force.
pub struct Prepared {
    pub(super) before: Arc<Fleet>,
    pub(super) setup: Setup,
    pub(super) fleet: Arc<Fleet>,
}

impl Prepared {
    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &ConfigFile {
        &self.setup.config
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.fleet.tools
    }

    /// Says whether adapters offer something else than before.
    #[must_use]
    pub fn has_other_catalogues(&self) -> bool {
        !catalogues::same(&self.before.gathered, &self.fleet.gathered)
    }

    /// Returns what the operator lays down for every run.
    #[must_use]
    pub fn law(&self) -> &Law {
        &self.fleet.law
    }
}
