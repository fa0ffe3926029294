//! The frozen roles as a Cedar policy, and the schema of its requests.
//!
//! The policy lists actions instead of naming a group of them: `action in Action::"group"` also holds for the group
//! itself, so that its name would be an action that is allowed.

use std::fmt::Write as _;

use super::{FLAGS, Need, Permission, permissions, preamble};
use crate::role::ActionClass;

/// Returns the policy. Principals are `Role::"scout"` and `Role::"envoy"`, actions the classes by name, the resource is
/// an `Execution`; the context has `network_requested`, `plan_authorized` and `policy_gate`.
#[must_use]
pub fn cedar() -> String {
    let mut text = comment();
    for permission in permissions() {
        let actions: Vec<String> = permission.actions.iter().map(|class| entity(*class)).collect();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\npermit (\n    principal == Role::\"{}\",\n    action in [\n        {}\n    ],\n    resource is Execution\n)\nwhen {{\n    {}\n}};\n",
            permission.role.name(),
            actions.join(",\n        "),
            guard(&permission),
        );
    }
    text
}

/// Returns the schema, in which no request has another action or another context.
#[must_use]
pub fn cedar_schema() -> String {
    let actions: Vec<String> = permissions()
        .iter()
        .flat_map(|permission| &permission.actions)
        .map(|class| format!("\"{}\"", class.name()))
        .collect();
    let flags: Vec<String> = FLAGS.iter().map(|flag| format!("        {flag}: Bool,\n")).collect();
    format!(
        "{}\nentity Role;\n\nentity Execution;\n\naction {} appliesTo {{\n    principal: [Role],\n    resource: [Execution],\n    context: {{\n{}    }},\n}};\n",
        comment(),
        actions.join(",\n    "),
        flags.concat(),
    )
}

fn comment() -> String {
    preamble().map(|line| format!("// {line}\n")).concat()
}

fn entity(class: ActionClass) -> String {
    format!("Action::\"{}\"", class.name())
}

fn guard(permission: &Permission) -> String {
    let need = |need: Need| match need {
        Need::PlanAndPolicy => "(context.plan_authorized && context.policy_gate)",
        Need::Never => "false",
    };
    let own = permission.own.map(|own| need(own).to_owned());
    let network = permission.network.map(|network| match network {
        Need::Never => "!context.network_requested".to_owned(),
        Need::PlanAndPolicy => format!("(!context.network_requested || {})", need(network)),
    });
    let parts: Vec<String> = own.into_iter().chain(network).collect();
    if parts.is_empty() { "true".to_owned() } else { parts.join(" &&\n    ") }
}
