//! The adapters that a configuration wants, with the state that each has before anything is loaded.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::error::Error;
use super::fleet::{Fleet, Member};
use super::slot::{AdapterOrigin, AdapterSlot, LoadFailure, SlotState, WantedAdapter};
use crate::check;
use crate::config::{AdapterEntry, ConfigFile, Offer, Workers};
use crate::loader::{Adapter, AdapterLoadError, Loader, Placement, Reason};
use crate::secret::Secrets;

/// Lists the adapters that a configuration and a command line want.
pub(super) fn wanted(
    config: &ConfigFile,
    named: &[AdapterEntry],
    resolve: impl Fn(&AdapterEntry) -> Result<Value, Error>,
) -> Result<Vec<WantedAdapter>, Error> {
    let entries: Vec<&AdapterEntry> = named.iter().chain(&config.adapters).collect();
    let wanted = entries.iter().enumerate().map(|(index, entry)| {
        let mut placement = Placement::of(entry, &config.workers);
        // An adapter that asks it is rejected as well, and has to be there for that.
        placement.rejects_unconfined |= is_asked(&entries, entry);
        let config_of_it = resolve(entry)?;
        let mut entry = (*entry).clone();
        let origin = match index < named.len() {
            true => AdapterOrigin::Named,
            false => AdapterOrigin::Configured,
        };
        // Without a configuration file, the command line is all that the operator says.
        if origin == AdapterOrigin::Named && config.source.is_none() {
            entry.offer = Offer::everything();
        }
        Ok(WantedAdapter { entry, placement, config: config_of_it, origin })
    });
    wanted.collect()
}

/// Returns whether an adapter is a source of another.
fn is_asked(entries: &[&AdapterEntry], entry: &AdapterEntry) -> bool {
    let Some(id) = entry.id.as_deref() else { return false };
    entries.iter().any(|asking| asking.sources.iter().any(|source| source.adapter == id))
}

/// Gives every wanted adapter its state: ready if it is in force already, failed if the same library failed before, and
/// loading otherwise. Adapters that are part of the router are loaded at once: they have no library.
pub(super) fn slots(
    wanted: Vec<WantedAdapter>,
    loader: &Loader,
    before: Option<&Fleet>,
    secrets: &Secrets,
) -> Result<Vec<AdapterSlot>, Error> {
    let slot = |wanted: WantedAdapter| {
        if Adapter::is_built_in(&wanted.entry.factory_ref) {
            let known = same(loader, before, &wanted);
            let adapter = known.map_or_else(|| wanted.load(loader), Ok);
            let adapter = adapter.map_err(|error| super::fleet::without(secrets, &error))?;
            let member = wanted.member(adapter);
            return Ok(AdapterSlot::new(wanted, SlotState::Ready(member)));
        }
        Ok(slot(wanted, loader, before))
    };
    wanted.into_iter().map(slot).collect()
}

fn slot(wanted: WantedAdapter, loader: &Loader, before: Option<&Fleet>) -> AdapterSlot {
    if let Some(adapter) = same(loader, before, &wanted) {
        let member = wanted.member(adapter);
        return AdapterSlot::new(wanted, SlotState::Ready(member));
    }
    let known = before.and_then(|before| known_failure(before, loader, &wanted));
    let former = before.and_then(|before| former(before, &wanted));
    let mut slot = match known {
        Some((failure, since)) => AdapterSlot { since, ..failed(wanted, failure) },
        None => AdapterSlot::new(wanted, SlotState::Loading),
    };
    slot.former = former;
    slot
}

fn failed(wanted: WantedAdapter, failure: Arc<LoadFailure>) -> AdapterSlot {
    AdapterSlot::new(wanted, SlotState::Failed(failure))
}

/// Returns the adapter that was made of the same bytes in the same way, and runs in the same place.
fn same(loader: &Loader, before: Option<&Fleet>, wanted: &WantedAdapter) -> Option<Adapter> {
    let ready = before?.slots.iter().filter_map(|slot| slot.member());
    let mut ready = ready.filter(|member| member.wanted(wanted.origin).is_same_load(wanted));
    let member = ready.next()?;
    let now = loader.digest(&wanted.request()).ok()?;
    (member.adapter.digest() == now).then(|| member.adapter.clone())
}

/// Returns the failure of the same library with the same configuration, if another trial is in vain.
fn known_failure(
    before: &Fleet,
    loader: &Loader,
    wanted: &WantedAdapter,
) -> Option<(Arc<LoadFailure>, crate::clock::Timestamp)> {
    let same = before.slots.iter().find(|slot| slot.wanted.is_same_load(wanted))?;
    let failure = same.failure().filter(|failure| failure.is_of_library())?;
    let now = loader.digest(&wanted.request()).ok()?;
    (failure.digest == now).then(|| (Arc::clone(failure), same.since))
}

/// Returns the adapter that was in force in the place of a wanted one. It keeps what it was made of, and gets what the
/// router does with it from the new entry.
fn former(before: &Fleet, wanted: &WantedAdapter) -> Option<Box<Member>> {
    let in_force = before.slots.iter().filter_map(|slot| Some((slot, slot.member()?)));
    let mut in_force = in_force.filter(|(slot, member)| match wanted.known_id() {
        Some(id) => member.adapter.adapter_id() == id,
        None => {
            slot.wanted.known_id().is_none()
                && slot.wanted.entry.factory_ref == wanted.entry.factory_ref
        }
    });
    let (_, member) = in_force.next()?;
    let AdapterEntry { factory_ref, id, config, pin, isolation, .. } = &member.entry;
    let AdapterEntry { processes, memory, grants, .. } = &member.entry;
    let entry = AdapterEntry {
        factory_ref: factory_ref.clone(),
        id: id.clone(),
        config: config.clone(),
        pin: *pin,
        isolation: *isolation,
        processes: *processes,
        memory: *memory,
        grants: grants.clone(),
        ..wanted.entry.clone()
    };
    Some(Box::new(Member { entry, ..member.clone() }))
}

/// Lists the adapters on the adapter path, without running any of them.
pub(super) fn discover(
    loader: &Loader,
    before: Option<&Fleet>,
    workers: &Workers,
) -> Vec<AdapterSlot> {
    let mut slots: Vec<AdapterSlot> = Vec::new();
    for listed in check::list(loader).into_iter().filter(|listed| listed.path.is_some()) {
        let entry = AdapterEntry {
            factory_ref: listed.factory_ref.clone(),
            offer: Offer::everything(),
            ..AdapterEntry::default()
        };
        let placement = Placement::of(&entry, workers);
        let config = Value::Object(serde_json::Map::new());
        let origin = AdapterOrigin::Discovered;
        let wanted = WantedAdapter { entry, placement, config, origin };
        match listed.problem {
            None => slots.push(slot(wanted, loader, before)),
            Some(problem) => slots.extend(unreadable(&wanted, problem, loader, before)),
        }
    }
    slots
}

/// A file that cannot be read is listed as the module, without its factories. Those that were in force go on.
fn unreadable(
    wanted: &WantedAdapter,
    problem: AdapterLoadError,
    loader: &Loader,
    before: Option<&Fleet>,
) -> Vec<AdapterSlot> {
    let failure = wanted.failure(problem, wanted.digest(loader));
    let module = format!("{}:", wanted.entry.factory_ref);
    let known = before.into_iter().flat_map(|before| &before.slots);
    let known = known.filter(|slot| {
        let factory_ref = &slot.wanted.entry.factory_ref;
        let meant = *factory_ref == wanted.entry.factory_ref || factory_ref.starts_with(&module);
        slot.wanted.origin == AdapterOrigin::Discovered && meant
    });
    let formers: Vec<AdapterSlot> = known
        .filter_map(|slot| {
            let former = Some(Box::new(slot.member()?.clone()));
            Some(AdapterSlot { former, ..failed(slot.wanted.clone(), Arc::clone(&failure)) })
        })
        .collect();
    match formers.is_empty() {
        true => vec![failed(wanted.clone(), failure)],
        false => formers,
    }
}

/// Gives ids that several adapters claim to one of them. Of discovered adapters the first one on the path has it; an
/// adapter that was in force goes when another one has its id.
pub(super) fn settle_ids(slots: &mut [AdapterSlot], loader: &Loader) {
    let ready = |slot: &AdapterSlot| match &slot.state {
        SlotState::Ready(member) => Some(member.adapter.adapter_id().to_owned()),
        SlotState::Loading | SlotState::Failed(_) => None,
    };
    let mut taken = BTreeSet::new();
    for slot in slots.iter_mut() {
        let Some(id) = ready(slot) else { continue };
        if taken.contains(&id) && slot.wanted.origin == AdapterOrigin::Discovered {
            let why = format!("there is another adapter '{id}'");
            let error =
                AdapterLoadError::new(&slot.wanted.entry.factory_ref, Reason::ConfigInvalid, why);
            let error = error.with_hint("list both in router.toml, each with an id of its own");
            let failure = slot.wanted.failure(error, slot.wanted.digest(loader));
            let failure = LoadFailure { needs_config: false, ..(*failure).clone() };
            slot.set(SlotState::Failed(Arc::new(failure)));
        }
        taken.insert(id);
    }
    for slot in slots.iter_mut() {
        let of_former = slot.former.as_ref().map(|member| member.adapter.adapter_id().to_owned());
        if let Some(id) = of_former
            && !taken.insert(id)
        {
            slot.former = None;
        }
    }
}
