//! The integration tests: one binary, through the public surface, with the real program and real libraries.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "a test binary has no public surface")]

mod abi;
mod answers;
mod approvals;
mod check;
mod cli;
mod conditions;
mod config_cli;
mod confinement;
mod contracts;
mod corpus;
mod daemon;
mod docs;
mod engine;
mod envoy;
mod evidence;
mod faults;
mod golden;
mod golden_runs;
mod held;
mod inspect;
mod life;
mod load;
mod mcp;
mod mcp_client;
mod mimic;
mod offers;
mod ops;
mod policy_cli;
mod proof;
mod readme;
mod role;
mod run_cli;
mod scout;
mod secrets;
mod seeing;
mod signals;
mod simulation;
mod support;
mod template;
mod tidy;
mod token_cli;
mod translate;
mod trial;
mod worker;
