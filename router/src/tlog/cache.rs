//! The tiles of a directory, with those that were read last kept: each with all complete subtrees in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Error;
use super::tile::{HEIGHT, Kind, LEVELS, Tile, WIDTH};
use crate::digest::Digest;
use crate::merkle::{self, Nodes};

/// How many tiles of leaves are kept, of 16 KiB each at most.
const KEPT: usize = 64;
/// How many tiles above them are kept: those of sixteen million entries, in 4 MiB. Every proof goes through some of them, so
/// that one of any entry costs the tile of its leaf, however many entries there are.
const KEPT_ABOVE: usize = 256;

/// The complete subtrees over the hashes of a tile, as far as it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Subtree {
    levels: [Vec<Digest>; HEIGHT as usize],
}

impl Subtree {
    /// Returns its hashes.
    pub(super) fn hashes(&self) -> &[Digest] {
        &self.levels[0]
    }

    /// Returns how many hashes it has.
    pub(super) fn width(&self) -> u64 {
        self.levels[0].len() as u64
    }

    /// Adds a hash. The one that makes the tile full gives its root.
    pub(super) fn push(&mut self, hash: Digest) -> Option<Digest> {
        let mut hash = hash;
        for level in &mut self.levels {
            level.push(hash);
            let [.., left, right] = level.as_slice() else { return None };
            if level.len() % 2 == 1 {
                return None;
            }
            hash = merkle::node(left, right);
        }
        Some(hash)
    }

    /// Returns the complete subtrees at its end, the largest first: one for each bit of its width that is set.
    pub(super) fn last(&self) -> impl DoubleEndedIterator<Item = &Digest> {
        let odd = self.levels.iter().rev().filter(|level| level.len() % 2 == 1);
        odd.filter_map(|level| level.last())
    }

    fn node(&self, level: u32, index: u64) -> Option<Digest> {
        let level = self.levels.get(level as usize)?;
        level.get(usize::try_from(index).ok()?).copied()
    }
}

impl FromIterator<Digest> for Subtree {
    fn from_iter<I: IntoIterator<Item = Digest>>(hashes: I) -> Self {
        let mut subtree = Self::default();
        for hash in hashes {
            subtree.push(hash);
        }
        subtree
    }
}

/// The tiles of a directory.
#[derive(Debug)]
pub(super) struct Tiles {
    directory: PathBuf,
    kept: Mutex<Kept>,
}

/// Tiles that were read.
#[derive(Debug, Default)]
struct Kept {
    /// Tiles of leaves that were used last, the last one at the end: index, subtrees.
    leaves: Vec<(u64, Subtree)>,
    /// Tiles above them, by level and index.
    above: HashMap<(u32, u64), Subtree>,
}

impl Kept {
    /// Returns a node of a tile that is kept and goes as far.
    fn node(&mut self, level: u32, index: u64, height: u32, inside: u64) -> Option<Digest> {
        if level > 0 {
            return self.above.get(&(level, index))?.node(height, inside);
        }
        let place = self.leaves.iter().rposition(|(its_index, _)| *its_index == index)?;
        let hash = self.leaves[place].1.node(height, inside)?;
        self.leaves[place..].rotate_left(1);
        Some(hash)
    }

    fn keep(&mut self, level: u32, index: u64, subtree: Subtree) {
        if level > 0 {
            // Beyond that it is begun anew: what is needed again is read again.
            if self.above.len() >= KEPT_ABOVE && !self.above.contains_key(&(level, index)) {
                self.above.clear();
            }
            self.above.insert((level, index), subtree);
            return;
        }
        self.leaves.retain(|(its_index, _)| *its_index != index);
        if self.leaves.len() == KEPT {
            self.leaves.remove(0);
        }
        self.leaves.push((index, subtree));
    }
}

impl Tiles {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), kept: Mutex::default() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a tile that a checkpoint covers.
    pub(super) fn keep(&self, level: u32, index: u64, subtree: Subtree) {
        self.kept().keep(level, index, subtree);
    }

    /// Returns the same tiles as those of a tree of a size.
    pub(super) const fn sized(&self, size: u64) -> Sized<'_> {
        Sized { tiles: self, size }
    }
}

/// The tiles of a directory, of which a checkpoint covers some.
pub(super) struct Sized<'a> {
    tiles: &'a Tiles,
    size: u64,
}

impl Sized<'_> {
    pub(super) fn directory(&self) -> &Path {
        self.tiles.directory()
    }
}

impl Nodes for Sized<'_> {
    type Error = Error;

    fn node(&self, level: u32, index: u64) -> Result<Digest, Error> {
        let there = self.size.checked_shr(level).unwrap_or(0);
        let beyond = || {
            let needed = index
                .saturating_add(1)
                .saturating_mul(1_u64.checked_shl(level).unwrap_or(u64::MAX));
            Error::Beyond { size: self.size, needed }
        };
        if index >= there || level / HEIGHT >= LEVELS {
            return Err(beyond());
        }
        let (of, height) = (level / HEIGHT, level % HEIGHT);
        let per_tile = WIDTH >> height;
        let (number, inside) = (index / per_tile, index % per_tile);
        if let Some(hash) = self.tiles.kept().node(of, number, height, inside) {
            return Ok(hash);
        }
        let tile = Tile::of(Kind::Hashes(of), number, self.size).ok_or_else(beyond)?;
        let subtree: Subtree = tile.hashes(&self.tiles.directory)?.into_iter().collect();
        let hash = subtree.node(height, inside).ok_or_else(beyond)?;
        self.tiles.keep(of, number, subtree);
        Ok(hash)
    }
}
