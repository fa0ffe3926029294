//! Signal contracts, as authors, publishers, callers and auditors meet them, and as the AiGentsy tools do.

mod authoring;
mod bundles;
mod discovery;
mod evaluation;
mod publication;
mod transcript;
