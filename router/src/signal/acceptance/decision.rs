//! Decides by a policy, and tells why: which rule, and which of its conditions held.

use std::collections::HashMap;

use super::{AcceptancePolicy, Action, Condition, Rule};
use crate::json::{Object, Value};
use crate::signal::evaluate::{Evaluation, ValidationResult};

/// The version of the form of [`Decision::snapshot`].
const SNAPSHOT_VERSION: &str = "1.0.0";

/// The fields that entered the policy, by name.
type Inputs<'a> = HashMap<&'a str, &'a Value>;

/// What is to be done, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is to be done.
    pub action: Action,
    /// The rule that decided, counted from 0.
    pub rule_index: Option<usize>,
    /// Why, in one sentence.
    pub reason: String,
    /// Every rule that was looked at, with its conditions.
    pub explained: Vec<Value>,
    /// What the decision was made by, in the form in which the AiGentsy verifier makes it again.
    pub snapshot: Object,
}

impl Decision {
    /// Returns the decision alone, as events have it.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let mut object = Object::with_capacity(3);
        object.insert("action", self.action.name());
        object.insert("rule_index", self.rule_index);
        object.insert("reason", self.reason.as_str());
        object
    }

    /// Returns the decision with every rule that was looked at.
    #[must_use]
    pub fn to_explained_json(&self) -> Object {
        let mut object = self.to_json();
        object.insert("rules", self.explained.clone());
        object.insert("policy_snapshot", self.snapshot.clone());
        object
    }
}

/// Decides by a policy; without one, and unless all fields passed, a person has to look.
#[must_use]
pub fn decide(policy: Option<&AcceptancePolicy>, evaluation: &Evaluation) -> Decision {
    let inputs: Inputs<'_> = evaluation.normalized_policy_inputs.iter().collect();
    let mut decision = Decision {
        action: Action::RequireReview,
        rule_index: None,
        reason: String::new(),
        explained: Vec::new(),
        snapshot: Object::new(),
    };
    let mut matched = None;
    match (evaluation.validation_result, policy) {
        (ValidationResult::Passed, Some(policy)) => {
            for (index, rule) in policy.rules.iter().enumerate() {
                let holds = rule.conditions.iter().all(|it| holds(it, &inputs));
                decision.explained.push(explained(index, rule, &inputs, holds));
                if holds {
                    matched = Some((index, rule));
                    break;
                }
            }
            decision.action = matched.map_or(policy.default_action, |(_, rule)| rule.action);
            decision.reason = match matched {
                Some((index, Rule { name: Some(name), .. })) => {
                    format!("rule {index}, {name}, holds")
                }
                Some((index, _)) => format!("rule {index} holds"),
                None => "no rule holds".to_owned(),
            };
            decision.rule_index = matched.map(|(index, _)| index);
        }
        (ValidationResult::Passed, None) => {
            "there is no acceptance policy".clone_into(&mut decision.reason);
        }
        // No rule is looked at, not even one without conditions: nobody knows what it would be about.
        (_, _) => decision.reason = evaluation.why().unwrap_or_default(),
    }
    decision.snapshot = snapshot(policy, matched, &evaluation.normalized_policy_inputs);
    decision
}

fn holds(condition: &Condition, inputs: &Inputs<'_>) -> bool {
    inputs
        .get(condition.field.as_str())
        .is_some_and(|got| condition.op.holds(got, &condition.value))
}

fn explained(index: usize, rule: &Rule, inputs: &Inputs<'_>, holds_all: bool) -> Value {
    let conditions = rule.conditions.iter().map(|condition| {
        let mut object = Object::with_capacity(5);
        object.insert("field", condition.field.as_str());
        object.insert("op", condition.op.name());
        object.insert("wanted", condition.value.clone());
        // Only what entered the policy is there to be shown.
        if let Some(got) = inputs.get(condition.field.as_str()) {
            object.insert("got", Value::clone(got));
        }
        object.insert("holds", holds(condition, inputs));
        Value::Object(object)
    });
    let mut object = Object::with_capacity(5);
    object.insert("index", index);
    if let Some(name) = &rule.name {
        object.insert("name", name.as_str());
    }
    object.insert("action", rule.action.name());
    object.insert("holds", holds_all);
    object.insert("conditions", conditions.collect::<Vec<_>>());
    object.into()
}

fn snapshot(
    policy: Option<&AcceptancePolicy>,
    matched: Option<(usize, &Rule)>,
    inputs: &Object,
) -> Object {
    let mut object = Object::with_capacity(8);
    object.insert("snapshot_version", SNAPSHOT_VERSION);
    object.insert("policy_id", policy.and_then(|it| it.policy_id.as_deref()));
    object.insert("policy_version", policy.and_then(|it| it.policy_version.as_deref()));
    object.insert("policy_hash", policy.map(|it| it.policy_hash.as_str()));
    let default = policy.map_or(Action::RequireReview, |it| it.default_action);
    object.insert("default_action", default.name());
    object.insert("matched_rule", matched.map(|(_, rule)| rule.document.clone()));
    // The AiGentsy verifier takes a negative index for no rule.
    let index = matched.map_or(Value::Int(-1), |(index, _)| index.into());
    object.insert("rule_index", index);
    object.insert("evaluated_inputs", inputs.clone());
    object
}
