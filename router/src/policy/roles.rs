//! What roles forbid: the caller's, and that in which an adapter answers.

use super::{Act, Denial, Law};
use crate::caller::Caller;
use crate::json::Object;
use crate::role::{ActionClass, Role};

impl Law {
    /// Returns the class of an operation: of an adapter that answers in a role, the one that its tool is called
    /// like, whatever anybody else says; of any other, as a tool spec says.
    #[must_use]
    pub fn class_of(&self, act: Act<'_>) -> Option<ActionClass> {
        let role = self.roles.get(act.adapter_id);
        let own = role
            .and_then(|role| ActionClass::from_name(act.tool).filter(|class| role.allows(*class)));
        if own.is_some() {
            return own;
        }
        if self.classes.is_empty() { None } else { self.classes.get(&act.key()).copied() }
    }

    /// A caller with a role carries out only what has a class, and one that the role has. So does an adapter.
    pub(super) fn judge_by_role(
        &self,
        caller: Option<&Caller>,
        act: Act<'_>,
        class: Option<ActionClass>,
    ) -> Result<(), Denial> {
        let of_caller = caller.and_then(|caller| caller.role);
        let of_adapter = self.roles.get(act.adapter_id).copied();
        if of_caller.is_none() && of_adapter.is_none() {
            return Ok(());
        }
        let forbids = |role: &Role| !class.is_some_and(|class| role.allows(class));
        let Some(role) = of_caller.into_iter().chain(of_adapter).find(forbids) else {
            return Ok(());
        };
        let mut details = Object::new();
        details.insert("denied_by", "role");
        details.insert("role", role.name());
        details.insert("action_class", class.map(ActionClass::name));
        let class = class.map_or_else(
            || "which no tool gives an action class".to_owned(),
            |class| format!("which is {}", class.name()),
        );
        let may = if of_caller == Some(role) { "may not call" } else { "does not answer" };
        let message = format!(
            "Role '{}' {may} {}.{} of adapter '{}', {class}",
            role.name(),
            act.tool,
            act.method,
            act.adapter_id
        );
        Err(Denial { code: "ROLE_REFUSED", message, details })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACT: Act<'_> = Act { adapter_id: "finder", tool: "web", method: "search" };

    #[test]
    fn every_pair_of_a_role_and_a_class_is_as_the_table_says() {
        let callers = |role| Caller { name: "c".to_owned(), role: Some(role), ..Caller::local() };
        for role in Role::ALL {
            for class in ActionClass::ALL {
                let mut law = Law::default();
                law.classes.insert(ACT.key(), class);
                let allowed = class.role() == role;
                assert_eq!(law.judge(Some(&callers(role)), ACT).is_ok(), allowed);
                assert!(law.judge(None, ACT).is_ok());
                law.roles.insert(ACT.adapter_id.to_owned(), role);
                assert_eq!(law.judge(None, ACT).is_ok(), allowed, "the adapter's role");
            }
        }
    }

    #[test]
    fn tools_of_an_adapter_with_a_role_have_the_class_of_their_name() {
        let mut law = Law::default();
        let act = |tool| Act { tool, ..ACT };
        assert_eq!(law.class_of(act("web_search")), None, "the adapter has no role");
        law.roles.insert(ACT.adapter_id.to_owned(), Role::Scout);
        assert_eq!(law.class_of(act("web_search")), Some(ActionClass::WebSearch));
        assert_eq!(law.class_of(act("shell_exec")), None, "the role does not have it");
        assert_eq!(law.class_of(act("web")), None);
        law.classes.insert(act("web_search").key(), ActionClass::DataLookup);
        let told = "whatever a tool says";
        assert_eq!(law.class_of(act("web_search")), Some(ActionClass::WebSearch), "{told}");
        law.classes.insert(act("web").key(), ActionClass::DataLookup);
        assert_eq!(law.class_of(act("web")), Some(ActionClass::DataLookup));
    }

    #[test]
    fn what_has_no_class_is_nothing_for_a_role() {
        let mut law = Law::default();
        assert!(law.judge(None, ACT).is_ok());
        law.roles.insert(ACT.adapter_id.to_owned(), Role::Scout);
        let denial = law.judge(None, ACT).unwrap_err();
        assert_eq!(denial.code, "ROLE_REFUSED");
        assert!(denial.message.contains("does not answer web.search"), "{}", denial.message);
    }
}
