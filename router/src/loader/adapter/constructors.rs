//! The adapters that a host may hold: the built-in one, one in this process, one in workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use nexus_router_sdk::Capability;

use super::{Adapter, Backing, Inner};
use crate::breaker::Breaker;
use crate::digest::Digest;
use crate::loader::library::Instance;
use crate::loader::manifest::ManifestView;
use crate::loader::undeclared::UndeclaredCodes;
use crate::loader::{Confined, Description};
use crate::worker::Team;

impl Adapter {
    pub(super) fn new(
        factory_ref: &str,
        description: Description,
        backing: Backing,
        confined: Confined,
        simulation: Option<Team>,
    ) -> Self {
        let factory_ref = factory_ref.to_owned();
        let undeclared = Arc::default();
        let breaker = Breaker::default();
        let inner =
            Inner { factory_ref, description, backing, confined, simulation, undeclared, breaker };
        Self { inner: Arc::new(inner) }
    }

    /// Counts from now on which error codes it returns that its manifest does not list.
    pub(in crate::loader) fn counting_undeclared(
        mut self,
        manifest: Option<&ManifestView>,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.undeclared = Arc::new(UndeclaredCodes::new(manifest));
        }
        self
    }

    /// Returns the built-in adapter that stands in for dry runs and can do nothing else.
    #[must_use]
    pub fn null() -> Self {
        let description = Description {
            adapter_id: "null".to_owned(),
            adapter_kind: "null".to_owned(),
            capabilities: BTreeSet::from([Capability::DryRun]),
            starts_at_once: true,
            catalog: false,
        };
        Self::new(Self::NULL_REF, description, Backing::Null, Confined::inline(), None)
    }

    pub(in crate::loader) fn of_library(
        factory_ref: &str,
        description: Description,
        instance: Instance,
        digest: Digest,
        simulation: Option<Team>,
    ) -> Self {
        let backing = Backing::Library { instance, digest };
        Self::new(factory_ref, description, backing, Confined::inline(), simulation)
    }

    pub(in crate::loader) fn of_team(
        factory_ref: &str,
        description: Description,
        team: Team,
        digest: Digest,
        confined: Confined,
        simulation: Option<Team>,
    ) -> Self {
        Self::new(factory_ref, description, Backing::Team { team, digest }, confined, simulation)
    }
}
