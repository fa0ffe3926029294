//! Evaluation: what an adapter gave, held to its contract, and what of it may enter a policy.
//!
//! Two hashes say what was looked at: `input_hash` is the SHA-256 of the canonical compact text of the fields as they
//! were given, `output_hash` that of the fields that may enter a policy.

use std::collections::HashMap;
use std::sync::Arc;

use super::contract::{Contract, Lifecycle};
use super::registry::Registry;
use super::validator::{Reason, Rejection, Validator};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json::{Object, Value, to_canonical};

/// What a validator said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationResult {
    /// Every field is there and of its type, and there is no other.
    Passed,
    /// Fields are missing; those that are there are right.
    Incomplete,
    /// A field is of another type, or unknown.
    Rejected,
    /// Nobody knows what the fields mean: the contract, its version or its validator is not known, or it is revoked.
    UnknownAdapter,
}

impl ValidationResult {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Passed, Self::Incomplete, Self::Rejected, Self::UnknownAdapter];

    /// Returns the name in an evaluation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Incomplete => "incomplete",
            Self::Rejected => "rejected",
            Self::UnknownAdapter => "unknown_adapter",
        }
    }
}

/// What became of the contract that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleWarning {
    /// What became of it.
    pub kind: Lifecycle,
    /// Its id.
    pub adapter_id: String,
    /// Its version.
    pub adapter_version: String,
    /// The version that takes its place.
    pub replaced_by: Option<String>,
}

impl LifecycleWarning {
    fn of(contract: &Contract) -> Option<Self> {
        (contract.lifecycle != Lifecycle::Active).then(|| Self {
            kind: contract.lifecycle,
            adapter_id: contract.adapter_id.clone(),
            adapter_version: contract.adapter_version.clone(),
            replaced_by: contract.replaced_by.clone(),
        })
    }

    fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(4);
        object.insert("kind", self.kind.name());
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("adapter_version", self.adapter_version.as_str());
        object.insert("replaced_by", self.replaced_by.as_deref());
        object.into()
    }
}

/// What came of holding fields to a contract.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The id of the contract that was asked for.
    pub adapter_id: String,
    /// Its version: that of the contract, or the one that was asked for.
    pub adapter_version: Option<String>,
    /// The contract, if it is known.
    pub contract: Option<Arc<Contract>>,
    /// What its validator said.
    pub validation_result: ValidationResult,
    /// The fields that may enter a policy; none unless all passed.
    pub normalized_policy_inputs: Object,
    /// The fields that were not let through.
    pub rejected_fields: Vec<Rejection>,
    /// What became of the contract.
    pub lifecycle_warnings: Vec<LifecycleWarning>,
    /// The hash of what was given.
    pub input_hash: String,
    /// The hash of what may enter a policy.
    pub output_hash: String,
    /// When.
    pub evaluated_at: Timestamp,
}

/// Holds what an adapter gave to a contract. The same is said of the same at the same moment.
#[must_use]
pub fn evaluate(
    registry: &Registry,
    adapter_id: &str,
    version: Option<&str>,
    fields: &Value,
    now: Timestamp,
) -> Evaluation {
    let mut evaluation = Evaluation {
        adapter_id: adapter_id.to_owned(),
        adapter_version: version.map(str::to_owned),
        contract: None,
        validation_result: ValidationResult::UnknownAdapter,
        normalized_policy_inputs: Object::new(),
        rejected_fields: Vec::new(),
        lifecycle_warnings: Vec::new(),
        input_hash: hash(fields),
        output_hash: hash(&Value::Object(Object::new())),
        evaluated_at: now,
    };
    match registry.resolve(adapter_id, version) {
        Some(contract) => evaluation.by(contract, fields),
        // Every version is revoked: the newest one says why.
        None if version.is_none() => {
            let newest = registry.versions(adapter_id).last();
            evaluation.lifecycle_warnings.extend(newest.and_then(|it| LifecycleWarning::of(it)));
        }
        None => {}
    }
    evaluation
}

fn hash(value: &Value) -> String {
    Digest::of(to_canonical(value).as_bytes()).to_string()
}

impl Evaluation {
    fn by(&mut self, contract: &Arc<Contract>, fields: &Value) {
        self.contract = Some(Arc::clone(contract));
        self.adapter_version = Some(contract.adapter_version.clone());
        self.lifecycle_warnings.extend(LifecycleWarning::of(contract));
        if contract.lifecycle == Lifecycle::Revoked {
            return;
        }
        let Ok(validator) = &contract.validator else { return };
        self.validate(contract, validator, fields);
    }

    fn validate(&mut self, contract: &Contract, validator: &Validator, fields: &Value) {
        self.rejected_fields = validator.check(&contract.output_fields, fields);
        let only_missing = self.rejected_fields.iter().all(|it| it.reason == Reason::Missing);
        self.validation_result = match (self.rejected_fields.is_empty(), only_missing) {
            (true, _) => ValidationResult::Passed,
            (false, true) => ValidationResult::Incomplete,
            (false, false) => ValidationResult::Rejected,
        };
        // Whoever leaves out a field must not get further than whoever gives it: a rule that rejects by that field
        // would not fire, and one that accepts by the others would. So only what is complete enters a policy.
        if self.validation_result != ValidationResult::Passed {
            return;
        }
        let given: HashMap<&str, &Value> = fields.as_object().into_iter().flatten().collect();
        let inputs = contract.allowed_policy_fields.iter().filter_map(|field| {
            given.get(field.as_str()).map(|value| (field.clone(), Value::clone(value)))
        });
        let inputs = Value::Object(inputs.collect());
        self.output_hash = hash(&inputs);
        self.normalized_policy_inputs = inputs.into_object().unwrap_or_default();
    }

    /// Tells why nothing may enter a policy; nothing, if it may.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        let known = match &self.adapter_version {
            Some(version) => format!("{}@{version}", self.adapter_id),
            None => self.adapter_id.clone(),
        };
        let fields = |reasons: &mut dyn Iterator<Item = &Rejection>| {
            let named: Vec<String> = reasons
                .take(5)
                .map(|it| format!("{} ({})", it.field, it.reason.name()).trim_start().to_owned())
                .collect();
            named.join(", ")
        };
        let told = fields(&mut self.rejected_fields.iter());
        Some(match (self.validation_result, &self.contract) {
            (ValidationResult::Passed, _) => return None,
            (ValidationResult::Incomplete, _) => format!("fields are missing: {told}"),
            (ValidationResult::Rejected, _) => format!("fields are not as {known} says: {told}"),
            (ValidationResult::UnknownAdapter, Some(contract)) => match &contract.validator {
                _ if contract.lifecycle == Lifecycle::Revoked => {
                    let newer = contract.replaced_by.as_ref();
                    let newer = newer.map_or_else(String::new, |it| format!("; {it} replaces it"));
                    format!("the contract {known} is revoked{newer}")
                }
                Err(unknown) => unknown.to_string(),
                Ok(_) => format!("the contract {known} is not known"),
            },
            (ValidationResult::UnknownAdapter, None) => match self.lifecycle_warnings.first() {
                Some(warning) => {
                    let newest = &warning.adapter_version;
                    format!("every version of {known} is revoked; the newest is {newest}")
                }
                None => format!("the contract {known} is not known"),
            },
        })
    }

    /// Returns the evaluation as bundles and events have it, with the whole declaration.
    #[must_use]
    pub fn to_json(&self) -> Object {
        let contract = self.contract.as_deref();
        let mut object = Object::with_capacity(12);
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("adapter_version", self.adapter_version.as_deref());
        object.insert("contract_hash", contract.map(|it| it.contract_hash.as_str()));
        object.insert("input_schema_hash", contract.map(|it| it.input_schema_hash.as_str()));
        object.insert("input_hash", self.input_hash.as_str());
        object.insert("output_hash", self.output_hash.as_str());
        object.insert("validation_result", self.validation_result.name());
        object.insert("normalized_policy_inputs", self.normalized_policy_inputs.clone());
        let rejected = self.rejected_fields.iter().map(Rejection::to_json);
        object.insert("rejected_fields", rejected.collect::<Vec<_>>());
        object.insert("evaluated_at", self.evaluated_at.to_string());
        object.insert("adapter_contract", contract.map(|it| it.declaration.clone()));
        let warnings = self.lifecycle_warnings.iter().map(LifecycleWarning::to_json);
        object.insert("lifecycle_warnings", warnings.collect::<Vec<_>>());
        object
    }
}

#[cfg(test)]
mod tests;
