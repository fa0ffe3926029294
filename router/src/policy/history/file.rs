//! Policy of a configuration file, as far as it is known without loading adapters.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::config::{AdapterEntry, ConfigFile, Offer, Rule, ToolEntry};
use crate::interface::UnusableContract;
use crate::policy::{
    AdapterOffer, Classes, Hint, Hints, Keeping, Key, Law, OfferedOperations, Offering,
};
use crate::role::{ActionClass, Role};

/// The id of the built-in adapter, which every router has.
const BUILT_IN: &str = "null";
/// The most policies of adapters without an id that are kept.
const MAX_VARIANTS: usize = 256;

/// Parts of a policy that are not in the configuration file itself.
#[derive(Debug, Default)]
pub struct PolicyContext {
    /// Interface contracts by the id of the interface.
    pub interfaces: BTreeMap<String, Arc<Keeping>>,
    /// Interface contracts that cannot be used, by the id of the interface.
    pub unusable: BTreeMap<String, UnusableContract>,
    /// Operations behind registered tools.
    pub registered: Vec<RegisteredOperation>,
    /// Roles that tokens have by themselves, by name.
    pub token_roles: BTreeMap<String, Option<Role>>,
    /// Lines of the rules in the file.
    pub rule_lines: Vec<Option<usize>>,
}

/// Operation behind a registered tool.
#[derive(Clone, Debug)]
pub struct RegisteredOperation {
    /// The name of the tool.
    pub name: String,
    /// The interface whose operation it is.
    pub interface_id: String,
    /// The adapter's tool.
    pub tool: String,
    /// The tool's method.
    pub method: String,
    /// The class that the tool spec gives it.
    pub action_class: Option<ActionClass>,
    /// Whether callers get the tool.
    pub is_offered: bool,
}

/// Presence of an adapter in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// An entry has the id, or the adapter is built in.
    Listed,
    /// An entry without an id may be the adapter.
    Possible,
    /// No entry can be the adapter.
    Absent,
}

/// Policy of a configuration file.
#[derive(Debug)]
pub struct PolicyFile {
    /// The policy with the adapters that have an id.
    law: Arc<Law>,
    listed: BTreeMap<String, AdapterEntry>,
    /// Entries that may be an adapter of any id.
    unnamed: Vec<AdapterEntry>,
    configured_roles: BTreeMap<String, Role>,
    context: PolicyContext,
    /// Policies of adapters without an id, by adapter and entry.
    variants: HashMap<(String, usize), Arc<Law>>,
    /// Rules that fit an operation and a token.
    pub(super) fits: HashMap<String, Arc<[usize]>>,
}

impl PolicyFile {
    /// The most operations and tokens whose rules are kept.
    pub(super) const MAX_FITS: usize = 4096;

    /// Takes the policy of a configuration.
    #[must_use]
    pub fn new(config: &ConfigFile, context: PolicyContext) -> Self {
        let mut law = Law::new(&config.policy, classes(&config.tools));
        law.contract_required = config.contracts.required;
        for tool in &config.tools {
            law.names.entry(key(tool)).or_default().push(tool.name.clone());
        }
        law.hints = hints(&config.tools);
        let mut offered = OfferedOperations::default();
        for tool in &config.tools {
            offer_operation(&mut offered, &tool.adapter, (&tool.tool, &tool.method));
        }
        let everything = AdapterOffer { patterns: Offer::everything().tools, ..Default::default() };
        offered.adapters.insert(BUILT_IN.to_owned(), everything);
        law.offered = Some(Arc::new(offered));
        // Other adapters keep the contract of their own id, if there is one.
        law.interfaces.clone_from(&context.interfaces);
        law.unusable.clone_from(&context.unusable);
        let mut unnamed = Vec::new();
        let mut listed = BTreeMap::new();
        for entry in &config.adapters {
            match &entry.id {
                Some(id) => drop(listed.insert(id.clone(), entry.clone())),
                None => unnamed.push(entry.clone()),
            }
        }
        if config.discover && config.adapters.is_empty() {
            let offer = Offer::everything();
            unnamed.push(AdapterEntry { offer, ..AdapterEntry::default() });
        }
        for (id, entry) in &listed {
            add_adapter(&mut law, &context, id, entry);
        }
        let roles = config.tokens.iter().filter_map(|one| Some((one.name.clone(), one.role?)));
        Self {
            law: Arc::new(law),
            listed,
            unnamed,
            configured_roles: roles.collect(),
            context,
            variants: HashMap::new(),
            fits: HashMap::new(),
        }
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.law.rules
    }

    /// Returns the line of a rule in the file, where it is known.
    #[must_use]
    pub fn rule_line(&self, index: usize) -> Option<usize> {
        self.context.rule_lines.get(index).copied().flatten()
    }

    /// Returns whether the configuration has an adapter.
    pub(super) fn presence(&self, adapter_id: &str) -> Presence {
        if adapter_id == BUILT_IN || self.listed.contains_key(adapter_id) {
            Presence::Listed
        } else if self.unnamed.is_empty() {
            Presence::Absent
        } else {
            Presence::Possible
        }
    }

    /// Returns the entries that may be an adapter of any id.
    pub(super) fn unnamed(&self) -> &[AdapterEntry] {
        &self.unnamed
    }

    /// Returns the entry of an adapter: the one that was chosen among those without an id, or the one with its id.
    pub(super) fn entry(&self, adapter_id: &str, unnamed: Option<usize>) -> Option<&AdapterEntry> {
        match unnamed {
            Some(index) => self.unnamed.get(index),
            None => self.listed.get(adapter_id),
        }
    }

    /// Returns the policy for an adapter.
    pub(super) fn law(&mut self, adapter_id: &str, unnamed: Option<usize>) -> Arc<Law> {
        let chosen = unnamed.and_then(|index| Some((index, self.unnamed.get(index)?)));
        let Some((index, entry)) = chosen else { return Arc::clone(&self.law) };
        let key = (adapter_id.to_owned(), index);
        if let Some(law) = self.variants.get(&key) {
            return Arc::clone(law);
        }
        let mut law = Law::clone(&self.law);
        add_adapter(&mut law, &self.context, adapter_id, entry);
        if self.variants.len() >= MAX_VARIANTS {
            self.variants.clear();
        }
        let law = Arc::new(law);
        self.variants.insert(key, Arc::clone(&law));
        law
    }

    /// Returns the role of a caller: the configured one, the token's own, or the recorded one.
    pub(super) fn role(&self, name: &str, recorded: Option<Role>) -> Option<Role> {
        let configured = self.configured_roles.get(name).copied();
        configured.or_else(|| match self.context.token_roles.get(name) {
            Some(own) => *own,
            None => recorded,
        })
    }
}

/// Puts everything that an entry says about its adapter into a policy.
fn add_adapter(law: &mut Law, context: &PolicyContext, id: &str, entry: &AdapterEntry) {
    let envoy = (entry.factory_ref == AdapterEntry::ENVOY_REF).then_some(Role::Envoy);
    law.roles.extend(envoy.or(entry.role).map(|role| (id.to_owned(), role)));
    let Offer { prefix, action_class, tools, .. } = &entry.offer;
    let offering = Offering { prefix: prefix.clone(), action_class: *action_class };
    law.offers.insert(id.to_owned(), offering);
    let interface_id = entry.interface.as_deref().unwrap_or(id);
    match context.interfaces.get(interface_id) {
        Some(keeping) => drop(law.interfaces.insert(id.to_owned(), Arc::clone(keeping))),
        None => drop(law.interfaces.remove(id)),
    }
    match context.unusable.get(interface_id) {
        Some(unusable) => drop(law.unusable.insert(id.to_owned(), unusable.clone())),
        None => drop(law.unusable.remove(id)),
    }
    let mut offered = law.offered.as_deref().cloned().unwrap_or_default();
    for one in context.registered.iter().filter(|one| one.interface_id == interface_id) {
        let key = (id.to_owned(), one.tool.clone(), one.method.clone());
        law.classes.extend(one.action_class.map(|class| (key.clone(), class)));
        law.names.entry(key).or_default().push(one.name.clone());
        if one.is_offered {
            offer_operation(&mut offered, id, (&one.tool, &one.method));
        }
    }
    if !tools.is_empty() {
        offered.adapters.entry(id.to_owned()).or_default().patterns.clone_from(tools);
    }
    law.offered = Some(Arc::new(offered));
}

fn key(tool: &ToolEntry) -> Key {
    (tool.adapter.clone(), tool.tool.clone(), tool.method.clone())
}

/// Returns the classes of the operations behind tools; an operation with two classes has none.
fn classes(tools: &[ToolEntry]) -> Classes {
    let mut classes: BTreeMap<Key, Option<ActionClass>> = BTreeMap::new();
    for tool in tools {
        let given = tool.action_class;
        let entry = classes.entry(key(tool));
        entry.and_modify(|class| *class = class.filter(|_| *class == given)).or_insert(given);
    }
    classes.into_iter().filter_map(|(key, class)| Some((key, class?))).collect()
}

/// Returns the hints that tools state. A hint of which two tools say different things is not known.
fn hints(tools: &[ToolEntry]) -> Hints {
    let mut hints = Hints::new();
    for tool in tools {
        let stated = Hint {
            read_only: tool.read_only,
            destructive: tool.destructive,
            idempotent: tool.idempotent,
            open_world: tool.open_world,
        };
        let same = |one: Option<bool>, other: Option<bool>| one.filter(|_| one == other);
        let known = hints.entry(key(tool)).or_insert(stated);
        *known = Hint {
            read_only: same(known.read_only, stated.read_only),
            destructive: same(known.destructive, stated.destructive),
            idempotent: same(known.idempotent, stated.idempotent),
            open_world: same(known.open_world, stated.open_world),
        };
    }
    hints
}

fn offer_operation(
    offered: &mut OfferedOperations,
    adapter_id: &str,
    (tool, method): (&str, &str),
) {
    let own = offered.adapters.entry(adapter_id.to_owned()).or_default();
    own.operations.entry(tool.to_owned()).or_default().insert(method.to_owned());
}
