//! Interface contracts: what the operations of an adapter take and give, frozen at a version.
//!
//! A contract is a file that people review ([`Interface`]). What differs between two of them, and which
//! version that needs, is told by a machine ([`compare()`]). Some are part of this program ([`frozen()`]). People
//! read them as one document ([`docs()`]).
//!
//! A [`Shelf`] is a directory of contracts with their lock, which [`verify()`] holds them to.

mod anchor;
mod compare;
mod docs;
mod document;
mod draft;
mod examples;
mod finding;
mod frozen;
mod keyword;
mod lock;
mod reader;
mod schema;
mod shelf;
mod signoff;
mod unusable;
mod verify;

pub use anchor::{Anchoring, Anchors, HistoryHead};
pub use compare::{
    Change, Class, Lowered, compare, compare_outputs, compare_schemas, declared_bump, required_bump,
};
pub use docs::docs;
pub use document::{
    Example, FORMAT, FailureMode, FaultExample, Interface, MAX_BYTES, Operation, Retry, Severity,
    is_adapter_id,
};
pub use draft::Draft;
pub use examples::compare_output;
pub use finding::{Finding, Findings, below};
pub use frozen::{
    FROZEN, OPERATION_TABLE_SHA256, check_frozen, frozen, frozen_interface, operation_table,
};
pub(crate) use keyword::target as reference_target;
pub use lock::{LOCK_FORMAT, LOCK_NAME, Lock, Revision, Tested};
pub use shelf::{EXTENSION, Error, Shelf};
pub use signoff::{ApproverKey, Approvers, Capacity, KeyProblem, SignOff, statement};
pub use unusable::{ContractFault, UnusableContract, UnusableContracts};
pub use verify::{
    Before, ContractTrust, History, Verified, is_droppable, is_pending, rewritten, too_small,
    verify,
};
