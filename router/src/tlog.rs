//! Transparency logs after C2SP: signed notes, checkpoints, tiles, proofs.
//!
//! A log is a directory of files that never change, and one that does: the checkpoint, a note that tells how many entries
//! there are and the root of their tree, signed by the log's key. Its entries are bytes, whatever they mean. [`Log`] appends
//! with the key, [`Tree`] reads without it, and a [`Proof`] shows without the log that an entry is in it.
//!
//! The formats are `c2sp.org/signed-note`, `tlog-checkpoint`, `tlog-tiles` and `tlog-proof`, so programs of others read them.

mod audit;
mod cache;
mod checkpoint;
mod edge;
mod error;
mod log;
mod note;
mod proof;
mod tile;
mod tree;
mod writer;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use error::Error;
pub use log::{Appended, Log};
pub use note::{Signer, Verifier};
pub use proof::Proof;
pub use tree::Tree;

/// An entry has no more bytes: tiles of entries have room for two bytes of its length.
pub const MAX_ENTRY: usize = u16::MAX as usize;
/// A note has no more bytes. Sixteen signatures that withstand quantum computers have room in it, as C2SP asks.
pub const MAX_NOTE: usize = 128 * 1024;
/// A proof has no more bytes.
pub const MAX_PROOF: usize = 2 * MAX_NOTE;
