//! Digest of an output that its record has no room for.

use crate::digest::Digest;
use crate::json::{self, Object, Value};

/// Length and digest of an output that is not recorded itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputDigest {
    /// Bytes of its canonical text.
    pub bytes: u64,
    /// SHA-256 of its canonical text.
    pub sha256: Digest,
}

impl OutputDigest {
    /// Stable code of an output that is recorded by its digest.
    pub const CODE: &str = "RECORD_LIMIT";

    /// Computes the digest of an output.
    #[must_use]
    pub fn of(output: &Object) -> Self {
        let mut text = String::new();
        json::write_canonical_object(&mut text, output);
        Self { bytes: text.len() as u64, sha256: Digest::of(text.as_bytes()) }
    }

    /// Reads the recorded form.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let bytes = value.get("bytes")?.as_i64().and_then(|bytes| u64::try_from(bytes).ok())?;
        Some(Self { bytes, sha256: value.get("sha256")?.as_str()?.parse().ok()? })
    }

    /// Returns the form of events and answers.
    #[must_use]
    pub fn to_json(self) -> Object {
        let mut object = Object::with_capacity(3);
        object.insert("bytes", self.bytes);
        object.insert("code", Self::CODE);
        object.insert("sha256", self.sha256.to_string());
        object
    }

    /// Returns the message for a caller who asks for the output later.
    #[must_use]
    pub fn message(self) -> String {
        let Self { bytes, sha256 } = self;
        format!("the output of {bytes} bytes is recorded by its digest only: sha256 {sha256}")
    }
}
