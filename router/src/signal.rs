//! Signal contracts: which fields an adapter gives, which of them may enter a policy, and who says what they mean.
//!
//! A contract is a JSON object that anyone can write, a *declaration*, bound by two hashes. Hashes, signatures and
//! messages are those of the AiGentsy tools, so that either side's files are the other's too.

mod acceptance;
mod builtin;
mod bump;
pub mod bundle;
mod compare;
mod compatibility;
mod contract;
mod declaration;
mod discovery;
mod entry;
mod evaluate;
mod graph;
mod judge;
mod lint;
pub mod manifest;
mod number;
mod pattern;
pub mod pins;
#[cfg(test)]
mod properties;
mod publisher;
mod publisher_page;
mod registry;
mod rehash;
mod same;
mod scaffold;
pub mod types;
mod validator;

pub use acceptance::{AcceptancePolicy, Action, Condition, Decision, Op, Rule, decide};
pub use builtin::builtins;
pub use bump::{BumpError, bump};
pub use compare::{Difference, differences};
pub use compatibility::{Change, Compatibility, Step};
pub use contract::{Contract, Lifecycle, Source};
pub use declaration::{
    CHANNELS, LIFECYCLE, LIMITS, REQUIRED, ReadError, STATUSES, Unordered, contract_hash,
    input_schema_hash, read, rehash, without_comments,
};
pub use discovery::{Discovery, Page};
pub use entry::{
    HASHED, Publication, bad_pointers, entry_form, entry_hash, entry_name, entry_status,
    sign_entry, to_seconds,
};
pub use evaluate::{Evaluation, LifecycleWarning, ValidationResult, evaluate};
pub use graph::{Kinship, Member};
pub use judge::Judge;
pub use lint::{Finding, Severity, Wording, lint, shape};
pub use pattern::{
    SemverParts, is_hash, is_id, is_pointer, is_semver, is_snake_case, pointer_parts, semver_parts,
};
pub use publisher::{Publishers, SignatureStatus, Trust, document, document_key};
pub use publisher_page::{
    KEY_URL, MANIFEST_LIMITS, MANIFEST_URL, PUBLISHER_LIMITS, PublisherPages, manifest_page,
};
pub use registry::{EXTENSION, Registry, Report, files_in};
pub use rehash::rehash_text;
pub use scaffold::{SCAFFOLD_FILE, ScaffoldError, scaffold};
pub use validator::{Reason, Rejection, UnknownValidator, Validator};
