//! A tree whose complete subtrees are all in memory: two hashes for each leaf.

use super::{Digest, Nodes, Range};

/// A tree in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    range: Range,
    /// The roots of complete subtrees by level and index.
    levels: Vec<Vec<Digest>>,
}

/// A tree has no such subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tree of {size} leaves has no complete subtree {index} at level {level}")]
pub struct Missing {
    size: u64,
    level: u32,
    index: u64,
}

impl Memory {
    /// Returns a tree without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { range: Range::new(), levels: Vec::new() }
    }

    /// Appends the hash of a leaf.
    pub fn append(&mut self, leaf: Digest) {
        let levels = &mut self.levels;
        self.range.append_with(leaf, |level, _, hash| {
            let level = level as usize;
            if levels.len() <= level {
                levels.resize_with(level + 1, Vec::new);
            }
            levels[level].push(*hash);
        });
    }

    /// Returns the range that grows into the next tree.
    #[must_use]
    pub const fn range(&self) -> &Range {
        &self.range
    }

    /// Returns how many leaves there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.range.size()
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.range.root()
    }

    /// Returns the hashes of the leaves.
    #[must_use]
    pub fn leaves(&self) -> &[Digest] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<Digest> for Memory {
    fn from_iter<I: IntoIterator<Item = Digest>>(leaves: I) -> Self {
        let mut tree = Self::new();
        for leaf in leaves {
            tree.append(leaf);
        }
        tree
    }
}

impl Nodes for Memory {
    type Error = Missing;

    fn node(&self, level: u32, index: u64) -> Result<Digest, Missing> {
        let missing = Missing { size: self.size(), level, index };
        let at = usize::try_from(index).map_err(|_| missing)?;
        self.levels.get(level as usize).and_then(|hashes| hashes.get(at)).copied().ok_or(missing)
    }
}
