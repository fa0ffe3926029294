//! The rules in force: runs under way read them again before each step, and keep their adapters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::Surroundings;
use crate::policy::Law;
use crate::secret::Secrets;

/// The operator's rules, and the secrets that calls may use.
#[derive(Clone, Debug)]
pub(crate) struct OperatorRules {
    pub(crate) version: u64,
    pub(crate) law: Arc<Law>,
    /// Also hides the values of earlier secrets: adapters of runs under way may still use them.
    pub(crate) secrets: Secrets,
}

/// The rules in force of one router, replaced as a whole.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    version: AtomicU64,
    rules: RwLock<OperatorRules>,
}

impl RulesInForce {
    pub(crate) fn new(law: &Arc<Law>, secrets: &Secrets) -> Self {
        let rules = OperatorRules { version: 0, law: Arc::clone(law), secrets: secrets.clone() };
        Self { version: AtomicU64::new(0), rules: RwLock::new(rules) }
    }

    fn current(&self) -> OperatorRules {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other rules in force, and returns their version.
    pub(crate) fn replace(&self, law: &Arc<Law>, secrets: &Secrets) -> u64 {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let version = rules.version + 1;
        let secrets = secrets.clone().with_values_of(&rules.secrets);
        *rules = OperatorRules { version, law: Arc::clone(law), secrets };
        self.version.store(version, Ordering::Release);
        version
    }
}

impl Surroundings {
    /// Returns the surroundings with the rules in force, if those are newer. The adapters stay.
    pub(super) fn refreshed(&self) -> Option<Box<Self>> {
        if self.rules.version.load(Ordering::Acquire) == self.rules_version {
            return None;
        }
        let OperatorRules { version, law, secrets } = self.rules.current();
        Some(Box::new(Self { law, secrets, rules_version: version, ..self.clone() }))
    }
}
