//! Merkle trees after RFC 6962: hashes, roots, and proofs of inclusion and consistency, made and verified.
//!
//! A tree is what its complete subtrees are: whoever has those ([`Nodes`]) makes any proof from a few of them, and
//! whoever only appends keeps a [`Range`], one hash for each bit of its size.

mod memory;
mod proof;
mod range;

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;

pub use memory::Memory;
pub use proof::{
    consistency, inclusion, root_at, root_of_inclusion, verify_consistency, verify_inclusion,
};
pub use range::Range;

/// The complete subtrees of a tree.
pub trait Nodes {
    /// Why a hash cannot be had.
    type Error;

    /// Returns the root of a complete subtree: of the leaves from `index << level` on, `1 << level` of them.
    ///
    /// # Errors
    /// When it cannot be had: the tree has no such leaves, or its storage fails.
    fn node(&self, level: u32, index: u64) -> Result<Digest, Self::Error>;
}

/// Returns the hash of a leaf.
#[must_use]
pub fn leaf(data: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(data);
    Digest::from_bytes(hasher.finalize().into())
}

/// Returns the hash of a node.
#[must_use]
pub fn node(left: &Digest, right: &Digest) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([1]);
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    Digest::from_bytes(hasher.finalize().into())
}

/// Returns the root of a tree without leaves.
#[must_use]
pub fn empty() -> Digest {
    Digest::of(b"")
}

/// Returns the root of a tree by the hashes of its leaves.
pub fn root(leaves: impl IntoIterator<Item = Digest>) -> Digest {
    let mut range = Range::new();
    for leaf in leaves {
        range.append(leaf);
    }
    range.root()
}
