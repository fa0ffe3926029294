//! Interface contracts: what the operations of an adapter take and give, frozen at a version.
//!
//! A contract is a file that people review ([`Interface`]). What differs between two of them, and which
//! version that needs, is told by a machine ([`compare`]).

mod compare;
mod document;
mod finding;
mod keyword;
mod schema;

pub use compare::{Change, Class, Lowered, compare, compare_schemas, declared_bump, required_bump};
pub use document::{
    Example, FORMAT, FailureMode, Interface, MAX_BYTES, Operation, Retry, Severity, is_adapter_id,
};
pub use finding::{Finding, Findings, below};
