//! Adapters that are not called because their interface contract cannot be used.

use super::{Act, Denial, Law};
use crate::interface::UnusableContract;
use crate::json::Object;

impl Law {
    /// Denies calls of an adapter whose contract was removed or does not hold, for all operations.
    pub(super) fn check_usability(&self, act: Act<'_>) -> Result<(), Denial> {
        match self.unusable.get(act.adapter_id) {
            None => Ok(()),
            Some(unusable) => Err(denial(act.adapter_id, unusable)),
        }
    }
}

fn denial(adapter_id: &str, unusable: &UnusableContract) -> Denial {
    let mut details = Object::with_capacity(3);
    details.insert("denied_by", "contract");
    details.insert("contract", unusable.interface_id.as_str());
    if let Some(finding) = unusable.finding_code() {
        details.insert("finding", finding);
    }
    let message = format!("adapter '{adapter_id}' is not called: {unusable}");
    Denial { code: unusable.code(), message, details }
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;
    use crate::interface::ContractFault;

    #[test]
    fn removed_contract_denies_every_operation() {
        let fault = ContractFault::Removed { version: Version::new(2, 0, 0) };
        let unusable = UnusableContract { interface_id: "orders".to_owned(), fault };
        let mut law = Law::default();
        law.unusable.insert("shop".to_owned(), unusable);
        let act = |adapter_id| Act { adapter_id, tool: "t", method: "m" };
        let denial = law.judge(None, act("shop")).unwrap_err();
        assert_eq!(denial.code, "CONTRACT_REMOVED");
        assert_eq!(denial.details.get("contract").unwrap().as_str(), Some("orders"));
        assert!(denial.message.contains("removed in version 2.0.0"), "{}", denial.message);
        assert!(law.judge(None, act("other")).is_ok());
    }
}
