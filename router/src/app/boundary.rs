//! The boundary of callers below admin scope, drawn from the adapters that are loaded.

use std::sync::Arc;

use nexus_router_sdk::Catalog;

use super::catalogues::Gathered;
use crate::config::{AdapterEntry, Offer};
use crate::loader::Adapter;
use crate::policy::{CatalogueState, Law, Operations};
use crate::toolspec::{HintTrust, OfferingAdapter, Tools};

/// Returns the trust in hints about an adapter's operations.
pub(super) fn trust<'a>(
    mut members: impl Iterator<Item = (&'a Adapter, &'a AdapterEntry)>,
    adapter_id: &str,
) -> HintTrust {
    let trusted =
        members.any(|(adapter, entry)| adapter.adapter_id() == adapter_id && entry.trust_hints);
    if trusted { HintTrust::Catalogue } else { HintTrust::RouterOnly }
}

/// Puts the offered operations, and those that adapters are known to have, into the law.
pub(super) fn set_boundary<'a>(
    law: &mut Law,
    members: impl Iterator<Item = (&'a Adapter, &'a AdapterEntry)>,
    tools: &Tools,
    gathered: &Gathered,
) {
    let everything = Offer::everything();
    let null = Adapter::null();
    let mut adapters = Vec::new();
    for (adapter, entry) in members {
        let adapter_id = adapter.adapter_id();
        let catalogue = match (gathered.catalogs.get(adapter_id), &gathered.unknown) {
            (None, _) => CatalogueState::Absent,
            (Some(_), unknown) if unknown.contains_key(adapter_id) => CatalogueState::Pending,
            (Some(catalog), _) => {
                let known = Arc::new(operations(catalog));
                law.catalogues.insert(adapter_id.to_owned(), known);
                CatalogueState::Known
            }
        };
        adapters.push(OfferingAdapter { adapter_id, offer: &entry.offer, catalogue });
    }
    // The built-in adapter does nothing, and answers steps that name no other.
    let adapter_id = null.adapter_id();
    adapters.retain(|one| one.adapter_id != adapter_id);
    adapters.push(OfferingAdapter {
        adapter_id,
        offer: &everything,
        catalogue: CatalogueState::Absent,
    });
    law.spellings = tools.spellings();
    law.spellings.retain(|adapter_id, _| !law.catalogues.contains_key(adapter_id));
    law.offered = Some(Arc::new(tools.offered(adapters.into_iter())));
}

fn operations(catalog: &Catalog) -> Operations {
    let mut operations = Operations::new();
    for tool in &catalog.tools {
        operations.entry(tool.tool.clone()).or_default().insert(tool.method.clone());
    }
    operations
}
