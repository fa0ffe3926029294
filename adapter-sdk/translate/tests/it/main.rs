//! The translators, held to the golden documents, to their own inverses, and to what they may not do.

mod binding;
mod bytes;
mod documents;
mod goldens;
mod inverse;
mod kit;
mod metamorphic;
mod negatives;
mod purity;
mod support;
mod verdicts;
