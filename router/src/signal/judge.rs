//! Who judges the work of one adapter: its contract, where its fields are, and the policy that decides.

use std::sync::Arc;

use super::acceptance::{AcceptancePolicy, Decision, decide};
use super::evaluate::{Evaluation, evaluate};
use super::registry::Registry;
use crate::clock::Timestamp;
use crate::json::{Object, Value};

/// The member that the router itself puts into every output.
const OWN_MEMBER: &str = "adapter_id";

/// Who judges the work of one adapter.
#[derive(Clone, Debug)]
pub struct Judge {
    /// The contracts that are known.
    pub registry: Arc<Registry>,
    /// The id of the contract.
    pub contract_id: String,
    /// Its version; without one, the highest that is active, or else the highest that is deprecated.
    pub version: Option<String>,
    /// Where the fields are in an output: a JSON pointer.
    pub pointer: String,
    /// What decides.
    pub policy: Option<Arc<AcceptancePolicy>>,
}

impl Judge {
    /// Judges an output as it is recorded.
    #[must_use]
    pub fn judge(&self, output: &Object, now: Timestamp) -> (Evaluation, Decision) {
        let fields = self.fields(output);
        let version = self.version.as_deref();
        let evaluation = evaluate(&self.registry, &self.contract_id, version, &fields, now);
        let decision = decide(self.policy.as_deref(), &evaluation);
        (evaluation, decision)
    }

    /// Returns the fields of an output; null, if there are none where they should be.
    fn fields(&self, output: &Object) -> Value {
        if self.pointer.is_empty() {
            let mut fields = output.clone();
            fields.remove(OWN_MEMBER);
            return fields.into();
        }
        // By hand as far as the first member: an output may be large, and is not copied to be looked into.
        let (_, path) = self.pointer.split_once('/').unwrap_or_default();
        let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        let member = output.get(&first.replace("~1", "/").replace("~0", "~"));
        member.and_then(|it| it.pointer(rest)).cloned().unwrap_or(Value::Null)
    }

    /// Returns what decides, for whoever compares two states of it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let contract = self.registry.resolve(&self.contract_id, self.version.as_deref());
        let mut object = Object::with_capacity(5);
        object.insert("contract", self.contract_id.as_str());
        object.insert("version", self.version.as_deref());
        object.insert("contract_hash", contract.map(|it| it.contract_hash.as_str()));
        object.insert("fields", self.pointer.as_str());
        object.insert("policy_hash", self.policy.as_ref().map(|it| it.policy_hash.as_str()));
        object.into()
    }
}
