//! Where contracts and registered tools are, and what becomes of whoever breaks one: the section `[contracts]`.

use std::path::PathBuf;

use crate::interface::ContractTrust;

/// What the operator says of contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContractSettings {
    /// The directory of interface contracts, instead of `interfaces` in the data directory.
    pub interfaces: Option<PathBuf>,
    /// The directory of registered tools, instead of `tools` in the data directory.
    pub tools: Option<PathBuf>,
    /// Whose approvals of breaking revisions are believed, and which histories are anchored.
    pub trust: ContractTrust,
    /// What becomes of an output that breaks its contract.
    pub outputs: Outputs,
    /// Whether adapters are called only if they have a contract.
    pub required: bool,
}

/// What becomes of an output that breaks its contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outputs {
    /// The step fails.
    #[default]
    Refuse,
    /// It is passed on, and told in the log and in the metrics.
    Warn,
}

impl Outputs {
    /// Every choice with its name.
    pub const ALL: &[(&str, Self)] = &[("refuse", Self::Refuse), ("warn", Self::Warn)];
}
