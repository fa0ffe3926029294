//! The version of a law: a short digest of everything in it that decides.
//!
//! It is the first half of the SHA-256 of a canonical JSON text, behind a word that says what it is of. How
//! people are asked is no part of it: that does not change what they said yes to.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Hint, Law, OfferedOperations, Operations};
use crate::config::{Annotation, Pattern, Rule, SourceEntry};
use crate::digest::Digest;
use crate::json::{self, Object, Value};
use crate::role::ActionClass;

const DOMAIN: &[u8] = b"nexus-router law 1";

impl Law {
    /// Returns the version: the same for laws that decide the same way, whoever made them and when.
    #[must_use]
    pub fn version(&self) -> String {
        let mut law = Object::new();
        law.insert("apply", self.apply);
        law.insert("max_steps", self.max_steps);
        law.insert("max_run_ms", self.max_run.map(milliseconds));
        law.insert("rules", self.rules.iter().map(rule).collect::<Vec<_>>());
        let operation = |(adapter, tool, method): &(String, String, String), more: Value| {
            let names = [adapter, tool, method].map(|name| Value::from(name.as_str()));
            Value::Array(names.into_iter().chain([more]).collect())
        };
        let classes = self.classes.iter().map(|(key, class)| operation(key, class.name().into()));
        law.insert("classes", classes.collect::<Vec<_>>());
        let hints = self.hints.iter().map(|(key, one)| operation(key, hint(*one)));
        law.insert("hints", hints.collect::<Vec<_>>());
        let names = self.names.iter().map(|(key, names)| {
            let names = names.iter().map(|name| Value::from(name.as_str()));
            operation(key, Value::Array(names.collect()))
        });
        law.insert("names", names.collect::<Vec<_>>());
        let offers = self.offers.iter().map(|(adapter_id, offer)| {
            let class = offer.action_class.map(ActionClass::name);
            Value::Array(vec![
                adapter_id.as_str().into(),
                offer.prefix.as_str().into(),
                class.into(),
            ])
        });
        law.insert("offers", offers.collect::<Vec<_>>());
        let interfaces = self.interfaces.iter().map(|(adapter_id, keeping)| {
            Value::Array(vec![adapter_id.as_str().into(), keeping.digest.to_string().into()])
        });
        law.insert("interfaces", interfaces.collect::<Vec<_>>());
        law.insert("contract_required", self.contract_required);
        law.insert("default", self.default.name());
        if let Some(offered) = self.offered.as_deref() {
            law.insert("offered", offered_operations(offered));
        }
        let catalogues = self.catalogues.iter().map(|(adapter_id, known)| {
            Value::Array(vec![adapter_id.as_str().into(), operations(known)])
        });
        law.insert("catalogues", catalogues.collect::<Vec<_>>());
        // Only if there are any: approvals of those who have none stay what they were.
        if !self.signals.is_empty() {
            let judges = self.signals.iter().map(|(adapter_id, judge)| {
                Value::Array(vec![adapter_id.as_str().into(), judge.to_json()])
            });
            law.insert("signals", judges.collect::<Vec<_>>());
        }
        if !self.roles.is_empty() {
            let roles = self.roles.iter().map(|(adapter_id, role)| {
                Value::Array(vec![adapter_id.as_str().into(), role.name().into()])
            });
            law.insert("roles", roles.collect::<Vec<_>>());
        }
        if !self.sources.is_empty() {
            let sources = self.sources.iter().map(|(adapter_id, sources)| {
                let sources = sources.iter().map(source).collect::<Vec<_>>();
                Value::Array(vec![adapter_id.as_str().into(), sources.into()])
            });
            law.insert("sources", sources.collect::<Vec<_>>());
        }
        if !self.secrets.is_empty() {
            let secrets = self.secrets.iter().map(|(name, binding)| {
                let parts = [&binding.adapters, &binding.tools, &binding.tokens];
                let parts = parts.map(|part| {
                    Value::Array(part.iter().map(|pattern| pattern.as_str().into()).collect())
                });
                Value::Array([name.as_str().into()].into_iter().chain(parts).collect())
            });
            law.insert("secrets", secrets.collect::<Vec<_>>());
        }
        let text = json::to_canonical(&law.into());
        let mut version = Digest::of_parts(&[DOMAIN, text.as_bytes()]).to_string();
        version.truncate(32);
        version
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn rule(rule: &Rule) -> Value {
    let mut object = Object::new();
    object.insert("effect", rule.effect.name());
    let patterns = [
        ("adapter", &rule.adapter),
        ("tool", &rule.tool),
        ("method", &rule.method),
        ("token", &rule.token),
    ];
    for (key, pattern) in patterns {
        object.insert(key, pattern.as_ref().map(Pattern::as_str));
    }
    object.insert("action_class", rule.action_class.map(ActionClass::name));
    object.insert("annotation", rule.annotation.map(Annotation::name));
    object.insert("reason", rule.reason.as_deref());
    // Only if there are any: policies without them keep their version.
    if let Some(id) = &rule.id {
        object.insert("id", id.as_str());
    }
    if let Some(when) = &rule.when {
        object.insert("when", when.as_str());
    }
    object.into()
}

/// Returns everything that is offered. Tools are left out: the names of operations have them.
fn offered_operations(offered: &OfferedOperations) -> Value {
    let texts = |names: &BTreeSet<String>| -> Value {
        names.iter().map(|name| Value::from(name.as_str())).collect::<Vec<_>>().into()
    };
    let adapters = offered.adapters.iter().map(|(adapter_id, offer)| {
        let patterns = offer.patterns.iter().map(|pattern| Value::from(pattern.as_str()));
        Value::Array(vec![
            adapter_id.as_str().into(),
            operations(&offer.operations),
            Value::Array(patterns.collect()),
            texts(&offer.resources),
            texts(&offer.templates),
            texts(&offer.prompts),
        ])
    });
    Value::Array(adapters.collect())
}

fn operations(operations: &Operations) -> Value {
    let all = operations.iter().flat_map(|(tool, methods)| {
        let pair =
            |method: &String| Value::Array(vec![tool.as_str().into(), method.as_str().into()]);
        methods.iter().map(pair).collect::<Vec<_>>()
    });
    Value::Array(all.collect())
}

fn source(source: &SourceEntry) -> Value {
    let mut object = Object::new();
    object.insert("name", source.name.as_str());
    object.insert("adapter", source.adapter.as_str());
    object.insert("tool", source.tool.as_str());
    object.insert("method", source.method.as_str());
    object.insert("action_class", source.action_class.name());
    object.insert("args", source.args.clone());
    object.into()
}

fn hint(hint: Hint) -> Value {
    let Hint { read_only, destructive, idempotent, open_world } = hint;
    [read_only, destructive, idempotent, open_world].map(Value::from).to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::condition::Condition;
    use crate::config::{ApprovalSettings, Effect, PolicyDefault, Property, SecretBinding};
    use crate::policy::AdapterOffer;

    #[test]
    fn version_changes_with_what_decides_and_with_nothing_else() {
        let bare = Rule::any(Effect::Approve);
        let law = Law { rules: vec![bare.clone()], ..Law::default() };
        let version = law.version();
        assert!(version.len() == 32 && version.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(law.version(), version);
        let approvals = ApprovalSettings { expire: Duration::from_secs(1), by_caller: true };
        assert_eq!(Law { approvals, ..law.clone() }.version(), version);
        let pattern = || Pattern::new("a");
        let annotation = Some(Annotation { property: Property::ReadOnly, holds: false });
        let rules = [
            Rule { effect: Effect::Deny, ..bare.clone() },
            Rule { adapter: pattern(), ..bare.clone() },
            Rule { tool: pattern(), ..bare.clone() },
            Rule { method: pattern(), ..bare.clone() },
            Rule { token: pattern(), ..bare.clone() },
            Rule { action_class: Some(ActionClass::RepoOps), ..bare.clone() },
            Rule { annotation, ..bare.clone() },
            Rule { reason: Some("a".to_owned()), ..bare.clone() },
            Rule { id: Some("a".to_owned()), ..bare.clone() },
            Rule { when: Condition::compile("adapter == 'a'").ok(), ..bare.clone() },
            Rule { when: Condition::compile("adapter == 'b'").ok(), ..bare.clone() },
        ];
        let key = || ("a".to_owned(), "b".to_owned(), "c".to_owned());
        let known = || Operations::from([("b".to_owned(), BTreeSet::from(["c".to_owned()]))]);
        let offered = |offer: AdapterOffer| {
            let adapters = [("a".to_owned(), offer)].into();
            Some(Arc::new(OfferedOperations { adapters, ..Default::default() }))
        };
        let mut others: Vec<Law> =
            rules.into_iter().map(|rule| Law { rules: vec![rule], ..law.clone() }).collect();
        others.extend([
            Law { rules: vec![bare.clone(), bare], ..law.clone() },
            Law { apply: false, ..law.clone() },
            Law { default: PolicyDefault::Deny, ..law.clone() },
            Law { offered: Some(Arc::default()), ..law.clone() },
            Law { offered: offered(AdapterOffer::default()), ..law.clone() },
            Law {
                offered: offered(AdapterOffer { operations: known(), ..Default::default() }),
                ..law.clone()
            },
            Law {
                offered: offered(AdapterOffer {
                    patterns: pattern().into_iter().collect(),
                    ..Default::default()
                }),
                ..law.clone()
            },
            Law { catalogues: [("a".to_owned(), Arc::new(known()))].into(), ..law.clone() },
            Law { max_steps: Some(0), ..law.clone() },
            Law { max_run: Some(Duration::ZERO), ..law.clone() },
            Law { secrets: [("a".to_owned(), SecretBinding::default())].into(), ..law.clone() },
            Law { classes: [(key(), ActionClass::RepoOps)].into(), ..law.clone() },
            Law { hints: [(key(), Hint::default())].into(), ..law.clone() },
            Law {
                hints: [(key(), Hint { read_only: Some(true), ..Hint::default() })].into(),
                ..law
            },
        ]);
        let versions: std::collections::BTreeSet<String> =
            others.iter().map(Law::version).chain([version]).collect();
        assert_eq!(versions.len(), others.len() + 1);
    }
}
