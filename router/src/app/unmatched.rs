//! Settings of a configuration that match nothing: rules that never fire, offers of nothing, adapters for nobody.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::Fleet;
use super::{App, Error};
use crate::caller::Caller;
use crate::config::{
    self, AdapterEntry, ConfigFile, Effect, Origins, Pattern, Problem, Rule, SecretBinding,
    SourceEntry,
};
use crate::loader::Adapter;
use crate::policy::{Act, Classes, Law, Names, Offering, Operations};
use crate::role::{ActionClass, Role};
use crate::toolspec::Catalogs;

/// Setting that matches nothing known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedSetting {
    /// The key, such as `policy.rules[0].adapter`.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: &'static str,
    /// Whether the router refuses the configuration because of it.
    pub is_refused: bool,
}

/// Names that settings may match.
struct KnownNames<'a> {
    config: &'a ConfigFile,
    law: Law,
    /// Operations by adapter; absent where any operation may be called.
    adapters: BTreeMap<String, Option<Operations>>,
    /// The id of each configured adapter, where it is known.
    ids: Vec<Option<String>>,
    catalogs: Catalogs,
    tokens: Option<BTreeSet<String>>,
    /// Whether all adapters are known.
    has_all_adapters: bool,
    /// Whether all adapters and classes are known.
    complete: bool,
}

impl App {
    /// Lists the settings that match nothing known, with the adapters loaded. `tokens` are the names of all tokens, if they
    /// are known.
    ///
    /// # Errors
    /// When an adapter does not load.
    pub fn unmatched(
        &self,
        tokens: Option<BTreeSet<String>>,
    ) -> Result<Vec<UnmatchedSetting>, Error> {
        let (config, fleet) = (self.config(), self.fleet()?);
        Ok(KnownNames::loaded(&config, &fleet, tokens).unmatched())
    }

    /// Lists the settings that match nothing, as far as the file alone says. No adapter is loaded.
    #[must_use]
    pub fn unmatched_in_file(&self, tokens: Option<BTreeSet<String>>) -> Vec<UnmatchedSetting> {
        let config = self.config();
        let none_registered = self.registered().is_ok_and(|tools| tools.is_empty());
        KnownNames::of_file(&config, tokens, none_registered).unmatched()
    }

    /// Refuses secrets that are bound to adapters that do not exist.
    pub(super) fn refuse_unknown_bindings(
        &self,
        config: &ConfigFile,
        fleet: Fleet,
    ) -> Result<Fleet, Error> {
        if config.secrets.values().all(|entry| entry.binding.is_none()) {
            return Ok(fleet);
        }
        let mut found = KnownNames::loaded(config, &fleet, None).unmatched();
        found.retain(|one| one.is_refused);
        if found.is_empty() {
            return Ok(fleet);
        }
        // The configuration in memory has no lines.
        let traced = ConfigFile::trace(config.source.as_deref(), &self.environment);
        let origins = traced.map(|(_, origins)| origins).unwrap_or_default();
        let mut problems = found.into_iter().map(|one| one.into_problem(&origins));
        match problems.next() {
            None => Ok(fleet),
            Some(first) => {
                let (path, others) = (config.source.clone(), problems.collect());
                Err(Error::Config(Box::new(config::Error::Invalid { path, first, others })))
            }
        }
    }
}

impl UnmatchedSetting {
    /// Returns the problem with its place.
    pub(crate) fn into_problem(self, origins: &Origins) -> Problem {
        let origin = origins.of(&self.path);
        Problem { origin, message: self.message, hint: self.hint.to_owned() }
    }
}

impl<'a> KnownNames<'a> {
    fn loaded(config: &'a ConfigFile, fleet: &Fleet, tokens: Option<BTreeSet<String>>) -> Self {
        let law = fleet.law.clone();
        let ids = fleet.registry.adapters().map(|adapter| adapter.adapter_id());
        let adapters = ids.map(|id| (id.to_owned(), operations(&law, id))).collect();
        let ids = match config.adapters.is_empty() {
            true => Vec::new(),
            false => fleet.configured_ids(),
        };
        let mut catalogs = fleet.gathered.catalogs.clone();
        catalogs.retain(|id, _| !fleet.gathered.unknown.contains_key(id));
        // An adapter that was skipped may be there later.
        let complete = fleet.has_all();
        let has_all_adapters = complete && !config.discovers() && fleet.passed_over().is_empty();
        Self { config, law, adapters, ids, catalogs, tokens, has_all_adapters, complete }
    }

    /// Collects the names in the file alone. Registered tools may have classes, and need the contracts.
    fn of_file(
        config: &'a ConfigFile,
        tokens: Option<BTreeSet<String>>,
        none_registered: bool,
    ) -> Self {
        let mut law = Law { rules: config.policy.rules.clone(), ..Law::default() };
        let (mut classes, mut names) = (Classes::new(), Names::new());
        for tool in &config.tools {
            let key = (tool.adapter.clone(), tool.tool.clone(), tool.method.clone());
            classes.extend(tool.action_class.map(|class| (key.clone(), class)));
            names.entry(key).or_default().push(tool.name.clone());
        }
        (law.classes, law.names) = (classes, names);
        for entry in &config.adapters {
            let Some(id) = entry.id.clone() else { continue };
            let AdapterEntry { offer, role, factory_ref, .. } = entry;
            let envoy = (factory_ref == AdapterEntry::ENVOY_REF).then_some(Role::Envoy);
            law.roles.extend(envoy.or(*role).map(|role| (id.clone(), role)));
            let offering =
                Offering { prefix: offer.prefix.clone(), action_class: offer.action_class };
            law.offers.insert(id, offering);
        }
        let ids: Vec<Option<String>> = config.adapters.iter().map(|one| one.id.clone()).collect();
        let has_all_adapters = !config.discovers() && ids.iter().all(Option::is_some);
        let complete = none_registered && has_all_adapters;
        let null = Adapter::null().adapter_id().to_owned();
        let adapters = ids.iter().flatten().cloned().chain([null]).map(|id| (id, None)).collect();
        let catalogs = Catalogs::new();
        Self { config, law, adapters, ids, catalogs, tokens, has_all_adapters, complete }
    }

    /// Lists everything that matches nothing.
    fn unmatched(&self) -> Vec<UnmatchedSetting> {
        let mut found = Vec::new();
        for (index, rule) in self.config.policy.rules.iter().enumerate() {
            found.extend(self.check_rule(&format!("policy.rules[{index}]"), rule));
        }
        for (index, tool) in self.config.tools.iter().enumerate() {
            let act = Act { adapter_id: &tool.adapter, tool: &tool.tool, method: &tool.method };
            found.extend(self.check_operation(&format!("tools[{index}]"), act));
        }
        for (index, entry) in self.config.adapters.iter().enumerate() {
            let path = format!("adapters[{index}]");
            for (number, source) in entry.sources.iter().enumerate() {
                let SourceEntry { adapter, tool, method, .. } = source;
                let act = Act { adapter_id: adapter, tool, method };
                found.extend(self.check_operation(&format!("{path}.sources[{number}]"), act));
            }
            let id = self.ids.get(index).cloned().flatten();
            if let Some(id) = &id {
                self.check_offer(&path, id, entry, &mut found);
            }
            if self.is_unreachable(entry, id.as_deref()) {
                let shown = id.as_deref().unwrap_or(&entry.factory_ref);
                found.push(UnmatchedSetting {
                    message: format!("{path}: adapter '{shown}' is offered to nobody"),
                    path,
                    hint: "offer its tools with [adapters.offer] or [[tools]], or remove the adapter",
                    is_refused: false,
                });
            }
        }
        for (name, entry) in &self.config.secrets {
            if let Some(binding) = &entry.binding {
                self.check_binding(&format!("secrets.{name}"), binding, &mut found);
            }
        }
        found
    }

    fn check_binding(
        &self,
        path: &str,
        binding: &SecretBinding,
        found: &mut Vec<UnmatchedSetting>,
    ) {
        let SecretBinding { adapters, tools, tokens } = binding;
        let has_adapter = |pattern: &Pattern| self.has_adapter(pattern);
        let has_tool = |pattern: &Pattern| {
            adapters.iter().any(|adapter| self.has_tool(Some(adapter), pattern))
        };
        let has_token = |pattern: &Pattern| self.has_token(pattern);
        let mut check = |key: &str, patterns: &[Pattern], is_known: &dyn Fn(&Pattern) -> bool| {
            for (number, pattern) in patterns.iter().enumerate().filter(|(_, one)| !is_known(one)) {
                let path = format!("{path}.{key}s[{number}]");
                let message = format!("{path} matches no {key}: {:?}", pattern.as_str());
                let hint = "correct the pattern, or remove it: it binds the secret to nothing";
                let is_refused =
                    key == "adapter" && self.has_all_adapters && !pattern.has_wildcard();
                found.push(UnmatchedSetting { path, message, hint, is_refused });
            }
        };
        check("adapter", adapters, &has_adapter);
        check("tool", tools, &has_tool);
        check("token", tokens, &has_token);
    }

    fn has_adapter(&self, pattern: &Pattern) -> bool {
        let mut known = self.adapters.keys();
        !(self.complete || self.has_all_adapters) || known.any(|id| pattern.matches_name(id))
    }

    fn has_token(&self, pattern: &Pattern) -> bool {
        let tokens = self.tokens.as_ref();
        tokens.is_none_or(|tokens| tokens.iter().any(|name| pattern.matches(name)))
    }

    /// Returns whether a tool of the adapters that a pattern names, or of any, may have a name that fits.
    fn has_tool(&self, adapter: Option<&Pattern>, pattern: &Pattern) -> bool {
        let rule = Rule { tool: Some(pattern.clone()), ..any_rule(adapter.cloned()) };
        self.fits(&rule)
    }

    fn has_class(&self, class: ActionClass) -> bool {
        let law = &self.law;
        !self.complete
            || law.classes.values().any(|known| *known == class)
            || law.offers.values().any(|offer| offer.action_class == Some(class))
            || law.roles.values().any(|role| role.allows(class))
    }

    fn check_rule(&self, path: &str, rule: &Rule) -> Option<UnmatchedSetting> {
        let unmatched = |key: &str, what: &str, value: &str| UnmatchedSetting {
            path: format!("{path}.{key}"),
            message: format!("{path}.{key} matches no {what}: {value:?}"),
            hint: "correct the pattern, or remove the rule: it never decides",
            is_refused: false,
        };
        if let Some(pattern) = rule.adapter.as_ref().filter(|one| !self.has_adapter(one)) {
            return Some(unmatched("adapter", "adapter", pattern.as_str()));
        }
        if let Some(pattern) = rule.token.as_ref().filter(|one| !self.has_token(one)) {
            return Some(unmatched("token", "token", pattern.as_str()));
        }
        if let Some(class) = rule.action_class.filter(|class| !self.has_class(*class)) {
            return Some(unmatched("action_class", "operation", class.name()));
        }
        let adapter = rule.adapter.as_ref();
        if let Some(pattern) = rule.tool.as_ref().filter(|one| !self.has_tool(adapter, one)) {
            return Some(unmatched("tool", "tool", pattern.as_str()));
        }
        let of_method = Rule {
            method: rule.method.clone(),
            tool: rule.tool.clone(),
            ..any_rule(adapter.cloned())
        };
        if let Some(pattern) = rule.method.as_ref().filter(|_| !self.fits(&of_method)) {
            return Some(unmatched("method", "method", pattern.as_str()));
        }
        let fires = self.fits(&Rule { token: None, ..rule.clone() });
        (!fires).then(|| UnmatchedSetting {
            path: path.to_owned(),
            message: format!("{path} fits no operation that is known"),
            hint: "correct its keys, or remove the rule: it never decides",
            is_refused: false,
        })
    }

    /// Returns whether a rule about any token may fit a call.
    fn fits(&self, rule: &Rule) -> bool {
        let caller = Caller::local();
        let null = Adapter::null();
        let candidates = self.adapters.iter().filter(|(id, _)| match &rule.adapter {
            Some(pattern) => pattern.matches_name(id),
            // The built-in adapter has every name; only rules that name it are about it.
            None => id.as_str() != null.adapter_id(),
        });
        let mut fits = candidates.map(|(adapter_id, operations)| match operations {
            Some(operations) => operations.iter().any(|(tool, methods)| {
                methods.iter().any(|method| {
                    let act = Act { adapter_id, tool, method };
                    self.law.fits(rule, Some(&caller), (act, self.law.class_of(act)))
                })
            }),
            None => self.may_fit(rule, adapter_id),
        });
        !self.complete || fits.any(|fits| fits)
    }

    /// Returns whether a rule may fit an operation of an adapter whose operations are not known.
    fn may_fit(&self, rule: &Rule, adapter_id: &str) -> bool {
        let Some(class) = rule.action_class else { return true };
        let law = &self.law;
        let of_tool =
            law.classes.iter().any(|((id, ..), known)| id == adapter_id && *known == class);
        let of_offer = law.offers.get(adapter_id).and_then(|offer| offer.action_class);
        let of_role = law.roles.get(adapter_id).is_some_and(|role| role.allows(class));
        of_tool || of_offer == Some(class) || of_role
    }

    fn check_operation(&self, path: &str, act: Act<'_>) -> Option<UnmatchedSetting> {
        let Act { adapter_id, tool, method } = act;
        let message = match self.adapters.get(adapter_id) {
            None if self.complete => format!("{path}.adapter matches no adapter: {adapter_id:?}"),
            Some(Some(known)) if !known.get(tool).is_some_and(|all| all.contains(method)) => {
                format!("{path}: adapter '{adapter_id}' has no operation {tool}.{method}")
            }
            _ => return None,
        };
        let hint = "name an operation of the adapter: calls of any other are denied";
        Some(UnmatchedSetting { path: path.to_owned(), message, hint, is_refused: false })
    }

    fn check_offer(
        &self,
        path: &str,
        id: &str,
        entry: &AdapterEntry,
        found: &mut Vec<UnmatchedSetting>,
    ) {
        let text = |object: &nexus_router_sdk::Object, key: &str| {
            object.get(key).and_then(|value| value.as_str()).map(str::to_owned)
        };
        let catalog = self.catalogs.get(id);
        let tools: Vec<String> = match (catalog, self.adapters.get(id)) {
            (Some(catalog), _) => catalog.tools.iter().map(|tool| tool.name().to_owned()).collect(),
            (None, Some(Some(known))) => known.keys().cloned().collect(),
            _ => return,
        };
        let mut resources = Vec::new();
        let mut prompts = Vec::new();
        if let Some(catalog) = catalog {
            resources.extend(catalog.resources.iter().filter_map(|one| text(one, "uri")));
            let templates = catalog.resource_templates.iter();
            resources.extend(templates.filter_map(|one| text(one, "uriTemplate")));
            prompts.extend(catalog.prompts.iter().filter_map(|one| text(one, "name")));
        }
        let offer = &entry.offer;
        let by_name: fn(&Pattern, &str) -> bool = Pattern::matches_name;
        for (key, patterns, known, fits) in [
            ("tools", &offer.tools, &tools, by_name),
            ("resources", &offer.resources, &resources, Pattern::matches),
            ("prompts", &offer.prompts, &prompts, by_name),
        ] {
            for (number, pattern) in patterns.iter().enumerate() {
                // Everything that there is may be nothing.
                if pattern.as_str() == "*" || known.iter().any(|name| fits(pattern, name)) {
                    continue;
                }
                let path = format!("{path}.offer.{key}[{number}]");
                let message =
                    format!("{path} matches nothing of adapter '{id}': {:?}", pattern.as_str());
                let hint = "correct the pattern, or remove it: it offers nothing";
                found.push(UnmatchedSetting { path, message, hint, is_refused: false });
            }
        }
    }

    fn is_unreachable(&self, entry: &AdapterEntry, id: Option<&str>) -> bool {
        if let (Some(offered), Some(id)) = (&self.law.offered, id) {
            return !offered.adapters.contains_key(id) && !self.is_source(id);
        }
        let named = |id: &str| {
            self.config.tools.iter().any(|tool| tool.adapter == id) || self.is_source(id)
        };
        // Without its id, a tool may name it.
        let used = id.map_or(!self.config.tools.is_empty(), named);
        self.complete && entry.offer.is_empty() && !used
    }

    fn is_source(&self, id: &str) -> bool {
        let sources = self.config.adapters.iter().flat_map(|entry| &entry.sources);
        sources.into_iter().any(|source| source.adapter == id)
    }
}

/// Returns the operations of an adapter, if its catalogue or its contract has them all.
fn operations(law: &Law, adapter_id: &str) -> Option<Operations> {
    if let Some(known) = law.catalogues.get(adapter_id) {
        return Some(Operations::clone(known));
    }
    let keeping = law.interfaces.get(adapter_id)?;
    let mut operations = Operations::new();
    for (tool, method) in keeping.operations() {
        operations.entry(tool.to_owned()).or_default().insert(method.to_owned());
    }
    Some(operations)
}

/// Returns a rule that fits every call of some adapters.
fn any_rule(adapter: Option<Pattern>) -> Rule {
    Rule { adapter, ..Rule::any(Effect::Allow) }
}

#[cfg(test)]
mod tests;
