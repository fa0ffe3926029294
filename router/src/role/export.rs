//! The frozen roles for engines of others: as data, as a Cedar policy and as a Rego policy.
//!
//! All are written from the tables by which [`decide`](super::decide()) decides. Every permission carries its
//! conditions itself, because of what engines do with a request that lacks a member: a rule that forbids is then
//! passed over, and would let pass what it should have stopped, while a rule that permits permits nothing.

mod cedar;
mod rego;

pub use cedar::{cedar, cedar_schema};
pub use rego::rego;

use super::{
    ActionClass, CONDITIONS, CONTRACT_SHA256, Need, Role, TABLE_SHA256, VALIDATES, When, table,
};
use crate::json::{Object, Value};

/// The members of a request that are true or false.
const FLAGS: [&str; 3] = ["network_requested", "plan_authorized", "policy_gate"];

/// Classes of actions of one role that are permitted under the same conditions.
struct Permission {
    role: Role,
    actions: Vec<ActionClass>,
    /// What the actions themselves need.
    own: Option<Need>,
    /// What network access needs besides.
    network: Option<Need>,
}

/// Returns every permission: for each role the actions without a condition, then each that has one.
fn permissions() -> Vec<Permission> {
    let mut permissions = Vec::new();
    for role in Role::ALL {
        let need = |when: When| {
            let found = CONDITIONS.into_iter().find(|it| it.role == role && it.when == when);
            found.map(|condition| condition.need)
        };
        let network = need(When::Network);
        let own = |class: &ActionClass| need(When::Action(*class));
        let (bound, free): (Vec<ActionClass>, Vec<ActionClass>) =
            role.actions().into_iter().partition(|class| own(class).is_some());
        permissions.push(Permission { role, actions: free, own: None, network });
        for class in bound {
            permissions.push(Permission { role, actions: vec![class], own: own(&class), network });
        }
    }
    permissions
}

/// Returns the lines that say where an export comes from.
fn preamble() -> [String; 3] {
    [
        format!("The frozen roles of revision {VALIDATES}, written by nexus-router role export."),
        format!("role table sha256 {TABLE_SHA256}"),
        format!("contract   sha256 {CONTRACT_SHA256}"),
    ]
}

/// Returns the table and the conditions as data.
#[must_use]
pub fn json() -> Value {
    let conditions = CONDITIONS.into_iter().map(|condition| {
        let mut object = Object::new();
        object.insert("role", condition.role.name());
        object.insert("when", condition.when.name());
        object.insert("needs", condition.need.name());
        Value::Object(object)
    });
    let mut document = Object::new();
    document.insert("contract_version", VALIDATES);
    document.insert("contract_sha256", CONTRACT_SHA256);
    document.insert("role_table_sha256", TABLE_SHA256);
    document.insert("roles", table());
    document.insert("conditions", Value::Array(conditions.collect()));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_permitted_once() {
        let mut classes: Vec<ActionClass> =
            permissions().into_iter().flat_map(|permission| permission.actions).collect();
        classes.sort();
        assert_eq!(classes, ActionClass::ALL);
    }

    #[test]
    fn every_condition_is_in_a_permission() {
        for condition in CONDITIONS {
            let found = permissions().into_iter().filter(|it| it.role == condition.role);
            let found = found.filter(|permission| match condition.when {
                When::Network => permission.network == Some(condition.need),
                When::Action(class) => {
                    permission.actions == [class] && permission.own == Some(condition.need)
                }
            });
            assert!(found.count() > 0, "{condition:?}");
        }
    }
}
