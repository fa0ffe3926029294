//! The translators, held to the golden documents, to their own inverses, and to what they may not do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binding;
mod bytes;
mod documents;
mod goldens;
mod inverse;
mod kit;
mod metamorphic;
mod negatives;
mod purity;
mod settings;
mod support;
mod verdicts;
