//! What a run waits for, in short.

use crate::approval::Approval;
use crate::json::{Object, Value};

/// The approval that a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The approval.
    pub approval_id: String,
    /// The step.
    pub step_id: String,
    /// The adapter that is to be called.
    pub adapter_id: String,
    /// The tool.
    pub tool: String,
    /// The method.
    pub method: String,
    /// Why it is asked, in the operator's words.
    pub reason: Option<String>,
    /// Until when it may be answered.
    pub expires_at: String,
    /// The arguments as recorded.
    pub args: Object,
    /// What the plan grants to the step beyond its role.
    pub grants: Vec<Value>,
    /// The digest of all that the call is made with.
    pub args_digest: String,
}

impl Waiting {
    pub(crate) fn of(approval: Approval) -> Self {
        let args = approval.call.get("args").and_then(Value::as_object).cloned();
        Self {
            args: args.unwrap_or_default(),
            tool: approval.tool().to_owned(),
            method: approval.method().to_owned(),
            grants: approval.grants,
            args_digest: approval.args_digest,
            approval_id: approval.approval_id,
            step_id: approval.step_id,
            adapter_id: approval.adapter_id,
            reason: approval.asked_because,
            expires_at: approval.expires_at,
        }
    }

    /// Returns the form that callers get.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Object::with_capacity(7);
        object.insert("approval_id", self.approval_id.as_str());
        object.insert("step_id", self.step_id.as_str());
        object.insert("adapter_id", self.adapter_id.as_str());
        object.insert("tool", self.tool.as_str());
        object.insert("method", self.method.as_str());
        object.insert("reason", self.reason.as_deref());
        object.insert("expires_at", self.expires_at.as_str());
        object.into()
    }
}
