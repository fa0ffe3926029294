//! What is needed to seal, in memory: the keys in use and the log.

use std::io::ErrorKind;
use std::sync::Arc;

use super::keys::Keys;
use super::leaf::Leaf;
use super::sealer::Seal;
use super::succession::Succession;
use super::{Error, Trust};
use crate::attest::{Envelope, IN_TOTO};
use crate::digest::Digest;
use crate::files::{self, Mark};
use crate::key::SigningKey;
use crate::tlog::{Checkpoint, Log, Tree};

/// Something to be sealed: what it is, and the bytes of the statement about it.
#[derive(Debug)]
pub(super) struct Item {
    pub leaf: Leaf,
    pub statement: Vec<u8>,
}

/// The keys in use and the log. Whoever uses it holds the lock of the keys.
#[derive(Debug)]
pub(super) struct Desk {
    pub trust: Arc<Trust>,
    /// The state of `trust.json` from which this was made.
    mark: Mark,
    key: SigningKey,
    log: Log,
}

impl Desk {
    /// Reads the keys and opens the log; what somebody left who was interrupted is finished.
    pub(super) fn open(keys: &Keys, trust: Trust) -> Result<Self, Error> {
        let mark = files::mark(&keys.trust_path());
        // A log that is gone must not be begun again: two logs of one name and key are a lie.
        let checkpoint = keys.log_directory().join("checkpoint");
        if !checkpoint.try_exists().map_err(Error::file(&checkpoint))? {
            return Err(Error::LogIsGone { path: checkpoint });
        }
        let former: Vec<_> = trust.verifiers().into_iter().rev().skip(1).collect();
        let log = Log::open(keys.log_directory(), keys.signer(&trust)?, &former)?;
        // A key that was the log's at another time must not be able to continue it.
        let last = log.checkpoint();
        if !last.signers().iter().any(|signer| trust.admits_log(signer, last.size)) {
            let expected = trust.log_key_at(last.size).map(|key| key.verifier.label());
            return Err(Error::Checkpoint {
                size: last.size,
                expected: expected.unwrap_or_default(),
            });
        }
        let key = keys.attestation_at(&trust, u64::MAX)?;
        let desk = Self { trust: Arc::new(trust), mark, key, log };
        desk.finish(keys)?;
        Ok(desk)
    }

    /// Says whether this is still what the directory of keys has.
    pub(super) fn is_current(&self, keys: &Keys) -> bool {
        self.mark.is_some() && files::mark(&keys.trust_path()) == self.mark
    }

    /// Returns the checkpoint of the log.
    pub(super) fn checkpoint(&self) -> Arc<Checkpoint> {
        Arc::new(self.log.checkpoint())
    }

    /// Shows that the log continues that of a checkpoint.
    pub(super) fn continues(&self, seen: &Checkpoint) -> Result<(), Error> {
        let tree = Tree::open(self.log.directory())?;
        if tree.size() < seen.size {
            return Err(Error::RolledBack { size: tree.size(), seen: seen.size });
        }
        Ok(tree.holds(seen)?)
    }

    /// Returns how many entries the log has.
    pub(super) fn size(&self) -> Result<u64, Error> {
        // Another process may have appended since.
        Ok(self.log.append(&[])?.first)
    }

    /// Puts into the log and the history what they do not have yet of how keys succeeded each other.
    fn finish(&self, keys: &Keys) -> Result<(), Error> {
        let successions = self.trust.successions();
        if successions.is_empty() {
            return Ok(());
        }
        for succession in &successions {
            let index = succession.index;
            match self.size()? {
                size if size < index => return Err(Error::Behind { size, index }),
                size if size == index => drop(self.log.append(&[succession.entry()?.to_bytes()])?),
                _ => {}
            }
            let proof = keys.history(index).join("inclusion.tlog-proof");
            if !proof.try_exists().map_err(Error::file(&proof))? {
                self.record(keys, succession)?;
            }
        }
        let tree = Tree::open(keys.log_directory())?;
        self.trust.verify_successions(|index| Ok(Some(tree.entry(index)?)))
    }

    /// Writes down a succession: the file that was trusted, the statement with the old key's signature, and the proof.
    fn record(&self, keys: &Keys, succession: &Succession) -> Result<(), Error> {
        let Succession { index, trust, statement } = succession;
        let key = match keys.attestation_at(&self.trust, *index) {
            Ok(key) => key,
            // The key was removed, and the record too: the entry in the log is what remains.
            Err(Error::Key(error)) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let attestation = Envelope::sign(IN_TOTO, statement.to_bytes()?, &key).to_line();
        let proof = self.log.proof(*index, &self.log.checkpoint())?.to_string();
        let directory = keys.history(*index);
        std::fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            files::write_whole(&path, text.as_bytes()).map_err(Error::file(&path))
        };
        write("trust.json", &trust.to_json())?;
        write("attestation.intoto.jsonl", &attestation)?;
        // The last: whoever finds it finds all.
        write("inclusion.tlog-proof", &proof)
    }

    /// Seals some things in one append.
    pub(super) fn seal(&self, items: Vec<Item>) -> Result<Vec<Seal>, Error> {
        let mut entries = Vec::with_capacity(items.len());
        let mut attestations = Vec::with_capacity(items.len());
        for Item { leaf, statement } in items {
            entries.push(leaf.entry(Digest::of(&statement)).to_bytes());
            attestations.push(Envelope::sign(IN_TOTO, statement, &self.key).to_line());
        }
        let appended = self.log.append(&entries)?;
        let checkpoint = Arc::new(appended.checkpoint);
        let seals = (appended.first..).zip(attestations).map(|(index, attestation)| {
            let proof = self.log.proof(index, &checkpoint)?.to_string();
            Ok(Seal { index, attestation, proof, checkpoint: Arc::clone(&checkpoint) })
        });
        seals.collect()
    }
}

/// Says whether the file of a key is not there.
fn is_gone(error: &crate::key::Error) -> bool {
    matches!(error, crate::key::Error::File { source, .. } if source.kind() == ErrorKind::NotFound)
}
