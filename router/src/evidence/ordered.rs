//! What the router itself executes, and what it knows of it that the output of a role has no place for.

use std::time::Duration;

use super::spec::Kind;
use crate::json::Object;

/// What is executed. Secrets in it are replaced already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// What is executed, then its arguments.
    pub argv: Vec<String>,
    /// Where in the workspace.
    pub cwd: String,
    /// The names of the variables that it gets.
    pub env: Vec<String>,
    /// How.
    pub kind: Kind,
    /// What of the workspace it may touch.
    pub paths: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What is known of an execution besides its output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How it was confined.
    pub sandbox: Object,
    /// Files that came out, and records of what it did, by name inside `outputs/`.
    pub outputs: Vec<(String, Vec<u8>)>,
    /// What differs between equal executions, by name inside `volatile/`.
    pub volatile: Vec<(String, Vec<u8>)>,
    /// Why it did not succeed; a stable text.
    pub reason: Option<String>,
}
