//! Signal contracts, as authors, publishers, callers and auditors meet them, and as the AiGentsy tools do.

mod authoring;
mod bundles;
mod evaluation;
mod publication;
mod transcript;
