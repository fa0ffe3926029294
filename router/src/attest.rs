//! Attestations: DSSE envelopes around in-toto statements.
//!
//! A [`Statement`] says something (its predicate) about bytes (its subjects, by digest); an [`Envelope`] has the
//! statement's bytes and a signature over them. Programs of others verify both. What is read here is what was written here:
//! each envelope and each statement has one text, and any other is refused, so that no byte of a sealed file can be
//! changed without notice. Whoever verifies an envelope goes on with the bytes that were verified.

mod envelope;
mod predicate;
mod statement;

pub use envelope::{Envelope, IN_TOTO, pae};
pub use predicate::{LINK, Link, RunLink, TEST_RESULT, TestOutcome, TestResult};
pub use statement::{Statement, Subject};

use crate::key::PublicKey;

/// The most bytes of a statement: its inputs are listed in it, some 100,000 of them.
pub const MAX_STATEMENT: usize = 16 << 20;

/// An attestation cannot be made, read or believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is no envelope.
    #[error("it is no DSSE envelope in one line: {0}")]
    Envelope(String),
    /// The signature names a key that is none of those that are trusted for it.
    #[error("it is signed by the key {keyid}, and trusted {}", trusted(keys))]
    UnknownKey {
        /// What the envelope names.
        keyid: String,
        /// What is trusted.
        keys: Vec<PublicKey>,
    },
    /// The signature is not that of the key it names.
    #[error(
        "the signature is not that of the key {0} over these bytes: they were changed, or never signed"
    )]
    BadSignature(PublicKey),
    /// The text is no statement, or the values make none.
    #[error("it is no in-toto statement: {0}")]
    Statement(String),
    /// The predicate is none of its type.
    #[error("it is no predicate {type_uri}: {reason}")]
    Predicate {
        /// The type.
        type_uri: &'static str,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Envelope(_) | Self::BadSignature(_) => {
                "get the file again from whoever sealed it; if it is the same there, it is not what was sealed"
            }
            Self::UnknownKey { .. } => {
                "get the trust.json of whoever sealed it, in a way that you trust"
            }
            Self::Statement(_) | Self::Predicate { .. } => {
                "look at which program made it: this one writes statements in one form only"
            }
        }
    }
}

/// Says which keys are trusted.
fn trusted(keys: &[PublicKey]) -> String {
    match keys {
        [] => "is none".to_owned(),
        [key] => format!("is {}", key.fingerprint()),
        [key, others @ ..] => {
            format!("are {} and {} other keys", key.fingerprint(), others.len())
        }
    }
}

#[cfg(test)]
pub(crate) mod test {
    //! Keys that are the same in every test.

    use std::os::unix::fs::PermissionsExt as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use crate::key::SigningKey;

    /// The first key of RFC 8032.
    pub(crate) fn key() -> SigningKey {
        of_seed("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    }

    /// Its second key.
    pub(crate) fn other_key() -> SigningKey {
        of_seed("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    }

    fn of_seed(seed: &str) -> SigningKey {
        let seed = (0..64).step_by(2).map(|at| u8::from_str_radix(&seed[at..at + 2], 16).unwrap());
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let text = STANDARD.encode(head.into_iter().chain(seed).collect::<Vec<u8>>());
        let text = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        SigningKey::read(&path).unwrap()
    }
}
