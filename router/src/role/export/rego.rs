//! The frozen roles as a Rego policy.
//!
//! It compares with `true` and `false` and never says `not`: what is missing is not false.

use std::fmt::Write as _;

use super::{FLAGS, Need, Permission, permissions, preamble};

/// Returns the policy: `data.nexus_router.role.allow` for an input with `role`, `action`, `network_requested`,
/// `plan_authorized` and `policy_gate`.
#[must_use]
pub fn rego() -> String {
    let mut text = preamble().map(|line| format!("# {line}\n")).concat();
    text.push_str("package nexus_router.role\n\nimport rego.v1\n\ndefault allow := false\n");
    text.push_str("\n# What is neither true nor false authorizes nothing.\nwell_formed if {\n");
    for flag in FLAGS {
        let _ = writeln!(text, "\tis_boolean(input.{flag})");
    }
    text.push_str("}\n");
    for permission in permissions() {
        for network in [false, true] {
            let Some(needs) = needs(&permission, network) else { continue };
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\nallow if {{\n\twell_formed\n\tinput.role == \"{}\"\n\tinput.action in {{\n",
                permission.role.name()
            );
            for class in &permission.actions {
                let _ = writeln!(text, "\t\t\"{}\",", class.name());
            }
            let _ = writeln!(text, "\t}}\n\tinput.network_requested == {network}");
            for flag in needs {
                let _ = writeln!(text, "\tinput.{flag} == true");
            }
            text.push_str("}\n");
        }
    }
    text
}

/// Returns which members must be true; none at all if nothing would help.
fn needs(permission: &Permission, network: bool) -> Option<Vec<&'static str>> {
    let needs = [permission.own, permission.network.filter(|_| network)];
    let needs: Vec<Need> = needs.into_iter().flatten().collect();
    if needs.contains(&Need::Never) {
        return None;
    }
    // Both authorize whatever needs them.
    Some(if needs.is_empty() { Vec::new() } else { vec!["plan_authorized", "policy_gate"] })
}
