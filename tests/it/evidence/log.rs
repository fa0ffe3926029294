//! The transparency log: its roots, its proofs, its files, and who may append.

mod crash;
mod files;
mod golden;
mod several;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use nexus_router::digest::Digest;
use nexus_router::key::SigningKey;
use nexus_router::merkle;
use nexus_router::tlog::{Checkpoint, Error, Log, Proof, Signer, Tree, Verifier};
use tempfile::TempDir;

/// The name of the logs of these tests.
const ORIGIN: &str = "example.com/log";

/// Returns a key that is always the same.
fn key(seed: u8) -> SigningKey {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    let pkcs8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let der = base64::engine::general_purpose::STANDARD.encode([&pkcs8[..], &[seed; 32]].concat());
    let text = format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n");
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    std::io::Write::write_all(file.as_mut().unwrap(), text.as_bytes()).unwrap();
    SigningKey::read(&path).unwrap()
}

fn signer(seed: u8) -> Signer {
    Signer::new(ORIGIN, key(seed)).unwrap()
}

fn verifier() -> Verifier {
    signer(1).verifier()
}

fn open(directory: &Path) -> Result<Log, Error> {
    Log::open(directory, signer(1), &[])
}

/// Returns entries by their numbers.
fn entries(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|number| format!("entry {number}").into_bytes()).collect()
}

/// The root as RFC 6962 defines it, by nothing of the program but SHA-256.
fn defined(entries: &[Vec<u8>]) -> Digest {
    match entries {
        [] => Digest::of(b""),
        [one] => Digest::of(&[&[0], one.as_slice()].concat()),
        _ => {
            let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
            let (left, right) = (defined(left), defined(right));
            Digest::of(&[&[1], &left.as_bytes()[..], &right.as_bytes()[..]].concat())
        }
    }
}

/// Returns the log of a directory as whoever has only its verifier key sees it: everything in it holds.
fn audited(directory: &Path) -> (Tree, Checkpoint) {
    let tree = Tree::open(directory).unwrap();
    let checkpoint = tree.checkpoint(&[verifier()]).unwrap();
    tree.audit(&checkpoint).unwrap();
    (tree, checkpoint)
}

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn roots_are_as_defined_at_every_size() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let all = entries(0..300);
    assert_eq!(log.checkpoint().root, defined(&[]));
    for size in 1..=300 {
        let appended = log.append(&all[size - 1..size]).unwrap();
        assert_eq!(appended.first, size as u64 - 1);
        assert_eq!(appended.checkpoint.size, size as u64);
        assert_eq!(appended.checkpoint.root, defined(&all[..size]), "{size}");
        let there = std::fs::read_to_string(directory.path().join("checkpoint")).unwrap();
        assert_eq!(appended.checkpoint.text(), there);
    }
    let (tree, _) = audited(directory.path());
    for (index, entry) in (0..).zip(&all) {
        assert_eq!(tree.entry(index).unwrap(), *entry);
    }
    assert!(matches!(tree.entry(300), Err(Error::Beyond { size: 300, needed: 301 })));
    assert!(matches!(tree.entry(u64::MAX), Err(Error::Beyond { .. })));
    assert_eq!(tree.entries_from(250).unwrap(), all[250..256]);
}

#[test]
fn every_entry_of_every_size_is_proved_and_nothing_else() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let all = entries(0..64);
    let mut checkpoints = vec![log.checkpoint()];
    for entry in &all {
        checkpoints.push(log.append(std::slice::from_ref(entry)).unwrap().checkpoint);
    }
    let tree = Tree::open(directory.path()).unwrap();
    for (size, checkpoint) in (0_u64..).zip(&checkpoints) {
        for (index, entry) in (0..size).zip(&all) {
            let proof = tree.proof(index, checkpoint).unwrap();
            assert_eq!(proof, log.proof(index, checkpoint).unwrap());
            let text = proof.to_string();
            assert_eq!(text.parse::<Proof>().unwrap(), proof);
            assert_eq!(proof.verify(entry, &[verifier()]).unwrap(), *checkpoint);
            assert!(matches!(
                proof.verify(b"other", &[verifier()]),
                Err(Error::NotIncluded { .. })
            ));
            let other = Proof { index: (index + 1) % size, ..proof.clone() };
            let refused = other.verify(entry, &[verifier()]);
            assert!(size == 1 || matches!(refused, Err(Error::NotIncluded { .. })));
        }
        assert!(matches!(log.proof(size, checkpoint), Err(Error::Beyond { .. })));
        for old in &checkpoints[..=usize::try_from(size).unwrap()] {
            let proof = log.consistency(old, checkpoint).unwrap();
            let holds =
                |root| merkle::verify_consistency(old.size, size, root, &checkpoint.root, &proof);
            assert!(holds(&old.root));
            assert!(!holds(&Digest::of(b"other")), "{} of {size}", old.size);
            tree.holds(old).unwrap();
            if old.size < size {
                let back = log.consistency(checkpoint, old);
                assert!(matches!(back, Err(Error::Forked { .. })));
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_proof_is_found() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    log.append(&entries(0..300)).unwrap();
    let text = log.proof(123, &log.checkpoint()).unwrap().to_string();
    let holds = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).ok();
        let proof = text.and_then(|text| text.parse::<Proof>().ok());
        proof.is_some_and(|proof| proof.verify(b"entry 123", &[verifier()]).is_ok())
    };
    assert!(holds(text.as_bytes()));
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1 << bit;
            assert!(!holds(&changed), "{at}, {bit}");
        }
        assert!(!holds(&text.as_bytes()[..at]), "cut at {at}");
        let mut shorter = text.clone().into_bytes();
        shorter.remove(at);
        assert!(!holds(&shorter), "without {at}");
    }
}

#[test]
fn signatures_of_others_say_nothing_and_a_false_one_voids() {
    let directory = place();
    let log = open(directory.path()).unwrap();
    let mine = log.append(&entries(0..3)).unwrap().checkpoint;
    let text = mine.text().to_owned();
    let line = text.rsplit_once("\n\n").unwrap().1.to_owned();
    let other = place();
    let others = Log::open(other.path(), signer(2), &[]).unwrap();
    let theirs = others.append(&entries(0..3)).unwrap().checkpoint.text().to_owned();
    let foreign = theirs.rsplit_once("\n\n").unwrap().1.to_owned();

    let both = Checkpoint::open(&format!("{text}{foreign}"), &[verifier()]).unwrap();
    assert_eq!((both.foreign_signatures(), both.signers()), (1, &[verifier()][..]));
    assert_eq!(Checkpoint::open(&text, &[verifier()]).unwrap().foreign_signatures(), 0);
    let known = [verifier(), signer(2).verifier()];
    let both = Checkpoint::open(&format!("{text}{foreign}"), &known).unwrap();
    assert_eq!((both.foreign_signatures(), both.signers()), (0, &known[..]));
    // The same signature below another text: void, although ours is good.
    let false_one = format!("{}\n\n{line}{foreign}", text.split_once("\n\n").unwrap().0);
    let false_one = false_one.replace("\n3\n", "\n4\n");
    assert!(matches!(Checkpoint::open(&false_one, &known), Err(Error::Signature { .. })));
    let twice = format!("{text}{line}");
    assert!(matches!(Checkpoint::open(&twice, &known), Err(Error::Note { .. })));
    // A key of another name signs nothing of this log.
    let named = Signer::new("example.com/other", key(1)).unwrap().verifier();
    assert!(matches!(Checkpoint::open(&text, &[named]), Err(Error::UnknownKey { .. })));
    assert!(matches!(Checkpoint::open(&text, &[]), Err(Error::UnknownKey { .. })));
}

#[test]
fn key_of_a_log_changes_only_if_the_former_one_is_known() {
    let directory = place();
    let first = open(directory.path()).unwrap().append(&entries(0..5)).unwrap().checkpoint;
    let refused = Log::open(directory.path(), signer(2), &[]).unwrap_err();
    assert!(matches!(refused, Error::UnknownKey { .. }), "{refused}");
    let origin = Signer::new("example.com/other", key(1)).unwrap();
    let refused = Log::open(directory.path(), origin, &[verifier()]).unwrap_err();
    assert!(matches!(refused, Error::Origin { .. }), "{refused}");

    let stale = open(directory.path()).unwrap();
    let log = Log::open(directory.path(), signer(2), &[verifier()]).unwrap();
    assert_eq!(log.checkpoint(), first);
    let second = log.append(&entries(5..9)).unwrap().checkpoint;
    assert_eq!(second.signers(), [signer(2).verifier()]);
    log.consistency(&first, &second).unwrap();
    // Whoever has still the former key must not go on with it.
    let refused = stale.append(&entries(9..10)).unwrap_err();
    assert!(matches!(refused, Error::UnknownKey { .. }), "{refused}");
    assert!(matches!(open(directory.path()), Err(Error::UnknownKey { .. })));
    Log::open(directory.path(), signer(2), &[]).unwrap();
}
