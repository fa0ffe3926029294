//! Differences between the permissions of two configurations, for the record of a reload.

use std::collections::{BTreeMap, BTreeSet};

use super::{CatalogueState, Law};
use crate::condition::Condition;
use crate::config::{
    AdapterEntry, Annotation, ConfigFile, Effect, Outputs, Pattern, PolicyDefault, Rule,
    SecretBinding,
};
use crate::grant::Isolation;
use crate::json::{self, Object, Value};
use crate::role::{ActionClass, Role};

/// Everything that a configuration permits, as texts that can be compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permissions {
    default: PolicyDefault,
    apply: bool,
    contract_required: bool,
    /// Whether an output that breaks its contract passes with a warning.
    outputs_warn: bool,
    /// Whether callers may approve their own calls.
    by_caller: bool,
    rules: Vec<(Effect, String)>,
    /// Areas whose entries each permit something: offers, grants, sources and trusted hints.
    entries: BTreeSet<(&'static str, String)>,
    /// Roles that bound tokens and adapters.
    roles: BTreeMap<String, &'static str>,
}

/// One difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionChange {
    /// The area: `rule`, `default`, `offer`, `grant` and so on.
    pub area: &'static str,
    /// The kind of change: `added`, `removed` or `changed`.
    pub change: &'static str,
    /// The rule, offer or grant.
    pub subject: String,
    /// Whether more may be permitted than before.
    pub widens: bool,
}

impl PermissionChange {
    /// Returns the form that is recorded and shown.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("area", self.area);
        object.insert("change", self.change);
        object.insert("subject", self.subject.as_str());
        object.insert("widens", self.widens);
        object.into()
    }
}

impl Permissions {
    /// Takes the permissions of a configuration and of the law that was made of it.
    #[must_use]
    pub fn of(config: &ConfigFile, law: &Law) -> Self {
        let rules = law.rules.iter().map(|rule| (rule.effect, rule_text(rule)));
        let mut entries = BTreeSet::new();
        entries.extend(offers(law).into_iter().map(|offer| ("offer", offer)));
        for entry in &config.adapters {
            let name = entry.id.as_deref().unwrap_or(&entry.factory_ref);
            entries.extend(grants(name, entry).map(|grant| ("grant", grant)));
            if entry.isolation.unwrap_or(config.workers.isolation) == Isolation::Inline {
                entries.insert(("inline", name.to_owned()));
            }
            if let Some(class) = entry.offer.action_class {
                entries.insert(("offer.action_class", format!("{name}: {}", class.name())));
            }
            if entry.factory_ref == AdapterEntry::ENVOY_REF {
                entries.extend(envoy(name, entry).map(|setting| ("envoy", setting)));
            }
            if entry.trust_hints {
                entries.insert(("trust_hints", name.to_owned()));
            }
            for source in &entry.sources {
                let target = format!("{}/{}.{}", source.adapter, source.tool, source.method);
                entries.insert(("source", format!("{name}/{}: {target}", source.name)));
            }
        }
        for feature in &config.workers.accept_missing {
            entries.insert(("accept_missing", feature.name().to_owned()));
        }
        for (name, binding) in config.secret_bindings() {
            entries.extend(bindings(&name, &binding).map(|binding| ("secret", binding)));
        }
        for (name, secret) in &config.secrets {
            entries.insert(("secret.from", format!("{name}: {}", secret.source)));
        }
        for ((adapter, tool, method), class) in &law.classes {
            let class = format!("{adapter}/{tool}.{method}: {}", class.name());
            entries.insert(("action_class", class));
        }
        let tokens = config
            .tokens
            .iter()
            .filter_map(|token| Some((token.name.clone(), token.role.map(Role::name)?)));
        let adapters = law.roles.iter().map(|(id, role)| (format!("adapter {id}"), role.name()));
        let roles = tokens.chain(adapters);
        Self {
            default: law.default,
            apply: law.apply,
            contract_required: law.contract_required,
            outputs_warn: law.outputs == Outputs::Warn,
            by_caller: law.approvals.by_caller,
            rules: rules.collect(),
            entries,
            roles: roles.collect(),
        }
    }

    /// Lists the differences from the permissions before, those that widen them first.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<PermissionChange> {
        let mut changes = Vec::new();
        let mut add = |area, change, subject: String, widens| {
            changes.push(PermissionChange { area, change, subject, widens });
        };
        if self.default != before.default {
            let subject = format!("{} to {}", before.default.name(), self.default.name());
            add("default", "changed", subject, self.default == PolicyDefault::Allow);
        }
        for (area, now, then, permits) in [
            ("apply", self.apply, before.apply, true),
            ("contracts.required", self.contract_required, before.contract_required, false),
            ("contracts.outputs is warn", self.outputs_warn, before.outputs_warn, true),
            ("approvals.by_caller", self.by_caller, before.by_caller, true),
        ] {
            if now != then {
                add(area, "changed", format!("{then} to {now}"), now == permits);
            }
        }
        let (removed, added) =
            (missing(&before.rules, &self.rules), missing(&self.rules, &before.rules));
        if common(&self.rules, &before.rules) != common(&before.rules, &self.rules) {
            add("rule", "changed", "order of the rules".to_owned(), true);
        }
        for (effect, rule) in removed {
            add("rule", "removed", rule, effect != Effect::Allow);
        }
        for (effect, rule) in added {
            add("rule", "added", rule, effect != Effect::Deny);
        }
        for (area, entry) in before.entries.difference(&self.entries) {
            add(area, "removed", entry.clone(), false);
        }
        for (area, entry) in self.entries.difference(&before.entries) {
            add(area, "added", entry.clone(), true);
        }
        for (name, role) in &before.roles {
            match self.roles.get(name) {
                None => add("role", "removed", format!("{name}: {role}"), true),
                Some(now) if now != role => {
                    add("role", "changed", format!("{name}: {role} to {now}"), true);
                }
                Some(_) => {}
            }
        }
        for (name, role) in self.roles.iter().filter(|(name, _)| !before.roles.contains_key(*name))
        {
            add("role", "added", format!("{name}: {role}"), false);
        }
        changes.sort_by_key(|change| !change.widens);
        changes
    }
}

/// Returns one text for each setting of an envoy.
fn envoy<'a>(name: &'a str, entry: &'a AdapterEntry) -> impl Iterator<Item = String> + 'a {
    let setting =
        move |(key, value): (&str, &Value)| format!("{name}: {key} = {}", json::to_compact(value));
    entry.config.iter().map(setting)
}

/// Returns one text for each adapter, tool and token that a secret is bound to.
fn bindings<'a>(name: &'a str, binding: &'a SecretBinding) -> impl Iterator<Item = String> + 'a {
    let SecretBinding { adapters, tools, tokens } = binding;
    // An empty list bounds nothing.
    let shown = |patterns: &'a [Pattern]| match patterns {
        [] => vec!["*"],
        patterns => patterns.iter().map(Pattern::as_str).collect(),
    };
    let (tools, tokens) = (shown(tools), shown(tokens));
    adapters.iter().flat_map(move |adapter| {
        let (adapter, tokens) = (adapter.as_str(), tokens.clone());
        tools.clone().into_iter().flat_map(move |tool| {
            let by = |token: &&str| format!("{name}: {adapter}/{tool} by {token}");
            tokens.iter().map(by).collect::<Vec<_>>()
        })
    })
}

/// Returns a rule for people. The name of a token stands behind `by`: text behind `token` looks like a secret.
fn rule_text(rule: &Rule) -> String {
    let keys = [
        ("adapter", rule.adapter.as_ref().map(Pattern::as_str)),
        ("tool", rule.tool.as_ref().map(Pattern::as_str)),
        ("method", rule.method.as_ref().map(Pattern::as_str)),
        ("by", rule.token.as_ref().map(Pattern::as_str)),
        ("action_class", rule.action_class.map(ActionClass::name)),
        ("annotation", rule.annotation.map(Annotation::name)),
        ("when", rule.when.as_ref().map(Condition::as_str)),
        ("reason", rule.reason.as_deref()),
    ];
    let mut text = rule.effect.name().to_owned();
    for (key, value) in keys {
        if let Some(value) = value {
            text.push_str(&format!(" {key} {value:?}"));
        }
    }
    text
}

/// Returns the items of a list that another one has less often.
fn missing<T: Clone + PartialEq>(items: &[T], from: &[T]) -> Vec<T> {
    let mut left: Vec<&T> = from.iter().collect();
    let mut missing = Vec::new();
    for item in items {
        match left.iter().position(|other| *other == item) {
            Some(place) => drop(left.swap_remove(place)),
            None => missing.push(item.clone()),
        }
    }
    missing
}

/// Returns the items of a list that another one has as well, in the order of the list.
fn common<'a, T: PartialEq>(items: &'a [T], others: &[T]) -> Vec<&'a T> {
    let mut left: Vec<&T> = others.iter().collect();
    let mut common = Vec::new();
    for item in items {
        if let Some(place) = left.iter().position(|other| *other == item) {
            left.swap_remove(place);
            common.push(item);
        }
    }
    common
}

/// Lists everything that is offered, each as `ADAPTER/NAME`.
fn offers(law: &Law) -> Vec<String> {
    let Some(offered) = law.offered.as_deref() else { return vec!["*".to_owned()] };
    let mut offers = Vec::new();
    for (adapter_id, offer) in &offered.adapters {
        for (tool, methods) in &offer.operations {
            offers.extend(methods.iter().map(|method| format!("{adapter_id}/{tool}.{method}")));
        }
        if offer.catalogue != CatalogueState::Known {
            let patterns = offer.patterns.iter();
            offers.extend(patterns.map(|pattern| format!("{adapter_id}/{}.*", pattern.as_str())));
        }
        let resources = offer.resources.iter().chain(&offer.templates);
        offers.extend(resources.map(|uri| format!("{adapter_id}/resource {uri}")));
        offers.extend(offer.prompts.iter().map(|name| format!("{adapter_id}/prompt {name}")));
    }
    offers
}

fn grants<'a>(name: &'a str, entry: &'a AdapterEntry) -> impl Iterator<Item = String> + use<'a> {
    let grants = &entry.grants;
    let connect = grants.connect.iter().map(|endpoint| ("connect", endpoint.to_string()));
    let paths = [("read", &grants.read), ("write", &grants.write), ("run", &grants.run)];
    let paths = paths
        .into_iter()
        .flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path.display().to_string())));
    let env = grants.env.iter().map(|variable| ("env", variable.clone()));
    connect.chain(paths).chain(env).map(move |(kind, value)| format!("{name}: {kind} {value}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{Environment, Pattern};
    use crate::policy::{AdapterOffer, OfferedOperations};

    fn permissions(text: &str, tools: &[&str]) -> Permissions {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("router.toml");
        std::fs::write(&file, text).unwrap();
        let config = ConfigFile::find(Some(&file), &Environment::default()).unwrap();
        let mut law = Law::new(&config.policy, BTreeMap::new());
        let patterns = tools.iter().filter_map(|tool| Pattern::new(tool)).collect();
        let offer = AdapterOffer { patterns, ..AdapterOffer::default() };
        let adapters = BTreeMap::from([("shop".to_owned(), offer)]);
        law.offered = Some(Arc::new(OfferedOperations { adapters, ..Default::default() }));
        Permissions::of(&config, &law)
    }

    fn change_lines(before: &Permissions, after: &Permissions) -> Vec<String> {
        let changes = after.changes_since(before);
        let line = |one: PermissionChange| {
            let sign = if one.widens { "+" } else { "-" };
            format!("{sign} {} {} {}", one.area, one.change, one.subject)
        };
        changes.into_iter().map(line).collect()
    }

    const DENY: &str = "[[policy.rules]]\neffect = 'deny'\ntool = 'x'\ntoken = 'ci'\n";
    const ALLOW: &str = "[[policy.rules]]\neffect = 'allow'\ntool = 'y'\n";

    #[test]
    fn lists_removed_and_added_rules() {
        let both = permissions(&format!("{DENY}{ALLOW}"), &[]);
        let none = permissions("", &[]);
        assert_eq!(change_lines(&both, &both), Vec::<String>::new());
        let lost = change_lines(&both, &none);
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(
            lost[0].starts_with("+ rule removed ") && lost[0].contains("deny tool \"x\" by \"ci\""),
            "{lost:?}"
        );
        assert!(lost[1].starts_with("- rule removed ") && lost[1].contains("allow"), "{lost:?}");
        let won = change_lines(&none, &both);
        assert!(won[0].starts_with("+ rule added ") && won[0].contains("allow"), "{won:?}");
        let turned = permissions(&format!("{ALLOW}{DENY}"), &[]);
        assert_eq!(change_lines(&both, &turned), ["+ rule changed order of the rules"]);
        let turned = permissions(&format!("{ALLOW}{DENY}{}", DENY.replace('x', "z")), &[]);
        let changes = change_lines(&both, &turned);
        assert_eq!(changes[0], "+ rule changed order of the rules", "{changes:?}");
        let asks = permissions(&format!("{DENY}{ALLOW}{}", ALLOW.replace("allow", "approve")), &[]);
        assert!(change_lines(&both, &asks)[0].starts_with("+ rule added approve"));
        let twice = permissions(&format!("{DENY}{DENY}{ALLOW}"), &[]);
        assert_eq!(change_lines(&twice, &both).len(), 1);
    }

    #[test]
    fn lists_widened_permissions() {
        let narrow = "[policy]\ndefault = 'deny'\napply = false\n[[tokens]]\nname = 'ci'\nrole = 'scout'\n\
                      [[adapters]]\nref = 'm:f'\nid = 'shop'\n";
        let wide = "[policy]\ndefault = 'allow'\n[[tokens]]\nname = 'ci'\n[[adapters]]\nref = 'm:f'\n\
                    id = 'shop'\ntrust_hints = true\ngrants.connect = ['a:1']\ngrants.read = ['/r']\n\
                    [secrets.KEY]\nfrom = 'env:KEY'\nadapters = ['shop']\ntokens = ['ci']\n";
        let (narrow, wide) = (permissions(narrow, &["get"]), permissions(wide, &["get", "*"]));
        let expected = [
            "+ default changed deny to allow",
            "+ apply changed false to true",
            "+ grant added shop: connect a:1",
            "+ grant added shop: read /r",
            "+ offer added shop/*.*",
            "+ secret added KEY: shop/* by ci",
            "+ secret.from added KEY: env:KEY",
            "+ trust_hints added shop",
            "+ role removed ci: scout",
        ];
        assert_eq!(change_lines(&narrow, &wide), expected);
        assert!(change_lines(&wide, &narrow).iter().all(|change| change.starts_with('-')));
    }
}
