//! The log of seals: hashes of leaves in a file that only grows, and the last signed head beside it.
//!
//! A leaf is written before the head that covers it. **A crash costs the leaf that no head covers, and nothing else**:
//! such a leaf, whole or in part, is cut off when the log is opened. Whatever else differs from the head is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::anchor::{self, head_holds, head_text};
use super::binding::LOG_ID;
use crate::digest::Digest;
use crate::files;
use crate::json::{Limits, Object, Value, parse, to_indented};
use crate::key::SigningKey;
use crate::merkle::{Memory, consistency, inclusion};

/// The bytes of a leaf's hash.
const LEAF: u64 = 32;
/// The file of hashes, the file of the head, and the file that is locked.
const FILES: [&str; 3] = ["leaves", "head.json", "lock"];
/// A head is no larger.
const HEAD: Limits = Limits { bytes: 16 * 1024, depth: 4, values: 64 };

/// A log cannot be used, or a bundle not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the log cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files of the log do not belong together.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The log is signed by another key.
    #[error("the log is signed by the key {there}, and the given one is {given}")]
    Key {
        /// The id of the key of the log.
        there: String,
        /// The id of the given key.
        given: String,
    },
    /// What the bundle is to be made of cannot be bound.
    #[error("the bundle cannot be bound: {why}")]
    Draft {
        /// Why.
        why: String,
    },
}

impl Error {
    /// Returns the remedy.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File { .. } => {
                "check the path, that there is room, and that this user may use it"
            }
            Self::Damaged { .. } => {
                "restore the directory of the log from a copy; never continue it without its leaves"
            }
            Self::Key { .. } => {
                "name the key of the log with --key, or another directory with --log-dir"
            }
            Self::Draft { .. } => "look at the events and proofs of the run",
        }
    }
}

/// A log of leaves.
#[derive(Debug)]
pub struct Log {
    tree: Memory,
    head: Option<Value>,
    /// Where it is kept; a log in memory is kept nowhere.
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    directory: PathBuf,
    leaves: File,
    /// Held as long as the log is open.
    _lock: File,
}

/// A leaf that was appended.
pub(super) struct Appended {
    pub head: Value,
    pub inclusion: Vec<Digest>,
    /// From the tree before.
    pub consistency: Vec<Digest>,
}

impl Log {
    /// Returns a log that is kept in memory, and has no leaves.
    #[must_use]
    pub const fn in_memory() -> Self {
        Self { tree: Memory::new(), head: None, place: None }
    }

    /// Opens a log, which is made if it is not there, and holds it until this is dropped.
    ///
    /// # Errors
    /// When it cannot be read, or its files do not belong together.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let [leaves, head, lock] = FILES.map(|name| directory.join(name));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let lock = files::seize(&lock).map_err(failed(&lock))?;
        let signed = read_head(&head)?;
        let (size, root) =
            signed.as_ref().map_or((0, None), |(_, size, root)| (*size, Some(*root)));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&leaves)
            .map_err(failed(&leaves))?;
        let there = file.metadata().map_err(failed(&leaves))?.len();
        let damaged = |why: String| Error::Damaged { path: leaves.clone(), why };
        let covered =
            size.checked_mul(LEAF).filter(|covered| *covered <= there).ok_or_else(|| {
                damaged(format!(
                    "it has {there} bytes, and the head covers {size} leaves of {LEAF}"
                ))
            })?;
        // Each leaf is followed by its head, so a crash leaves at most one without.
        if there - covered > LEAF {
            return Err(damaged(format!(
                "it has {there} bytes, and the head covers {size} leaves of {LEAF}: leaves are there that no head covers"
            )));
        }
        let tree = read_leaves(&mut file, size).map_err(failed(&leaves))?;
        if tree.size() != size || root.is_some_and(|root| root != tree.root()) {
            return Err(damaged("its leaves are not those of the head".to_owned()));
        }
        if there > covered {
            file.set_len(covered).and_then(|()| file.sync_all()).map_err(failed(&leaves))?;
        }
        let place = Place { directory: directory.to_owned(), leaves: file, _lock: lock };
        Ok(Self { tree, head: signed.map(|(head, ..)| head), place: Some(place) })
    }

    /// Returns how many leaves there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.tree.root()
    }

    /// Returns the last signed head; a log without leaves has none.
    #[must_use]
    pub const fn head(&self) -> Option<&Value> {
        self.head.as_ref()
    }

    /// Appends a leaf, and signs the new head.
    pub(super) fn append(
        &mut self,
        leaf: Digest,
        key: &SigningKey,
        timestamp: &str,
    ) -> Result<Appended, Error> {
        let given = key.public().key_id();
        if let Some(head) = self.head.as_ref().filter(|head| !head_holds(head, &key.public())) {
            let there = head.get("key_id").and_then(Value::as_str).unwrap_or("unknown").to_owned();
            return Err(Error::Key { there, given });
        }
        let mut range = self.tree.range().clone();
        range.append(leaf);
        let mut head = Object::with_capacity(7);
        head.insert("log_id", LOG_ID);
        head.insert("tree_size", range.size());
        head.insert("root_hash", range.root().to_string());
        head.insert("timestamp", timestamp);
        let mut head = Value::from(head);
        let signature = key.sign(head_text(&head).as_bytes());
        if let Value::Object(head) = &mut head {
            head.insert("signature", signature.to_string());
            head.insert("key_id", given);
            head.insert("algorithm", "Ed25519");
        }
        if let Some(place) = &mut self.place {
            place.write(self.tree.size(), &leaf, &head)?;
        }
        let (old, new) = (self.tree.size(), range.size());
        self.tree.append(leaf);
        self.head = Some(head.clone());
        let proofs = inclusion(&self.tree, old, new)
            .and_then(|inclusion| Ok((inclusion, consistency(&self.tree, old, new)?)));
        match proofs {
            Ok((Some(inclusion), Some(consistency))) => {
                Ok(Appended { head, inclusion, consistency })
            }
            // The tree has all its leaves.
            _ => Err(Error::Draft { why: "the leaf is not in the log".to_owned() }),
        }
    }
}

impl Place {
    /// Writes a leaf, then the head that covers it. If that fails, the files are as before.
    fn write(&mut self, size: u64, leaf: &Digest, head: &Value) -> Result<(), Error> {
        let [leaves, signed, _] = FILES.map(|name| self.directory.join(name));
        let mut write = || -> io::Result<()> {
            self.leaves.seek(SeekFrom::Start(size * LEAF))?;
            self.leaves.write_all(leaf.as_bytes())?;
            self.leaves.sync_all()
        };
        let mut result = write().map_err(|source| Error::File { path: leaves, source });
        if result.is_ok() {
            let text = format!("{}\n", to_indented(head));
            result = files::write_whole(&signed, text.as_bytes())
                .map_err(|source| Error::File { path: signed, source });
        }
        if result.is_err() {
            // If this fails too, the leaf without a head is cut off when the log is opened.
            drop(self.leaves.set_len(size * LEAF));
        }
        result
    }
}

/// Reads the head of a log: what was signed, how many leaves it covers, and their root.
fn read_head(path: &Path) -> Result<Option<(Value, u64, Digest)>, Error> {
    let bytes = match files::read_bounded(path, HEAD.bytes) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { path: path.to_owned(), source }),
    };
    let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
    let head = parse(&bytes, HEAD).map_err(|error| damaged(error.to_string()))?;
    let size = head.get("tree_size").and_then(Value::as_i64).and_then(|it| u64::try_from(it).ok());
    let root = head.get("root_hash").and_then(anchor::hash);
    match (size.filter(|size| *size > 0), root) {
        (Some(size), Some(root)) => Ok(Some((head, size, root))),
        _ => Err(damaged("it is no tree head".to_owned())),
    }
}

/// Reads the first leaves of a file.
fn read_leaves(file: &mut File, size: u64) -> io::Result<Memory> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = io::BufReader::with_capacity(1 << 16, file.take(size * LEAF));
    let mut tree = Memory::new();
    let mut leaf = [0; 32];
    for _ in 0..size {
        reader.read_exact(&mut leaf)?;
        tree.append(Digest::from_bytes(leaf));
    }
    Ok(tree)
}
