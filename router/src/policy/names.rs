//! Names of operations: the adapter's own where they are known, plain ones everywhere else.

use nexus_router_sdk::Catalog;

use super::offered::contains;
use super::{Act, Denial, Law};
use crate::json::Object;

/// The most bytes of a name.
const LONGEST: usize = 128;

impl Law {
    /// The code of a tool or method that is not a plain name.
    pub(crate) const NAME_INVALID: &str = "OPERATION_NAME_INVALID";
    /// The code of an operation that its adapter does not have.
    pub(crate) const UNKNOWN_OPERATION: &str = "UNKNOWN_OPERATION";

    /// Denies calls of operations that the adapter does not have, as far as its operations are known. Other names
    /// must be plain, so that no adapter reads one name for another.
    pub(super) fn judge_by_names(&self, act: Act<'_>) -> Result<(), Denial> {
        let Act { adapter_id, tool, method } = act;
        let denial = |code, denied_by: &str, message| {
            let mut details = Object::new();
            details.insert("denied_by", denied_by);
            Err(Denial { code, message, details })
        };
        if let Some(known) = self.catalogues.get(adapter_id) {
            if contains(known, act) || is_protocol_call(act) {
                return Ok(());
            }
            let message = format!("adapter '{adapter_id}' has no operation {tool}.{method}");
            return denial(Self::UNKNOWN_OPERATION, "catalogue", message);
        }
        // The contract has the names of its operations, and was asked before.
        if self.interfaces.contains_key(adapter_id) {
            return Ok(());
        }
        if let Some(name) = [tool, method].into_iter().find(|name| !is_plain(name)) {
            let message = format!(
                "{name:?} is not a name of an operation: use letters, digits and _ . / : -, {LONGEST} at most"
            );
            return denial(Self::NAME_INVALID, "name", message);
        }
        // Classes, hints and schemas belong to exact names. Another case must not lose them.
        let named = self.spellings.get(adapter_id).map_or(&[][..], Vec::as_slice);
        let same = |(other, other_method): &&(String, String)| {
            other.eq_ignore_ascii_case(tool) && other_method.eq_ignore_ascii_case(method)
        };
        let exact =
            |(other, other_method): &(String, String)| other == tool && other_method == method;
        match named.iter().find(same) {
            Some((meant, meant_method)) if !named.iter().any(exact) => {
                let message = format!(
                    "adapter '{adapter_id}' has no operation {tool}.{method}; did you mean {meant}.{meant_method}?"
                );
                denial(Self::UNKNOWN_OPERATION, "name", message)
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a call is one that every adapter with a catalogue may get.
pub(super) fn is_protocol_call(act: Act<'_>) -> bool {
    [Catalog::READ, Catalog::PROMPT, Catalog::SUBSCRIBE, Catalog::UNSUBSCRIBE, Catalog::COMPLETE]
        .contains(&(act.tool, act.method))
}

/// Returns whether a name has 1 to 128 of the characters `A-Z a-z 0-9 _ . / : -`, and no others.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte);
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use super::*;
    use crate::policy::Operations;

    const ACT: Act<'_> = Act { adapter_id: "shop", tool: "ask", method: "call" };

    fn code(law: &Law, act: Act<'_>) -> &'static str {
        law.judge(None, act).err().map_or("ok", |denial| denial.code)
    }

    #[test]
    fn names_of_unknown_operations_are_plain() {
        let law = Law::default();
        for tool in ["ask", "a/b", "a.b:c-d_E9", &"a".repeat(128)] {
            assert_eq!(code(&law, Act { tool, ..ACT }), "ok", "{tool:?}");
        }
        let long = "a".repeat(129);
        for odd in ["", "ask ", "a\u{200b}sk", "a\tb", "ask\0", "ü", "a b", "a%20b", &long] {
            assert_eq!(code(&law, Act { tool: odd, ..ACT }), "OPERATION_NAME_INVALID", "{odd:?}");
            assert_eq!(code(&law, Act { method: odd, ..ACT }), "OPERATION_NAME_INVALID", "{odd:?}");
        }
    }

    #[test]
    fn catalogue_has_the_names_of_its_operations() {
        let methods = BTreeSet::from(["call".to_owned()]);
        let known =
            Operations::from([("ask".to_owned(), methods.clone()), ("ü b".to_owned(), methods)]);
        let catalogues = BTreeMap::from([("shop".to_owned(), Arc::new(known))]);
        let law = Law { catalogues, ..Law::default() };
        for tool in ["ask", "ü b"] {
            assert_eq!(code(&law, Act { tool, ..ACT }), "ok", "{tool:?}");
        }
        for tool in ["Ask", "ask ", "other", ""] {
            assert_eq!(code(&law, Act { tool, ..ACT }), "UNKNOWN_OPERATION", "{tool:?}");
        }
        assert_eq!(code(&law, Act { method: "Call", ..ACT }), "UNKNOWN_OPERATION");
        let (tool, method) = Catalog::READ;
        assert_eq!(code(&law, Act { tool, method, ..ACT }), "ok");
        assert_eq!(code(&law, Act { adapter_id: "other", tool: "any", ..ACT }), "ok");
    }

    #[test]
    fn other_case_of_a_configured_operation_is_refused() {
        let named = vec![("ask".to_owned(), "call".to_owned())];
        let spellings = BTreeMap::from([("shop".to_owned(), named)]);
        let mut law = Law { spellings, ..Law::default() };
        assert_eq!(code(&law, ACT), "ok");
        assert_eq!(code(&law, Act { tool: "tell", ..ACT }), "ok");
        assert_eq!(code(&law, Act { tool: "Ask", ..ACT }), "UNKNOWN_OPERATION");
        assert_eq!(code(&law, Act { method: "CALL", ..ACT }), "UNKNOWN_OPERATION");
        let both = ("Ask".to_owned(), "call".to_owned());
        law.spellings.get_mut("shop").unwrap().push(both);
        assert_eq!(code(&law, Act { tool: "Ask", ..ACT }), "ok", "it is configured, too");
    }
}
