//! The compact range of a tree: the roots of its largest complete subtrees, from which it grows.

use super::{Digest, Nodes, empty, node};

/// All that is needed of a tree to append to it: a hash for each bit of its size that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    size: u64,
    /// The roots of complete subtrees, the largest (leftmost) first.
    nodes: Vec<Digest>,
}

impl Range {
    /// Returns the range of a tree without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, nodes: Vec::new() }
    }

    /// Takes a range that was stored: as many hashes as its size has bits that are set.
    #[must_use]
    pub fn from_parts(size: u64, nodes: Vec<Digest>) -> Option<Self> {
        (size.count_ones() as usize == nodes.len()).then_some(Self { size, nodes })
    }

    /// Reads the range of a tree of a size from its complete subtrees.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub fn read<N: Nodes + ?Sized>(tree: &N, size: u64) -> Result<Self, N::Error> {
        let mut nodes = Vec::with_capacity(size.count_ones() as usize);
        let mut begin = 0;
        for level in (0..u64::BITS).rev().filter(|level| size >> level & 1 == 1) {
            nodes.push(tree.node(level, begin >> level)?);
            begin += 1 << level;
        }
        Ok(Self { size, nodes })
    }

    /// Returns how many leaves there are.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the complete subtrees, the largest first.
    #[must_use]
    pub fn nodes(&self) -> &[Digest] {
        &self.nodes
    }

    /// Appends the hash of a leaf.
    pub fn append(&mut self, leaf: Digest) {
        self.append_with(leaf, |_, _, _| {});
    }

    /// Appends the hash of a leaf, and tells each complete subtree that this makes: its level, index and root.
    pub fn append_with(&mut self, leaf: Digest, mut made: impl FnMut(u32, u64, &Digest)) {
        let mut hash = leaf;
        made(0, self.size, &hash);
        for level in 0..self.size.trailing_ones() {
            // There is a hash for each of these bits.
            let Some(left) = self.nodes.pop() else { break };
            hash = node(&left, &hash);
            made(level + 1, self.size >> (level + 1), &hash);
        }
        self.nodes.push(hash);
        self.size += 1;
    }

    /// Returns the root of the tree.
    #[must_use]
    pub fn root(&self) -> Digest {
        let joined = self.nodes.iter().rev().copied().reduce(|right, left| node(&left, &right));
        joined.unwrap_or_else(empty)
    }
}
