//! Bindings of secrets: the calls whose arguments may refer to a secret.

use super::{Act, Law};
use crate::caller::Caller;

impl Law {
    /// Reports whether the arguments of a call may refer to a secret. A caller without a token counts as `local`; its
    /// scope makes no difference.
    pub(crate) fn allows_secret(&self, name: &str, caller: Option<&Caller>, act: Act<'_>) -> bool {
        let Some(binding) = self.secrets.get(name) else { return false };
        let token = caller.map_or(Caller::LOCAL, |caller| caller.name.as_str());
        if !binding.has_adapter(act.adapter_id) || !binding.has_token(token) {
            return false;
        }
        let offered = self.offers.get(act.adapter_id);
        let offered = offered.map(|offer| format!("{}{}", offer.prefix, act.tool));
        let named = self.names.get(&act.key()).map_or(&[][..], Vec::as_slice);
        let names = [act.tool].into_iter().chain(offered.as_deref());
        binding.has_tool(names.chain(named.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Pattern, SecretBinding};
    use crate::policy::Offering;

    const ACT: Act<'_> = Act { adapter_id: "shop", tool: "orders", method: "buy" };

    fn law(adapters: &str, tools: &[&str], tokens: &[&str]) -> Law {
        let patterns =
            |texts: &[&str]| texts.iter().filter_map(|text| Pattern::new(text)).collect();
        let binding = SecretBinding {
            adapters: patterns(&[adapters]),
            tools: patterns(tools),
            tokens: patterns(tokens),
        };
        Law { secrets: [("KEY".to_owned(), binding)].into(), ..Law::default() }
    }

    #[test]
    fn secret_is_allowed_only_where_it_is_bound() {
        let ci = Caller { name: "ci".to_owned(), ..Caller::local() };
        let local = Caller::local();
        let allows = |law: &Law, caller: Option<&Caller>| law.allows_secret("KEY", caller, ACT);
        assert!(!Law::default().allows_secret("KEY", None, ACT), "without a binding");
        assert!(!law("*", &[], &[]).allows_secret("OTHER", None, ACT), "another secret");
        assert!(allows(&law("Sh*", &[], &[]), None));
        assert!(!allows(&law("mail", &[], &[]), None), "another adapter");
        assert!(!allows(&law("mail", &[], &[]), Some(&local)), "with any scope");
        assert!(allows(&law("shop", &["ORDERS"], &[]), None));
        assert!(!allows(&law("shop", &["refunds"], &[]), None), "another tool");
        let by_ci = law("shop", &[], &["ci"]);
        assert!(allows(&by_ci, Some(&ci)) && !allows(&by_ci, Some(&local)));
        assert!(!allows(&by_ci, None), "a host without a caller is local");
        let by_local = law("shop", &[], &["local"]);
        assert!(allows(&by_local, None) && allows(&by_local, Some(&local)));
        assert!(!allows(&by_local, Some(&ci)));
    }

    #[test]
    fn tools_match_by_the_names_that_callers_know() {
        let mut law = law("shop", &["store.orders", "buy_now"], &[]);
        assert!(!law.allows_secret("KEY", None, ACT));
        law.names.insert(ACT.key(), vec!["Buy_Now".to_owned()]);
        assert!(law.allows_secret("KEY", None, ACT));
        law.names.clear();
        let offering = Offering { prefix: "store.".to_owned(), action_class: None };
        law.offers.insert("shop".to_owned(), offering);
        assert!(law.allows_secret("KEY", None, ACT));
    }
}
