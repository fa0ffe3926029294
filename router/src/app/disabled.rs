//! Adapters that are loaded and not called, because their interface contract cannot be used.

use std::collections::BTreeMap;

use super::{App, Error, Prepared};
use crate::code;
use crate::interface::UnusableContract;
use crate::json::Object;

/// Adapters whose contract became unusable, or usable again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContractChanges {
    /// Adapters that are not called any more, or for another reason than before.
    pub disabled: Vec<(String, UnusableContract)>,
    /// Adapters that are called again, by their ids.
    pub restored: Vec<String>,
}

impl ContractChanges {
    /// Compares the unusable contracts of adapters with those before.
    #[must_use]
    pub fn between(
        before: &BTreeMap<String, UnusableContract>,
        after: &BTreeMap<String, UnusableContract>,
    ) -> Self {
        let new = after.iter().filter(|(id, unusable)| before.get(*id) != Some(unusable));
        let gone = before.keys().filter(|id| !after.contains_key(*id));
        Self {
            disabled: new.map(|(id, unusable)| (id.clone(), unusable.clone())).collect(),
            restored: gone.cloned().collect(),
        }
    }
}

impl Prepared {
    /// Returns which adapters the change disables or restores because of their contracts.
    #[must_use]
    pub fn contract_changes(&self) -> ContractChanges {
        ContractChanges::between(&self.before.law.unusable, &self.fleet.law.unusable)
    }
}

impl App {
    /// Lists the adapters that are not called because of their contracts, by their ids.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn disabled_adapters(&self) -> Result<BTreeMap<String, UnusableContract>, Error> {
        Ok(self.fleet()?.law.unusable.clone())
    }
}

/// Adds why an adapter is disabled: the `contract`, the `reason`, which is a code, the `finding` of a contract that does
/// not hold, and the `message` with the `hint`.
pub(crate) fn add_disabled(object: &mut Object, unusable: &UnusableContract) {
    object.insert("contract", unusable.interface_id.as_str());
    object.insert("reason", unusable.code());
    if let Some(finding) = unusable.finding_code() {
        object.insert("finding", finding);
    }
    object.insert("message", unusable.to_string());
    let known = code::find(unusable.code()).next();
    object.insert("hint", known.map(|known| known.remedy).unwrap_or_default());
}

/// Logs an adapter that is not called because of its contract.
pub(crate) fn warn_of_disabled(adapter_id: &str, unusable: &UnusableContract) {
    let (code, contract) = (unusable.code(), unusable.interface_id.as_str());
    let why = unusable.to_string();
    tracing::warn!(adapter_id, contract, code, why, "adapter is disabled by its contract");
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;
    use crate::interface::ContractFault;

    #[test]
    fn only_what_differs_is_told() {
        let removed = |major| UnusableContract {
            interface_id: "shop".to_owned(),
            fault: ContractFault::Removed { version: Version::new(major, 0, 0) },
        };
        let of = |faults: &[(&str, u64)]| {
            faults.iter().map(|(id, major)| ((*id).to_owned(), removed(*major))).collect()
        };
        let changes = ContractChanges::between(
            &of(&[("same", 2), ("other", 2), ("gone", 2)]),
            &of(&[("same", 2), ("other", 3), ("new", 2)]),
        );
        let disabled: Vec<&str> = changes.disabled.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(disabled, ["new", "other"]);
        assert_eq!(changes.restored, ["gone"]);
    }
}
