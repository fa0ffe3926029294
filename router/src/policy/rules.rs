//! Rules of the policy: the first one that fits a call decides about it.

use super::{Act, CallInput, Denial, Judgement, Key, Law, Offering};
use crate::caller::Caller;
use crate::config::{Effect, Pattern, PolicyDefault, Rule};
use crate::json::Object;
use crate::role::ActionClass;

/// Decision of the rules about a call that they do not deny.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleDecision {
    pub(crate) judgement: Judgement,
    /// The index of the rule; none stands for the default.
    pub(crate) rule: Option<usize>,
}

impl Law {
    pub(super) fn judge_by_rules(
        &self,
        caller: Option<&Caller>,
        (act, class): (Act<'_>, Option<ActionClass>),
        input: Option<&CallInput<'_>>,
    ) -> Result<RuleDecision, Denial> {
        let mut evaluation = None;
        for (index, rule) in self.rules.iter().enumerate() {
            if !self.fits(rule, caller, (act, class)) {
                continue;
            }
            if let Some(condition) = &rule.when {
                let holds = match input {
                    None => rule.effect != Effect::Deny,
                    Some(input) => {
                        let facts = || self.call_facts(caller, (act, class), input);
                        self.evaluate(&mut evaluation, facts, (act, index, condition))?
                    }
                };
                if !holds {
                    continue;
                }
            }
            return self.decide_by_rule(act, index);
        }
        let judgement = self.judge_by_default(act)?;
        Ok(RuleDecision { judgement, rule: None })
    }

    fn decide_by_rule(&self, act: Act<'_>, index: usize) -> Result<RuleDecision, Denial> {
        let rule = &self.rules[index];
        let decision = |judgement| Ok(RuleDecision { judgement, rule: Some(index) });
        let id = || rule.id_at(index).into_owned();
        match rule.effect {
            Effect::Allow => return decision(Judgement::Allow),
            Effect::Approve => {
                return decision(Judgement::Ask { rule: id(), reason: rule.reason.clone() });
            }
            Effect::Deny => {}
        }
        let mut details = Object::new();
        details.insert("denied_by", "rule");
        details.insert("rule", id());
        let why = rule.reason.as_deref().unwrap_or("the operator's policy forbids it");
        let message =
            format!("{}.{} of adapter '{}' is denied: {why}", act.tool, act.method, act.adapter_id);
        Err(Denial { code: "PERMISSION_DENIED", message, details })
    }

    fn judge_by_default(&self, act: Act<'_>) -> Result<Judgement, Denial> {
        if self.default == PolicyDefault::Allow {
            return Ok(Judgement::Allow);
        }
        let mut details = Object::new();
        details.insert("denied_by", "default");
        let message = format!(
            "{}.{} of adapter '{}' is denied: no rule allows it (policy.default = \"deny\")",
            act.tool, act.method, act.adapter_id
        );
        Err(Denial { code: "PERMISSION_DENIED", message, details })
    }

    /// Returns whether a rule fits a call. Names of adapters, tools and methods are compared without case.
    pub(crate) fn fits(
        &self,
        rule: &Rule,
        caller: Option<&Caller>,
        (act, class): (Act<'_>, Option<ActionClass>),
    ) -> bool {
        let name = caller.map_or("", |caller| caller.name.as_str());
        let matches = |pattern: &Option<Pattern>, name| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches_name(name))
        };
        let key = || act.key();
        matches(&rule.adapter, act.adapter_id)
            && (matches(&rule.tool, act.tool) || self.is_called(rule.tool.as_ref(), act, &key))
            && matches(&rule.method, act.method)
            // Callers do not choose the names of tokens, and two names may differ by case alone.
            && rule.token.as_ref().is_none_or(|pattern| pattern.matches(name))
            && rule.action_class.is_none_or(|wanted| self.is_of(wanted, act, class))
            && rule.annotation.is_none_or(|annotation| {
                self.hint(act).fits(annotation)
            })
    }

    /// Returns whether a pattern fits a name of the operation, offered or not.
    pub(super) fn is_called(
        &self,
        pattern: Option<&Pattern>,
        act: Act<'_>,
        key: &impl Fn() -> Key,
    ) -> bool {
        let Some(pattern) = pattern else { return false };
        let offered = self.offers.get(act.adapter_id);
        let would =
            |offer: &Offering| pattern.matches_name(&format!("{}{}", offer.prefix, act.tool));
        if offered.is_some_and(would) {
            return true;
        }
        let names = if self.names.is_empty() { None } else { self.names.get(&key()) };
        names.is_some_and(|names| names.iter().any(|name| pattern.matches_name(name)))
    }

    /// Returns the class by which rules and conditions go: that of the operation, or the one of its adapter's offer. It
    /// grants nothing to a role.
    pub(super) fn rule_class(
        &self,
        act: Act<'_>,
        class: Option<ActionClass>,
    ) -> Option<ActionClass> {
        class.or_else(|| self.offers.get(act.adapter_id)?.action_class)
    }

    /// Returns whether rules and conditions go by a class.
    pub(crate) fn is_of(
        &self,
        wanted: ActionClass,
        act: Act<'_>,
        class: Option<ActionClass>,
    ) -> bool {
        self.rule_class(act, class) == Some(wanted)
    }
}
