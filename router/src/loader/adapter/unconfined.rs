//! An adapter that the kernel cannot confine: it is known, and every call of it is rejected.

use std::collections::BTreeSet;

use nexus_router_sdk::Capability;

use super::{Adapter, Backing};
use crate::grant::{Feature, Grants};
use crate::loader::opened::Opened;
use crate::loader::{Confined, Description};
use crate::sandbox::Confinement;

impl Adapter {
    /// Makes the stand-in of an adapter that must not run without what is missing. What is told of it is what its manifest
    /// declares: nothing of its code was run.
    pub(in crate::loader) fn unconfined(
        adapter_id: &str,
        opened: &Opened,
        grants: &Grants,
        missing: &[Feature],
    ) -> Self {
        let declared = opened.view.iter().flat_map(|view| &view.capabilities);
        let mut capabilities: BTreeSet<Capability> =
            declared.filter_map(|name| Capability::from_name(name)).collect();
        // A call is rejected because of the kernel, and not because a manifest is silent.
        capabilities.insert(Capability::Apply);
        let description = Description {
            adapter_id: adapter_id.to_owned(),
            adapter_kind: opened.view.as_ref().map_or_else(String::new, |view| view.kind.clone()),
            capabilities,
            starts_at_once: true,
            catalog: false,
        };
        let missing = missing.to_vec();
        let confinement = Confinement { missing: missing.clone(), ..Confinement::default() };
        let confined = Confined::worker(&confinement, grants);
        let backing = Backing::Unconfined { missing, digest: opened.digest() };
        Self::new(opened.factory_ref.as_str(), description, backing, confined, None)
    }
}
