//! Which contracts the adapters of a configuration keep, as far as that is known without loading them.

use std::collections::BTreeSet;

use super::App;
use crate::check;
use crate::config::{AdapterEntry, ConfigFile};
use crate::json::Value;
use crate::loader::manifest::ManifestView;
use crate::loader::{FactoryRef, Loader};
use crate::mapping::ExecutionMode;
use crate::register::Standing;
use crate::toolspec::lacking_adapter;

impl App {
    /// Says of enabled tools that no adapter of the configuration keeps their contract, where that is so.
    pub(super) fn mark_unavailable(&self, standings: &mut [Standing]) {
        let setup = self.setup();
        let mut kept = None;
        for standing in standings.iter_mut().filter(|standing| standing.disabled.is_none()) {
            let Some(document) = &standing.document else { continue };
            if document.execution_mode == ExecutionMode::Local {
                continue;
            }
            let kept = kept.get_or_insert_with(|| kept_contracts(&setup.config, &setup.loader));
            let wanted = document.adapter_id.as_deref().unwrap_or_default();
            if !kept.contains(wanted) {
                standing.unavailable = Some(lacking_adapter(wanted));
            }
        }
    }
}

/// Returns the ids of the contracts that adapters keep. An adapter without an id in the configuration has that of its
/// kind, as the SDK suggests; what is really loaded is known to a daemon alone.
fn kept_contracts(config: &ConfigFile, loader: &Loader) -> BTreeSet<String> {
    let mut kept: BTreeSet<String> =
        config.adapters.iter().filter_map(|entry| contract_of(entry, loader)).collect();
    // Without a configuration, a daemon loads the adapters beside it.
    if config.discovers() || (config.source.is_none() && config.adapters.is_empty()) {
        let kinds = check::list(loader).into_iter().filter_map(|listed| listed.manifest);
        kept.extend(kinds.map(|manifest| manifest.kind));
    }
    kept
}

fn contract_of(entry: &AdapterEntry, loader: &Loader) -> Option<String> {
    let configured = entry.config.get("adapter_id").and_then(Value::as_str);
    let id = entry.interface.as_deref().or(entry.id.as_deref()).or(configured);
    match id.filter(|id| !id.is_empty()) {
        Some(id) => Some(id.to_owned()),
        None => kind_of(&entry.factory_ref, loader),
    }
}

/// Returns the kind of an adapter by its manifest, without running anything.
fn kind_of(factory_ref: &str, loader: &Loader) -> Option<String> {
    let function = FactoryRef::parse(factory_ref).ok()?.function().to_owned();
    let factories = Loader::factories(&loader.find(factory_ref)?).ok()?;
    let record = factories.into_iter().find(|record| record.factory == function)?;
    Some(ManifestView::read(&record.manifest?).kind)
}
