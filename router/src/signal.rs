//! Signal contracts: which fields an adapter gives, which of them may enter a policy, and who says what they mean.
//!
//! A contract is a JSON object that anyone can write, a *declaration*, bound by two hashes. Hashes, signatures and
//! messages are those of the AiGentsy tools, so that either side's files are the other's too.

mod declaration;
mod lint;
mod pattern;

pub use declaration::{
    LIFECYCLE, REQUIRED, Unordered, contract_hash, input_schema_hash, without_comments,
};
pub use lint::{Finding, Severity, Wording, lint, shape};
pub use pattern::{is_hash, is_id, is_pointer, is_semver, is_snake_case, semver_parts};

mod bump;
mod compare;
mod compatibility;
mod graph;
mod rehash;
mod same;
mod scaffold;

pub use bump::{BumpError, bump};
pub use compare::{Difference, differences};
pub use compatibility::{Change, Compatibility, Step};
pub use declaration::{LIMITS, ReadError, read, rehash};
pub use graph::{Kinship, Member};
pub use pattern::{SemverParts, pointer_parts};
pub use rehash::rehash_text;
pub use scaffold::{SCAFFOLD_FILE, ScaffoldError, scaffold};

mod acceptance;
mod builtin;
mod contract;
mod discovery;
mod evaluate;
mod judge;
mod number;
#[cfg(test)]
mod properties;
mod publisher_page;
mod registry;
pub mod types;
mod validator;

pub use acceptance::{AcceptancePolicy, Action, Condition, Decision, Op, Rule, decide};
pub use builtin::builtins;
pub use contract::{Contract, Lifecycle, Source};
pub use discovery::{Discovery, Page};
pub use evaluate::{Evaluation, LifecycleWarning, ValidationResult, evaluate};
pub use judge::Judge;
pub use publisher_page::{
    KEY_URL, MANIFEST_LIMITS, MANIFEST_URL, PUBLISHER_LIMITS, PublisherPages, manifest_page,
};
pub use registry::{EXTENSION, Registry, Report, files_in};
pub use validator::{Reason, Rejection, UnknownValidator, Validator};
