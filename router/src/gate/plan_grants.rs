//! What a plan grants to a step: held to the frozen conditions, and to what its adapter can do with it.

use nexus_router_sdk::AdapterError;

use crate::envoy::{Asked, PlanGrant};
use crate::evidence::Permission;
use crate::json::Value;
use crate::loader::Adapter;
use crate::policy::{Act, Law};
use crate::request::Step;
use crate::role;

/// Judges what a step asks of an envoy, and refuses grants to whoever has no use for them.
pub(super) fn judge(
    adapter: &Adapter,
    law: &Law,
    act: Act<'_>,
    step: &Step,
) -> Result<(), AdapterError> {
    let grants = step.grants().map(PlanGrant::read_all).unwrap_or_default();
    if let Some(envoy) = adapter.envoy() {
        let asked =
            Asked { tool: act.tool, method: act.method, args: step.args(), grants: &grants };
        return envoy.judge(&asked).map_err(crate::envoy::Refusal::into_error);
    }
    if step.grants().and_then(Value::as_array).is_none_or(<[_]>::is_empty) {
        return Ok(());
    }
    let network = grants.iter().any(|one| one.grant == Permission::Network);
    let (mut reason, mut told) = ("grants_unused".to_owned(), String::new());
    if let Some(class) = law.class_of(act).filter(|_| network) {
        let decision = role::decide(role::Request {
            role: class.role().name(),
            action: class.name(),
            plan_authorized: true,
            policy_gate: false,
            network_requested: true,
        });
        (reason, told) = (decision.reason.code(), format!(": {}", decision.reason));
    }
    let message = format!(
        "the plan grants something to {}.{} of adapter '{}', which only an envoy can have{told}",
        act.tool, act.method, act.adapter_id
    );
    let details = serde_json::json!({ "denied_by": "grants", "reason": reason });
    Err(AdapterError::operational("ROLE_REFUSED", message).details(details))
}
