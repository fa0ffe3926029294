//! The MCP server: both eras, over HTTP and over standard input and output, held against the record.

mod approving;
mod calls;
mod changes;
mod direct;
mod lists;
mod refusals;
mod sessions;
mod soak;
mod stdio;
pub mod support;
mod tasks;
mod waiting;
