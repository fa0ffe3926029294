//! Contracts that cannot be used: removed, or not those that are locked. Adapters that keep one are not called.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;

use super::finding::Finding;

/// Reason why a contract cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContractFault {
    /// Its newest revision removes it.
    Removed {
        /// The version of that revision.
        version: Version,
    },
    /// It does not hold.
    Invalid {
        /// The file of the first finding.
        file: String,
        /// The first finding.
        finding: Finding,
        /// How many findings there are besides.
        more: usize,
    },
}

/// Contract that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableContract {
    /// The id of the contract.
    pub interface_id: String,
    /// The reason.
    pub fault: ContractFault,
}

/// All contracts that cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusableContracts {
    faults: BTreeMap<String, ContractFault>,
    /// The reason why no contract is known: the lock cannot be read.
    every: Option<ContractFault>,
}

impl UnusableContract {
    /// Returns the stable code of calls that are denied because of it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self.fault {
            ContractFault::Removed { .. } => "CONTRACT_REMOVED",
            ContractFault::Invalid { .. } => "CONTRACT_INVALID",
        }
    }

    /// Returns the code of the finding that makes it invalid.
    #[must_use]
    pub const fn finding_code(&self) -> Option<&'static str> {
        match &self.fault {
            ContractFault::Removed { .. } => None,
            ContractFault::Invalid { finding, .. } => Some(finding.code),
        }
    }
}

impl std::fmt::Display for UnusableContract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.interface_id;
        match &self.fault {
            ContractFault::Removed { version } => {
                write!(f, "the contract {id} was removed in version {version}")
            }
            ContractFault::Invalid { file, finding, more } => {
                write!(f, "the contract {id} does not hold: {file}: {finding}")?;
                if *more > 0 {
                    write!(f, "; and {more} more")?;
                }
                Ok(())
            }
        }
    }
}

impl UnusableContracts {
    /// Adds a finding about a contract.
    pub(super) fn add(&mut self, interface_id: &str, file: &str, finding: &Finding) {
        if let Some(ContractFault::Invalid { more, .. }) = self.faults.get_mut(interface_id) {
            *more += 1;
            return;
        }
        self.faults.insert(interface_id.to_owned(), invalid(file, finding));
    }

    /// Adds a finding that leaves every contract unknown.
    pub(super) fn add_to_all(&mut self, file: &str, finding: &Finding) {
        match &mut self.every {
            Some(ContractFault::Invalid { more, .. }) => *more += 1,
            every => *every = Some(invalid(file, finding)),
        }
    }

    /// Adds a contract that was removed. A fault that is known comes first.
    pub(super) fn remove(&mut self, interface_id: &str, version: &Version) {
        let removed = || ContractFault::Removed { version: version.clone() };
        self.faults.entry(interface_id.to_owned()).or_insert_with(removed);
    }

    /// Adds a contract whose revisions are not those that were in force before.
    pub fn add_rewritten(&mut self, interface_id: &str) {
        let message =
            format!("the revisions of {interface_id} are not those that are in force, and more");
        let finding = Finding { pointer: String::new(), code: "LOCK_BROKEN", message };
        self.faults.insert(interface_id.to_owned(), invalid(super::LOCK_NAME, &finding));
    }

    /// Returns the reason why a contract cannot be used, whether there is one of this id or not.
    #[must_use]
    pub fn get(&self, interface_id: &str) -> Option<UnusableContract> {
        let fault = self.faults.get(interface_id).or(self.every.as_ref())?;
        Some(UnusableContract { interface_id: interface_id.to_owned(), fault: fault.clone() })
    }

    /// Lists the contracts that cannot be used, by their ids.
    pub fn all(&self) -> impl Iterator<Item = (String, UnusableContract)> {
        self.faults.keys().filter_map(|id| Some((id.clone(), self.get(id)?)))
    }

    /// Returns whether no contract is known.
    #[must_use]
    pub const fn are_all(&self) -> bool {
        self.every.is_some()
    }

    /// Lists the ids of the contracts that do not hold, without those that were removed.
    #[must_use]
    pub fn invalid_ids(&self) -> BTreeSet<String> {
        let invalid =
            |(_, fault): &(&String, &ContractFault)| matches!(fault, ContractFault::Invalid { .. });
        self.faults.iter().filter(invalid).map(|(id, _)| id.clone()).collect()
    }
}

fn invalid(file: &str, finding: &Finding) -> ContractFault {
    ContractFault::Invalid { file: file.to_owned(), finding: finding.clone(), more: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &'static str) -> Finding {
        Finding { pointer: "/version".to_owned(), code, message: "is wrong".to_owned() }
    }

    #[test]
    fn first_finding_is_told_with_the_number_of_others() {
        let mut unusable = UnusableContracts::default();
        unusable.add("shop", "shop.interface.json", &finding("INTERFACE_CHANGED"));
        unusable.add("shop", "interfaces.lock", &finding("LOCK_BROKEN"));
        unusable.remove("shop", &Version::new(2, 0, 0));
        let shop = unusable.get("shop").unwrap();
        assert_eq!(
            (shop.code(), shop.finding_code()),
            ("CONTRACT_INVALID", Some("INTERFACE_CHANGED"))
        );
        assert!(shop.to_string().ends_with("[INTERFACE_CHANGED]; and 1 more"), "{shop}");
        assert_eq!(unusable.get("other"), None);
    }

    #[test]
    fn unreadable_lock_makes_every_contract_unusable() {
        let mut unusable = UnusableContracts::default();
        unusable.remove("shop", &Version::new(2, 0, 0));
        unusable.add_to_all("interfaces.lock", &finding("LOCK_MALFORMED"));
        assert!(unusable.are_all());
        assert_eq!(unusable.get("shop").unwrap().code(), "CONTRACT_REMOVED");
        assert_eq!(unusable.get("other").unwrap().code(), "CONTRACT_INVALID");
        assert!(unusable.invalid_ids().is_empty());
    }
}
