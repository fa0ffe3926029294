//! The adapters of a router, loaded as the operator says, with the tools and the law that go with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;

use super::catalogues::{self, FreshCatalogs, Gathered};
use super::contracts::{Contracts, keepings};
use super::error::Error;
use super::slot::{AdapterOrigin, AdapterSlot, LoadFailure, SlotState, WantedAdapter};
use super::{boundary, loading, plan, signals, sources, trials};
use crate::config::{self, AdapterEntry, ConfigFile, Offer};
use crate::loader::{Adapter, AdapterLoadError, Loader, Notice, NoticeSink, Placement};
use crate::policy::{Law, Offering};
use crate::registry::Registry;
use crate::role::Role;
use crate::secret::{Secrets, secret_values};
use crate::toolspec::Tools;

/// What is kept out of the texts of adapters. Shared with every adapter that was ever loaded, because one
/// of them may tell later what another was given.
pub(super) type Hidden = Arc<RwLock<Secrets>>;

/// Calls at once, time per call, and whether there is a circuit breaker, of an adapter that has its own.
type OwnLimits = (Option<usize>, Option<Duration>, Option<bool>);

/// Loaded adapters.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) registry: Registry,
    pub(super) secrets: Secrets,
    pub(super) tools: Tools,
    pub(super) law: Law,
    /// Calls at once and time per call, for adapters that have their own.
    pub(super) limits: BTreeMap<String, OwnLimits>,
    pub(super) gathered: Gathered,
    /// The contracts and the registered tools.
    pub(super) contracts: Arc<Contracts>,
    members: Vec<Member>,
    /// All adapters that the operator wants.
    pub(super) slots: Vec<AdapterSlot>,
    /// Whether the adapter path is still to be searched.
    pub(super) discovering: bool,
}

/// An adapter beside the program that was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// What would load it.
    pub factory_ref: String,
    /// Why it was not.
    pub why: String,
    /// Whether it would be with a configuration.
    pub needs_config: bool,
}

/// A loaded adapter with what it was made of.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) entry: AdapterEntry,
    /// What held for it when it was made.
    pub(super) placement: Placement,
    pub(super) config: Value,
    pub(super) adapter: Adapter,
}

impl Member {
    /// Returns the adapter that was wanted when it was made.
    pub(super) fn wanted(&self, origin: AdapterOrigin) -> WantedAdapter {
        let Self { entry, placement, config, .. } = self.clone();
        WantedAdapter { entry, placement, config, origin }
    }

    fn listed(&self) -> (&Adapter, &AdapterEntry) {
        (&self.adapter, &self.entry)
    }

    /// Returns what its operations would be called if callers saw all of them.
    fn offering(&self) -> Option<(String, Offering)> {
        let Offer { prefix, action_class, .. } = &self.entry.offer;
        let offering = Offering { prefix: prefix.clone(), action_class: *action_class };
        let anything = !prefix.is_empty() || action_class.is_some();
        anything.then(|| (self.adapter.adapter_id().to_owned(), offering))
    }
}

/// What a reload did to the adapters, by id.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
    /// Those that were made anew: other bytes, or another configuration.
    pub replaced: Vec<String>,
    /// Those that stayed as they are.
    pub kept: Vec<String>,
    /// Those that failed to load. Where one was in force before, that stays.
    pub failed: Vec<Arc<LoadFailure>>,
}

/// Where adapters come from.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) loader: &'a Loader,
    pub(super) config: &'a ConfigFile,
    pub(super) named: &'a [AdapterEntry],
    /// Take what is beside the program when nobody says which adapters there are.
    pub(super) discover: bool,
    pub(super) hidden: &'a Hidden,
}

/// When adapters are loaded that are not in force yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadMode {
    /// At once; the caller waits.
    Now,
    /// In the background, by the thread of the service.
    Later,
}

/// Adapters with their states, of which a fleet is assembled.
pub(super) struct FleetParts {
    pub(super) slots: Vec<AdapterSlot>,
    pub(super) discovering: bool,
    /// The catalogues that adapters returned when they were loaded.
    pub(super) catalogs: FreshCatalogs,
    /// Whether adapters are asked again whose catalogue is known.
    pub(super) asks_all: bool,
}

/// What adapters are loaded for, besides where they come from.
pub(super) type Asked<'a> = (&'a ConfigFile, &'a [AdapterEntry], Arc<Contracts>);

impl Fleet {
    /// Makes the adapters of a configuration, and those that are named besides. The built-in one is always
    /// there. What was loaded before and is the same now stays.
    pub(super) fn load(
        sources: Sources<'_>,
        contracts: Arc<Contracts>,
        (before, mode): (Option<&Self>, LoadMode),
    ) -> Result<Self, Error> {
        let Sources { loader, config, named, discover, hidden } = sources;
        let secrets = Secrets::from_sources(&config.secret_sources(), config::variable)
            .map_err(|source| Error::Secret { place: "router.toml".to_owned(), source })?;
        let wanted = plan::wanted(config, named, |entry| resolved(entry, &secrets))?;
        // All of them, before the first one is loaded: one adapter may tell what another was given.
        let given = wanted.iter().filter_map(|one| one.config.as_object());
        let secrets = secrets.with_hidden_values(given.flat_map(secret_values));
        // What adapters say while they are made must be free of the new secrets already, and adapters that
        // are replaced may still be carrying out a call with the old ones.
        let former = hide(hidden, |former| secrets.clone().with_values_of(former));
        let loaded = (|| {
            let loader = scrubbing(loader, hidden);
            let mut slots = plan::slots(wanted, &loader, before, &secrets)?;
            let discover = discover && slots.is_empty();
            let mut discovering = false;
            let mut catalogs = FreshCatalogs::new();
            match mode {
                LoadMode::Later => {
                    discovering = discover;
                    if let Some(before) = before.filter(|_| discover) {
                        slots.clone_from(&before.slots);
                        slots.retain(|slot| slot.wanted.origin == AdapterOrigin::Discovered);
                    }
                }
                LoadMode::Now => {
                    if discover {
                        slots = plan::discover(&loader, before, &config.workers);
                    }
                    let loading = slots.iter().filter(|slot| slot.is_loading());
                    let loading = loading.map(|slot| slot.wanted.clone()).collect();
                    let outcomes = trials::run_all(&loader, loading, config.workers.load_timeout);
                    catalogs = loading::apply(&mut slots, outcomes, &loader, &secrets);
                }
            }
            let parts = FleetParts { slots, discovering, catalogs, asks_all: true };
            Self::assemble((config, named, contracts), &loader, secrets, before, parts)
        })();
        loaded.inspect_err(|_| drop(hide(hidden, |_| former)))
    }

    /// Makes tools, rules and the registry of adapters whose states are known.
    pub(super) fn assemble(
        (config, named, contracts): Asked<'_>,
        loader: &Loader,
        secrets: Secrets,
        before: Option<&Self>,
        FleetParts { mut slots, discovering, catalogs, asks_all }: FleetParts,
    ) -> Result<Self, Error> {
        plan::settle_ids(&mut slots, loader);
        let members: Vec<Member> = slots.iter().filter_map(|slot| slot.member().cloned()).collect();
        let limits = members.iter().map(|member| {
            let Member { entry, adapter, .. } = member;
            let own = (entry.calls, entry.timeout, entry.breaker);
            (adapter.adapter_id().to_owned(), own)
        });
        let limits = limits.filter(|(_, own)| *own != (None, None, None)).collect();
        let mut registry = Registry::new(Adapter::null().adapter_id());
        registry.register(Adapter::null())?;
        for Member { adapter, .. } in &members {
            // The built-in one is there already, and there is only one of it.
            if adapter.factory_ref() != Adapter::NULL_REF {
                registry.register(adapter.clone())?;
            }
        }
        let tools_of =
            || config.tools.iter().map(|tool| (tool.name.as_str(), tool.adapter.as_str()));
        let unavailable = slots.iter().filter_map(|slot| slot.unavailable(tools_of()));
        unavailable.for_each(|one| registry.add_unavailable(one));
        if discovering {
            registry.expect_more();
        }
        registry.set_default(default_adapter(config, named, &slots, discovering));
        registry.check_default()?;
        let known = before.map(|before| &before.gathered);
        let adapters = members.iter().map(|member| &member.adapter);
        let gathered = catalogues::gather(adapters, known, (catalogs, asks_all), &secrets);
        // What is registered comes first: nobody takes its name.
        let mut tools = Tools::default();
        for standing in &contracts.tools {
            let wanted = standing.document.as_ref().and_then(|it| it.adapter_id.as_deref());
            let keeper = wanted.and_then(|wanted| {
                let interface = contracts.interfaces.get(wanted)?;
                Some((interface, keeper(&members, wanted)?))
            });
            tools.register(standing, keeper);
        }
        let trust =
            |adapter_id: &str| boundary::trust(members.iter().map(Member::listed), adapter_id);
        tools.configure(&config.tools, &registry, &gathered.catalogs, trust)?;
        for Member { entry, adapter, .. } in &members {
            if let Some(catalog) = gathered.catalogs.get(adapter.adapter_id()) {
                tools.offer(adapter, &entry.offer, catalog, trust(adapter.adapter_id()));
            }
        }
        let mut law = Law::new(&config.policy, tools.classes());
        boundary::set_boundary(&mut law, members.iter().map(Member::listed), &tools, &gathered);
        let kept = members
            .iter()
            .map(|member| (member.adapter.adapter_id(), member.entry.interface.as_deref()));
        let of_adapters = keepings(&contracts, kept, before.map(|before| &before.law))?;
        (law.interfaces, law.unusable) = (of_adapters.kept, of_adapters.unusable);
        let judged = members.iter().map(|member| (member.adapter.adapter_id(), &member.entry));
        let law_before = before.map(|before| &before.law);
        law.signals = signals::judges(contracts.signals.as_ref(), config, judged, law_before)?;
        let role = |member: &Member| {
            let envoy = member.adapter.envoy().map(|_| Role::Envoy);
            Some((member.adapter.adapter_id().to_owned(), envoy.or(member.entry.role)?))
        };
        law.roles = members.iter().filter_map(role).collect();
        let asking = members.iter().map(|member| (member.adapter.adapter_id(), &member.entry));
        law.sources = sources::of(asking, &registry, &law)?;
        law.secrets = config.secret_bindings();
        law.contract_required = config.contracts.required;
        law.outputs = config.contracts.outputs;
        law.contracts = tools.contracts();
        law.hints = tools.hints();
        law.names = tools.names();
        law.unknown.clone_from(&gathered.unknown);
        law.offers = members.iter().filter_map(Member::offering).collect();
        Ok(Self {
            registry,
            secrets,
            tools,
            law,
            limits,
            gathered,
            contracts,
            members,
            slots,
            discovering,
        })
    }

    /// Returns the workspaces, each with the id of its adapter.
    pub(super) fn workspaces(&self) -> impl Iterator<Item = (&str, &Path)> {
        let adapters = self.members.iter().map(|member| &member.adapter);
        adapters.filter_map(|adapter| Some((adapter.adapter_id(), adapter.envoy()?.workspace())))
    }

    /// Returns the adapter that keeps a contract.
    pub(super) fn keeper(&self, interface_id: &str) -> Option<&Adapter> {
        keeper(&self.members, interface_id)
    }

    /// Returns the id of each adapter of the configuration, where it is known.
    pub(super) fn configured_ids(&self) -> Vec<Option<String>> {
        let configured = |slot: &&AdapterSlot| slot.wanted.origin == AdapterOrigin::Configured;
        let id = |slot: &AdapterSlot| match slot.member() {
            Some(member) => Some(member.adapter.adapter_id().to_owned()),
            None => slot.wanted.known_id().map(str::to_owned),
        };
        self.slots.iter().filter(configured).map(id).collect()
    }

    /// Returns whether all adapters serve that the operator names.
    pub(super) fn has_all(&self) -> bool {
        let named = |slot: &&AdapterSlot| slot.wanted.origin != AdapterOrigin::Discovered;
        !self.discovering && self.slots.iter().filter(named).all(|slot| slot.member().is_some())
    }

    /// Returns whether an adapter is being loaded.
    pub(super) fn is_loading(&self) -> bool {
        self.discovering || self.slots.iter().any(AdapterSlot::is_loading)
    }

    /// Lists the adapters on the adapter path that were not loaded, and why.
    pub(super) fn passed_over(&self) -> Vec<PassedOver> {
        let discovered = |slot: &&AdapterSlot| slot.wanted.origin == AdapterOrigin::Discovered;
        let passed_over = |slot: &AdapterSlot| {
            let failure = slot.failure()?;
            Some(PassedOver {
                factory_ref: slot.wanted.entry.factory_ref.clone(),
                why: failure.error.to_string(),
                needs_config: failure.needs_config,
            })
        };
        self.slots.iter().filter(discovered).filter_map(passed_over).collect()
    }

    /// Lists the refs of the libraries of all adapters, each once. A library that is being loaded is not among them: the
    /// trial decides of which bytes the adapter is made.
    pub(super) fn libraries(&self) -> Vec<&str> {
        let has_library = |slot: &&AdapterSlot| match &slot.state {
            SlotState::Failed(failure) => failure.digest.is_some() || slot.former.is_some(),
            SlotState::Ready(_) => true,
            SlotState::Loading => false,
        };
        let loading = self.slots.iter().filter(|slot| slot.is_loading());
        let loading: BTreeSet<&str> =
            loading.map(|slot| slot.wanted.entry.factory_ref.as_str()).collect();
        let slots = self.slots.iter().filter(has_library);
        let refs = slots.map(|slot| slot.wanted.entry.factory_ref.as_str());
        let refs: BTreeSet<&str> = refs.filter(|one| !Adapter::is_built_in(one)).collect();
        refs.difference(&loading).copied().collect()
    }

    /// Says whether a ref would be loaded from other bytes now.
    pub(super) fn is_outdated(
        &self,
        loader: &Loader,
        factory_ref: &str,
    ) -> Result<bool, AdapterLoadError> {
        let mut outdated = false;
        let meant = |slot: &&AdapterSlot| slot.wanted.entry.factory_ref == factory_ref;
        for slot in self.slots.iter().filter(meant) {
            let now = loader.digest(&slot.wanted.request());
            let now = now.map_err(|error| without(&self.secrets, &error))?;
            outdated |= match &slot.state {
                SlotState::Ready(member) => member.adapter.digest() != now,
                SlotState::Failed(failure) => failure.digest != now,
                SlotState::Loading => false,
            };
        }
        Ok(outdated)
    }

    /// Tells what is different from before.
    pub(super) fn changes_since(&self, before: &Self) -> Changes {
        let find = |fleet: &Self, adapter_id: &str| {
            let mut members = fleet.members.iter().map(|member| member.adapter.clone());
            members.find(|adapter| adapter.adapter_id() == adapter_id)
        };
        let mut changes = Changes::default();
        for Member { adapter, .. } in &self.members {
            let list = match find(before, adapter.adapter_id()) {
                None => &mut changes.added,
                Some(old) if old.is_same_instance(adapter) => &mut changes.kept,
                Some(_) => &mut changes.replaced,
            };
            list.push(adapter.adapter_id().to_owned());
        }
        let gone = before.members.iter().map(|member| member.adapter.adapter_id());
        let gone = gone.filter(|adapter_id| find(self, adapter_id).is_none());
        changes.removed = gone.map(str::to_owned).collect();
        let failed = self.slots.iter().filter_map(AdapterSlot::failure);
        changes.failed = failed.filter(|one| !one.needs_config).cloned().collect();
        changes
    }
}

/// Returns the adapter that keeps a contract: the one of that id, or the first that says so.
fn keeper<'a>(members: &'a [Member], interface_id: &str) -> Option<&'a Adapter> {
    let keeps = |member: &&Member| match &member.entry.interface {
        Some(named) => named == interface_id,
        None => member.adapter.adapter_id() == interface_id,
    };
    members.iter().find(keeps).map(|member| &member.adapter)
}

/// The default adapter while the adapters on the path are not known yet.
const PENDING_DEFAULT: &str = "default";

/// Chooses the adapter of steps that name none: the first that was named for this very use, the one that
/// the configuration says, its only one, or the built-in one.
fn default_adapter(
    config: &ConfigFile,
    named: &[AdapterEntry],
    slots: &[AdapterSlot],
    discovering: bool,
) -> String {
    let id = |slot: &AdapterSlot| match slot.member() {
        Some(member) => member.adapter.adapter_id().to_owned(),
        None => slot.wanted.shown_id(),
    };
    let built_in = || Adapter::null().adapter_id().to_owned();
    if let ([_, ..], [first, ..]) = (named, slots) {
        return id(first);
    }
    if let Some(chosen) = &config.default_adapter {
        return chosen.clone();
    }
    let discovered = |slot: &AdapterSlot| slot.wanted.origin == AdapterOrigin::Discovered;
    match slots {
        _ if discovering => PENDING_DEFAULT.to_owned(),
        [one] if !discovered(one) => id(one),
        [first, ..] if discovered(first) => {
            // Which one it is shows when all are loaded.
            if let Some(loading) = slots.iter().find(|slot| slot.is_loading()) {
                return loading.wanted.shown_id();
            }
            match &slots.iter().filter(|slot| slot.member().is_some()).collect::<Vec<_>>()[..] {
                [one] => id(one),
                _ => built_in(),
            }
        }
        _ => built_in(),
    }
}

/// Returns a loader whose adapters say nothing that is hidden.
pub(super) fn scrubbing(loader: &Loader, hidden: &Hidden) -> Loader {
    Loader { notices: scrubbed(&loader.notices, hidden), ..loader.clone() }
}

/// Returns an adapter's configuration with the secrets that it refers to.
fn resolved(entry: &AdapterEntry, secrets: &Secrets) -> Result<Value, Error> {
    let resolved = secrets.resolve(&entry.config).map_err(|source| {
        let place = format!("the configuration of {}", entry.factory_ref);
        Error::Secret { place, source }
    })?;
    Ok(Value::Object(resolved.to_serde()))
}

/// Takes secrets out of the error of a load, which may repeat what another adapter was given.
pub(super) fn without(secrets: &Secrets, error: &AdapterLoadError) -> AdapterLoadError {
    let scrubbed = AdapterLoadError::new(
        error.factory_ref(),
        error.reason(),
        secrets.scrub(&error.to_string()),
    )
    .with_hint(secrets.without_known(error.hint()))
    .with_known_parameters(error.parameters().map(|parameters| secrets.scrub_value(parameters)));
    let scrubbed = match error.refused_since() {
        Some(since) => scrubbed.remembered_since(since),
        None => scrubbed,
    };
    let scrubbed = if error.is_untried() { scrubbed.untried() } else { scrubbed };
    match error.cause() {
        Some(cause) => scrubbed.caused_by(&cause.cause_type, secrets.scrub(&cause.text)),
        None => scrubbed,
    }
}

/// Hides other secrets from now on, and returns those that were hidden.
fn hide(hidden: &Hidden, other: impl FnOnce(&Secrets) -> Secrets) -> Secrets {
    let mut hidden = hidden.write().unwrap_or_else(PoisonError::into_inner);
    let other = other(&hidden);
    std::mem::replace(&mut hidden, other)
}

/// Returns a sink that passes notices on without what is hidden by then.
fn scrubbed(sink: &NoticeSink, hidden: &Hidden) -> NoticeSink {
    let (sink, hidden) = (Arc::clone(sink), Arc::clone(hidden));
    Arc::new(move |adapter_id, notice| {
        let secrets = hidden.read().unwrap_or_else(PoisonError::into_inner).clone();
        let notice = match notice {
            Notice::Log { level, message, fields, call_id } => Notice::Log {
                level,
                message: secrets.scrub(&message),
                fields: secrets.scrub_object(&fields),
                call_id,
            },
            Notice::Progress { done, total, message, call_id } => {
                Notice::Progress { done, total, message: secrets.scrub(&message), call_id }
            }
            Notice::Output { text, call_id } => {
                Notice::Output { text: secrets.scrub(&text), call_id }
            }
            Notice::CatalogChanged {} => Notice::CatalogChanged {},
            Notice::ResourceUpdated { uri } => Notice::ResourceUpdated { uri: secrets.scrub(&uri) },
        };
        sink(adapter_id, notice);
    })
}
