//! Bundles: one run in one text, in the form 0.3 that the Python router reads and writes too.
//!
//! `digests.sha256` covers the run and its events alone. What we add stands beside them: `chain` is the
//! last link of the run's hash chain, by which a bundle can be tied to the store it came from; `attestation` and
//! `proof` are the seal of the run. Nothing is written that would not be read again.

mod content;
mod error;
mod export;
mod import;
mod lines;
mod prepare;
mod read;
mod stream;
mod transcode;

pub use content::{Content, content, content_of};
pub use error::{Error, Place};
pub use export::{Attached, Exported, Provenance, Source, export, not_found};
pub use import::{Check, ImportOptions, Imported, Replays, import, import_value};
pub(crate) use lines::canonical;
pub(crate) use stream::BundleText;

/// The form of bundles.
pub const VERSION: &str = "0.3";
