//! Explanation of a decision: the part of the policy that decides, and why earlier rules do not.

use std::collections::BTreeSet;

use super::call::PolicyCall;
use super::evaluate::{PolicyOutcome, RuleMiss, RuleTrace};
use super::file::PolicyFile;
use super::world::{Gap, Worlds};
use crate::config::Effect;
use crate::policy::{Law, RuleKey};

/// Decision about one call with its reasons.
#[derive(Clone, Debug, Default)]
pub struct PolicyExplanation {
    /// The effect; absent if it depends on something that is missing.
    pub effect: Option<Effect>,
    /// The decision; absent if its effect, or the part that decides, depends on something that is missing.
    pub outcome: Option<PolicyOutcome>,
    /// Decisions that are possible.
    pub possible: Vec<PolicyOutcome>,
    /// Everything that is missing, if the decision depends on it.
    pub gaps: BTreeSet<Gap>,
    /// Rules that do not decide under any assumption, with the reason.
    pub misses: Vec<(usize, RuleMiss)>,
    /// The reason why the condition of the deciding rule cannot be evaluated.
    pub failure: Option<String>,
}

/// Reasons of one decision.
#[derive(Default)]
struct DecisionTrace {
    misses: Vec<(usize, RuleMiss)>,
    failure: Option<String>,
}

impl RuleTrace for DecisionTrace {
    fn miss(&mut self, index: usize, miss: RuleMiss) {
        self.misses.push((index, miss));
    }

    fn failed(&mut self, _: usize, reason: String) {
        self.failure = Some(reason);
    }
}

impl PolicyFile {
    /// Explains the decision about a call.
    #[must_use]
    pub fn explain(&mut self, call: &PolicyCall) -> PolicyExplanation {
        let worlds = Worlds::decide(|world| {
            let mut trace = DecisionTrace::default();
            let outcome = self.evaluate(call, world, false, &mut trace)?;
            let unnamed = self.choose_entry(call, world)?;
            add_key_misses(&self.law(&call.adapter_id, unnamed), call, outcome, &mut trace);
            Ok((outcome, trace))
        });
        let is_complete = worlds.is_complete();
        let Worlds { decisions, gaps } = worlds;
        let mut explanation = PolicyExplanation { gaps, ..PolicyExplanation::default() };
        let mut decisions = decisions.into_iter();
        let Some((first, trace)) = decisions.next() else { return explanation };
        let DecisionTrace { mut misses, mut failure } = trace;
        let mut possible = vec![first];
        for (outcome, trace) in decisions {
            if !possible.contains(&outcome) {
                possible.push(outcome);
            }
            misses.retain(|miss| trace.misses.contains(miss));
            failure = failure.filter(|failure| trace.failure.as_ref() == Some(failure));
        }
        if is_complete {
            let is_same = possible.iter().all(|one| one.effect == first.effect);
            explanation.effect = is_same.then_some(first.effect);
            explanation.outcome = (possible.len() == 1).then_some(first);
        }
        if explanation.outcome.is_some() {
            explanation.gaps.clear();
        }
        PolicyExplanation { possible, misses, failure, ..explanation }
    }
}

/// Adds the rules whose keys do not fit, up to the deciding rule.
fn add_key_misses(law: &Law, call: &PolicyCall, outcome: PolicyOutcome, trace: &mut DecisionTrace) {
    let end = outcome.by.rule().unwrap_or(law.rules.len());
    let (act, class) = (call.act(), law.class_of(call.act()));
    let name = call.caller.name();
    for (index, rule) in law.rules.iter().enumerate().take(end) {
        if trace.misses.iter().any(|(known, _)| *known == index) {
            continue;
        }
        let is_token = |name| rule.token.as_ref().is_none_or(|pattern| pattern.matches(name));
        let key = law
            .operation_mismatch(rule, act, class)
            .or_else(|| (!name.is_none_or(is_token)).then_some(RuleKey::Token));
        trace.misses.extend(key.map(|key| (index, RuleMiss::Key(key))));
    }
    trace.misses.sort_by_key(|(index, _)| *index);
}
