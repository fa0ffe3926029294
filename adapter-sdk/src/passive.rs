//! What an adapter says that is a pure function: which operation it is, and examples to try it with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Object;

/// The declaration of a passive adapter.
///
/// `nexus-router adapter validate` makes the examples' calls in two processes with different environment, time
/// zone and working directory, and fails the adapter if an answer differs by a byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passive {
    /// The tool of the operation.
    pub tool: String,
    /// The method of the operation.
    pub method: String,
    /// Arguments to try it with: some that it takes, and some that it refuses.
    pub examples: Vec<Object>,
    /// What else it declares: versions, tables of constraints, its binding. `inspect` lists it.
    pub declares: Value,
}
