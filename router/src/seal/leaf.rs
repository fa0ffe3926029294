//! The entries of the log: what kind of thing was sealed, and its digests.

use crate::digest::Digest;
use crate::json::{self, Limits, Value};

/// An entry has four members, and is short.
const LIMITS: Limits = Limits { bytes: 512, depth: 1, values: 5 };

/// What kind of thing is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An execution.
    Execution,
    /// A refusal to execute.
    Rejection,
    /// What was verified before an execution.
    Verification,
    /// A run of the engine.
    Run,
    /// A record of a run that a gate refused.
    RunRecord,
    /// A revision of a contract.
    Contract,
    /// A weekly proof.
    Weekly,
    /// A key that was replaced.
    Key,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Execution,
        Self::Rejection,
        Self::Verification,
        Self::Run,
        Self::RunRecord,
        Self::Contract,
        Self::Weekly,
        Self::Key,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Rejection => "rejection",
            Self::Verification => "verification",
            Self::Run => "run",
            Self::RunRecord => "run_record",
            Self::Contract => "contract",
            Self::Weekly => "weekly",
            Self::Key => "key",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// What kind of thing.
    pub kind: Kind,
    /// The digest that everything of it follows from: that of its manifest, or of its bundle.
    pub manifest_sha256: Digest,
    /// The digest of what was to be done, if there is such a thing.
    pub spec_sha256: Option<Digest>,
}

/// An entry of the log: what is sealed, and what is said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is sealed.
    pub leaf: Leaf,
    /// The digest of the statement about it.
    pub statement_sha256: Digest,
}

impl Leaf {
    /// Returns the entry for a statement about it.
    #[must_use]
    pub const fn entry(self, statement_sha256: Digest) -> Entry {
        Entry { leaf: self, statement_sha256 }
    }
}

impl Entry {
    /// Returns the bytes that are in the log: the text of RFC 8785.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { leaf: Leaf { kind, manifest_sha256, spec_sha256 }, statement_sha256 } = self;
        let spec = spec_sha256.map_or_else(|| "null".to_owned(), |digest| format!("\"{digest}\""));
        format!(
            r#"{{"kind":"{}","manifest_sha256":"{manifest_sha256}","spec_sha256":{spec},"statement_sha256":"{statement_sha256}"}}"#,
            kind.name()
        )
        .into_bytes()
    }

    /// Reads an entry: exactly what [`to_bytes`](Self::to_bytes) writes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let value = json::parse(bytes, LIMITS).ok()?;
        let digest = |value: &Value| value.as_str()?.parse().ok();
        let spec_sha256 = match value.get("spec_sha256")? {
            Value::Null => None,
            value => Some(digest(value)?),
        };
        let kind = Kind::from_name(value.get("kind")?.as_str()?)?;
        let leaf =
            Leaf { kind, manifest_sha256: digest(value.get("manifest_sha256")?)?, spec_sha256 };
        let entry = leaf.entry(digest(value.get("statement_sha256")?)?);
        (entry.to_bytes() == bytes).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back_and_its_text_is_canonical() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            for spec_sha256 in [None, Some(Digest::of(b"spec"))] {
                let leaf = Leaf { kind, manifest_sha256: Digest::of(b"manifest"), spec_sha256 };
                let entry = leaf.entry(Digest::of(b"statement"));
                let bytes = entry.to_bytes();
                assert_eq!(Entry::parse(&bytes), Some(entry));
                let value = json::parse(&bytes, Limits::REQUEST).unwrap();
                assert_eq!(json::to_jcs(&value).unwrap().into_bytes(), bytes);
                for at in 0..bytes.len() {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1;
                    assert_ne!(Entry::parse(&changed), Some(entry), "byte {at}");
                    assert_eq!(Entry::parse(&bytes[..at]), None);
                }
            }
        }
        assert_eq!(Kind::from_name("Execution"), None);
        assert_eq!(Entry::parse(&[b' '; 100_000]), None);
    }
}
