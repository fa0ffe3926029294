//! Decision of a policy about one call, under assumptions about everything that the record does not say.

use std::sync::Arc;

use super::call::{PolicyCall, RecordedCaller};
use super::condition::ConditionResult;
use super::file::{PolicyFile, Presence};
use super::world::{Gap, Unknown, World};
use crate::caller::Caller;
use crate::config::{AdapterEntry, Annotation, Effect, PolicyDefault, Property, Rule};
use crate::json;
use crate::policy::names::is_protocol_call;
use crate::policy::{Hint, Law, RuleKey};
use crate::request::Mode;
use crate::role::{ActionClass, Role};
use crate::scope::Scope;

/// Part of a policy that decides about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The configuration does not have the adapter.
    Adapter,
    /// The operation is not offered to the caller.
    Offer,
    /// The interface contract of the adapter does not have the operation.
    Contract,
    /// The rule at an index.
    Rule(usize),
    /// The condition of the rule at an index, which cannot be evaluated.
    Condition(usize),
    /// `policy.default`.
    Default,
    /// The role of the caller or of the adapter.
    Role,
    /// `policy.apply`.
    Apply,
}

impl DecidedBy {
    /// Returns the name in answers for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adapter => "adapter",
            Self::Offer => "offer",
            Self::Contract => "contract",
            Self::Rule(_) => "rule",
            Self::Condition(_) => "condition",
            Self::Default => "default",
            Self::Role => "role",
            Self::Apply => "apply",
        }
    }

    /// Returns the index of the rule, if a rule decides.
    #[must_use]
    pub const fn rule(self) -> Option<usize> {
        match self {
            Self::Rule(index) | Self::Condition(index) => Some(index),
            _ => None,
        }
    }
}

/// Decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// The effect.
    pub effect: Effect,
    /// The part of the policy that decides.
    pub by: DecidedBy,
}

impl PolicyOutcome {
    const fn deny(by: DecidedBy) -> Self {
        Self { effect: Effect::Deny, by }
    }
}

/// Reason why a rule does not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleMiss {
    /// A key does not fit.
    Key(RuleKey),
    /// The condition is false.
    Condition,
}

/// Receives the result of each rule, in order.
pub(super) trait RuleTrace {
    /// Takes a rule that does not decide.
    fn miss(&mut self, index: usize, miss: RuleMiss);
    /// Takes the reason why a condition cannot be evaluated.
    fn failed(&mut self, index: usize, reason: String);
}

/// Discards the trace.
impl RuleTrace for () {
    fn miss(&mut self, _: usize, _: RuleMiss) {}
    fn failed(&mut self, _: usize, _: String) {}
}

/// Call with everything about it that one policy adds.
pub(super) struct Case<'a> {
    pub(super) call: &'a PolicyCall,
    pub(super) law: &'a Law,
    entry: Option<&'a AdapterEntry>,
    pub(super) world: &'a World,
    /// Whether offers and the role of the adapter are left out.
    is_foreign: bool,
}

impl PolicyFile {
    /// Returns whether no entry of the configuration can be the adapter of a call.
    pub(super) fn lacks(&self, call: &PolicyCall) -> bool {
        self.presence(&call.adapter_id) == Presence::Absent
    }

    /// Decides about a call. An adapter that the configuration lacks is an obstacle unless it is foreign.
    ///
    /// # Errors
    /// With the first thing that decides, and is neither recorded nor assumed.
    pub(super) fn evaluate(
        &mut self,
        call: &PolicyCall,
        world: &World,
        is_foreign: bool,
        trace: &mut impl RuleTrace,
    ) -> Result<PolicyOutcome, Unknown> {
        if !is_foreign && self.lacks(call) {
            return Ok(PolicyOutcome::deny(DecidedBy::Adapter));
        }
        let unnamed = self.choose_entry(call, world)?;
        let law = self.law(&call.adapter_id, unnamed);
        let candidates = self.candidates(&law, call, unnamed);
        let entry = self.entry(&call.adapter_id, unnamed);
        let case = Case { call, law: &law, entry, world, is_foreign };
        if !case.is_offered()? {
            return Ok(PolicyOutcome::deny(DecidedBy::Offer));
        }
        if law.judge_by_contract(call.act()).is_err() {
            return Ok(PolicyOutcome::deny(DecidedBy::Contract));
        }
        let outcome = self.evaluate_rules(&case, &candidates, trace)?;
        if outcome.effect == Effect::Deny {
            return Ok(outcome);
        }
        if self.role_denies(&case)? {
            return Ok(PolicyOutcome::deny(DecidedBy::Role));
        }
        if call.mode == Mode::Apply && !law.apply {
            return Ok(PolicyOutcome::deny(DecidedBy::Apply));
        }
        Ok(outcome)
    }

    /// Chooses among the entries without an id, if the adapter has no entry of its own. Two configurations with the
    /// same entries choose the same one.
    pub(super) fn choose_entry(
        &self,
        call: &PolicyCall,
        world: &World,
    ) -> Result<Option<usize>, Unknown> {
        if self.presence(&call.adapter_id) != Presence::Possible {
            return Ok(None);
        }
        match self.unnamed() {
            [_] => Ok(Some(0)),
            entries => {
                let refs: Vec<&str> = entries.iter().map(|one| one.factory_ref.as_str()).collect();
                world.choose(Gap::AdapterWithoutId, refs.join(" "), entries.len()).map(Some)
            }
        }
    }

    fn evaluate_rules(
        &self,
        case: &Case<'_>,
        candidates: &[usize],
        trace: &mut impl RuleTrace,
    ) -> Result<PolicyOutcome, Unknown> {
        let rules = &case.law.rules;
        let has_conditions = candidates.iter().any(|index| rules[*index].when.is_some());
        let caller =
            case.call.caller.caller().filter(|_| has_conditions).map(|caller| Caller {
                role: self.role(&caller.name, caller.role),
                ..caller.clone()
            });
        let mut evaluation = None;
        for &index in candidates {
            let rule = &rules[index];
            if !case.has_token(rule)? {
                trace.miss(index, RuleMiss::Key(RuleKey::Token));
                continue;
            }
            if let Some(annotation) = rule.annotation
                && !case.has_hint(annotation)?
            {
                trace.miss(index, RuleMiss::Key(RuleKey::Annotation));
                continue;
            }
            let result = match &rule.when {
                Some(condition) => case.evaluate(condition, caller.as_ref(), &mut evaluation)?,
                None => ConditionResult::Met,
            };
            match result {
                ConditionResult::Met => {
                    return Ok(PolicyOutcome { effect: rule.effect, by: DecidedBy::Rule(index) });
                }
                ConditionResult::NotMet => trace.miss(index, RuleMiss::Condition),
                ConditionResult::Failed(reason) => {
                    trace.failed(index, reason);
                    return Ok(PolicyOutcome::deny(DecidedBy::Condition(index)));
                }
            }
        }
        let effect = match case.law.default {
            PolicyDefault::Allow => Effect::Allow,
            PolicyDefault::Deny => Effect::Deny,
        };
        Ok(PolicyOutcome { effect, by: DecidedBy::Default })
    }

    fn role_denies(&self, case: &Case<'_>) -> Result<bool, Unknown> {
        case.is_denied_to(match &case.call.caller {
            // A caller of another router does not have a role here.
            RecordedCaller::Host | RecordedCaller::Unknown => None,
            RecordedCaller::Known(caller) | RecordedCaller::WithoutScope(caller) => {
                self.role(&caller.name, caller.role)
            }
        })
    }

    /// Lists the rules that fit operation and token, up to the first unconditional one.
    fn candidates(&mut self, law: &Law, call: &PolicyCall, unnamed: Option<usize>) -> Arc<[usize]> {
        let Some(name) = call.caller.name() else {
            return candidates(law, call, None).into();
        };
        let unnamed = unnamed.map_or(0, |index| index + 1);
        let PolicyCall { adapter_id, tool, method, .. } = call;
        let key = format!("{unnamed}\0{adapter_id}\0{tool}\0{method}\0{name}");
        if let Some(found) = self.fits.get(&key) {
            return Arc::clone(found);
        }
        let found: Arc<[usize]> = candidates(law, call, Some(name)).into();
        if self.fits.len() >= Self::MAX_FITS {
            self.fits.clear();
        }
        self.fits.insert(key, Arc::clone(&found));
        found
    }
}

fn candidates(law: &Law, call: &PolicyCall, name: Option<&str>) -> Vec<usize> {
    let (act, class) = (call.act(), law.class_of(call.act()));
    let mut found = Vec::new();
    for (index, rule) in law.rules.iter().enumerate() {
        let is_token = |name| rule.token.as_ref().is_none_or(|pattern| pattern.matches(name));
        if law.operation_mismatch(rule, act, class).is_some() || !name.is_none_or(is_token) {
            continue;
        }
        found.push(index);
        let is_certain = rule.annotation.is_none()
            && rule.when.is_none()
            && (rule.token.is_none() || name.is_some());
        if is_certain {
            break;
        }
    }
    found
}

impl Case<'_> {
    /// Returns whether the operation is offered to the caller.
    fn is_offered(&self) -> Result<bool, Unknown> {
        let call = self.call;
        let is_unbounded = match &call.caller {
            RecordedCaller::Host => true,
            RecordedCaller::Known(caller) => caller.is_admin(),
            RecordedCaller::WithoutScope(_) | RecordedCaller::Unknown => false,
        };
        if is_unbounded || self.is_foreign {
            return Ok(true);
        }
        let bounded = Caller { scope: Scope::Apply, ..Caller::local() };
        let by_tools = || self.law.judge_by_offer(Some(&bounded), call.act(), &call.args).is_ok();
        let may_have_others =
            is_protocol_call(call.act()) && self.entry.is_some_and(|entry| !entry.offer.is_empty());
        let offered = match may_have_others {
            true => {
                let offer = self.entry.map(|entry| &entry.offer);
                let key = format!("{offer:?} {}", self.adapter_key());
                self.world.holds(Gap::UnloadedCatalogue, key)?
            }
            false => by_tools(),
        };
        if offered {
            return Ok(true);
        }
        match &call.caller {
            RecordedCaller::WithoutScope(_) => Ok(self.scope()? == Scope::Admin),
            RecordedCaller::Unknown => self.world.holds(Gap::UnknownCaller, "admin"),
            RecordedCaller::Host | RecordedCaller::Known(_) => Ok(false),
        }
    }

    /// Returns the assumed scope of the caller.
    pub(super) fn scope(&self) -> Result<Scope, Unknown> {
        let chosen = self.world.choose(Gap::UnknownScope, "scope", Scope::ALL.len())?;
        Ok(Scope::ALL[chosen])
    }

    fn has_token(&self, rule: &Rule) -> Result<bool, Unknown> {
        match (&rule.token, self.call.caller.name()) {
            (None, _) => Ok(true),
            (Some(pattern), Some(name)) => Ok(pattern.matches(name)),
            (Some(pattern), None) => {
                self.world.holds(Gap::UnknownCaller, format!("token {pattern}"))
            }
        }
    }

    fn has_hint(&self, annotation: Annotation) -> Result<bool, Unknown> {
        let mut hint = self.law.hint(self.call.act()).members();
        let [read_only, destructive, idempotent, open_world] = [0, 1, 2, 3];
        let reads = match annotation.property {
            Property::ReadOnly => &[read_only][..],
            // Without a hint of its own, an operation that only reads is not destructive.
            Property::Destructive => &[destructive, read_only],
            Property::Idempotent => &[idempotent],
            Property::OpenWorld => &[open_world],
        };
        for &index in reads {
            if hint[index].is_none() {
                hint[index] = self.assume_hint(index)?;
            }
            if hint[index].is_some() {
                break;
            }
        }
        Ok(Hint::of_members(hint).fits(annotation))
    }

    /// Returns a text that is the same in another policy only if it loads the same adapter.
    fn adapter_key(&self) -> String {
        let Some(AdapterEntry { factory_ref, config, .. }) = self.entry else {
            return String::new();
        };
        format!("{factory_ref} {}", json::to_compact(&config.clone().into()))
    }

    /// Returns the assumed hint at an index: absent, false or true. Trust in the catalogue changes hints.
    pub(super) fn assume_hint(&self, index: usize) -> Result<Option<bool>, Unknown> {
        let is_trusted = self.entry.is_some_and(|entry| entry.trust_hints);
        let key = format!("{index} {is_trusted} {}", self.adapter_key());
        let values = [None, Some(false), Some(true)];
        Ok(values[self.world.choose(Gap::UnloadedHints, key, values.len())?])
    }

    /// Returns the class of the operation for roles. Tools of a catalogue have the class of their offer; without a
    /// catalogue they have none.
    fn class(&self) -> Result<Option<ActionClass>, Unknown> {
        let act = self.call.act();
        let class = self.law.class_of(act);
        let offer = self.entry.map(|entry| &entry.offer).filter(|offer| {
            class.is_none() && offer.tools.iter().any(|pattern| pattern.matches_name(act.tool))
        });
        let Some(of_offer) = offer.and_then(|offer| offer.action_class) else { return Ok(class) };
        let has_catalogue = self.world.holds(Gap::UnloadedCatalogue, self.adapter_key())?;
        Ok(has_catalogue.then_some(of_offer))
    }

    /// Returns whether a role of the caller or that of the adapter forbids the call.
    fn is_denied_to(&self, role: Option<Role>) -> Result<bool, Unknown> {
        let act = self.call.act();
        if role.is_none() && !self.law.roles.contains_key(act.adapter_id) {
            return Ok(false);
        }
        let caller = Caller { role, ..Caller::local() };
        Ok(self.law.judge_by_role(Some(&caller), act, self.class()?).is_err())
    }
}
