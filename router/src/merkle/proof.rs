//! Proofs: that a leaf is in a tree, and that a tree is the beginning of another.
//!
//! Proofs are those of RFC 6962, 2.1.1 and 2.1.2; they are verified as RFC 9162, 2.1.3.2 and 2.1.4.2 tell, in time that
//! depends on the number of bits of the size and never on what a proof claims to have.

use super::{Digest, Nodes, empty, node};

/// Returns the root of the first `size` leaves of a tree.
///
/// # Errors
/// When a subtree cannot be had.
pub fn root_at<N: Nodes + ?Sized>(tree: &N, size: u64) -> Result<Digest, N::Error> {
    if size == 0 { Ok(empty()) } else { subtree(tree, 0, size) }
}

/// Returns the root of the leaves from `begin` to before `end`, which a tree splits off: `begin` is a multiple of a power
/// of two that is not smaller than their number.
fn subtree<N: Nodes + ?Sized>(tree: &N, begin: u64, end: u64) -> Result<Digest, N::Error> {
    let mut joined: Option<Digest> = None;
    let mut end = end;
    while end > begin {
        let level = (end - begin).trailing_zeros();
        end -= 1 << level;
        let left = tree.node(level, end >> level)?;
        joined = Some(joined.map_or(left, |right| node(&left, &right)));
    }
    Ok(joined.unwrap_or_else(empty))
}

/// Returns the largest power of two below a number of at least two.
const fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// Makes the proof that a leaf is in the tree of the first `size` leaves: hashes from the leaf to the root. A leaf that is
/// not there has none.
///
/// # Errors
/// When a subtree cannot be had.
pub fn inclusion<N: Nodes + ?Sized>(
    tree: &N,
    index: u64,
    size: u64,
) -> Result<Option<Vec<Digest>>, N::Error> {
    if index >= size {
        return Ok(None);
    }
    let (mut begin, mut end) = (0, size);
    let mut proof = Vec::new();
    while end - begin > 1 {
        let middle = begin + split(end - begin);
        if index < middle {
            proof.push(subtree(tree, middle, end)?);
            end = middle;
        } else {
            proof.push(subtree(tree, begin, middle)?);
            begin = middle;
        }
    }
    proof.reverse();
    Ok(Some(proof))
}

/// Returns the root to which a proof leads from a leaf; none if it has not as many hashes as it takes.
#[must_use]
pub fn root_of_inclusion(leaf: &Digest, index: u64, size: u64, proof: &[Digest]) -> Option<Digest> {
    if index >= size {
        return None;
    }
    let (mut at, mut last, mut hash) = (index, size - 1, *leaf);
    for beside in proof {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            hash = node(beside, &hash);
            if at & 1 == 0 {
                let skipped = at.trailing_zeros();
                // A last leaf that is on the left all the way up has nothing beside it.
                at = at.checked_shr(skipped).unwrap_or(0);
                last = last.checked_shr(skipped).unwrap_or(0);
            }
        } else {
            hash = node(&hash, beside);
        }
        at >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

/// Says whether a proof shows that a leaf is in the tree of a size and root.
#[must_use]
pub fn verify_inclusion(
    leaf: &Digest,
    index: u64,
    size: u64,
    proof: &[Digest],
    root: &Digest,
) -> bool {
    root_of_inclusion(leaf, index, size, proof) == Some(*root)
}

/// Makes the proof that the tree of the first `new` leaves begins with that of the first `old`. A larger tree is no
/// beginning; the tree without leaves, and the same tree, need no hashes.
///
/// # Errors
/// When a subtree cannot be had.
pub fn consistency<N: Nodes + ?Sized>(
    tree: &N,
    old: u64,
    new: u64,
) -> Result<Option<Vec<Digest>>, N::Error> {
    if old > new {
        return Ok(None);
    }
    let mut proof = Vec::new();
    if old == 0 || old == new {
        return Ok(Some(proof));
    }
    let (mut begin, mut end) = (0, new);
    // Whether the subtree in which the old tree ends begins with the tree, so that its root is the old one, known already.
    let mut whole = true;
    while end > old {
        let middle = begin + split(end - begin);
        if old <= middle {
            proof.push(subtree(tree, middle, end)?);
            end = middle;
        } else {
            proof.push(subtree(tree, begin, middle)?);
            begin = middle;
            whole = false;
        }
    }
    if !whole {
        proof.push(subtree(tree, begin, end)?);
    }
    proof.reverse();
    Ok(Some(proof))
}

/// Says whether a proof shows that the tree of a size and root begins with another.
#[must_use]
pub fn verify_consistency(
    old: u64,
    new: u64,
    old_root: &Digest,
    new_root: &Digest,
    proof: &[Digest],
) -> bool {
    if old > new {
        return false;
    }
    if old == new {
        return proof.is_empty() && old_root == new_root;
    }
    if old == 0 {
        return proof.is_empty() && *old_root == empty();
    }
    // Where the old tree is a complete subtree, its root stands for the first hash.
    let (first, rest) = match (old.is_power_of_two(), proof.split_first()) {
        (true, _) => (old_root, proof),
        (false, Some((first, rest))) => (first, rest),
        (false, None) => return false,
    };
    let (mut at, mut last) = (old - 1, new - 1);
    let skipped = at.trailing_ones();
    at >>= skipped;
    last >>= skipped;
    let (mut of_old, mut of_new) = (*first, *first);
    for beside in rest {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            of_old = node(beside, &of_old);
            of_new = node(beside, &of_new);
            if at & 1 == 0 {
                let skipped = at.trailing_zeros();
                at = at.checked_shr(skipped).unwrap_or(0);
                last = last.checked_shr(skipped).unwrap_or(0);
            }
        } else {
            of_new = node(&of_new, beside);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && of_old == *old_root && of_new == *new_root
}

#[cfg(test)]
mod tests {
    use super::super::{Memory, Range, leaf, root};
    use super::*;

    fn tree(size: u64) -> Memory {
        (0..size).map(|index| leaf(format!("leaf {index}").as_bytes())).collect()
    }

    /// The root as RFC 6962 defines it.
    fn defined(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => empty(),
            [one] => *one,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node(&defined(left), &defined(right))
            }
        }
    }

    /// Returns a place in a tree of the tests.
    fn place(number: u64) -> usize {
        usize::try_from(number).unwrap()
    }

    #[test]
    fn roots_are_as_defined_at_every_size() {
        let tree = tree(70);
        for size in 0..=70 {
            let defined = defined(&tree.leaves()[..place(size)]);
            assert_eq!(root_at(&tree, size).unwrap(), defined);
            assert_eq!(root(tree.leaves()[..place(size)].iter().copied()), defined);
            let range = Range::read(&tree, size).unwrap();
            assert_eq!(range.root(), defined);
            let again = Range::from_parts(size, range.nodes().to_vec()).unwrap();
            assert_eq!(again, range);
        }
        assert!(Range::from_parts(3, vec![empty()]).is_none());
    }

    #[test]
    fn every_leaf_of_every_tree_is_proved_and_nothing_else() {
        let tree = tree(40);
        for size in 1..=40 {
            let root = root_at(&tree, size).unwrap();
            for index in 0..size {
                let leaf = tree.leaves()[place(index)];
                let proof = inclusion(&tree, index, size).unwrap().unwrap();
                assert!(verify_inclusion(&leaf, index, size, &proof, &root), "{index} of {size}");
                for other in (0..size + 2).filter(|other| *other != index) {
                    assert!(!verify_inclusion(&leaf, other, size, &proof, &root));
                }
                let mut longer = proof.clone();
                longer.push(empty());
                assert!(!verify_inclusion(&leaf, index, size, &longer, &root));
                if let Some((_, shorter)) = proof.split_last() {
                    assert!(!verify_inclusion(&leaf, index, size, shorter, &root));
                }
            }
        }
        assert_eq!(inclusion(&tree, 40, 40).unwrap(), None);
        assert!(inclusion(&tree, 3, 41).is_err());
    }

    #[test]
    fn every_beginning_of_every_tree_is_proved_and_nothing_else() {
        let tree = tree(40);
        let roots: Vec<Digest> = (0..=40).map(|size| root_at(&tree, size).unwrap()).collect();
        for new in 0..=40_u64 {
            for old in 0..=new {
                let proof = consistency(&tree, old, new).unwrap().unwrap();
                let holds = |old: u64, new: u64, of: &Digest, to: &Digest, proof: &[Digest]| {
                    verify_consistency(old, new, of, to, proof)
                };
                let (of, to) = (&roots[place(old)], &roots[place(new)]);
                assert!(holds(old, new, of, to, &proof), "{old} of {new}");
                assert!(!holds(old, new, &leaf(b"other"), to, &proof));
                assert!(old == 0 || !holds(old, new, of, &leaf(b"other"), &proof));
                let mut longer = proof.clone();
                longer.push(empty());
                assert!(!holds(old, new, of, to, &longer), "{old} of {new}");
                for at in 0..proof.len() {
                    let mut changed = proof.clone();
                    changed[at] = leaf(b"other");
                    assert!(!holds(old, new, of, to, &changed), "{old} of {new}: {at}");
                    changed.remove(at);
                    assert!(!holds(old, new, of, to, &changed), "{old} of {new}: {at}");
                }
            }
        }
        assert_eq!(consistency(&tree, 3, 2).unwrap(), None);
    }

    #[test]
    fn sizes_beyond_reason_have_a_verdict() {
        let proof = vec![empty(); 100_000];
        for size in [0, 1, 1 << 63, u64::MAX] {
            for index in [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX] {
                assert!(!verify_inclusion(&empty(), index, size, &proof, &empty()));
                assert!(!verify_consistency(index, size, &empty(), &leaf(b""), &proof));
            }
        }
        let path = vec![empty(); 64];
        let root = root_of_inclusion(&empty(), 0, u64::MAX, &path);
        assert!(root.is_some());
    }
}
