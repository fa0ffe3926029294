//! A promise to seal: what is staged outlasts its process, and whoever opens the cabinet next finishes it.
//!
//! The log is appended to before evidence has its place. Whoever is killed between the two would leave an entry of which
//! there is nothing to show; so what is staged is made durable first, with the statement that is to be signed.

use std::sync::Arc;

use super::cabinet::{Error, Shared};
use super::directory::Directory;
use super::docket::Docket;
use super::manifest;
use super::rejection::{self, Rejection};
use super::settle::Batch;
use super::spec::{self, ExecutionSpec};
use super::staged::{Staged, StagedKind, Target};
use super::verification::Verification;
use crate::attest::MAX_STATEMENT;
use crate::digest::Digest;

/// The statement, as long as the evidence has no seal.
pub(super) const STATEMENT: &str = "statement.json";

/// Evidence that a process left without a seal, or without its place.
#[derive(Debug)]
pub struct Leftover {
    /// The evidence.
    pub staged: Staged,
    /// What is to be signed; nothing if it has its seal.
    pub statement: Option<Vec<u8>>,
}

impl Staged {
    /// Makes everything durable, with the statement that is to be signed: from now on it outlasts this process.
    ///
    /// # Errors
    /// When it cannot be made durable.
    pub fn promise(&mut self, statement: &[u8]) -> Result<(), Error> {
        self.promise_with(statement, None)
    }

    /// Does the same, and makes a case durable with it: both wait for the disk together.
    pub(super) fn promise_with(
        &mut self,
        statement: &[u8],
        docket: Option<&Docket>,
    ) -> Result<(), Error> {
        self.write(STATEMENT, statement)?;
        let mut batch = Batch::default();
        self.parts(&mut |part| batch.push(0, part));
        if let Some(docket) = docket {
            docket.parts(0, &mut batch);
        }
        batch.push(0, self.staging().map(Directory::named));
        if let Some(source) = batch.finish().remove(&0) {
            return Err(self.failed("", source));
        }
        self.promised();
        Ok(())
    }
}

/// Takes up what a process left in the staging directory; nothing if it was not promised, or is no evidence.
pub(super) fn take_up(shared: &Arc<Shared>, name: &str, held: Directory) -> Option<Leftover> {
    let statement = held.read(STATEMENT, MAX_STATEMENT).ok();
    let sealed =
        [manifest::ATTESTATION, manifest::PROOF].map(|file| held.has(file).unwrap_or(false));
    if statement.is_none() && sealed != [true, true] {
        return None;
    }
    let text = held.read(manifest::MANIFEST, manifest::LIMITS.bytes).ok()?;
    let manifest_sha256 = Digest::of(&text);
    let (kind, target, spec_sha256) = match held.read(manifest::SPEC, spec::LIMITS.bytes) {
        Ok(spec) => {
            let spec = ExecutionSpec::parse_canonical(&spec).ok()?;
            let fields = spec.fields();
            let (task_id, exec_id) = (fields.task_id.clone(), fields.exec_id.clone());
            let target = Target::Execution { task_id, exec_id };
            (StagedKind::Execution, target, Some(spec.digest()))
        }
        Err(_) => match held.read(manifest::REJECTION, rejection::LIMITS.bytes) {
            Ok(bytes) => {
                let rejection = Rejection::parse(&bytes).ok()?;
                let (task_id, id) = (rejection.task_id.clone(), rejection.id());
                let text = String::from_utf8(bytes).ok()?;
                (StagedKind::Rejection, Target::Rejection { task_id, id, text }, None)
            }
            Err(_) => {
                let spec_sha256 = Verification::parse(&text).ok()?.spec_sha256;
                let text = String::from_utf8(text).ok()?;
                let target = Target::Verification { spec_sha256: spec_sha256.to_string(), text };
                (StagedKind::Verification, target, Some(spec_sha256))
            }
        },
    };
    if statement.is_some() {
        // A seal beside the statement may be half of one.
        for file in [manifest::ATTESTATION, manifest::PROOF] {
            held.unlink(file).ok()?;
        }
    }
    let subjects = vec![(manifest::MANIFEST, manifest_sha256)];
    let staged = Staged::left(shared, (kind, target), (name, held), (subjects, spec_sha256));
    Some(Leftover { staged, statement })
}
