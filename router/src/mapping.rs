//! Tool specs that name operations of adapters, and the gates that hold the two together.
//!
//! A tool spec is a file that people write ([`ToolDocument`]). [`RULES`] says what must hold between it and the
//! interface contracts; gate 4 looks when it is read, gate 6 when it is registered, and both again whenever
//! either side changes. What a gate refuses is told in full, and recorded ([`RunRecord`]). No file and no store is
//! touched here.

mod checks;
mod document;
mod fragment;
mod gate;
mod members;
mod parts;
mod reader;
mod rules;
mod run_record;

pub use document::{MAX_BYTES, ToolDocument};
pub use fragment::{DEFAULT_CONTRACT, Fragment};
pub use gate::{
    Check, CheckResult, Known, Report, Violation, check_mapping, gate_4, gate_6, unreadable,
};
pub use parts::{
    Dependencies, EffectType, ExecutionMode, ExecutionTarget, ResourceClass, RollbackStrategy,
    SideEffect, Validation,
};
pub use rules::{BOUNDARY, Gate, RULES, Rule};
pub use run_record::{Failure, RunRecord};

#[cfg(test)]
mod tests;
