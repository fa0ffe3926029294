//! The adapters of a router, loaded as the operator says, with the tools and the law that go with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;

use super::catalogues::{self, Gathered};
use super::contracts::{Contracts, keepings};
use super::error::Error;
use super::{boundary, signals, sources};
use crate::check;
use crate::config::{self, AdapterEntry, ConfigFile, Offer, Workers};
use crate::grant::Isolation;
use crate::loader::{
    Adapter, AdapterLoadError, LoadRequest, Loader, Notice, NoticeSink, Placement,
};
use crate::policy::{Law, Offering};
use crate::registry::Registry;
use crate::role::Role;
use crate::secret::{Secrets, secret_values};
use crate::toolspec::Tools;

/// What is kept out of the texts of adapters. Shared with every adapter that was ever loaded, because one
/// of them may tell later what another was given.
pub(super) type Hidden = Arc<RwLock<Secrets>>;

/// Loaded adapters.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) registry: Registry,
    pub(super) secrets: Secrets,
    pub(super) tools: Tools,
    pub(super) law: Law,
    /// Calls at once and time per call, for adapters that have their own.
    pub(super) limits: BTreeMap<String, (Option<usize>, Option<Duration>)>,
    pub(super) gathered: Gathered,
    /// The contracts and the registered tools.
    pub(super) contracts: Arc<Contracts>,
    members: Vec<Member>,
    /// Adapters beside the program that were not loaded, and why.
    pub(super) passed_over: Vec<PassedOver>,
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
struct Member {
    entry: AdapterEntry,
    /// What held for it when it was made.
    placement: Placement,
    config: Value,
    adapter: Adapter,
}

impl Member {
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are not there any more.
    pub removed: Vec<String>,
    /// Those that were made anew: other bytes, or another configuration.
    pub replaced: Vec<String>,
    /// Those that stayed as they are.
    pub kept: Vec<String>,
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

/// What adapters are loaded for, besides where they come from.
type Asked<'a> = (&'a ConfigFile, &'a [AdapterEntry], Arc<Contracts>);

impl Fleet {
    /// Loads the adapters of a configuration, and those that are named besides. The built-in one is always
    /// there. What was loaded before and is the same now stays.
    pub(super) fn load(
        sources: Sources<'_>,
        contracts: Arc<Contracts>,
        before: Option<&Self>,
    ) -> Result<Self, Error> {
        let Sources { loader, config, named, discover, hidden } = sources;
        let secrets = Secrets::from_sources(&config.secret_sources(), config::variable)
            .map_err(|source| Error::Secret { place: "router.toml".to_owned(), source })?;
        let wanted: Vec<(&AdapterEntry, Value)> = named
            .iter()
            .chain(&config.adapters)
            .map(|entry| Ok((entry, resolved(entry, &secrets)?)))
            .collect::<Result<_, Error>>()?;
        // All of them, before the first one is loaded: one adapter may tell what another was given.
        let given = wanted.iter().filter_map(|(_, config)| config.as_object());
        let secrets = secrets.with_hidden_values(given.flat_map(secret_values));
        let loader = Loader { notices: scrubbed(&loader.notices, hidden), ..loader.clone() };
        // What adapters say while they are made must be free of the new secrets already, and adapters that
        // are replaced may still be carrying out a call with the old ones.
        let former = hide(hidden, |former| secrets.clone().with_values_of(former));
        let asked = (config, named, contracts);
        let fleet = Self::assemble(asked, &loader, &wanted, secrets, (discover, before));
        fleet.inspect_err(|_| drop(hide(hidden, |_| former)))
    }

    fn assemble(
        (config, named, contracts): Asked<'_>,
        loader: &Loader,
        wanted: &[(&AdapterEntry, Value)],
        secrets: Secrets,
        (discover, before): (bool, Option<&Self>),
    ) -> Result<Self, Error> {
        let all = &config.workers;
        let loaded = wanted.iter().enumerate().map(|(index, (entry, settings))| {
            let mut placement = Placement::of(entry, all);
            // Whoever asks it is rejected as well, and is to be there for that.
            placement.rejects_unconfined |= is_asked(wanted, entry);
            let adapter = same(loader, before, (entry, &placement), settings)
                .map_or_else(|| load(loader, (entry, &placement), settings), Ok);
            let adapter = adapter.map_err(|error| without(&secrets, &error))?;
            let mut entry = (*entry).clone();
            // Without a configuration file, the command line is all that the operator says.
            if index < named.len() && config.source.is_none() {
                entry.offer = Offer::everything();
            }
            Ok(Member { entry, placement, config: settings.clone(), adapter })
        });
        let mut members = loaded.collect::<Result<Vec<Member>, Error>>()?;
        let mut passed_over = Vec::new();
        if discover && members.is_empty() {
            (members, passed_over) = beside(loader, before, all);
        }
        let limits = members.iter().map(|member| {
            let Member { entry, adapter, .. } = member;
            (adapter.adapter_id().to_owned(), (entry.calls, entry.timeout))
        });
        let limits = limits.filter(|(_, own)| *own != (None, None)).collect();
        let mut registry = Registry::new(default_adapter(config, named, &members));
        registry.register(Adapter::null())?;
        for Member { adapter, .. } in &members {
            // The built-in one is there already, and there is only one of it.
            if adapter.factory_ref() != Adapter::NULL_REF {
                registry.register(adapter.clone())?;
            }
        }
        registry.get_default()?;
        let known = before.map(|before| &before.gathered);
        let gathered =
            catalogues::gather(members.iter().map(|member| &member.adapter), known, &secrets);
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
        law.interfaces = keepings(&contracts, kept, before.map(|before| &before.law))?;
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
            passed_over,
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

    /// Lists the ids of the adapters, in the order of the configuration.
    pub(super) fn adapter_ids(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.adapter.adapter_id())
    }

    /// Lists the refs of the libraries that are loaded, each once.
    pub(super) fn libraries(&self) -> Vec<&str> {
        let refs = self.members.iter().map(|member| member.entry.factory_ref.as_str());
        let refs: BTreeSet<&str> = refs.filter(|one| !Adapter::is_built_in(one)).collect();
        refs.into_iter().collect()
    }

    /// Says whether a ref would be loaded from other bytes now.
    pub(super) fn is_outdated(
        &self,
        loader: &Loader,
        factory_ref: &str,
    ) -> Result<bool, AdapterLoadError> {
        let mut outdated = false;
        for member in self.members.iter().filter(|one| one.entry.factory_ref == factory_ref) {
            let now = loader.digest(&load_request(&member.entry, &member.config));
            let now = now.map_err(|error| without(&self.secrets, &error))?;
            outdated |= member.adapter.digest() != now;
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

/// Says whether an adapter is a source of another.
fn is_asked(wanted: &[(&AdapterEntry, Value)], entry: &AdapterEntry) -> bool {
    let Some(id) = entry.id.as_deref() else { return false };
    wanted.iter().any(|(asking, _)| asking.sources.iter().any(|source| source.adapter == id))
}

fn load_request<'a>(entry: &'a AdapterEntry, config: &'a Value) -> LoadRequest<'a> {
    LoadRequest {
        factory_ref: &entry.factory_ref,
        adapter_id: entry.id.as_deref(),
        config,
        pin: entry.pin,
    }
}

fn load(
    loader: &Loader,
    (entry, placement): (&AdapterEntry, &Placement),
    config: &Value,
) -> Result<Adapter, AdapterLoadError> {
    let loader = Loader { placement: placement.clone(), ..loader.clone() };
    loader.load(&load_request(entry, config))
}

/// Returns the adapter that was made of the same bytes in the same way, and runs in the same place.
fn same(
    loader: &Loader,
    before: Option<&Fleet>,
    (entry, placement): (&AdapterEntry, &Placement),
    config: &Value,
) -> Option<Adapter> {
    let inline = |placement: &Placement| placement.isolation == Isolation::Inline;
    let member = before?.members.iter().find(|member| {
        let AdapterEntry { factory_ref, id, pin, .. } = &member.entry;
        // What runs here has no process of its own that anything else could hold for.
        let same_place =
            member.placement == *placement || inline(&member.placement) && inline(placement);
        (factory_ref, id, pin) == (&entry.factory_ref, &entry.id, &entry.pin)
            && member.config == *config
            && same_place
    })?;
    let now = loader.digest(&load_request(entry, config)).ok()?;
    (member.adapter.digest() == now).then(|| member.adapter.clone())
}

/// Loads what can be loaded without a configuration, and tells what cannot.
fn beside(
    loader: &Loader,
    before: Option<&Fleet>,
    all: &Workers,
) -> (Vec<Member>, Vec<PassedOver>) {
    let (mut members, mut passed_over) = (Vec::<Member>::new(), Vec::new());
    let nothing = Value::Object(serde_json::Map::new());
    // One that was discovered stays when its library cannot be used any more. A file that cannot be read at
    // all is listed as the module, without its factories.
    let mut pass_over = |members: &mut Vec<Member>, one: PassedOver| {
        let PassedOver { factory_ref: listed, why, .. } = &one;
        let module = format!("{listed}:");
        for known in before.into_iter().flat_map(|before| &before.members) {
            let Member { entry, config, adapter, .. } = known;
            let discovered = entry.id.is_none() && entry.pin.is_none() && *config == nothing;
            let meant = entry.factory_ref == *listed || entry.factory_ref.starts_with(&module);
            let taken = |one: &Member| one.adapter.adapter_id() == adapter.adapter_id();
            if discovered && meant && !members.iter().any(taken) {
                tracing::warn!(listed, why, "the new library is refused; the old one stays");
                members.push(known.clone());
            }
        }
        passed_over.push(one);
    };
    for listed in check::list(loader).into_iter().filter(|listed| listed.path.is_some()) {
        let factory_ref = listed.factory_ref.clone();
        let because = |why: String| PassedOver { factory_ref, why, needs_config: false };
        if let Some(problem) = listed.problem {
            pass_over(&mut members, because(problem.to_string()));
            continue;
        }
        let (factory_ref, offer) = (listed.factory_ref.clone(), Offer::everything());
        let entry = AdapterEntry { factory_ref, offer, ..Default::default() };
        let config = Value::Object(serde_json::Map::new());
        let placement = Placement::of(&entry, all);
        let known = same(loader, before, (&entry, &placement), &config);
        match known.map_or_else(|| load(loader, (&entry, &placement), &config), Ok) {
            Ok(adapter) => {
                let taken = |member: &Member| member.adapter.adapter_id() == adapter.adapter_id();
                if members.iter().any(taken) {
                    let why = format!("there is another adapter '{}'", adapter.adapter_id());
                    pass_over(&mut members, because(why));
                } else {
                    members.push(Member { entry, placement, config, adapter });
                }
            }
            Err(error) => {
                let needs_config = error.wants_other_config();
                pass_over(&mut members, PassedOver { needs_config, ..because(error.to_string()) });
            }
        }
    }
    (members, passed_over)
}

/// Chooses the adapter of steps that name none: the first that was named for this very use, the one that
/// the configuration says, its only one, or the built-in one.
fn default_adapter(config: &ConfigFile, named: &[AdapterEntry], loaded: &[Member]) -> String {
    let id = |member: &Member| member.adapter.adapter_id().to_owned();
    let chosen = match (named, loaded) {
        ([_, ..], [first, ..]) => Some(id(first)),
        _ => config.default_adapter.clone().or_else(|| match loaded {
            [one] => Some(id(one)),
            _ => None,
        }),
    };
    chosen.unwrap_or_else(|| Adapter::null().adapter_id().to_owned())
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
fn without(secrets: &Secrets, error: &AdapterLoadError) -> AdapterLoadError {
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
