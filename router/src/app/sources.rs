//! What adapters may ask the router to fetch for them: held to the adapters and the contracts that there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use nexus_router_sdk::Capability;

use super::error::Error;
use crate::config::{AdapterEntry, SourceEntry};
use crate::policy::{Act, Law};
use crate::registry::Registry;

/// The sources of adapters, by the ids of those who ask.
pub(super) type Sources = BTreeMap<String, Arc<[SourceEntry]>>;

/// Returns the sources of adapters. Roles and contracts are in the law already.
pub(super) fn of<'a>(
    members: impl Iterator<Item = (&'a str, &'a AdapterEntry)>,
    registry: &Registry,
    law: &Law,
) -> Result<Sources, Error> {
    let mut sources = Sources::new();
    for (adapter_id, entry) in members.filter(|(_, entry)| !entry.sources.is_empty()) {
        for source in &entry.sources {
            check(source, registry, law).map_err(|why| Error::Source {
                adapter_id: adapter_id.to_owned(),
                source_name: source.name.clone(),
                why,
            })?;
        }
        sources.insert(adapter_id.to_owned(), entry.sources.clone().into());
    }
    Ok(sources)
}

/// Refuses a source that could never answer, or that would do more than answer.
fn check(source: &SourceEntry, registry: &Registry, law: &Law) -> Result<(), String> {
    let SourceEntry { adapter, tool, method, .. } = source;
    let target = registry.find_available(adapter).map_err(|_| {
        let known: Vec<&str> = registry.adapters().map(|one| one.adapter_id()).collect();
        format!("there is no adapter '{adapter}'; there are {}", known.join(", "))
    })?;
    // Calls of an adapter that is not available fail; it is checked when it is loaded.
    let Some(target) = target else { return Ok(()) };
    if let Some(role) = law.roles.get(adapter) {
        return Err(format!(
            "adapter '{adapter}' answers as a {}, and no role calls another; name the adapter that has \
             the documents",
            role.name()
        ));
    }
    if !target.capabilities().contains(&Capability::Apply) {
        return Err(format!("adapter '{adapter}' does not declare apply, so it is never called"));
    }
    let act = Act { adapter_id: adapter, tool, method };
    match (law.interfaces.get(adapter), law.operation(act)) {
        (Some(keeping), None) => Err(format!(
            "adapter '{adapter}' keeps the contract {}, which has no operation {tool}.{method}",
            keeping.interface_id
        )),
        (_, Some(operation)) if !operation.read_only => Err(format!(
            "{tool}.{method} of adapter '{adapter}' is not read_only by its contract, and a scout \
             changes nothing"
        )),
        _ => Ok(()),
    }
}
