//! The boundary of callers below admin scope: the operations behind tools and offers.

use std::collections::BTreeSet;

use super::{Offered, Offers, ToolSpec, Tools};
use crate::config::Offer;
use crate::policy::{AdapterOffer, CatalogueState, OfferedOperations, OfferedTool};

/// Adapter whose offer becomes a part of the boundary.
#[derive(Clone, Copy, Debug)]
pub struct OfferingAdapter<'a> {
    /// The id of the adapter.
    pub adapter_id: &'a str,
    /// The offer of the operator.
    pub offer: &'a Offer,
    /// The state of the adapter's catalogue.
    pub catalogue: CatalogueState,
}

/// Selects the names of one kind in an offer.
type OfferedNames = fn(&mut AdapterOffer) -> &mut BTreeSet<String>;

impl Tools {
    /// Returns the operations that callers below admin scope may call: those behind tools, and those that an offer
    /// names. Resources and prompts are offered one by one.
    #[must_use]
    pub fn offered<'a>(
        &self,
        adapters: impl Iterator<Item = OfferingAdapter<'a>>,
    ) -> OfferedOperations {
        let mut offered = OfferedOperations::default();
        for OfferingAdapter { adapter_id, offer, catalogue } in adapters {
            let patterns = match catalogue {
                CatalogueState::Known => Vec::new(),
                CatalogueState::Absent | CatalogueState::Pending => offer.tools.clone(),
            };
            let own = AdapterOffer { catalogue, patterns, ..AdapterOffer::default() };
            offered.adapters.insert(adapter_id.to_owned(), own);
        }
        for spec in self.iter() {
            let own = offered.adapters.entry(spec.adapter_id.clone()).or_default();
            own.operations.entry(spec.tool.clone()).or_default().insert(spec.method.clone());
            let tool = OfferedTool {
                adapter_id: spec.adapter_id.clone(),
                tool: spec.tool.clone(),
                method: spec.method.clone(),
                timeout: spec.timeout,
            };
            offered.tools.insert(spec.name.clone(), tool);
        }
        let Offers { resources, templates, prompts, .. } = self.offers();
        let kinds: [(_, OfferedNames); 3] = [
            (resources, |own| &mut own.resources),
            (templates, |own| &mut own.templates),
            (prompts, |own| &mut own.prompts),
        ];
        for (found, names) in kinds {
            for Offered { adapter_id, original, .. } in found.values() {
                let own = offered.adapters.entry(adapter_id.clone()).or_default();
                names(own).insert(original.clone());
            }
        }
        offered.adapters.retain(|_, offer| !offer.is_empty());
        offered
    }

    /// Returns the operations (tool, method) that configured tools name, by adapter.
    #[must_use]
    pub fn spellings(&self) -> std::collections::BTreeMap<String, Vec<(String, String)>> {
        let mut spellings = std::collections::BTreeMap::<_, Vec<(String, String)>>::new();
        let withheld = self.withheld.iter().filter_map(|tool| tool.operation.clone());
        for (adapter_id, tool, method) in self.iter().map(ToolSpec::operation).chain(withheld) {
            spellings.entry(adapter_id).or_default().push((tool, method));
        }
        spellings
    }
}
