//! Whether a seal is genuine: with what is trusted, and nothing else.

use super::{Leaf, Trust};
use crate::attest::{self, Envelope, IN_TOTO, Statement};
use crate::digest::Digest;
use crate::key::PublicKey;
use crate::tlog::{self, Checkpoint, Proof};

/// A seal that is genuine.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What was signed.
    pub statement: Statement,
    /// Which key signed it.
    pub key: PublicKey,
    /// Its entry of the log.
    pub index: u64,
    /// The checkpoint that covers it.
    pub checkpoint: Checkpoint,
}

/// Why a seal is not genuine.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The statement is none, or not signed by a trusted key.
    #[error("the attestation does not hold: {0}")]
    Attestation(#[from] attest::Error),
    /// What was signed is no statement.
    #[error("the attestation is of {0:?}, and not of an in-toto statement")]
    Payload(String),
    /// The key was not good for this entry.
    #[error("entry {index} is signed by the key {}, which was not in use then; that was {}", key.fingerprint(), expected.fingerprint())]
    KeyOutOfRange {
        /// The entry.
        index: u64,
        /// The key that signed.
        key: PublicKey,
        /// The key that should have.
        expected: PublicKey,
    },
    /// The proof is none, or does not lead from the entry to a checkpoint of the log.
    #[error("the proof that it is in the log does not hold: {0}")]
    Proof(#[from] tlog::Error),
    /// The proof has what a proof of ours has not.
    #[error("the proof has {0}, which nothing vouches for")]
    Added(&'static str),
    /// The log's key was not good for this size.
    #[error(
        "the checkpoint of {size} entries is signed by a key that was not the log's then; that was {expected}"
    )]
    LogKeyOutOfRange {
        /// How many entries the checkpoint covers.
        size: u64,
        /// The key that should have signed.
        expected: String,
    },
}

/// Reads what somebody signed whom we trust, wherever it stands in the log.
pub(crate) fn signed(
    trust: &Trust,
    attestation: &[u8],
) -> Result<(Envelope, PublicKey, Statement), Broken> {
    let envelope = Envelope::parse(attestation)?;
    let key = envelope.verify(&trust.public_keys())?;
    if envelope.payload_type() != IN_TOTO {
        return Err(Broken::Payload(envelope.payload_type().to_owned()));
    }
    let statement = Statement::parse(envelope.payload())?;
    Ok((envelope, key, statement))
}

/// Verifies a seal of something: the text of `attestation.intoto.jsonl`, of one line, and of `inclusion.tlog-proof`.
///
/// Whether the subjects of the statement are those of the thing is for the caller to see, in what this returns.
///
/// # Errors
/// Why it is not genuine.
pub fn verify(
    trust: &Trust,
    leaf: Leaf,
    attestation: &[u8],
    proof: &str,
) -> Result<Verified, Broken> {
    let (envelope, key, statement) = signed(trust, attestation)?;
    let entry = leaf.entry(Digest::of(envelope.payload())).to_bytes();
    let read: Proof = proof.parse()?;
    let checkpoint = read.verify(&entry, &trust.verifiers())?;
    if read.extra.is_some() {
        return Err(Broken::Added("an extra line"));
    }
    if checkpoint.foreign_signatures() > 0 || checkpoint.signers().len() > 1 {
        return Err(Broken::Added("signatures of others"));
    }
    if read.to_string() != proof {
        return Err(Broken::Added("another form than this program writes"));
    }
    let size = checkpoint.size;
    if !checkpoint.signers().iter().all(|signer| trust.admits_log(signer, size)) {
        let expected = trust.log_key_at(size).map(|key| key.verifier.label());
        return Err(Broken::LogKeyOutOfRange { size, expected: expected.unwrap_or_default() });
    }
    let index = read.index;
    match trust.attestation_key_at(index) {
        Some(good) if good.key == key => Ok(Verified { statement, key, index, checkpoint }),
        good => {
            let expected = good.map_or(key, |good| good.key);
            Err(Broken::KeyOutOfRange { index, key, expected })
        }
    }
}
