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

pub mod bundle;
