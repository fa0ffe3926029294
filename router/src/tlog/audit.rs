//! Reads a whole log, and holds every file of it against the others, in the memory of a few tiles.

use std::path::Path;

use super::edge::{Edge, bytes};
use super::tile::{Entries, HEIGHT, Kind, Tile, WIDTH};
use super::{Checkpoint, Error};
use crate::merkle;

/// Shows that every file that a checkpoint covers is as it was.
pub(super) fn audit(directory: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
    let size = checkpoint.size;
    let mut edge = Edge::default();
    for index in 0..size.div_ceil(WIDTH) {
        let Some(tile) = Tile::of(Kind::Entries, index, size) else { break };
        for entry in Entries(&tile.bundle(directory)?) {
            edge.append(entry, |tile, bytes| match tile.kind {
                Kind::Hashes(_) => holds(directory, tile, bytes),
                Kind::Entries => Ok(()),
            })?;
        }
    }
    for (level, index, subtree) in edge.levels() {
        if let Some(tile) = Tile::of(Kind::Hashes(level), index, size) {
            holds(directory, tile, &bytes(subtree.hashes()))?;
        }
    }
    if edge.root() == checkpoint.root {
        return Ok(());
    }
    let levels = (0..).take_while(|level| size.checked_shr(level * HEIGHT).unwrap_or(0) > 0);
    Err(Error::Root {
        path: directory.to_owned(),
        tiles: format!("of all entries on {} levels", levels.count()),
        size,
        expected: checkpoint.root,
        found: edge.root(),
    })
}

/// Shows that a tile has the hashes that it must have by what is below it.
fn holds(directory: &Path, tile: Tile, expected: &[u8]) -> Result<(), Error> {
    if bytes(&tile.hashes(directory)?) == expected {
        return Ok(());
    }
    let below = match tile.kind {
        Kind::Hashes(level) if level > 0 => "the full tiles below it".to_owned(),
        _ => format!("the entries in {}", Tile { kind: Kind::Entries, ..tile }),
    };
    Err(Error::damaged(&tile.path(directory), format!("its hashes are not those of {below}")))
}

/// Tells which tile is the reason that no proof leads from an entry to the root of a checkpoint.
pub(super) fn blame(directory: &Path, entry: u64, checkpoint: &Checkpoint) -> Error {
    let found = || -> Result<Option<Error>, Error> {
        let mut number = entry;
        for level in 0.. {
            let (index, size) = (number / WIDTH, checkpoint.size);
            let tile = Tile::of(Kind::Hashes(level), index, size);
            let above = Tile::of(Kind::Hashes(level + 1), index / WIDTH, size);
            let (Some(tile), Some(above)) = (tile, above) else { break };
            let inside = usize::try_from(index % WIDTH).unwrap_or(usize::MAX);
            let above_hashes = above.hashes(directory)?;
            let Some(hash) = above_hashes.get(inside) else { break };
            if merkle::root(tile.hashes(directory)?) != *hash {
                let why = format!("its root is not the one that {above} has of it");
                return Ok(Some(Error::damaged(&tile.path(directory), why)));
            }
            number = index;
        }
        Ok(None)
    };
    match found().and_then(|error| error.map_or(Ok(()), Err)) {
        Err(error) => error,
        Ok(()) => Error::damaged(
            directory,
            format!("its tiles that are not full have not the root of {} entries", checkpoint.size),
        ),
    }
}
