//! What a plan grants to a step: held to the frozen conditions, and to what its adapter can do with it.

use nexus_router_sdk::AdapterError;

use crate::envoy::{Asked, PlanGrant};
use crate::evidence::Permission;
use crate::json::Value;
use crate::loader::Adapter;
use crate::policy::{Act, Law};
use crate::request::Step;
use crate::role::{self, ActionClass};

/// Judges a step by the frozen conditions of its class, and refuses grants to whoever has no use for them.
pub(super) fn judge(
    adapter: &Adapter,
    law: &Law,
    (act, class): (Act<'_>, Option<ActionClass>),
    step: &Step,
) -> Result<(), AdapterError> {
    let grants = step.grants().map(PlanGrant::read_all).unwrap_or_default();
    if let Some(envoy) = adapter.envoy() {
        let asked =
            Asked { tool: act.tool, method: act.method, args: step.args(), grants: &grants };
        return envoy.judge(&asked).map_err(crate::envoy::Refusal::into_error);
    }
    let granted = |permission| grants.iter().any(|one| one.grant == permission);
    let shell = law.is_of(ActionClass::ShellExec, act, class);
    if shell {
        judge_shell(act, granted(Permission::ShellExec))?;
    }
    let used = usize::from(shell && granted(Permission::ShellExec));
    let given = step.grants().and_then(Value::as_array).unwrap_or_default();
    // Each thing is granted once.
    if given.len() == used {
        return Ok(());
    }
    let (mut reason, mut told) = ("grants_unused".to_owned(), String::new());
    if let Some(class) = class.filter(|_| granted(Permission::Network)) {
        // What a shell needs was judged already; a network needs the same in every class of a role.
        let class = if shell { ActionClass::TestExec } else { class };
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
        "the plan grants something to {}.{} of adapter '{}' that it has no use for{told}",
        act.tool, act.method, act.adapter_id
    );
    let details = serde_json::json!({ "denied_by": "grants", "reason": reason });
    Err(AdapterError::operational("ROLE_REFUSED", message).details(details))
}

/// A shell is a shell in whatever adapter it runs. What passes here has passed the operator's rules before.
fn judge_shell(act: Act<'_>, plan_authorized: bool) -> Result<(), AdapterError> {
    let class = ActionClass::ShellExec;
    let decision = role::decide(role::Request {
        role: class.role().name(),
        action: class.name(),
        plan_authorized,
        policy_gate: true,
        network_requested: false,
    });
    if decision.allow {
        return Ok(());
    }
    let message = format!(
        "Role '{}' may not carry out {}, which {}.{} of adapter '{}' is: {}; grant it to the step with \
         \"grants\": [{{\"grant\": \"{}\"}}]",
        class.role().name(),
        class.name(),
        act.tool,
        act.method,
        act.adapter_id,
        decision.reason,
        Permission::ShellExec.name(),
    );
    let details = serde_json::json!({
        "role": class.role().name(),
        "denied_by": "role",
        "action_class": class.name(),
        "reason": decision.reason.code(),
    });
    Err(AdapterError::operational("ROLE_REFUSED", message).details(details))
}
