//! Policies against the past: decisions about calls that were recorded, or that a person describes.
//!
//! A [`PolicyFile`] is the policy of a configuration without its adapters. It decides about a [`PolicyCall`].
//! [`PolicyComparison`] holds two of them to the same calls. Missing facts are tried with every value. A call
//! is undecided only if the direction of the change depends on them.

mod call;
mod compare;
mod condition;
mod evaluate;
mod explain;
mod file;
mod redacted;
#[cfg(test)]
mod tests;
mod world;

pub use call::{CallReader, PolicyCall, ReadEvent, RecordedCaller};
pub use compare::{
    CallComparison, Change, ChangedCall, ComparisonReport, PolicyComparison, PolicyVerdict,
    UnjudgedCall,
};
pub use evaluate::{DecidedBy, PolicyOutcome, RuleMiss};
pub use explain::PolicyExplanation;
pub use file::{PolicyContext, PolicyFile, RegisteredOperation};
pub use world::Gap;
