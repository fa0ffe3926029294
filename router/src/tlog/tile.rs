//! Tiles (`c2sp.org/tlog-tiles`): what their files are called, and what is in them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{Error, MAX_ENTRY};
use crate::digest::Digest;
use crate::files;

/// How many hashes or entries a full tile has.
pub(super) const WIDTH: u64 = 256;
/// How many levels of the tree a tile has.
pub(super) const HEIGHT: u32 = 8;
/// No tree has more levels of tiles.
pub(super) const LEVELS: u32 = u64::BITS / HEIGHT;
/// The bytes of a hash.
const HASH: usize = 32;
/// A full tile of hashes has so many bytes.
const MAX_HASHES: usize = 256 * HASH;
/// The bytes of an entry's length.
const LENGTH: usize = 2;
/// A full tile of entries has no more bytes.
const MAX_BUNDLE: usize = 256 * (LENGTH + MAX_ENTRY);

/// What is in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Hashes of a level of tiles.
    Hashes(u32),
    /// Entries.
    Entries,
}

/// A tile of a tree of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub kind: Kind,
    pub index: u64,
    /// How many hashes or entries it has: 1 to 256.
    pub width: u64,
}

impl Tile {
    /// Returns the tile that a tree of a size has; none if it has not begun.
    pub(super) fn of(kind: Kind, index: u64, size: u64) -> Option<Self> {
        let level = match kind {
            Kind::Hashes(level) => level,
            Kind::Entries => 0,
        };
        let there = size.checked_shr(level * HEIGHT).unwrap_or(0);
        let width = there.saturating_sub(index.checked_mul(WIDTH)?).min(WIDTH);
        (width > 0).then_some(Self { kind, index, width })
    }

    /// Returns the same tile when it is full.
    pub(super) const fn full(self) -> Self {
        Self { width: WIDTH, ..self }
    }

    /// Returns where it is in the directory of its log.
    pub(super) fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }

    /// Returns the directory of what it was before it was full.
    pub(super) fn partials(self, directory: &Path) -> PathBuf {
        let mut path = self.full().path(directory).into_os_string();
        path.push(".p");
        path.into()
    }

    /// Reads its file. What was a part is all there is once it is full: then its beginning counts.
    fn read(self, directory: &Path) -> Result<(PathBuf, Vec<u8>, u64), Error> {
        let most = match self.kind {
            Kind::Hashes(_) => MAX_HASHES,
            Kind::Entries => MAX_BUNDLE,
        };
        let full = self.full();
        for tile in [self, full] {
            let path = tile.path(directory);
            match files::read_bounded(&path, most) {
                Ok(bytes) if bytes.len() > most => {
                    return Err(Error::damaged(&path, "it is longer than a tile can be"));
                }
                Ok(bytes) => return Ok((path, bytes, tile.width)),
                Err(error) if error.kind() == io::ErrorKind::NotFound && tile != full => {}
                Err(error) => return Err(Error::file(&path)(error)),
            }
        }
        Err(Error::file(&full.path(directory))(io::ErrorKind::NotFound.into()))
    }

    /// Reads its hashes.
    pub(super) fn hashes(self, directory: &Path) -> Result<Vec<Digest>, Error> {
        let (path, bytes, width) = self.read(directory)?;
        let (hashes, rest) = bytes.as_chunks::<HASH>();
        if !rest.is_empty() || hashes.len() as u64 != width {
            let found = bytes.len();
            return Err(Error::damaged(
                &path,
                format!("it has {found} bytes, and {width} hashes have {}", width * HASH as u64),
            ));
        }
        let some = hashes.iter().zip(0..self.width);
        Ok(some.map(|(hash, _)| Digest::from_bytes(*hash)).collect())
    }

    /// Reads the bytes of its entries, whose form is right.
    pub(super) fn bundle(self, directory: &Path) -> Result<Vec<u8>, Error> {
        let (path, mut bytes, width) = self.read(directory)?;
        let mut end = 0;
        let mut rest = Entries(&bytes);
        for number in 0..width {
            let Some(entry) = rest.next() else {
                return Err(Error::damaged(
                    &path,
                    format!("entry {number} of its {width} is not there whole"),
                ));
            };
            if number < self.width {
                end += LENGTH + entry.len();
            }
        }
        if !rest.0.is_empty() {
            return Err(Error::damaged(&path, format!("it has more than {width} entries")));
        }
        bytes.truncate(end);
        Ok(bytes)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Hashes(level) => write!(f, "tile/{level}/")?,
            Kind::Entries => f.write_str("tile/entries/")?,
        }
        let mut groups = vec![format!("{:03}", self.index % 1000)];
        let mut rest = self.index / 1000;
        while rest > 0 {
            groups.push(format!("x{:03}", rest % 1000));
            rest /= 1000;
        }
        groups.reverse();
        f.write_str(&groups.join("/"))?;
        if self.width < WIDTH { write!(f, ".p/{}", self.width) } else { Ok(()) }
    }
}

/// The entries of a bundle, in order.
pub(super) struct Entries<'a>(pub &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<LENGTH>()?;
        let (entry, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        self.0 = rest;
        Some(entry)
    }
}
