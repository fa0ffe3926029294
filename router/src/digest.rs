//! Content digests: SHA-256, written as lower-case hexadecimal.

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of several parts. Each is preceded by its length, so that moving a byte from
    /// one part to the next gives another digest.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

impl Digest {
    /// Digests whatever is read.
    ///
    /// # Errors
    /// When reading fails.
    pub fn of_reader(reader: &mut impl std::io::Read) -> std::io::Result<Self> {
        let mut hash = Sha256::new();
        let mut block = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut block)? {
                0 => return Ok(Self(hash.finalize().into())),
                read => hash.update(&block[..read]),
            }
        }
    }

    /// What stands before the first event of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// Returns the next link of a chain: the digest of the last one's text and of `line`, each ended by a
    /// newline. So `printf '%s\n%s\n' "$last" "$line" | sha256sum` gives the same.
    #[must_use]
    pub fn chain(&self, line: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.hex());
        hasher.update(b"\n");
        hasher.update(line.as_bytes());
        hasher.update(b"\n");
        Self(hasher.finalize().into())
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Takes the bytes of a digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn hex(&self) -> [u8; 64] {
        const PAIRS: [[u8; 2]; 256] = {
            let digits = b"0123456789abcdef";
            let mut pairs = [[0; 2]; 256];
            let mut byte = 0;
            while byte < 256 {
                pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
                byte += 1;
            }
            pairs
        };
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = PAIRS[usize::from(byte)];
        }
        text
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Hexadecimal digits are ASCII.
        f.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl std::str::FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseDigestError);
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| ParseDigestError)?;
        }
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The text is no SHA-256 digest.
#[derive(Debug, thiserror::Error)]
#[error("a SHA-256 digest is 64 hexadecimal digits")]
pub struct ParseDigestError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_reads_back() {
        let digest = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), digest);
        assert_eq!(format!("sha256:{text}").parse::<Digest>().unwrap(), digest);
        for bad in ["", "ba", &text[1..], &format!("{}é", &text[..62]), &text.replace('b', "+")] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_chain_is_what_sha256sum_says() {
        let expected = Digest::of(format!("{}\n{{\"a\":1}}\n", Digest::ZERO).as_bytes());
        assert_eq!(Digest::ZERO.chain("{\"a\":1}"), expected);
        assert_eq!(Digest::ZERO.to_string(), "0".repeat(64));
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Digest::of_parts(&[b"ab", b"c"]), Digest::of_parts(&[b"a", b"bc"]));
    }
}
