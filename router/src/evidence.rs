//! Sealed directories of executions: written whole, normalized, verified without trust.

mod keeper;
mod statement;
mod wrap;

pub use keeper::{Acting, Case, KeepError, Keeper, task_id};
pub use statement::{About, link, statement};
pub use wrap::Given;
