//! Refuses envoys whose workspace overlaps with the store or the evidence of their router.

use super::{Error, Options};
use crate::config::{OwnKind, OwnPaths};
use crate::registry::Registry;
use crate::store::Store;

/// Refuses an envoy that could write to the store or the evidence.
pub(super) fn refuse_misplaced(
    store: &Store,
    registry: &Registry,
    options: &Options,
) -> Result<(), Error> {
    let mut own = OwnPaths::default();
    if let Some(db) = store.path() {
        own.add_store(db);
    }
    if let Some(keeper) = &options.keeper {
        own.add("the evidence", OwnKind::Directory, keeper.root());
        own.add_log(keeper.log_root());
    }
    for adapter in registry.adapters() {
        let Some(workspace) = adapter.envoy().map(|envoy| envoy.workspace()) else { continue };
        if let Some(overlap) = own.overlap(workspace) {
            return Err(Error::Misplaced {
                adapter_id: adapter.adapter_id().to_owned(),
                workspace: workspace.to_owned(),
                overlap: overlap.to_string(),
            });
        }
    }
    Ok(())
}
