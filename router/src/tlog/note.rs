//! Signed notes (`c2sp.org/signed-note`): a text, and lines of signatures below it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Error, MAX_NOTE};
use crate::digest::Digest;
use crate::key::{PublicKey, Signature, SigningKey};

/// The type of Ed25519 signatures.
const ED25519: u8 = 1;
/// What a line of a signature begins with.
const DASH: &str = "\u{2014} ";
/// A longer text is no verifier key.
const MAX_VERIFIER_KEY: usize = 4096;

/// A key of a log with its name: it signs checkpoints.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    verifier: Verifier,
}

/// What the signatures of a log are checked with. Its text is a verifier key: `NAME+8 HEX DIGITS+BASE64`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Verifier {
    name: String,
    id: [u8; 4],
    key: PublicKey,
}

/// A note, taken apart, nothing of it verified.
pub(super) struct Note<'a> {
    /// What is signed, with the newline at its end.
    pub text: &'a str,
    pub signatures: Vec<Line<'a>>,
}

/// A line of a signature.
pub(super) struct Line<'a> {
    name: &'a str,
    id: [u8; 4],
    signature: Vec<u8>,
}

/// Says whether a text may name a key.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+' || c < ' ')
}

impl Signer {
    /// Takes the key of a log, and the name of both.
    ///
    /// # Errors
    /// When the name is empty, or has a blank, a plus or a control character.
    pub fn new(origin: &str, key: SigningKey) -> Result<Self, Error> {
        let verifier = Verifier::new(origin, key.public())?;
        Ok(Self { key, verifier })
    }

    /// Returns what the signatures are checked with.
    #[must_use]
    pub fn verifier(&self) -> Verifier {
        self.verifier.clone()
    }

    /// Returns the name of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.verifier.name
    }

    /// Makes a note of a text, which ends in a newline and has no control characters but newlines.
    pub(super) fn sign(&self, text: &str) -> String {
        let signature = self.key.sign(text.as_bytes()).to_string();
        // What was just encoded decodes.
        let signature = STANDARD.decode(signature).unwrap_or_default();
        let line = STANDARD.encode([&self.verifier.id[..], &signature].concat());
        format!("{text}\n{DASH}{} {line}\n", self.verifier.name)
    }
}

impl Verifier {
    /// Takes a key, and the name of its log.
    ///
    /// # Errors
    /// When the name is empty, or has a blank, a plus or a control character.
    pub fn new(name: &str, key: PublicKey) -> Result<Self, Error> {
        if !is_name(name) {
            return Err(Error::Name { name: name.to_owned() });
        }
        let hash = Digest::of(&[name.as_bytes(), b"\n", &material(&key)].concat());
        let mut id = [0; 4];
        id.copy_from_slice(&hash.as_bytes()[..4]);
        Ok(Self { name: name.to_owned(), id, key })
    }

    /// Returns the name of the key, which is that of its log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// Returns the name and the id of the key, as people are told them.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.name, self.id)
    }
}

/// Returns the name and the id of a key, as people are told them.
fn label(name: &str, id: [u8; 4]) -> String {
    format!("{name}+{:08x}", u32::from_be_bytes(id))
}

/// Returns the type of the signatures and the key in one.
fn material(key: &PublicKey) -> Vec<u8> {
    let mut bytes = vec![ED25519];
    // What was just encoded decodes.
    bytes.extend(STANDARD.decode(key.to_base64()).unwrap_or_default());
    bytes
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.label(), STANDARD.encode(material(&self.key)))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({self})")
    }
}

impl FromStr for Verifier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::VerifierKey { why };
        if text.len() > MAX_VERIFIER_KEY {
            return Err(wrong("it is too long"));
        }
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(bytes)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong("it has not three parts with a plus between them"));
        };
        let bytes = STANDARD.decode(bytes).map_err(|_| wrong("its last part is no base64"))?;
        let Some((&ED25519, key)) = bytes.split_first() else {
            return Err(wrong("it is not of the type 1, Ed25519"));
        };
        if key.len() != 32 {
            return Err(wrong("an Ed25519 key has 32 bytes"));
        }
        let key = format!("ed25519:{}", STANDARD.encode(key));
        let key = key.parse().map_err(|_| wrong("its last part is no Ed25519 key"))?;
        let verifier = Self::new(name, key)?;
        if id != format!("{:08x}", u32::from_be_bytes(verifier.id)) {
            return Err(wrong("its id is not that of its name and key"));
        }
        Ok(verifier)
    }
}

impl<'a> Note<'a> {
    /// Takes a note apart.
    pub(super) fn parse(note: &'a str) -> Result<Self, Error> {
        let wrong = |why| Error::Note { why };
        if note.len() > MAX_NOTE {
            return Err(wrong("it is longer than 128 KiB"));
        }
        if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return Err(wrong("it has a control character"));
        }
        let Some(end) = note.rfind("\n\n") else {
            return Err(wrong("there is no empty line between text and signatures"));
        };
        let (text, below) = (&note[..=end], &note[end + 2..]);
        let Some(below) = below.strip_suffix('\n') else {
            return Err(wrong("it does not end with the line of a signature and a newline"));
        };
        let signatures = below.split('\n').map(Line::parse).collect::<Option<Vec<_>>>();
        let signatures = signatures.ok_or_else(|| {
            wrong(
                "a line of a signature is an em dash, a key's name, and base64 of at least 5 bytes",
            )
        })?;
        Ok(Self { text, signatures })
    }

    /// Returns those of the given keys that signed the text. A signature that names one of them and is not its own makes
    /// the whole note void; those of others say nothing.
    pub(super) fn signers(&self, verifiers: &[Verifier]) -> Result<Vec<Verifier>, Error> {
        let mut signers: Vec<Verifier> = Vec::new();
        for line in &self.signatures {
            // Two keys may have one id, if whoever made them wanted that.
            let named = |verifier: &&Verifier| verifier.name == line.name && verifier.id == line.id;
            if !verifiers.iter().any(|verifier| named(&verifier)) {
                continue;
            }
            if signers.iter().any(|verifier| named(&verifier)) {
                return Err(Error::Note { why: "it has two signatures of one key" });
            }
            let encoded = STANDARD.encode(&line.signature);
            let signature = encoded.parse::<Signature>().ok();
            let signed = |verifier: &&Verifier| {
                signature.is_some_and(|it| verifier.key.verifies(self.text.as_bytes(), &it))
            };
            match verifiers.iter().filter(named).find(signed) {
                Some(verifier) => signers.push(verifier.clone()),
                None => return Err(Error::Signature { key: line.label() }),
            }
        }
        Ok(signers)
    }

    /// Names the keys that are said to have signed, some of them.
    pub(super) fn labels(&self) -> String {
        let labels: Vec<String> = self.signatures.iter().take(4).map(Line::label).collect();
        labels.join(", ")
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let (id, signature) = bytes.split_first_chunk::<4>()?;
        let is_whole = is_name(name) && !signature.is_empty();
        is_whole.then(|| Self { name, id: *id, signature: signature.to_vec() })
    }

    fn label(&self) -> String {
        label(self.name, self.id)
    }
}
