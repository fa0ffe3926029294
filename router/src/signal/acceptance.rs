//! Acceptance policies: what the user wants of validated fields, and what follows from it.
//!
//! The first rule all of whose conditions hold decides. A field that is not there, and one that is of another kind than
//! what it is compared to, fulfils no condition. Without a policy, without a rule that holds, and whenever the fields
//! did not pass, a person has to look: nothing is accepted by default.

mod decision;
mod reader;

pub use decision::{Decision, decide};

use std::cmp::Ordering;
use std::collections::HashSet;

use super::contract::Contract;
use super::lint::Finding;
use super::number;
use super::types::FieldType;
use crate::json::{Object, Value};

/// What is to be done with the work of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is accepted.
    AutoAccept,
    /// A person has to look at it.
    RequireReview,
    /// It is refused.
    AutoReject,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 3] = [Self::AutoAccept, Self::RequireReview, Self::AutoReject];

    /// Returns the name in policies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AutoAccept => "auto_accept",
            Self::RequireReview => "require_review",
            Self::AutoReject => "auto_reject",
        }
    }

    /// Finds an action by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Op {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
    Unequal,
    In,
}

impl Op {
    /// Every operator with its name in policies.
    pub const ALL: [(&'static str, Self); 7] = [
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        (">", Self::Above),
        ("<", Self::Below),
        ("==", Self::Equal),
        ("!=", Self::Unequal),
        ("in", Self::In),
    ];

    /// Returns the name in policies.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }

    const fn orders(self) -> bool {
        matches!(self, Self::AtLeast | Self::AtMost | Self::Above | Self::Below)
    }

    /// Says whether a value fulfils a condition. Whatever holds here also holds for the AiGentsy verifier, which takes
    /// `true` for 1 and crashes where kinds differ.
    #[must_use]
    pub fn holds(self, got: &Value, wanted: &Value) -> bool {
        let order = || order(got, wanted);
        match self {
            Self::AtLeast => order().is_some_and(Ordering::is_ge),
            Self::AtMost => order().is_some_and(Ordering::is_le),
            Self::Above => order().is_some_and(Ordering::is_gt),
            Self::Below => order().is_some_and(Ordering::is_lt),
            Self::Equal => equal(got, wanted) == Some(true),
            Self::Unequal => equal(got, wanted) == Some(false),
            Self::In => {
                let choices = wanted.as_array().unwrap_or_default();
                choices.iter().any(|choice| equal(got, choice) == Some(true))
            }
        }
    }
}

/// Returns how two values of one kind compare.
fn order(one: &Value, two: &Value) -> Option<Ordering> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
        _ => number::order(one, two),
    }
}

/// Says whether two values of one kind are equal.
fn equal(one: &Value, two: &Value) -> Option<bool> {
    match (one, two) {
        (Value::Bool(one), Value::Bool(two)) => Some(one == two),
        _ => order(one, two).map(Ordering::is_eq),
    }
}

/// One comparison of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The field.
    pub field: String,
    /// How it is compared.
    pub op: Op,
    /// To what.
    pub value: Value,
}

/// A rule: what is to be done if all conditions hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, for people.
    pub name: Option<String>,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// What is to be done then.
    pub action: Action,
    /// The rule as it was written.
    pub document: Object,
}

/// What the user wants of validated fields.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptancePolicy {
    /// Its id.
    pub policy_id: Option<String>,
    /// Its version.
    pub policy_version: Option<String>,
    /// What is to be done when no rule holds; never to accept.
    pub default_action: Action,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// The SHA-256 of the canonical text of `{"default": …, "rules": …}`.
    pub policy_hash: String,
}

impl AcceptancePolicy {
    /// Holds the policy to the contract whose fields it is about, and returns everything that can never hold.
    #[must_use]
    pub fn findings_for(&self, contract: &Contract) -> Vec<Finding> {
        let set = |fields: &'_ [String]| fields.iter().cloned().collect::<HashSet<String>>();
        let known = (set(&contract.output_fields), set(&contract.allowed_policy_fields));
        let mut findings = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            for (index, condition) in rule.conditions.iter().enumerate() {
                let found = misplaced(condition, contract, &known);
                findings.extend(found.map(|(member, message)| {
                    let pointer = format!("/rules/{at}/conditions/{index}/{member}");
                    Finding::error(pointer, message)
                }));
            }
        }
        findings
    }
}

/// Says why a condition can never hold, or not in the way that its author means.
fn misplaced(
    condition: &Condition,
    contract: &Contract,
    (given, allowed): &(HashSet<String>, HashSet<String>),
) -> Option<(&'static str, String)> {
    let Condition { field, op, value } = condition;
    let pointer = contract.pointer();
    if !allowed.contains(field) {
        let why = match given.contains(field) {
            true => "does not let it enter a policy",
            false => "has no such field",
        };
        return Some(("field", format!("'{field}' can never be seen here: {pointer} {why}")));
    }
    let validator = contract.validator.as_ref().ok()?;
    let field_type = validator.field_type(field)?;
    if op.orders() && matches!(field_type, FieldType::Timestamp { .. }) {
        let message = format!(
            "'{field}' is a timestamp, which {} would compare as text; bound it in the contract by not_before and \
             not_after",
            op.name()
        );
        return Some(("op", message));
    }
    let fits = |value: &Value| match (field_type, value) {
        (FieldType::Boolean, Value::Bool(_)) => !op.orders(),
        (
            FieldType::Integer(_) | FieldType::Number(_),
            Value::Int(_) | Value::BigInt(_) | Value::Float(_),
        )
        | (FieldType::String { .. }, Value::String(_)) => true,
        (FieldType::Enum(_), Value::String(_)) => op.orders() || field_type.check(value).is_ok(),
        (FieldType::Timestamp { .. }, Value::String(_)) => field_type.check(value).is_ok(),
        _ => false,
    };
    let all = match (op, value) {
        (Op::In, Value::Array(choices)) => choices.iter().all(fits),
        (_, value) => fits(value),
    };
    let message = || {
        let expected = field_type.told();
        format!("'{field}' is {expected}, which {} cannot compare to this value", op.name())
    };
    (!all).then(|| ("value", message()))
}

#[cfg(test)]
mod tests;
