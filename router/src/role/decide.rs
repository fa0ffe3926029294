//! Whether a role may carry out an action: the table, the conditions, and nothing that is not in them.

use super::{ActionClass, Role};

/// What is asked for, in the words of whoever asks: a name that is not in the table is an answer too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The role under which it would be carried out.
    pub role: &'a str,
    /// The class of the action.
    pub action: &'a str,
    /// Whether the plan has a grant for just this.
    pub plan_authorized: bool,
    /// Whether the operator's policy lets it pass.
    pub policy_gate: bool,
    /// Whether it asks for network access of its own: anything beyond the retrieval that the adapter itself offers.
    pub network_requested: bool,
}

/// The answer, and why it is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be carried out.
    pub allow: bool,
    /// Why.
    pub reason: Reason,
}

/// Why something may be carried out or may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The table has it, and every condition is met.
    Allowed,
    /// There is no such role.
    UnknownRole,
    /// There is no such class of actions.
    UnknownAction,
    /// The class belongs to another role.
    NotOfRole,
    /// It would need a grant of the plan, and has none.
    NotInPlan(&'static str),
    /// It would need the operator's policy, and that does not let it pass.
    NotInPolicy(&'static str),
    /// Nothing can authorize it.
    Never(&'static str),
}

impl Reason {
    /// Returns the code by which evidence names the reason, such as `plan_grant_missing:shell_exec`.
    #[must_use]
    pub fn code(self) -> String {
        match self {
            Self::Allowed => "allowed".to_owned(),
            Self::UnknownRole => "role_unknown".to_owned(),
            Self::UnknownAction => "action_unknown".to_owned(),
            Self::NotOfRole => "action_not_of_role".to_owned(),
            Self::NotInPlan(what) => format!("plan_grant_missing:{what}"),
            Self::NotInPolicy(what) => format!("policy_gate_closed:{what}"),
            Self::Never(what) => format!("role_forbids:{what}"),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Allowed => f.write_str("the role allows it"),
            Self::UnknownRole => f.write_str("there is no such role; the roles are frozen"),
            Self::UnknownAction => {
                f.write_str("there is no such class of actions; the classes are frozen")
            }
            Self::NotOfRole => f.write_str("the class of actions belongs to another role"),
            Self::NotInPlan(what) => {
                write!(f, "{what} needs a grant of the plan, which has none for it")
            }
            Self::NotInPolicy(what) => {
                write!(f, "{what} needs the operator's policy, which does not let it pass")
            }
            Self::Never(what) => write!(f, "{what} is not for this role, whoever authorizes it"),
        }
    }
}

/// When a condition has to be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Whenever an action of this class is asked for.
    Action(ActionClass),
    /// Whenever network access is asked for.
    Network,
}

impl When {
    /// Returns what the condition is about.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Action(class) => class.name(),
            Self::Network => "network",
        }
    }
}

/// What meets a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A grant of the plan and the operator's policy, both.
    PlanAndPolicy,
    /// Nothing.
    Never,
}

impl Need {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PlanAndPolicy => "plan_and_policy",
            Self::Never => "never",
        }
    }
}

/// What a role may do only if it is authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The role.
    pub role: Role,
    /// When it has to be met.
    pub when: When,
    /// What meets it.
    pub need: Need,
}

/// Every condition. They are frozen like the table.
pub const CONDITIONS: [Condition; 3] = [
    Condition {
        role: Role::Envoy,
        when: When::Action(ActionClass::ShellExec),
        need: Need::PlanAndPolicy,
    },
    Condition { role: Role::Envoy, when: When::Network, need: Need::PlanAndPolicy },
    Condition { role: Role::Scout, when: When::Network, need: Need::Never },
];

impl Condition {
    fn concerns(self, role: Role, class: ActionClass, network: bool) -> bool {
        self.role == role
            && match self.when {
                When::Action(conditional) => conditional == class,
                When::Network => network,
            }
    }

    fn unmet(self, request: &Request<'_>) -> Option<Reason> {
        let what = self.when.name();
        match self.need {
            Need::Never => Some(Reason::Never(what)),
            Need::PlanAndPolicy if !request.plan_authorized => Some(Reason::NotInPlan(what)),
            Need::PlanAndPolicy if !request.policy_gate => Some(Reason::NotInPolicy(what)),
            Need::PlanAndPolicy => None,
        }
    }
}

/// Decides about a request. What is not in the table is denied, and so is what is in it while a condition is not met.
#[must_use]
pub fn decide(request: Request<'_>) -> Decision {
    let reason = judge(&request);
    Decision { allow: reason == Reason::Allowed, reason }
}

fn judge(request: &Request<'_>) -> Reason {
    let Some(role) = Role::from_name(request.role) else { return Reason::UnknownRole };
    let Some(class) = ActionClass::from_name(request.action) else { return Reason::UnknownAction };
    if !role.allows(class) {
        return Reason::NotOfRole;
    }
    CONDITIONS
        .into_iter()
        .filter(|condition| condition.concerns(role, class, request.network_requested))
        .find_map(|condition| condition.unmet(request))
        .unwrap_or(Reason::Allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(role: &str, action: &str, bits: [bool; 3]) -> String {
        let [plan_authorized, policy_gate, network_requested] = bits;
        let request = Request { role, action, plan_authorized, policy_gate, network_requested };
        let decision = decide(request);
        assert_eq!(decision.allow, decision.reason == Reason::Allowed);
        decision.reason.code()
    }

    #[test]
    fn what_needs_nothing_is_allowed() {
        assert_eq!(ask("scout", "web_search", [false; 3]), "allowed");
        assert_eq!(ask("envoy", "file_write", [false; 3]), "allowed");
    }

    #[test]
    fn shell_and_network_need_the_plan_and_the_policy() {
        for (action, network, what) in
            [("shell_exec", false, "shell_exec"), ("build_exec", true, "network")]
        {
            let both = |plan, policy| ask("envoy", action, [plan, policy, network]);
            assert_eq!(both(true, true), "allowed");
            assert_eq!(both(true, false), format!("policy_gate_closed:{what}"));
            assert_eq!(both(false, true), format!("plan_grant_missing:{what}"));
            assert_eq!(both(false, false), format!("plan_grant_missing:{what}"));
        }
    }

    #[test]
    fn a_scout_has_no_network_of_its_own() {
        assert_eq!(ask("scout", "web_search", [true; 3]), "role_forbids:network");
    }

    #[test]
    fn what_is_not_in_the_table_is_denied() {
        for (role, action, reason) in [
            ("morpheus", "web_search", "role_unknown"),
            ("", "", "role_unknown"),
            ("Scout", "web_search", "role_unknown"),
            ("scout", "scout_actions", "action_unknown"),
            ("scout", "web_search ", "action_unknown"),
            ("scout", "shell_exec", "action_not_of_role"),
            ("envoy", "web_search", "action_not_of_role"),
        ] {
            assert_eq!(ask(role, action, [true, true, false]), reason, "{role} {action}");
        }
    }
}
