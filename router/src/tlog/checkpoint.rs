//! Checkpoints (`c2sp.org/tlog-checkpoint`): how many entries a log has, and the root of their tree, signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::note::Note;
use super::{Error, Signer, Verifier};
use crate::digest::Digest;
use crate::merkle;

/// A checkpoint that a known key of its log signed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The name of the log.
    pub origin: String,
    /// How many entries there are.
    pub size: u64,
    /// The root of their tree.
    pub root: Digest,
    /// The whole note.
    text: String,
    signers: Vec<Verifier>,
    /// How many signatures are of keys that were not given.
    foreign: usize,
}

/// What a checkpoint says, whoever signed it.
pub(super) struct Body<'a> {
    pub origin: &'a str,
    pub size: u64,
    pub root: Digest,
}

impl Checkpoint {
    /// Reads a checkpoint, and checks its signatures: at least one must be of a given key that has the name of the log.
    ///
    /// # Errors
    /// When it is malformed, no given key signed it, or a signature that names one is not its own.
    pub fn open(note: &str, verifiers: &[Verifier]) -> Result<Self, Error> {
        let parsed = Note::parse(note)?;
        let body = Body::parse(parsed.text)?;
        let mut signers = parsed.signers(verifiers)?;
        let foreign = parsed.signatures.len() - signers.len();
        signers.retain(|verifier| verifier.name() == body.origin);
        if signers.is_empty() {
            let known: Vec<String> = verifiers.iter().take(4).map(Verifier::label).collect();
            return Err(Error::UnknownKey {
                origin: body.origin.to_owned(),
                signed: parsed.labels(),
                known: known.join(", "),
            });
        }
        let origin = body.origin.to_owned();
        let (size, root, text) = (body.size, body.root, note.to_owned());
        Ok(Self { origin, size, root, text, signers, foreign })
    }

    /// Signs a checkpoint.
    pub(super) fn sign(signer: &Signer, size: u64, root: Digest) -> Self {
        let origin = signer.origin().to_owned();
        let text =
            signer.sign(&format!("{origin}\n{size}\n{}\n", STANDARD.encode(root.as_bytes())));
        Self { origin, size, root, text, signers: vec![signer.verifier()], foreign: 0 }
    }

    /// Returns the whole note.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the keys of the log, of those given, that signed it: at least one.
    #[must_use]
    pub fn signers(&self) -> &[Verifier] {
        &self.signers
    }

    /// Returns how many of its signatures are of keys that were not given, and say nothing. A log of ours has none: where
    /// no witness signs, a signature more was added by somebody.
    #[must_use]
    pub const fn foreign_signatures(&self) -> usize {
        self.foreign
    }
}

impl<'a> Body<'a> {
    /// Reads what a checkpoint says.
    pub(super) fn parse(text: &'a str) -> Result<Self, Error> {
        let wrong = |why| Error::Note { why };
        let lines = || text.strip_suffix('\n').unwrap_or(text).split('\n');
        if lines().any(str::is_empty) {
            return Err(wrong("it has an empty line above the signatures"));
        }
        let mut lines = lines();
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(wrong("it has fewer than three lines above the signatures"));
        };
        let size = number(size).ok_or_else(|| wrong("its second line is no number of entries"))?;
        let root = hash(root).ok_or_else(|| wrong("its third line is no base64 of 32 bytes"))?;
        if size == 0 && root != merkle::empty() {
            return Err(wrong("a log without entries has not this root"));
        }
        Ok(Self { origin, size, root })
    }
}

/// Reads a number without leading zeros.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_plain = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Reads the base64 of a hash.
pub(super) fn hash(text: &str) -> Option<Digest> {
    STANDARD.decode(text).ok()?.try_into().ok().map(Digest::from_bytes)
}
