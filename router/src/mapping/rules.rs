//! The rules between tool specs and interface contracts: a table.
//!
//! The numbers are those of the specification; the ids are stable, and what programs go by.

use super::checks::{self, Found};
use super::gate::{Known, Subject};
use super::reader::MALFORMED;

/// The code of every crossing of the line between what the router does itself and what adapters do.
pub const BOUNDARY: &str = "BOUNDARY_VIOLATION";

/// Where a tool spec is held to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Gate 4: it is read.
    ToolSpec,
    /// Gate 6: it is registered.
    Registration,
}

impl Gate {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::ToolSpec => 4,
            Self::Registration => 6,
        }
    }

    /// Returns the name, as records have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolSpec => "GATE_4_TOOLSPEC_VALIDATION",
            Self::Registration => "GATE_6_TOOL_REGISTRATION",
        }
    }
}

/// A rule.
pub struct Rule {
    /// Its number in the specification, if it has one.
    pub number: Option<u8>,
    /// Its stable id.
    pub id: &'static str,
    /// The code of the error when it is broken.
    pub code: &'static str,
    /// Where it holds.
    pub gates: &'static [Gate],
    /// What it says.
    pub meaning: &'static str,
    /// What to do when it is broken.
    pub remedy: &'static str,
    /// Looks for what breaks it; none if it does not apply.
    pub(super) check: fn(&Subject<'_>, &Known<'_>) -> Found,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({})", self.id)
    }
}

impl Rule {
    /// Finds a rule by its id.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.id == id)
    }
}

const READ: &[Gate] = &[Gate::ToolSpec];
const REGISTERED: &[Gate] = &[Gate::Registration];
const BOTH: &[Gate] = &[Gate::ToolSpec, Gate::Registration];

macro_rules! rules {
    ($($number:tt $id:ident $code:tt $gates:ident $meaning:literal $remedy:literal)+) => {
        &[$(Rule {
            number: rules!(@number $number),
            id: stringify!($id),
            code: $code,
            gates: $gates,
            meaning: $meaning,
            remedy: $remedy,
            check: checks::$id,
        }),+]
    };
    (@number _) => { None };
    (@number $number:literal) => { Some($number) };
}

/// Every rule, in the order in which violations are told.
pub static RULES: &[Rule] = rules! {
    _ toolspec_schema MALFORMED READ
        "A tool spec has the members that it must have, of the right form, and no others."
        "correct what the pointer names"
    1 local_control_only BOUNDARY READ
        "A local tool works on the system itself."
        "set resource_class to control, or execution_mode to remote"
    2 remote_requires_target "REMOTE_REQUIRES_TARGET" READ
        "A remote tool says where it is carried out."
        "add execution_target with provider and service"
    2 execution_target_incomplete "EXECUTION_TARGET_INCOMPLETE" READ
        "Where a remote tool is carried out has a provider and a service."
        "say the provider and the service in execution_target"
    3 remote_not_control BOUNDARY READ
        "A remote tool does not work on the system itself."
        "set resource_class to compute or state, or execution_mode to local"
    4 local_no_direct_cloud_db BOUNDARY READ
        "A local tool has no side effect on a database."
        "use an adapter: set execution_mode to remote, and name adapter_id and adapter_operation"
    5 local_no_direct_db_connection BOUNDARY READ
        "A local tool has no credential of a database."
        "use an adapter, which has the credential itself, and remove it from credentials_required"
    6 remote_no_local_effects BOUNDARY READ
        "A remote tool has no side effect on this machine."
        "remove the side effect, or set execution_mode to local"
    7 remote_requires_adapter "REMOTE_REQUIRES_ADAPTER" BOTH
        "A remote tool names the adapter that carries it out."
        "set adapter_id, or execution_mode to local"
    7 invalid_adapter_id "INVALID_ADAPTER_ID" BOTH
        "The id of an adapter matches ^[a-z0-9-]+$ and has 64 characters at most."
        "write the id as the interface contract has it"
    7 local_tools_no_adapter "LOCAL_TOOLS_NO_ADAPTER" BOTH
        "A local tool names no adapter."
        "remove the member, or set execution_mode to remote"
    8 unknown_adapter "UNKNOWN_ADAPTER" BOTH
        "The adapter of a tool has an interface contract."
        "name an adapter that has one, or lock a contract for this one"
    9 adapter_requires_operation "ADAPTER_REQUIRES_OPERATION" BOTH
        "A tool that names an adapter names an operation of it."
        "set adapter_operation"
    9 invalid_adapter_operation "INVALID_ADAPTER_OPERATION" BOTH
        "The operation of a tool stands in the interface contract of its adapter."
        "name an operation of the contract"
    9 operation_removed "OPERATION_REMOVED" BOTH
        "The operation of a tool is still there in the present major version of the contract."
        "use another operation, and set adapter_contract_version to the contract's"
    10 no_direct_cloud_urls "DIRECT_CLOUD_URL_FORBIDDEN" READ
        "A tool does not ask for the address of a service."
        "remove it from credentials_required; the adapter knows the address"
    _ contract_version_mismatch "CONTRACT_VERSION_MISMATCH" BOTH
        "A tool is written for a version of the contract that the present one still keeps."
        "write the tool spec for the present contract, and set adapter_contract_version to its version"
    _ contract_not_frozen "CONTRACT_NOT_FROZEN" REGISTERED
        "The contract of a tool's adapter is the one that was locked."
        "restore the contract, or lock it with the version that its changes need"
    _ browser_not_executed "BROWSER_NOT_EXECUTED" BOTH
        "Nothing here is carried out in a browser."
        "set execution_mode to remote with an adapter, or to local"
    _ unknown_local_operation "UNKNOWN_LOCAL_OPERATION" READ
        "A local tool names an operation of the router in execution_target.service."
        "name one that there is"
    _ input_schema_incompatible "INPUT_SCHEMA_INCOMPATIBLE" REGISTERED
        "The contract takes whatever the tool promises to take."
        "narrow input_schema to what the contract's input_schema accepts"
    _ output_schema_incompatible "OUTPUT_SCHEMA_INCOMPATIBLE" REGISTERED
        "A tool gives what its contract gives."
        "copy the contract's output_schema, or write {\"type\": \"object\"}"
};
