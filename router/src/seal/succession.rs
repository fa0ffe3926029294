//! How keys succeeded each other: each time there is an entry in the log, which follows from `trust.json`.

use super::{Entry, Error, Kind, Leaf, Trust};
use crate::attest::{Link, Statement, Subject};
use crate::digest::Digest;
use crate::json::Object;

/// A key replaced another.
#[derive(Clone, Debug, PartialEq)]
pub struct Succession {
    /// The entry of the log that says so.
    pub index: u64,
    /// What is trusted since then; it has the replaced key's last entry or size, and the new key.
    pub trust: Trust,
    /// The statement, which the attestation key of that entry signs: so the old key vouches for the new.
    pub statement: Statement,
}

impl Succession {
    /// Returns what is sealed.
    #[must_use]
    pub fn leaf(&self) -> Leaf {
        Leaf { kind: Kind::Key, manifest_sha256: self.trust.digest(), spec_sha256: None }
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// Never: such a statement can be written.
    pub fn entry(&self) -> Result<Entry, Error> {
        Ok(self.leaf().entry(Digest::of(&self.statement.to_bytes()?)))
    }
}

impl Trust {
    /// Returns how the keys succeeded each other, the first time first.
    #[must_use]
    pub fn successions(&self) -> Vec<Succession> {
        let mut entries = self.replacements();
        entries.sort_unstable();
        entries.into_iter().map(|index| self.succession(index)).collect()
    }

    /// Returns the succession that an entry says.
    fn succession(&self, index: u64) -> Succession {
        let (before, trust) = (self.at(index), self.at(index + 1));
        let is_log = before.log_keys().len() < trust.log_keys().len();
        let (name, key) = if is_log {
            ("key/log", trust.log_keys().last().map(|key| key.verifier.to_string()))
        } else {
            let key = trust.attestation_keys().last();
            ("key/attestation", key.map(|key| key.key.fingerprint().to_string()))
        };
        let mut byproducts = Object::with_capacity(1);
        byproducts.insert("key", key);
        let link = Link {
            name: name.to_owned(),
            materials: vec![Subject::new("trust.json", before.digest())],
            byproducts,
            ..Link::default()
        };
        let statement = link.about(vec![Subject::new("trust.json", trust.digest())]);
        Succession { index, trust, statement }
    }

    /// Holds the log to how the keys succeeded each other, as far as it goes; `entry` reads an entry of the log, or none
    /// beyond its end.
    ///
    /// # Errors
    /// When an entry cannot be read, or says something else.
    pub fn verify_successions<E: From<Error>>(
        &self,
        mut entry: impl FnMut(u64) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        for succession in self.successions() {
            let index = succession.index;
            match entry(index)? {
                Some(found) if found == succession.entry()?.to_bytes() => {}
                Some(_) => return Err(Error::Succession { index }.into()),
                None => {}
            }
        }
        Ok(())
    }
}
