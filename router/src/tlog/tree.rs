//! A log read without its key: tiles, entries, proofs.

use std::path::Path;

use super::cache::{Sized, Tiles};
use super::checkpoint::Body;
use super::note::Note;
use super::tile::{Entries, Kind, Tile, WIDTH};
use super::{Checkpoint, Error, MAX_NOTE, Proof, Verifier, audit};
use crate::digest::Digest;
use crate::files;
use crate::merkle::{self, Nodes};

/// A log in a directory, as of the checkpoint that was there when it was opened. Whoever appends meanwhile does no harm.
///
/// Nothing is taken on trust but what [`Tree::checkpoint`] verified: each proof is verified before it is given.
#[derive(Debug)]
pub struct Tree {
    tiles: Tiles,
    /// The checkpoint, as it was read.
    text: String,
    size: u64,
}

impl Tree {
    /// Opens a log.
    ///
    /// # Errors
    /// When its checkpoint cannot be read, or is malformed.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let text = read_checkpoint(directory)?;
        let size = Body::parse(Note::parse(&text)?.text)?.size;
        Ok(Self { tiles: Tiles::new(directory), text, size })
    }

    /// Returns the checkpoint as it was read, which nobody has verified.
    #[must_use]
    pub fn checkpoint_text(&self) -> &str {
        &self.text
    }

    /// Returns how many entries the checkpoint says there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Verifies the checkpoint: a given key signed it, and the tiles have its root.
    ///
    /// # Errors
    /// When it does not hold.
    pub fn checkpoint(&self, verifiers: &[Verifier]) -> Result<Checkpoint, Error> {
        let checkpoint = Checkpoint::open(&self.text, verifiers)?;
        self.holds(&checkpoint)?;
        Ok(checkpoint)
    }

    /// Shows that the tiles continue the tree of a checkpoint, which may be older.
    ///
    /// # Errors
    /// When they do not, or have not as many entries.
    pub fn holds(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let found = merkle::root_at(self, checkpoint.size)?;
        if found == checkpoint.root {
            return Ok(());
        }
        Err(Error::Root {
            path: self.tiles.directory().to_owned(),
            tiles: format!("of the first {} entries", checkpoint.size),
            size: checkpoint.size,
            expected: checkpoint.root,
            found,
        })
    }

    /// Reads every file that the checkpoint covers, and holds each against the others: nothing of the log was changed or
    /// lost since it was signed. Takes time for each entry.
    ///
    /// # Errors
    /// When a file is not as it must be; it is named.
    pub fn audit(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        audit::audit(self.tiles.directory(), checkpoint)
    }

    /// Makes the proof that an entry is in the tree of a checkpoint, which may be older than the log.
    ///
    /// # Errors
    /// When the checkpoint does not cover it, or the tiles do not lead to its root.
    pub fn proof(&self, index: u64, checkpoint: &Checkpoint) -> Result<Proof, Error> {
        prove(&self.tiles.sized(self.size), index, checkpoint)
    }

    /// Makes the proof that the tree of a checkpoint continues that of an older one.
    ///
    /// # Errors
    /// When it does not.
    pub fn consistency(&self, old: &Checkpoint, new: &Checkpoint) -> Result<Vec<Digest>, Error> {
        consistency(&self.tiles, self.size, old, new)
    }

    /// Returns an entry.
    ///
    /// # Errors
    /// When there is none, or its tile cannot be read.
    pub fn entry(&self, index: u64) -> Result<Vec<u8>, Error> {
        let entries = self.entries_from(index)?;
        let beyond = Error::Beyond { size: self.size, needed: index.saturating_add(1) };
        entries.into_iter().next().ok_or(beyond)
    }

    /// Returns some entries from one on: at least it, and at most 256.
    ///
    /// # Errors
    /// When there is none, or its tile cannot be read.
    pub fn entries_from(&self, index: u64) -> Result<Vec<Vec<u8>>, Error> {
        let tile = (index < self.size).then(|| Tile::of(Kind::Entries, index / WIDTH, self.size));
        let Some(tile) = tile.flatten() else {
            return Err(Error::Beyond { size: self.size, needed: index.saturating_add(1) });
        };
        let bundle = tile.bundle(self.tiles.directory())?;
        let from = usize::try_from(index % WIDTH).unwrap_or(usize::MAX);
        Ok(Entries(&bundle).skip(from).map(<[u8]>::to_vec).collect())
    }
}

impl Nodes for Tree {
    type Error = Error;

    fn node(&self, level: u32, index: u64) -> Result<Digest, Error> {
        self.tiles.sized(self.size).node(level, index)
    }
}

/// Reads the checkpoint of a directory.
pub(super) fn read_checkpoint(directory: &Path) -> Result<String, Error> {
    let path = directory.join("checkpoint");
    let bytes = files::read_bounded(&path, MAX_NOTE).map_err(Error::file(&path))?;
    String::from_utf8(bytes).map_err(|_| Error::Note { why: "it is no UTF-8" })
}

/// Makes a proof of inclusion, and verifies it.
pub(super) fn prove(
    tiles: &Sized<'_>,
    index: u64,
    checkpoint: &Checkpoint,
) -> Result<Proof, Error> {
    let size = checkpoint.size;
    let Some(hashes) = merkle::inclusion(tiles, index, size)? else {
        return Err(Error::Beyond { size, needed: index.saturating_add(1) });
    };
    // A tile that was changed must not become a proof that nobody accepts.
    let leaf = tiles.node(0, index)?;
    if !merkle::verify_inclusion(&leaf, index, size, &hashes, &checkpoint.root) {
        return Err(audit::blame(tiles.directory(), index, checkpoint));
    }
    Ok(Proof { index, hashes, checkpoint: checkpoint.text().to_owned(), extra: None })
}

/// Makes a proof of consistency, and verifies it.
pub(super) fn consistency(
    tiles: &Tiles,
    size: u64,
    old: &Checkpoint,
    new: &Checkpoint,
) -> Result<Vec<Digest>, Error> {
    let forked = |why| Error::Forked {
        path: tiles.directory().to_owned(),
        seen: old.size,
        found: new.size,
        why,
    };
    let proof = merkle::consistency(&tiles.sized(size), old.size, new.size)?;
    let proof = proof.ok_or_else(|| forked("it has fewer entries"))?;
    if merkle::verify_consistency(old.size, new.size, &old.root, &new.root, &proof) {
        Ok(proof)
    } else {
        Err(forked("the tiles do not lead from one root to the other"))
    }
}
