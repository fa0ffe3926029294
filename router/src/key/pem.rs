//! Public keys as other programs take them: the SubjectPublicKeyInfo of RFC 8410, and that as PEM.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{ParseError, PublicKey};
use crate::digest::Digest;

/// What stands before the 32 bytes of a key in its SubjectPublicKeyInfo.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----\n";
const END: &str = "\n-----END PUBLIC KEY-----\n";

impl PublicKey {
    /// Returns the SubjectPublicKeyInfo, as `openssl pkey -pubin -outform DER` writes it.
    #[must_use]
    pub fn to_spki(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..12].copy_from_slice(&SPKI);
        bytes[12..].copy_from_slice(&self.0);
        bytes
    }

    /// Returns the PEM text, as `openssl pkey -pubout` writes it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        format!("{BEGIN}{}{END}", STANDARD.encode(self.to_spki()))
    }

    /// Reads the PEM text of a key: exactly what [`to_pem`](Self::to_pem) writes.
    ///
    /// # Errors
    /// When it is any other text.
    pub fn from_pem(text: &str) -> Result<Self, ParseError> {
        let wrong = ParseError("a public key in PEM is what openssl pkey -pubout writes of one");
        let spki = text.strip_prefix(BEGIN).and_then(|text| text.strip_suffix(END));
        let spki = spki.and_then(|text| STANDARD.decode(text).ok()).ok_or(wrong)?;
        let key = spki.strip_prefix(&SPKI).ok_or(wrong)?;
        key.try_into().map(Self).map_err(|_| wrong)
    }

    /// Returns the digest of the SubjectPublicKeyInfo: what envelopes name the key by, and
    /// `openssl pkey -pubin -outform DER | sha256sum` tells.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.to_spki())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_comes_out_as_it_says() {
        // RFC 8410, section 10.1.
        let text = "-----BEGIN PUBLIC KEY-----\n\
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
            -----END PUBLIC KEY-----\n";
        let key = PublicKey::from_pem(text).unwrap();
        assert_eq!(key.to_pem(), text);
        assert_eq!(key.to_base64(), "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let text = PublicKey([7; 32]).to_pem();
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            let other = String::from_utf8(other).unwrap();
            // Another key is a key; the same one is only written in one way.
            assert_ne!(PublicKey::from_pem(&other), Ok(PublicKey([7; 32])), "{other}");
            assert!(PublicKey::from_pem(&text[..at]).is_err());
        }
        let private = text.replace("PUBLIC", "PRIVATE");
        for other in [private, format!("{text}\n"), format!(" {text}"), text.replace('\n', "\r\n")]
        {
            assert!(PublicKey::from_pem(&other).is_err(), "{other}");
        }
    }
}
