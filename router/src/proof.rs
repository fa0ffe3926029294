//! The weekly proof that roles, evidence and log hold: executed for real, twice, and verified from bytes.
//!
//! ```text
//! <root>/keys, log                              one log for all weeks
//! <root>/store/weekly_proof/<intent>/<run_id>/  evidence plan runs   what was executed first
//!                                               again/…              what was executed again, in fresh sandboxes
//!                                               weekly_proof.json    the artifact, its attestation and inclusion proof
//!                                               checkpoint[.previous]
//! <root>/store/weekly_proof/artifacts/<intent>_weekly_proof.json
//! ```
//!
//! [`run()`] carries out what [`deeds`] lists, through the same engine as everybody else, and writes down what it finds on the
//! disk afterwards. [`verify()`] knows nothing of that run: it reads the files, and holds them to the pins of this program and
//! to the keys that whoever asks trusts. What was skipped is never called good.

mod artifact;
mod chain;
pub mod deeds;
mod evidence;
mod library;
mod place;
mod round;
mod run;
mod verify;

pub use artifact::{Assignments, SCHEMA};
pub use place::{INTENT, Place};
pub use run::{Error, Wanted, run};
pub use verify::{Asked, Failure, Scout, Verdict, verify};

/// The names of the files of a run besides those of its two cabinets.
mod file {
    pub(super) const ARTIFACT: &str = "weekly_proof.json";
    pub(super) const ATTESTATION: &str = "attestation.intoto.jsonl";
    pub(super) const PROOF: &str = "inclusion.tlog-proof";
    pub(super) const CHECKPOINT: &str = "checkpoint";
    pub(super) const PREVIOUS: &str = "checkpoint.previous";
    pub(super) const AGAIN: &str = "again";
    pub(super) const RUNS: &str = "runs";
}
