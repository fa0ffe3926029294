//! Conditions of rules: evaluated for a call, and left open for listings.

use super::{Act, Denial, Law};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::condition::{CallEvaluation, CallFacts, Condition};
use crate::json::Object;
use crate::request::Mode;
use crate::role::{ActionClass, Role};
use crate::scope::Scope;

/// Parts of a call that only conditions read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInput<'a> {
    /// The arguments as the caller gave them, with references in the place of secrets.
    pub(crate) args: &'a Object,
    pub(crate) run_id: &'a str,
    /// The goal as recorded.
    pub(crate) goal: &'a str,
    pub(crate) mode: Mode,
    pub(crate) now: Timestamp,
}

impl Law {
    /// The code of a call that is denied since a condition has no result for it.
    pub(crate) const CONDITION_FAILED: &str = "CONDITION_FAILED";

    /// Returns the facts about a call, without hints.
    pub(super) fn call_facts<'a>(
        &self,
        caller: Option<&'a Caller>,
        (act, class): (Act<'a>, Option<ActionClass>),
        input: &CallInput<'a>,
    ) -> CallFacts<'a> {
        CallFacts {
            args: input.args,
            adapter: act.adapter_id,
            tool: act.tool,
            method: act.method,
            class: self.rule_class(act, class).map_or("", ActionClass::name),
            caller_name: caller.map_or("", |caller| caller.name.as_str()),
            // A host without a caller reaches everything, like an administrator.
            caller_scope: caller.map_or(Scope::Admin, |caller| caller.scope).name(),
            caller_role: caller.and_then(|caller| caller.role).map_or("", Role::name),
            hints: [None; 4],
            run_id: input.run_id,
            run_mode: input.mode.name(),
            run_goal: input.goal,
            now: input.now,
        }
    }

    /// Returns whether a call meets the condition of a rule. A condition without a result denies the call.
    pub(super) fn evaluate<'a>(
        &self,
        evaluation: &mut Option<CallEvaluation<'a>>,
        facts: impl FnOnce() -> CallFacts<'a>,
        (act, index, condition): (Act<'_>, usize, &Condition),
    ) -> Result<bool, Denial> {
        let evaluation = evaluation.get_or_insert_with(|| CallEvaluation::without_hints(facts()));
        if condition.reads_hints() {
            evaluation.set_hints(|| self.hint(act).members());
        }
        let error = match evaluation.evaluate(condition) {
            Ok(holds) => return Ok(holds),
            Err(error) => error,
        };
        let id = self.rules[index].id_at(index);
        let mut details = Object::new();
        details.insert("denied_by", "rule");
        details.insert("rule", &*id);
        details.insert("reason", error.to_string());
        let message = format!(
            "{}.{} of adapter '{}' is denied: the condition of rule '{id}' cannot be evaluated: {error}",
            act.tool, act.method, act.adapter_id
        );
        Err(Denial { code: Self::CONDITION_FAILED, message, details })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Effect, Pattern, Rule};
    use crate::policy::Offering;

    fn is_denied(law: &Law, act: Act<'_>, class: Option<ActionClass>) -> bool {
        let args = Object::new();
        let now = Timestamp::from_millis(0);
        let input = CallInput { args: &args, run_id: "r", goal: "", mode: Mode::Apply, now };
        law.judge_in(None, (act, class), &input).is_err()
    }

    fn rules(when: &str, key: Rule) -> [Law; 2] {
        let when =
            Rule { when: Some(Condition::compile(when).unwrap()), ..Rule::any(Effect::Deny) };
        [when, key].map(|rule| Law { rules: vec![rule], ..Law::default() })
    }

    #[test]
    fn conditions_see_the_class_that_rule_keys_see() {
        let act = Act { adapter_id: "shop", tool: "orders", method: "buy" };
        let write = ActionClass::FileWrite;
        let key = Rule { action_class: Some(write), ..Rule::any(Effect::Deny) };
        for mut law in rules("class == 'file_write'", key) {
            assert!(!is_denied(&law, act, None));
            assert!(is_denied(&law, act, Some(write)));
            let offering = Offering { prefix: String::new(), action_class: Some(write) };
            law.offers = BTreeMap::from([("shop".to_owned(), offering)]);
            assert!(is_denied(&law, act, None), "the offer has the class");
            assert!(!is_denied(&law, act, Some(ActionClass::RepoOps)), "the operation has its own");
        }
    }

    #[test]
    fn conditions_see_the_names_that_rule_keys_match() {
        let text = "adapter == 'shop' && tool == 'orders' && method == 'ask'";
        let key = Rule {
            adapter: Pattern::new("shop"),
            tool: Pattern::new("orders"),
            method: Pattern::new("ask"),
            ..Rule::any(Effect::Deny)
        };
        for law in rules(text, key) {
            for (adapter_id, tool, method) in
                [("shop", "orders", "ask"), ("SHOP", "Orders", "ASK"), ("shop", "orders", "AsK")]
            {
                let act = Act { adapter_id, tool, method };
                assert!(is_denied(&law, act, None), "{act:?}");
            }
            let other = Act { adapter_id: "shop", tool: "orders2", method: "ask" };
            assert!(!is_denied(&law, other, None));
        }
    }
}
