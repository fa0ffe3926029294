//! Which keys are trusted for what: `trust.json`, the one file that whoever verifies needs.
//!
//! The order of the log, and no clock, says when a key was good: each attestation key has the range of entries that it
//! signed statements of, each key of the log the range of sizes whose checkpoints it signed. Replacing a key closes one
//! range and opens the next.

use std::path::Path;

use super::Error;
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};
use crate::key::PublicKey;
use crate::tlog::Verifier;
use crate::{files, python_text};

/// The form of the file.
const VERSION: i64 = 1;
const LIMITS: Limits = Limits { bytes: 4 << 20, depth: 3, values: 100_000 };
/// Numbers beyond are not the same to every program.
const MOST: u64 = 1 << 53;

/// A key that signs statements, and the entries for which it is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttestationKey {
    /// The key.
    pub key: PublicKey,
    /// The first entry.
    pub first_leaf: u64,
    /// The last entry; none while the key is in use.
    pub last_leaf: Option<u64>,
}

/// A key that signs checkpoints, and the sizes of the log for which it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKey {
    /// The key, and the name of the log.
    pub verifier: Verifier,
    /// The smallest size.
    pub first_size: u64,
    /// The largest size; none while the key is in use.
    pub last_size: Option<u64>,
}

/// All keys of a log and of the statements in it, with their ranges.
///
/// There is at least one of each; the ranges begin with 0 and have no gaps, and the last is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    attestation: Vec<AttestationKey>,
    log: Vec<LogKey>,
}

impl Trust {
    /// Trusts one key of each from the beginning on.
    #[must_use]
    pub fn of(attestation: PublicKey, verifier: Verifier) -> Self {
        let attestation = AttestationKey { key: attestation, first_leaf: 0, last_leaf: None };
        let log = LogKey { verifier, first_size: 0, last_size: None };
        Self { attestation: vec![attestation], log: vec![log] }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = files::read_bounded(path, LIMITS.bytes).map_err(Error::file(path))?;
        Self::parse(&bytes).map_err(|reason| Error::Trust { path: path.to_owned(), reason })
    }

    /// Reads the text. Blanks and the order of members do not matter, as people may have written it; nothing may be there
    /// that is not known.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value = json::parse(bytes, LIMITS).map_err(|error| error.to_string())?;
        if value.get("version") != Some(&VERSION.into()) {
            return Err(format!("its version is not {VERSION}"));
        }
        let list = |name: &str| {
            let items = value.get(name).and_then(Value::as_array);
            items.ok_or_else(|| format!("{name} is no list"))
        };
        let mut trust = Self { attestation: Vec::new(), log: Vec::new() };
        for (at, item) in list("attestation_keys")?.iter().enumerate() {
            let pem = item.get("pem").and_then(Value::as_str).unwrap_or_default();
            let key = PublicKey::from_pem(pem)
                .map_err(|why| format!("attestation_keys[{at}].pem: {why}"))?;
            let (first_leaf, last_leaf) = range(item, "first_leaf", "last_leaf")
                .map_err(|why| format!("attestation_keys[{at}]: {why}"))?;
            trust.attestation.push(AttestationKey { key, first_leaf, last_leaf });
        }
        for (at, item) in list("log_keys")?.iter().enumerate() {
            let text = item.get("vkey").and_then(Value::as_str).unwrap_or_default();
            let verifier = text.parse().map_err(|why| format!("log_keys[{at}].vkey: {why}"))?;
            let (first_size, last_size) = range(item, "first_size", "last_size")
                .map_err(|why| format!("log_keys[{at}]: {why}"))?;
            trust.log.push(LogKey { verifier, first_size, last_size });
        }
        trust.check()?;
        // Whatever is there twice must agree, and nothing else may be there.
        if trust.to_value() != value {
            return Err("it has members that are not known, or keyid, pem, vkey and origin \
                do not agree"
                .to_owned());
        }
        Ok(trust)
    }

    /// Says what cannot be true.
    fn check(&self) -> Result<(), String> {
        let ranges = self.attestation.iter().map(|key| (key.first_leaf, key.last_leaf));
        check_ranges(ranges).map_err(|why| format!("attestation_keys: {why}"))?;
        let ranges = self.log.iter().map(|key| (key.first_size, key.last_size));
        check_ranges(ranges).map_err(|why| format!("log_keys: {why}"))?;
        if let Some(other) = self.log.iter().find(|key| key.verifier.name() != self.origin()) {
            let (one, other) = (self.origin(), other.verifier.name());
            let (one, other) = (python_text::visible(one), python_text::visible(other));
            return Err(format!("it has keys of two logs, {one} and {other}"));
        }
        // A signature of one kind must never pass as one of another kind or time.
        let mut keys = self.public_keys();
        keys.extend(self.log.iter().map(|key| key.verifier.key()));
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("the key {} is there twice", twice[0]));
        }
        // Each replaced key has an entry of its own in the log.
        let mut entries = self.replacements();
        entries.sort_unstable();
        match entries.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!("two keys are replaced by entry {}", twice[0])),
            None => Ok(()),
        }
    }

    /// Returns the entries that say that a key is replaced.
    pub(super) fn replacements(&self) -> Vec<u64> {
        let attestation = self.attestation.iter().map(|key| key.first_leaf);
        let log = self.log.iter().map(|key| key.first_size);
        attestation.chain(log).filter_map(|first| first.checked_sub(1)).collect()
    }

    /// Returns the text, which is that of RFC 8785.
    #[must_use]
    pub fn to_json(&self) -> String {
        // There are no numbers beyond 2^53.
        json::to_jcs(&self.to_value()).unwrap_or_default()
    }

    fn to_value(&self) -> Value {
        let attestation =
            self.attestation.iter().map(|AttestationKey { key, first_leaf, last_leaf }| {
                let mut item = Object::with_capacity(4);
                item.insert("first_leaf", *first_leaf);
                item.insert("keyid", key.fingerprint().to_string());
                item.insert("last_leaf", *last_leaf);
                item.insert("pem", key.to_pem());
                Value::from(item)
            });
        let log = self.log.iter().map(|LogKey { verifier, first_size, last_size }| {
            let mut item = Object::with_capacity(4);
            item.insert("first_size", *first_size);
            item.insert("last_size", *last_size);
            item.insert("pem", verifier.key().to_pem());
            item.insert("vkey", verifier.to_string());
            Value::from(item)
        });
        let mut trust = Object::with_capacity(4);
        trust.insert("attestation_keys", attestation.collect::<Vec<_>>());
        trust.insert("log_keys", log.collect::<Vec<_>>());
        trust.insert("origin", self.origin());
        trust.insert("version", VERSION);
        trust.into()
    }

    /// Returns the digest of the text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json().as_bytes())
    }

    /// Returns the name of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.log.first().map_or("", |key| key.verifier.name())
    }

    /// Returns the keys for statements, the oldest first.
    #[must_use]
    pub fn attestation_keys(&self) -> &[AttestationKey] {
        &self.attestation
    }

    /// Returns the keys of the log, the oldest first.
    #[must_use]
    pub fn log_keys(&self) -> &[LogKey] {
        &self.log
    }

    /// Returns the keys for statements alone, to verify an envelope with. Whether the one that signed it was good at that
    /// entry tells [`admits_attestation`](Self::admits_attestation).
    #[must_use]
    pub fn public_keys(&self) -> Vec<PublicKey> {
        self.attestation.iter().map(|key| key.key).collect()
    }

    /// Returns the keys of the log alone, to open a checkpoint with. Whether the one that signed it was good at that size
    /// tells [`admits_log`](Self::admits_log).
    #[must_use]
    pub fn verifiers(&self) -> Vec<Verifier> {
        self.log.iter().map(|key| key.verifier.clone()).collect()
    }

    /// Returns the key that signed the statement of an entry.
    #[must_use]
    pub fn attestation_key_at(&self, leaf: u64) -> Option<&AttestationKey> {
        // The ranges have no gaps: it is the last that has begun.
        self.attestation.iter().rfind(|key| key.first_leaf <= leaf)
    }

    /// Returns the key that signed the checkpoint of a size.
    #[must_use]
    pub fn log_key_at(&self, size: u64) -> Option<&LogKey> {
        self.log.iter().rfind(|key| key.first_size <= size)
    }

    /// Says whether a key is good for the statement of an entry.
    #[must_use]
    pub fn admits_attestation(&self, key: &PublicKey, leaf: u64) -> bool {
        self.attestation_key_at(leaf).is_some_and(|good| good.key == *key)
    }

    /// Says whether a key is good for the checkpoint of a size.
    #[must_use]
    pub fn admits_log(&self, verifier: &Verifier, size: u64) -> bool {
        self.log_key_at(size).is_some_and(|good| good.verifier == *verifier)
    }

    /// Returns what was trusted when the log had so many entries.
    #[must_use]
    pub(super) fn at(&self, entries: u64) -> Self {
        let mut attestation = self.attestation.clone();
        attestation.retain(|key| key.first_leaf <= entries);
        if let Some(last) = attestation.last_mut() {
            last.last_leaf = None;
        }
        let mut log = self.log.clone();
        log.retain(|key| key.first_size <= entries);
        if let Some(last) = log.last_mut() {
            last.last_size = None;
        }
        Self { attestation, log }
    }

    /// Returns what is trusted when the statement of the next entry, of a log of that size, is the last that the present
    /// key signs.
    pub(super) fn with_attestation(mut self, key: PublicKey, size: u64) -> Self {
        if let Some(last) = self.attestation.last_mut() {
            last.last_leaf = Some(size);
        }
        self.attestation.push(AttestationKey { key, first_leaf: size + 1, last_leaf: None });
        self
    }

    /// Returns what is trusted when the checkpoint of that size is the last that the present key signs.
    pub(super) fn with_log(mut self, verifier: Verifier, size: u64) -> Self {
        if let Some(last) = self.log.last_mut() {
            last.last_size = Some(size);
        }
        self.log.push(LogKey { verifier, first_size: size + 1, last_size: None });
        self
    }
}

/// Reads a range.
fn range(item: &Value, first: &str, last: &str) -> Result<(u64, Option<u64>), String> {
    let number = |name: &str| {
        let number = item.get(name).and_then(Value::as_i64).and_then(|it| u64::try_from(it).ok());
        number
            .filter(|number| *number < MOST)
            .ok_or_else(|| format!("{name} is no number from 0 to 2^53"))
    };
    let open = item.get(last).is_some_and(Value::is_null);
    Ok((number(first)?, if open { None } else { Some(number(last)?) }))
}

/// Holds ranges to each other.
fn check_ranges(ranges: impl Iterator<Item = (u64, Option<u64>)>) -> Result<(), String> {
    let mut next = Some(0);
    for (first, last) in ranges {
        let Some(expected) = next else {
            return Err("a key comes after one whose range is open".to_owned());
        };
        if first != expected {
            return Err(format!("a range begins with {first}, and must with {expected}"));
        }
        if last.is_some_and(|last| last < first) {
            return Err(format!("a range that begins with {first} ends before it"));
        }
        next = last.map(|last| last + 1);
    }
    match next {
        None => Ok(()),
        Some(0) => Err("there is no key".to_owned()),
        Some(_) => Err("the range of the last key is not open".to_owned()),
    }
}
