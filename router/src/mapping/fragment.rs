//! The members of a tool spec that map it to an operation of an adapter.

use semver::Version;

use super::document::{LIMITS, ToolDocument};
use super::parts::ExecutionMode;
use super::reader::{MALFORMED, Reader, parse};
use crate::interface::{Finding, Findings};

/// The version of the contract that a tool spec means which names none.
pub const DEFAULT_CONTRACT: Version = Version::new(1, 0, 0);

/// What stands in a fragment.
const MEMBERS: [&str; 5] =
    ["tool_id", "execution_mode", "adapter_id", "adapter_operation", "adapter_contract_version"];

/// The mapping of a tool, without the rest of its spec. Whatever is left out is not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// The tool.
    pub tool_id: Option<String>,
    /// Where it is carried out.
    pub execution_mode: Option<ExecutionMode>,
    /// The adapter.
    pub adapter_id: Option<String>,
    /// The operation of the adapter.
    pub adapter_operation: Option<String>,
    /// The version of the adapter's contract that the tool was written for.
    pub adapter_contract_version: Option<Version>,
}

impl Fragment {
    /// Reads a fragment.
    ///
    /// # Errors
    /// With everything that is wrong with its form.
    pub fn read(text: &[u8]) -> Result<Self, Vec<Finding>> {
        let document = parse(text, LIMITS)?;
        let mut findings = Findings::default();
        let Some(object) = document.as_object() else {
            findings.add("", MALFORMED, "a fragment of a tool spec is an object");
            return Err(findings.into_vec());
        };
        let mut reader = Reader { findings: &mut findings, object, place: "" };
        reader.only(&MEMBERS);
        let fragment = Self {
            tool_id: reader.optional("tool_id"),
            execution_mode: reader.optional_word(
                "execution_mode",
                ExecutionMode::from_name,
                ExecutionMode::NAMES,
            ),
            adapter_id: reader.optional("adapter_id"),
            adapter_operation: reader.optional("adapter_operation"),
            adapter_contract_version: reader.version("adapter_contract_version", true),
        };
        findings.or(fragment)
    }

    /// Takes the mapping out of a tool spec.
    #[must_use]
    pub fn of(document: &ToolDocument) -> Self {
        Self {
            tool_id: Some(document.tool_id.clone()),
            execution_mode: Some(document.execution_mode),
            adapter_id: document.adapter_id.clone(),
            adapter_operation: document.adapter_operation.clone(),
            adapter_contract_version: document.adapter_contract_version.clone(),
        }
    }

    /// Returns the version of the contract that is meant.
    #[must_use]
    pub fn contract_version(&self) -> Version {
        self.adapter_contract_version.clone().unwrap_or(DEFAULT_CONTRACT)
    }
}
