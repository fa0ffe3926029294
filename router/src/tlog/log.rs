//! A log that grows: entries are appended, and are there for good when the checkpoint that covers them is given.
//!
//! **Everything a checkpoint covers is on the disk before the checkpoint is.** A process that ends in between leaves files
//! that no checkpoint covers; whoever appends next writes over them. Several processes may append to one directory: each
//! holds its lock while it appends, and reads again what another one did meanwhile.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cache::Tiles;
use super::edge::{Edge, bytes};
use super::tile::{Kind, Tile, WIDTH};
use super::tree::{self, read_checkpoint};
use super::writer::{Known, Writer, sync_directory};
use super::{Checkpoint, Error, MAX_ENTRY, Proof, Signer, Verifier};
use crate::digest::Digest;
use crate::{files, merkle};

/// A log in a directory, and the key that signs its checkpoints.
#[derive(Debug)]
pub struct Log {
    tiles: Tiles,
    signer: Signer,
    /// The key, and those that were the log's before.
    verifiers: Vec<Verifier>,
    state: Mutex<State>,
}

/// What is known of the log.
#[derive(Debug)]
struct State {
    /// The last checkpoint that was read or written. Nothing that does not continue it is accepted.
    seen: Checkpoint,
    /// The edge of its tree; none after an append that failed.
    edge: Option<Edge>,
    known: Known,
    /// How often the last append waited for the disk.
    syncs: u64,
}

/// What became of entries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Appended {
    /// The number of the first of them; the others follow.
    pub first: u64,
    /// The checkpoint that covers them.
    pub checkpoint: Checkpoint,
}

impl Log {
    /// Opens a log, or begins one in a directory that has none. Its checkpoint must be of the signer's origin, and signed by
    /// its key or by one of the former ones; the next checkpoint is signed by the signer's.
    ///
    /// # Errors
    /// When the log is of another origin or key, or its tiles are not those of its checkpoint.
    pub fn open(directory: &Path, signer: Signer, former: &[Verifier]) -> Result<Self, Error> {
        let mut verifiers = vec![signer.verifier()];
        verifiers.extend_from_slice(former);
        let path = lock_path(directory);
        let _lock = files::seize(&path).map_err(Error::file(&path))?;
        let path = directory.join("checkpoint");
        let is_there = |path: &Path| path.try_exists().map_err(Error::file(path));
        let mut known = Known::from([directory.to_owned()]);
        if !is_there(&path)? {
            let tiles = directory.join("tile");
            if is_there(&tiles)? {
                return Err(Error::damaged(&path, "it is gone, and there are tiles"));
            }
            if let Some(parent) = directory.parent().filter(|it| !it.as_os_str().is_empty()) {
                sync_directory(parent)?;
            }
            let first = Checkpoint::sign(&signer, 0, merkle::empty());
            Writer::new(&mut known).finish(&path, first.text().as_bytes())?;
        }
        let seen = read(directory, &signer, &verifiers)?;
        let edge = Edge::read(directory, &seen)?;
        sweep(directory, &edge);
        let edge = Some(edge);
        let tiles = Tiles::new(directory);
        let state = Mutex::new(State { seen, edge, known, syncs: 0 });
        Ok(Self { tiles, signer, verifiers, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.tiles.directory()
    }

    /// Returns what its checkpoints are verified with: its key first, then the former ones.
    #[must_use]
    pub fn verifiers(&self) -> &[Verifier] {
        &self.verifiers
    }

    /// Returns how many entries there are, as far as this process knows.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state().seen.size
    }

    /// Returns the last checkpoint that this process knows.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.state().seen.clone()
    }

    /// Returns how often the last append waited for the disk.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Appends entries, all or none of them, and returns when they and the checkpoint that covers them are on the disk.
    ///
    /// # Errors
    /// When an entry is too long, a file cannot be written, or the directory is no longer that of this log. The log is then
    /// as before; only if the very last step fails may the entries be in it all the same.
    pub fn append(&self, entries: &[Vec<u8>]) -> Result<Appended, Error> {
        let too_long = entries.iter().enumerate().find(|(_, entry)| entry.len() > MAX_ENTRY);
        if let Some((number, entry)) = too_long {
            return Err(Error::TooLong { number, length: entry.len() });
        }
        let mut state = self.state();
        let path = lock_path(self.directory());
        let _lock = files::lock_in_existing(&path).map_err(Error::file(&path))?;
        let mut edge = self.current(&mut state)?;
        let first = edge.size();
        if entries.is_empty() {
            let checkpoint = state.seen.clone();
            state.edge = Some(edge);
            return Ok(Appended { first, checkpoint });
        }
        let directory = self.directory();
        let mut writer = Writer::new(&mut state.known);
        let mut superseded: Vec<PathBuf> = Vec::new();
        for entry in entries {
            edge.append(entry, |tile, bytes| {
                if Tile::of(tile.kind, tile.index, first).is_some() {
                    superseded.push(tile.partials(directory));
                }
                writer.write(&tile.path(directory), bytes)
            })?;
        }
        let size = edge.size();
        let changed = |tile: &Tile| Tile::of(tile.kind, tile.index, first) != Some(*tile);
        for (level, index, subtree) in edge.levels() {
            if let Some(tile) = Tile::of(Kind::Hashes(level), index, size).filter(changed) {
                writer.write(&tile.path(directory), &bytes(subtree.hashes()))?;
            }
        }
        if let Some(tile) = Tile::of(Kind::Entries, size / WIDTH, size) {
            writer.write(&tile.path(directory), edge.bundle())?;
        }
        let checkpoint = Checkpoint::sign(&self.signer, size, edge.root());
        let syncs = writer.finish(&directory.join("checkpoint"), checkpoint.text().as_bytes())?;
        for directory in superseded {
            remove(&directory);
            state.known.remove(&directory);
        }
        self.keep(&edge);
        *state = State {
            seen: checkpoint.clone(),
            edge: Some(edge),
            known: std::mem::take(&mut state.known),
            syncs,
        };
        Ok(Appended { first, checkpoint })
    }

    /// Takes the edge of the tree, which is read again if another process appended or the last append failed.
    fn current(&self, state: &mut State) -> Result<Edge, Error> {
        let directory = self.directory();
        let text = read_checkpoint(directory)?;
        if text == state.seen.text()
            && let Some(edge) = state.edge.take()
        {
            return Ok(edge);
        }
        let found = read(directory, &self.signer, &self.verifiers)?;
        let edge = Edge::read(directory, &found)?;
        // What is kept must not come from tiles of another history.
        tree::consistency(&Tiles::new(directory), found.size, &state.seen, &found)?;
        self.keep(&edge);
        sweep(directory, &edge);
        state.seen = found;
        Ok(edge)
    }

    /// Keeps the tiles of the edge for the proofs that are made next.
    fn keep(&self, edge: &Edge) {
        for (level, index, subtree) in edge.levels().filter(|(.., subtree)| subtree.width() > 0) {
            self.tiles.keep(level, index, subtree.clone());
        }
    }

    /// Makes the proof that an entry is in the tree of a checkpoint of this log.
    ///
    /// # Errors
    /// When the checkpoint does not cover it, or the tiles do not lead to its root.
    pub fn proof(&self, index: u64, checkpoint: &Checkpoint) -> Result<Proof, Error> {
        let size = self.size().max(checkpoint.size);
        tree::prove(&self.tiles.sized(size), index, checkpoint)
    }

    /// Makes the proof that the tree of a checkpoint of this log continues that of an older one.
    ///
    /// # Errors
    /// When it does not.
    pub fn consistency(&self, old: &Checkpoint, new: &Checkpoint) -> Result<Vec<Digest>, Error> {
        tree::consistency(&self.tiles, self.size().max(new.size), old, new)
    }
}

/// Returns the file that is locked during an append.
fn lock_path(directory: &Path) -> PathBuf {
    directory.join("lock")
}

/// Reads the checkpoint, which must be of this log.
fn read(directory: &Path, signer: &Signer, verifiers: &[Verifier]) -> Result<Checkpoint, Error> {
    let text = read_checkpoint(directory)?;
    let body = super::checkpoint::Body::parse(super::note::Note::parse(&text)?.text)?;
    if body.origin != signer.origin() {
        let (found, expected) = (body.origin.to_owned(), signer.origin().to_owned());
        return Err(Error::Origin { found, expected });
    }
    Checkpoint::open(&text, verifiers)
}

/// Removes tiles that a full one superseded. What cannot be removed does no harm.
fn remove(directory: &Path) {
    drop(std::fs::remove_dir_all(directory));
}

/// Removes what a process left that ended after its checkpoint was there, and before it removed what full tiles superseded.
fn sweep(directory: &Path, edge: &Edge) {
    for (level, index, _) in edge.levels() {
        let Some(index) = index.checked_sub(1) else { continue };
        let entries = (level == 0).then_some(Kind::Entries);
        for kind in entries.into_iter().chain([Kind::Hashes(level)]) {
            remove(&Tile { kind, index, width: WIDTH }.partials(directory));
        }
    }
}
