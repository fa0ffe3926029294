//! Interface contracts: what the operations of an adapter take and give, frozen at a version.
//!
//! A contract is a file that people review ([`Interface`]). What differs between two of them, and which
//! version that needs, is told by a machine ([`compare`]). Some are part of this program ([`frozen()`]). People
//! read them as one document ([`docs()`]).

mod compare;
mod docs;
mod document;
mod finding;
mod frozen;
mod schema;

pub use compare::{Change, Class, compare, compare_schemas};
pub use docs::docs;
pub use document::{
    Example, FORMAT, FailureMode, Interface, MAX_BYTES, Operation, Retry, Severity, is_adapter_id,
};
pub use finding::{Finding, Findings, below};
pub use frozen::{
    FROZEN, OPERATION_TABLE_SHA256, check_frozen, frozen, frozen_interface, operation_table,
};
