//! Holds a log to what a store knows of it: an older copy, another log, or none in its place is never continued.
//!
//! The store has the place of every run in the log. Whoever restores only one of the two, or loses a directory, is told so
//! before a key signs a second history. If the log is lost for good, the operator may [begin](begin()) another: then it is written
//! down beside its keys up to which run the store's seals are of a log before it.

use std::path::{Path, PathBuf};

use super::Error;
use crate::attest::{Envelope, Statement};
use crate::digest::Digest;
use crate::files;
use crate::json::{self, Limits, Object, Value};
use crate::python_text::visible;
use crate::seal::{self, Kind, Leaf, Sealer, Trust};
use crate::store::{RunSeal, Store};
use crate::tlog::Tree;

/// The log is not the one that the store knows.
#[derive(Debug, thiserror::Error)]
pub enum Stray {
    /// It is not there.
    #[error("{}: there is no log, and the store has the seal of entry {leaf} of one", visible(&directory.to_string_lossy()))]
    Gone {
        /// Where it should be.
        directory: PathBuf,
        /// The last entry that the store knows.
        leaf: u64,
    },
    /// It is older.
    #[error("{}: the log has {size} entries, and the store has the seal of entry {leaf}: an older copy was put in its place",
        visible(&directory.to_string_lossy()))]
    Behind {
        /// Where it is.
        directory: PathBuf,
        /// How many entries it has.
        size: u64,
        /// The last entry that the store knows.
        leaf: u64,
    },
    /// It is another one.
    #[error("{}: entry {leaf} of the log is not the seal that the store has of it: {why}", visible(&directory.to_string_lossy()))]
    Other {
        /// Where it is.
        directory: PathBuf,
        /// The last entry that the store knows.
        leaf: u64,
        /// Why.
        why: String,
    },
    /// Another log is to be begun where there is one.
    #[error("{}: there is a log with {size} entries", visible(&directory.to_string_lossy()))]
    There {
        /// Where it is.
        directory: PathBuf,
        /// How many entries it has.
        size: u64,
    },
    /// What was written down of a log before this one cannot be read.
    #[error("{}: it says not which log was before this one: {why}", visible(&path.to_string_lossy()))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Stray {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Gone { .. } | Self::Behind { .. } | Self::Other { .. } => {
                "put the directory back that belongs to the store, or name it as evidence.directory; if it is lost for good, \
                 move what is left of it aside and begin another log with nexus-router evidence begin"
            }
            Self::There { .. } => "move the directory aside, or name another one",
            Self::Unreadable { .. } => "restore the file from a copy",
        }
    }
}

/// The seals of a store up to a run are of a log before this one.
struct Former {
    run_no: i64,
    /// The digest of the attestation of that run, by which the store is known.
    attestation_sha256: Digest,
}

/// Shows that the log of a directory has what a store knows of it.
///
/// # Errors
/// When it has not, or one of the two cannot be read.
pub fn hold(store: &Store, root: &Path) -> Result<(), Error> {
    let Some(known) = store.last_seal(former(store, root)?)? else { return Ok(()) };
    let (directory, leaf) = (seal::log_directory(root), known.leaf);
    let trust_path = seal::trust_path(root);
    // Whoever opens the directory makes keys and a log where there are no keys.
    if !trust_path.try_exists().map_err(seal::Error::file(&trust_path))? {
        return Err(Stray::Gone { directory, leaf }.into());
    }
    let trust = Trust::read(&trust_path)?;
    let tree = Tree::open(&directory)?;
    let size = tree.size();
    if size <= leaf {
        return Err(Stray::Behind { directory, size, leaf }.into());
    }
    let proof = tree.proof(leaf, &tree.checkpoint(&trust.verifiers())?)?;
    let holds = || -> Result<(), String> {
        let line = format!("{}\n", known.attestation);
        let said = statement(&known).ok_or("the store has no attestation of it")?;
        let subject = said.subjects.first().ok_or("it is a statement about nothing")?;
        let leaf = Leaf { kind: Kind::Run, manifest_sha256: subject.sha256, spec_sha256: None };
        seal::verify(&trust, leaf, line.as_bytes(), &proof.to_string())
            .map(drop)
            .map_err(|broken| broken.to_string())
    };
    holds().map_err(|why| Stray::Other { directory, leaf, why }.into())
}

/// Begins another log for a store whose former one is lost. Its seals so far stay what they are, of a log that nobody has.
///
/// # Errors
/// When there is a log in the directory, or something cannot be read or written.
pub fn begin(store: &Store, root: &Path) -> Result<Trust, Error> {
    let directory = seal::log_directory(root);
    let checkpoint = directory.join("checkpoint");
    if checkpoint.try_exists().map_err(seal::Error::file(&checkpoint))? {
        let size = Tree::open(&directory)?.size();
        // One without entries was left by somebody who was interrupted here.
        if size > 0 {
            return Err(Stray::There { directory, size }.into());
        }
    }
    let sealer = Sealer::open(root)?;
    if let Some((run_no, seal)) = store.newest_seal()? {
        let mut formers = Former::read(root)?;
        formers.push(Former { run_no, attestation_sha256: digest(&seal) });
        Former::write(root, &formers)?;
    }
    Ok(Trust::clone(&sealer.trust()))
}

/// Returns up to which run the seals of a store are of a log before this one; zero if all are of this one.
pub(super) fn former(store: &Store, root: &Path) -> Result<i64, Error> {
    let mut last = 0;
    for Former { run_no, attestation_sha256 } in Former::read(root)? {
        // Several stores may be sealed in one directory.
        let is_this =
            store.seal_of_number(run_no)?.is_some_and(|it| digest(&it) == attestation_sha256);
        last = if is_this { last.max(run_no) } else { last };
    }
    Ok(last)
}

fn statement(seal: &RunSeal) -> Option<Statement> {
    let envelope = Envelope::parse(format!("{}\n", seal.attestation).as_bytes()).ok()?;
    Statement::parse(envelope.payload()).ok()
}

fn digest(seal: &RunSeal) -> Digest {
    Digest::of(seal.attestation.as_bytes())
}

impl Former {
    fn path(root: &Path) -> PathBuf {
        seal::trust_path(root).with_file_name("former.json")
    }

    /// Reads what was written down; nothing if there was no log before.
    fn read(root: &Path) -> Result<Vec<Self>, Error> {
        let path = Self::path(root);
        let bytes = match files::read_bounded(&path, Limits::REQUEST.bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes.map_err(seal::Error::file(&path))?,
        };
        let unreadable = |why: String| Stray::Unreadable { path: path.clone(), why };
        let value =
            json::parse(&bytes, Limits::REQUEST).map_err(|error| unreadable(error.to_string()))?;
        let one = |item: &Value| {
            let run_no = item.get("run_no").and_then(Value::as_i64)?;
            let attestation_sha256 = item.get("attestation_sha256").and_then(Value::as_str)?;
            Some(Self { run_no, attestation_sha256: attestation_sha256.parse().ok()? })
        };
        let items = value.get("former").and_then(Value::as_array);
        let formers = items.and_then(|items| items.iter().map(one).collect());
        formers.ok_or_else(|| unreadable("former is no list of runs and digests".to_owned()).into())
    }

    fn write(root: &Path, formers: &[Self]) -> Result<(), Error> {
        let one = |former: &Self| -> Value {
            let mut object = Object::with_capacity(2);
            object.insert("attestation_sha256", former.attestation_sha256.to_string());
            object.insert("run_no", former.run_no);
            object.into()
        };
        let mut object = Object::with_capacity(1);
        object.insert("former", formers.iter().map(one).collect::<Vec<_>>());
        let (path, text) = (Self::path(root), json::to_canonical(&object.into()));
        Ok(files::write_whole(&path, text.as_bytes()).map_err(seal::Error::file(&path))?)
    }
}
