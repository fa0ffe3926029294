//! Proofs of inclusion as text (`c2sp.org/tlog-proof`): all that it takes beside the keys of the log.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::checkpoint::{self, Body};
use super::note::Note;
use super::{Checkpoint, Error, MAX_PROOF, Verifier};
use crate::digest::Digest;
use crate::merkle;

/// The first line.
const HEADER: &str = "c2sp.org/tlog-proof@v1\n";
/// A path in a tree has no more hashes.
const MAX_HASHES: usize = 64;

/// A proof that an entry is in a log. It is well-formed; what it is worth tells [`Proof::verify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Which entry.
    pub index: u64,
    /// The path from the entry to the root.
    pub hashes: Vec<Digest>,
    /// The checkpoint, a signed note.
    pub checkpoint: String,
    /// What others added, which nothing vouches for. Proofs of ours have none.
    pub extra: Option<Vec<u8>>,
}

impl Proof {
    /// Shows that an entry is in the log, and returns the checkpoint that covers it.
    ///
    /// # Errors
    /// When no given key signed the checkpoint, or the proof does not lead from the entry to its root.
    pub fn verify(&self, entry: &[u8], verifiers: &[Verifier]) -> Result<Checkpoint, Error> {
        self.verify_leaf(&merkle::leaf(entry), verifiers)
    }

    /// Does the same with the hash of the entry's leaf.
    ///
    /// # Errors
    /// As above.
    pub fn verify_leaf(&self, leaf: &Digest, verifiers: &[Verifier]) -> Result<Checkpoint, Error> {
        let checkpoint = Checkpoint::open(&self.checkpoint, verifiers)?;
        let Checkpoint { size, root, .. } = &checkpoint;
        if !merkle::verify_inclusion(leaf, self.index, *size, &self.hashes, root) {
            return Err(Error::NotIncluded { index: self.index, size: *size });
        }
        Ok(checkpoint)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", STANDARD.encode(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.hashes {
            writeln!(f, "{}", STANDARD.encode(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for Proof {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Proof { why };
        if text.len() > MAX_PROOF {
            return Err(wrong("it is longer than 256 KiB"));
        }
        let rest = text.strip_prefix(HEADER);
        let rest = rest.ok_or_else(|| wrong("its first line is not c2sp.org/tlog-proof@v1"))?;
        let (head, checkpoint) = rest
            .split_once("\n\n")
            .ok_or_else(|| wrong("there is no empty line before the checkpoint"))?;
        let mut lines = head.split('\n').peekable();
        let extra = lines.next_if(|line| line.starts_with("extra "));
        let extra = match extra.and_then(|line| line.strip_prefix("extra ")) {
            None => None,
            Some(line) => match STANDARD.decode(line) {
                Ok(bytes) if !bytes.is_empty() => Some(bytes),
                _ => return Err(wrong("what stands behind extra is no base64 of at least a byte")),
            },
        };
        let index = lines.next().and_then(|line| line.strip_prefix("index "));
        let index = index.and_then(checkpoint::number);
        let index = index.ok_or_else(|| wrong("there is no line with the index of an entry"))?;
        let mut hashes = Vec::new();
        for line in lines {
            if hashes.len() == MAX_HASHES {
                return Err(wrong("it has more than 64 hashes"));
            }
            let hash = checkpoint::hash(line);
            hashes.push(hash.ok_or_else(|| wrong("a line is no base64 of 32 bytes"))?);
        }
        let body = Body::parse(Note::parse(checkpoint)?.text)?;
        if index >= body.size {
            return Err(wrong("its index is not below the number of entries"));
        }
        Ok(Self { index, hashes, checkpoint: checkpoint.to_owned(), extra })
    }
}
