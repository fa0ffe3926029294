//! Ed25519 keys and signatures: in files that only their owner reads, and as text.
//!
//! A key is a PKCS#8 file as `openssl genpkey -algorithm ed25519` writes it. A public key is written as `ed25519:`
//! and the base64 of its 32 bytes, a signature as the base64 of its 64. The AiGentsy tools leave out the `ed25519:`, and read
//! base64 leniently.

mod lenient;
mod pem;

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::digest::Digest;
use crate::files;

/// What stands before the base64 of a public key.
const PREFIX: &str = "ed25519:";
/// PKCS#8 (RFC 8410) in front of the 32 bytes of a key: the older form, which every program reads.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// A longer file is no key.
const MAX_FILE: u64 = 16 * 1024;

/// A key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its owner can read its file.
    #[error("{}: others than its owner may read it (mode {mode:o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Its file is none of an Ed25519 key.
    #[error("{}: it is no Ed25519 key in PKCS#8", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// There is no randomness.
    #[error("there is no randomness: {0}")]
    Randomness(String),
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } => "check the path, and that this user may use it",
            Self::Exposed { .. } => "chmod 600 the file; make a new key if others may have read it",
            Self::Malformed { .. } => {
                "make one with nexus-router interface keygen FILE or nexus-router contract keygen FILE"
            }
            Self::Randomness(_) => "look at the system's log",
        }
    }
}

/// A key that signs.
pub struct SigningKey(Ed25519KeyPair);

/// What a signature is checked with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

/// What a key made of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

/// A text is no key, or no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(&'static str);

impl SigningKey {
    /// Makes a key in a new file that only its owner reads, which is there whole or not at all.
    ///
    /// # Errors
    /// When the file is there already or cannot be written, or there is no randomness.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Error::Randomness(error.to_string()))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|_| Error::Malformed { path: path.to_owned() })?;
        let text = STANDARD.encode([&PKCS8[..], &seed].concat());
        let text = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        files::write_secret(path, text.as_bytes())
            .map_err(|source| Error::File { path: path.to_owned(), source })?;
        Ok(Self(pair))
    }

    /// Reads a key.
    ///
    /// # Errors
    /// When its file cannot be read, may be read by others, or is none of a key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let file = files::open_regular(path).map_err(failed)?;
        if let Some(mode) = files::exposed_mode(&file).map_err(failed)? {
            return Err(Error::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).map_err(failed)?;
        let pair = PrivatePkcs8KeyDer::from_pem_slice(&text).ok().and_then(|der| {
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok()
        });
        pair.map(Self).ok_or_else(|| Error::Malformed { path: path.to_owned() })
    }

    /// Returns what its signatures are checked with.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        Signature(bytes)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public())
    }
}

impl PublicKey {
    /// Says whether a signature is that of this key for a message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, &signature.0).is_ok()
    }

    /// Returns the base64 of its 32 bytes alone, as the AiGentsy tools write keys.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Reads a key as the AiGentsy tools do: base64 in which foreign characters are passed over. The form of this
    /// program, which begins with `ed25519:`, is understood too.
    #[must_use]
    pub fn from_lenient(text: &str) -> Option<Self> {
        let bytes = lenient::decode(text.strip_prefix(PREFIX).unwrap_or(text))?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns a name for this key that follows from its bytes.
    #[must_use]
    pub fn key_id(&self) -> String {
        format!("ed25519_{}", &Digest::of(&self.0).to_string()[..16])
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = ParseError("a public key is ed25519: and the base64 of 32 bytes");
        let bytes = text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(wrong)
    }
}

impl Signature {
    /// Reads a signature as the AiGentsy tools do: base64 in which foreign characters are passed over.
    #[must_use]
    pub fn from_lenient(text: &str) -> Option<Self> {
        lenient::decode(text)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

impl FromStr for Signature {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = ParseError("a signature is the base64 of 64 bytes");
        let bytes = STANDARD.decode(text).ok();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_kept_and_its_signatures_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pem");
        let key = SigningKey::create(&path).unwrap();
        assert!(matches!(SigningKey::create(&path), Err(Error::File { .. })));
        let again = SigningKey::read(&path).unwrap();
        assert_eq!(again.public(), key.public());
        let signature: Signature = again.sign(b"yes").to_string().parse().unwrap();
        let public: PublicKey = key.public().to_string().parse().unwrap();
        assert!(public.verifies(b"yes", &signature) && !public.verifies(b"no", &signature));
        let mut forged = signature;
        forged.0[0] ^= 1;
        assert!(!public.verifies(b"yes", &forged));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SigningKey::read(&path), Err(Error::Exposed { mode: 0o640, .. })));
    }

    #[test]
    fn the_first_vector_of_the_rfc_comes_out_as_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rfc8032.pem");
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let seed: Vec<u8> = (0..64)
            .step_by(2)
            .map(|at| u8::from_str_radix(&seed[at..at + 2], 16).unwrap())
            .collect();
        let text = STANDARD.encode([&PKCS8[..], &seed].concat());
        let text = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = SigningKey::read(&path).unwrap();
        assert_eq!(
            key.public().to_string(),
            "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
        );
        assert!(key.sign(b"").to_string().starts_with("5VZDAMNgrHKQhu"), "{}", key.sign(b""));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:!!!!"] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
            assert!(text.parse::<Signature>().is_err(), "{text}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(SigningKey::read(directory.path()), Err(Error::File { .. })));
        let path = directory.path().join("x");
        std::fs::write(&path, "nothing").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(SigningKey::read(&path), Err(Error::Malformed { .. })));
    }
}
