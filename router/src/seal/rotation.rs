//! Replacing a key.
//!
//! The new key is made under a name of its own; then `trust.json` is replaced by one that names it, which is the moment
//! from which it counts; then the log gets an entry that says so, with a statement of the old attestation key. Whoever
//! opens the directory next finishes what was interrupted. A process that seals meanwhile takes the new key up before
//! its next append.

use std::path::{Path, PathBuf};

use super::desk::Desk;
use super::keys::{Keys, Use};
use super::{Error, Trust};
use crate::key::PublicKey;
use crate::tlog::Verifier;

/// A key was replaced.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The entry of the log that says so.
    pub index: u64,
    /// The new key.
    pub key: PublicKey,
    /// What is trusted from now on.
    pub trust: Trust,
}

/// Replaces the key that signs statements.
///
/// # Errors
/// When there are no keys, or the new one or its entry in the log cannot be written. If it is already trusted then, its
/// entry is written before whatever is sealed next.
pub fn rotate_attestation(root: &Path) -> Result<Rotation, Error> {
    rotate(root, Use::Attestation)
}

/// Replaces the key that signs checkpoints. The name of the log stays.
///
/// # Errors
/// As above.
pub fn rotate_log(root: &Path) -> Result<Rotation, Error> {
    rotate(root, Use::Log)
}

fn rotate(root: &Path, what: Use) -> Result<Rotation, Error> {
    let keys = Keys::of(root);
    existing(&keys)?;
    let _lock = keys.lock()?;
    let desk = Desk::open(&keys, keys.trust()?)?;
    let (index, key) = prepare(&keys, &desk, what)?;
    drop(desk);
    let trust = keys.trust()?;
    Desk::open(&keys, trust.clone())?;
    Ok(Rotation { index, key, trust })
}

/// Makes a new key and has it trusted. What is left to do is in `trust.json`.
pub(super) fn prepare(keys: &Keys, desk: &Desk, what: Use) -> Result<(u64, PublicKey), Error> {
    let index = desk.size()?;
    let trust = Trust::clone(&desk.trust);
    let (key, trust) = match what {
        Use::Attestation => {
            let key = keys.make(what, trust.attestation_keys().len() + 1)?.public();
            (key, trust.with_attestation(key, index))
        }
        Use::Log => {
            let key = keys.make(what, trust.log_keys().len() + 1)?.public();
            let verifier = Verifier::new(trust.origin(), key)?;
            (key, trust.with_log(verifier, index))
        }
    };
    keys.write(&trust)?;
    Ok((index, key))
}

/// Removes the private keys that were replaced, and returns their files. Nothing can be signed with them any more; what
/// they signed is verified as before.
///
/// # Errors
/// When there are no keys, what is left to do of a replacement cannot be done, or a file cannot be removed.
pub fn remove_former_keys(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let keys = Keys::of(root);
    existing(&keys)?;
    let _lock = keys.lock()?;
    // The last statement of an old key is written before the key goes.
    let desk = Desk::open(&keys, keys.trust()?)?;
    let counts = [
        (Use::Attestation, desk.trust.attestation_keys().len()),
        (Use::Log, desk.trust.log_keys().len()),
    ];
    let mut removed = Vec::new();
    for (what, count) in counts {
        for path in (1..count).map(|number| keys.path(what, number)) {
            if path.try_exists().map_err(Error::file(&path))? {
                std::fs::remove_file(&path).map_err(Error::file(&path))?;
                removed.push(path);
            }
        }
    }
    Ok(removed)
}

/// A directory that has no keys is not given any here: it may be the wrong one.
fn existing(keys: &Keys) -> Result<(), Error> {
    keys.trust().map(drop)
}
