//! The right edge of a tree: the tiles that are not full yet, into which the next entries go.

use std::path::Path;

use super::cache::Subtree;
use super::tile::{Entries, HEIGHT, Kind, LEVELS, Tile, WIDTH};
use super::{Checkpoint, Error};
use crate::digest::Digest;
use crate::merkle;

/// The tiles of a tree that are not full.
#[derive(Clone, Debug, Default)]
pub(super) struct Edge {
    size: u64,
    /// The tile at each level, from the leaves up, as far as it goes: fewer than 256 hashes.
    levels: Vec<Subtree>,
    /// The entries of the last tile, in the form of its file.
    bundle: Vec<u8>,
}

impl Edge {
    /// Returns how many entries the tree has.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the tiles that are not full, from the leaves up: level, index, content. Some are empty.
    pub(super) fn levels(&self) -> impl Iterator<Item = (u32, u64, &Subtree)> {
        let index = |level: u32| self.size.checked_shr((level + 1) * HEIGHT).unwrap_or(0);
        (0..).zip(&self.levels).map(move |(level, subtree)| (level, index(level), subtree))
    }

    /// Returns the entries of the last tile, in the form of its file, if it is not full.
    pub(super) fn bundle(&self) -> &[u8] {
        &self.bundle
    }

    /// Returns the root of the tree.
    pub(super) fn root(&self) -> Digest {
        let parts = self.levels.iter().flat_map(|level| level.last().rev()).copied();
        parts.reduce(|right, left| merkle::node(&left, &right)).unwrap_or_else(merkle::empty)
    }

    /// Appends an entry, which is no longer than it may be, and tells each tile that is now full, with its bytes.
    pub(super) fn append<E>(
        &mut self,
        entry: &[u8],
        mut full: impl FnMut(Tile, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = u16::try_from(entry.len()).unwrap_or(u16::MAX);
        self.bundle.extend(length.to_be_bytes());
        self.bundle.extend(entry);
        if self.size % WIDTH == WIDTH - 1 {
            let tile = Tile { kind: Kind::Entries, index: self.size / WIDTH, width: WIDTH };
            full(tile, &self.bundle)?;
            self.bundle.clear();
        }
        let mut hash = merkle::leaf(entry);
        for level in 0..LEVELS {
            if self.levels.len() == level as usize {
                self.levels.push(Subtree::default());
            }
            let subtree = &mut self.levels[level as usize];
            let Some(root) = subtree.push(hash) else { break };
            let index = self.size.checked_shr((level + 1) * HEIGHT).unwrap_or(0);
            let tile = Tile { kind: Kind::Hashes(level), index, width: WIDTH };
            full(tile, &bytes(subtree.hashes()))?;
            *subtree = Subtree::default();
            hash = root;
        }
        self.size += 1;
        Ok(())
    }

    /// Reads the edge of the tree that a checkpoint covers, and holds it against it: the root, the hashes of the last full
    /// tiles, and the last entries.
    pub(super) fn read(directory: &Path, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let size = checkpoint.size;
        let mut edge = Self { size, ..Self::default() };
        let mut tiles = Vec::new();
        for level in 0..LEVELS {
            if size.checked_shr(level * HEIGHT).unwrap_or(0) == 0 {
                break;
            }
            let index = size.checked_shr((level + 1) * HEIGHT).unwrap_or(0);
            let tile = Tile::of(Kind::Hashes(level), index, size);
            let hashes = tile.map(|tile| tile.hashes(directory)).transpose()?.unwrap_or_default();
            if let (Some(tile), Some(hash), Some(below)) =
                (tile, hashes.last(), level.checked_sub(1))
            {
                let last = ((index << HEIGHT) | (tile.width - 1), below);
                let last = Tile { kind: Kind::Hashes(last.1), index: last.0, width: WIDTH };
                if merkle::root(last.hashes(directory)?) != *hash {
                    return Err(Error::damaged(
                        &last.path(directory),
                        format!("its root is not the last hash of {tile}"),
                    ));
                }
            }
            tiles.extend(tile.map(|tile| tile.to_string()));
            edge.levels.push(hashes.into_iter().collect());
        }
        if edge.root() != checkpoint.root {
            return Err(Error::Root {
                path: directory.to_owned(),
                tiles: tiles.join(", "),
                size,
                expected: checkpoint.root,
                found: edge.root(),
            });
        }
        if let Some(tile) = Tile::of(Kind::Entries, size / WIDTH, size) {
            edge.bundle = tile.bundle(directory)?;
            let entries = Entries(&edge.bundle).map(merkle::leaf);
            if !entries.eq(edge.levels[0].hashes().iter().copied()) {
                let hashes = Tile { kind: Kind::Hashes(0), ..tile };
                return Err(Error::damaged(
                    &tile.path(directory),
                    format!("its entries have not the hashes of {hashes}"),
                ));
            }
        }
        Ok(edge)
    }
}

/// Returns hashes in the form of a tile's file.
pub(super) fn bytes(hashes: &[Digest]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}
