//! The directory of keys: made at first use, whole for whoever comes second.
//!
//! The first keys are `attestation.pem` and `log.pem`, the next ones `attestation-2.pem` and so on. **`trust.json` says
//! which are in use**: a key that it does not name is what somebody left who was interrupted.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{Error, Trust};
use crate::files;
use crate::key::{PublicKey, SigningKey};
use crate::tlog::{Log, Signer, Tree};

/// What a key is for. Its name is that of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Attestation,
    Log,
}

/// The directory of keys, and that of the log beside it.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    directory: PathBuf,
    log: PathBuf,
}

impl Keys {
    pub(super) fn of(root: &Path) -> Self {
        Self { directory: root.join("keys"), log: root.join("log") }
    }

    pub(super) fn log_directory(&self) -> &Path {
        &self.log
    }

    pub(super) fn trust_path(&self) -> PathBuf {
        self.directory.join("trust.json")
    }

    /// Returns the directory of what a succession of keys left.
    pub(super) fn history(&self, index: u64) -> PathBuf {
        self.directory.join("history").join(index.to_string())
    }

    /// Waits until nobody else makes, replaces or uses keys, and makes the directory if it is not there. Whoever holds this
    /// is the only one that appends to the log.
    pub(super) fn lock(&self) -> Result<File, Error> {
        self.refuse_links()?;
        let make = || match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::create_dir_all(self.directory.parent().unwrap_or(Path::new(".")))?;
                match DirBuilder::new().mode(0o700).create(&self.directory) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                    result => result,
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            result => result,
        };
        make().map_err(Error::file(&self.directory))?;
        self.lock_made()
    }

    /// Does the same with a directory that is there. Where it was moved, nothing is made in its place.
    pub(super) fn lock_made(&self) -> Result<File, Error> {
        self.refuse_links()?;
        let metadata = std::fs::metadata(&self.directory).map_err(Error::file(&self.directory))?;
        let mode = metadata.mode() & 0o777;
        let path = self.directory.join("lock");
        let lock = files::lock_in_existing(&path).map_err(Error::file(&path))?;
        if mode & 0o022 != 0 {
            return Err(Error::Exposed { path: self.directory.clone(), mode });
        }
        Ok(lock)
    }

    /// Whoever put a link there could have keys and log anywhere; only the directory above is the operator's to name.
    fn refuse_links(&self) -> Result<(), Error> {
        let mut paths = [&self.directory, &self.log].into_iter();
        match paths.find(|path| path.is_symlink()) {
            Some(path) => Err(Error::Link { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the file of a key by its number, from 1 on.
    pub(super) fn path(&self, what: Use, number: usize) -> PathBuf {
        let name = match what {
            Use::Attestation => "attestation",
            Use::Log => "log",
        };
        let name = if number == 1 { format!("{name}.pem") } else { format!("{name}-{number}.pem") };
        self.directory.join(name)
    }

    /// Returns which keys are trusted. If nothing says so, and there is no log either, keys are made.
    ///
    /// The lock must be held.
    pub(super) fn trust_or_make(&self, origin: Option<&str>) -> Result<Trust, Error> {
        let path = self.trust_path();
        if path.try_exists().map_err(Error::file(&path))? {
            let trust = Trust::read(&path)?;
            return match origin.filter(|origin| *origin != trust.origin()) {
                None => Ok(trust),
                Some(wanted) => {
                    let (found, wanted) = (trust.origin().to_owned(), wanted.to_owned());
                    Err(Error::Origin { found, wanted })
                }
            };
        }
        let checkpoint = self.log.join("checkpoint");
        let begun = checkpoint.try_exists().map_err(Error::file(&checkpoint))?;
        if begun && Tree::open(&self.log)?.size() > 0 {
            return Err(Error::TrustIsGone { path });
        }
        let attestation = self.first(Use::Attestation)?.public();
        let log = self.first(Use::Log)?;
        let named = format!("nexus-router/{}", &log.public().fingerprint().to_string()[..16]);
        let signer = Signer::new(origin.unwrap_or(&named), log)?;
        let trust = Trust::of(attestation, signer.verifier());
        // The log is begun before it is told of, so that one that is gone later is missed.
        drop(Log::open(&self.log, signer, &[])?);
        self.write(&trust)?;
        Ok(trust)
    }

    /// Returns which keys are trusted. The lock must be held.
    pub(super) fn trust(&self) -> Result<Trust, Error> {
        Trust::read(&self.trust_path())
    }

    /// Lays down which keys are trusted from now on.
    pub(super) fn write(&self, trust: &Trust) -> Result<(), Error> {
        let path = self.trust_path();
        files::write_whole(&path, trust.to_json().as_bytes()).map_err(Error::file(&path))
    }

    /// Makes the first key; if somebody who was interrupted made it, that is it.
    fn first(&self, what: Use) -> Result<SigningKey, Error> {
        let path = self.path(what, 1);
        if path.try_exists().map_err(Error::file(&path))? {
            return Ok(SigningKey::read(&path)?);
        }
        Ok(SigningKey::create(&path)?)
    }

    /// Makes another key, which is not trusted yet. What somebody left under its name was never in use.
    pub(super) fn make(&self, what: Use, number: usize) -> Result<SigningKey, Error> {
        let path = self.path(what, number);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.map_err(Error::file(&path))?,
        }
        Ok(SigningKey::create(&path)?)
    }

    /// Reads a key, which must be the one that is trusted.
    fn read(&self, what: Use, number: usize, expected: PublicKey) -> Result<SigningKey, Error> {
        let path = self.path(what, number);
        let key = SigningKey::read(&path)?;
        if key.public() == expected {
            return Ok(key);
        }
        Err(Error::OtherKey { path, found: key.public(), expected })
    }

    /// Reads the key that signs the statement of an entry.
    pub(super) fn attestation_at(&self, trust: &Trust, leaf: u64) -> Result<SigningKey, Error> {
        let number =
            trust.attestation_keys().iter().take_while(|key| key.first_leaf <= leaf).count();
        // The first key is good from the first entry on.
        let key = trust.attestation_keys()[number.max(1) - 1].key;
        self.read(Use::Attestation, number.max(1), key)
    }

    /// Reads the key that signs the next checkpoint.
    pub(super) fn signer(&self, trust: &Trust) -> Result<Signer, Error> {
        let number = trust.log_keys().len();
        let verifier = &trust.log_keys()[number.max(1) - 1].verifier;
        let key = self.read(Use::Log, number, verifier.key())?;
        Ok(Signer::new(verifier.name(), key)?)
    }
}
