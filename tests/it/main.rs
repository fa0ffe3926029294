//! The integration tests: one binary, through the public surface, with the real program and real libraries.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod check;
mod cli;
mod golden;
mod load;
mod mimic;
mod readme;
mod support;
mod tidy;
