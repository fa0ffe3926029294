//! Policy decisions, made again: whether the rule that a snapshot says matched does match.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::python;
use crate::json::{Object, Value};

/// What is told of a rule that the bundle withholds.
const WITHHELD: [(&str, &str); 2] = [
    (
        "reason",
        "private matched rule and evaluated context are not distributed in portable ProofPacks",
    ),
    ("note", "canonical cryptographic verification is independent of this optional step"),
];
/// The status of a decision that cannot be made again, as its rule is withheld.
pub(super) const UNAVAILABLE: &str = "policy_replay_unavailable_private_rule_not_distributed";

/// Makes the decision of a policy snapshot again.
#[must_use]
pub fn replay(snapshot: &Value) -> Object {
    let Some(snapshot) = snapshot.as_object() else {
        return result("adapter_evaluation_shape_invalid", [("reason", "not a dict".into())]);
    };
    let rule = snapshot.get("matched_rule").and_then(Value::as_object);
    let inputs = snapshot.get("evaluated_inputs").and_then(Value::as_object);
    let index = snapshot.get("rule_index").cloned().unwrap_or(Value::Null);
    let Some((rule, inputs)) = rule.zip(inputs) else {
        return match &index {
            Value::Bool(_) | Value::Int(0..) => withheld(index),
            Value::BigInt(digits) if !digits.starts_with('-') => withheld(index),
            _ => result("ok", [("replay", "no_match_fallthrough".into())]),
        };
    };
    let action = rule.get("action").cloned().unwrap_or(Value::Null);
    if fires(rule, inputs) {
        return result("ok", [("matched_rule_action", action), ("rule_index", index)]);
    }
    result(
        "matched_rule_does_not_fire_against_evaluated_inputs",
        [("matched_rule_action", action), ("evaluated_inputs", inputs.clone().into())],
    )
}

fn withheld(index: Value) -> Object {
    let [reason, note] = WITHHELD.map(|(key, text)| (key, Value::from(text)));
    result(UNAVAILABLE, [("replay", "not_performed".into()), reason, ("rule_index", index), note])
}

fn result<const N: usize>(status: &str, members: [(&str, Value); N]) -> Object {
    let mut details = Object::with_capacity(N);
    for (key, value) in members {
        details.insert(key, value);
    }
    let mut result = Object::with_capacity(2);
    result.insert("status", status);
    result.insert("details", details);
    result
}

/// Says whether all conditions of a rule hold.
fn fires(rule: &Object, inputs: &Object) -> bool {
    match rule.get("conditions") {
        Some(Value::Array(conditions)) => {
            let inputs: HashMap<&str, &Value> = inputs.iter().collect();
            conditions.iter().all(|condition| holds(condition, &inputs))
        }
        other => !python::truthy(other),
    }
}

/// Says whether a condition holds. What cannot be compared does not hold.
fn holds(condition: &Value, inputs: &HashMap<&str, &Value>) -> bool {
    let field = condition.get("field").and_then(Value::as_str);
    let input = field.and_then(|field| inputs.get(field).copied());
    let input = input.and_then(|input| match input {
        Value::Object(object) if object.contains_key("value") => object.get("value"),
        other => Some(other),
    });
    let Some(input) = input.filter(|input| !input.is_null()) else { return false };
    let value = condition.get("value").unwrap_or(&Value::Null);
    let ordered = |wanted: fn(Ordering) -> bool| python::order(input, value).is_some_and(wanted);
    match condition.get("op").and_then(Value::as_str) {
        Some("==") => python::equal(input, value),
        Some("!=") => !python::equal(input, value),
        Some(">=") => ordered(Ordering::is_ge),
        Some("<=") => ordered(Ordering::is_le),
        Some(">") => ordered(Ordering::is_gt),
        Some("<") => ordered(Ordering::is_lt),
        Some("in") => value
            .as_array()
            .is_some_and(|values| values.iter().any(|value| python::equal(input, value))),
        _ => false,
    }
}
