//! Keys that are replaced: what each is good for, and what becomes of whoever is interrupted.

use super::super::desk::Desk;
use super::super::keys::Use;
use super::super::rotation::prepare;
use super::*;
use crate::attest::{Envelope, IN_TOTO};
use crate::key::SigningKey;
use crate::tlog::{Log, Signer, Tree};

/// Holds the log of a directory to how its keys succeeded each other, and returns how often they did.
fn successions(root: &Path) -> usize {
    let trust = Trust::read(&root.join("keys/trust.json")).unwrap();
    let tree = Tree::open(&root.join("log")).unwrap();
    trust.verify_successions(|index| Ok::<_, Error>(Some(tree.entry(index)?))).unwrap();
    for succession in trust.successions() {
        let history = root.join("keys/history").join(succession.index.to_string());
        let read = |name: &str| fs::read_to_string(history.join(name)).unwrap();
        assert_eq!(read("trust.json"), succession.trust.to_json());
        let attestation = read("attestation.intoto.jsonl");
        let leaf = succession.leaf();
        let proof = read("inclusion.tlog-proof");
        let verified = verify(&trust, leaf, attestation.as_bytes(), &proof).unwrap();
        assert_eq!((verified.index, verified.statement), (succession.index, succession.statement));
    }
    trust.successions().len()
}

fn rotate(root: &Path, what: Use) -> Rotation {
    match what {
        Use::Attestation => rotate_attestation(root),
        Use::Log => rotate_log(root),
    }
    .unwrap()
}

#[test]
fn replaced_keys_stay_good_for_what_they_signed() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let sealer = Sealer::open(root).unwrap();
    let begin = sealer.trust();
    let mut seals = vec![seal(&sealer, 0).unwrap(), seal(&sealer, 1).unwrap()];
    let first = rotate(root, Use::Attestation);
    assert_eq!(first.index, 2);
    // The sealer that was open before takes the new key up by itself.
    seals.push(seal(&sealer, 2).unwrap());
    assert_eq!((seals[2].index, &*sealer.trust()), (3, &first.trust));
    let second = rotate(root, Use::Log);
    assert_eq!(second.index, 4);
    seals.push(seal(&sealer, 3).unwrap());
    rotate(root, Use::Log);
    rotate(root, Use::Attestation);
    seals.push(seal(&sealer, 4).unwrap());
    let trust = sealer.trust();
    assert_eq!(seals.iter().map(|seal| seal.index).collect::<Vec<_>>(), [0, 1, 3, 5, 8]);
    let ranges: Vec<_> =
        trust.attestation_keys().iter().map(|key| (key.first_leaf, key.last_leaf)).collect();
    assert_eq!(ranges, [(0, Some(2)), (3, Some(7)), (8, None)]);
    let ranges: Vec<_> =
        trust.log_keys().iter().map(|key| (key.first_size, key.last_size)).collect();
    assert_eq!(ranges, [(0, Some(4)), (5, Some(6)), (7, None)]);
    assert_eq!(trust.origin(), begin.origin());
    assert_eq!(successions(root), 4);
    for (n, seal) in (0..).zip(&seals) {
        check(&trust, n, seal).unwrap();
        // Whoever has only what was trusted at first accepts what there was then.
        assert_eq!(check(&begin, n, seal).is_ok(), n < 2, "{n}");
    }
    // The text reads back, and says when each key was good.
    assert_eq!(Trust::parse(trust.to_json().as_bytes()).unwrap(), *trust);
    assert_eq!(trust.attestation_key_at(2).unwrap().key, begin.public_keys()[0]);
    assert_eq!(trust.attestation_key_at(3).unwrap().key, first.key);
    assert!(trust.admits_log(&begin.verifiers()[0], 4));
    assert!(!trust.admits_log(&begin.verifiers()[0], 5));
    // The old keys go, and everything is as before.
    let removed = remove_former_keys(root).unwrap();
    let names = ["attestation.pem", "attestation-2.pem", "log.pem", "log-2.pem"];
    assert_eq!(removed, names.map(|name| root.join("keys").join(name)));
    assert!(remove_former_keys(root).unwrap().is_empty());
    rotate(root, Use::Attestation);
    seal(&sealer, 5).unwrap();
    assert_eq!(successions(root), 5);
    for (n, seal) in (0..).zip(&seals) {
        check(&sealer.trust(), n, seal).unwrap();
    }
}

#[test]
fn a_replaced_key_is_good_for_nothing_later() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    drop(Sealer::open(root).unwrap());
    rotate(root, Use::Attestation);
    rotate(root, Use::Log);
    let trust = Trust::read(&root.join("keys/trust.json")).unwrap();
    let read = |name: &str| SigningKey::read(&root.join("keys").join(name)).unwrap();
    let signer = |name: &str| Signer::new(trust.origin(), read(name)).unwrap();
    // A statement of the old attestation key, appended by who has the log's key.
    let (leaf, statement) = thing(0);
    let payload = statement.to_bytes().unwrap();
    let entry = leaf.entry(Digest::of(&payload)).to_bytes();
    let append = |log: &Log| {
        let appended = log.append(std::slice::from_ref(&entry)).unwrap();
        log.proof(appended.first, &appended.checkpoint).unwrap().to_string()
    };
    let log = Log::open(&root.join("log"), signer("log-2.pem"), &trust.verifiers()).unwrap();
    let proof = append(&log);
    let sign = |name| Envelope::sign(IN_TOTO, payload.clone(), &read(name)).to_line();
    let judge = |name, proof: &str| verify(&trust, leaf, sign(name).as_bytes(), proof);
    assert!(judge("attestation-2.pem", &proof).is_ok());
    let refused = judge("attestation.pem", &proof).unwrap_err();
    assert!(matches!(refused, Broken::KeyOutOfRange { index: 2, .. }), "{refused}");
    // The log continued by who has its old key.
    let log = Log::open(&root.join("log"), signer("log.pem"), &trust.verifiers()).unwrap();
    let refused = judge("attestation-2.pem", &append(&log)).unwrap_err();
    assert!(matches!(refused, Broken::LogKeyOutOfRange { size: 4, .. }), "{refused}");
    let refused = Sealer::open(root).unwrap_err();
    assert!(matches!(refused, Error::Checkpoint { size: 4, .. }), "{refused}");
}

#[test]
fn whoever_is_interrupted_is_finished_by_the_next() {
    for what in [Use::Attestation, Use::Log] {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let sealer = Sealer::open(root).unwrap();
        let before = seal(&sealer, 0).unwrap();
        let keys = Keys::of(root);
        // Ended after the key was made: nothing has changed.
        keys.make(what, 2).unwrap();
        seal(&sealer, 1).unwrap();
        assert_eq!(successions(root), 0);
        // Ended after it was trusted: the entry is there before anything else.
        let desk = Desk::open(&keys, keys.trust().unwrap()).unwrap();
        let lock = keys.lock().unwrap();
        let (index, key) = prepare(&keys, &desk, what).unwrap();
        drop((lock, desk));
        assert_eq!(Tree::open(&root.join("log")).unwrap().size(), index);
        let after = seal(&sealer, 2).unwrap();
        assert_eq!((index, after.index), (2, 3));
        assert_eq!(successions(root), 1);
        // Ended before the record was whole: it is made again, also by who replaces the next key.
        fs::remove_file(root.join("keys/history/2/inclusion.tlog-proof")).unwrap();
        rotate(root, what);
        assert_eq!(successions(root), 2);
        let trust = Trust::read(&root.join("keys/trust.json")).unwrap();
        check(&trust, 0, &before).unwrap();
        let after = check(&trust, 2, &after).unwrap();
        assert_eq!(after.key == key, what == Use::Attestation);
    }
}

#[test]
fn a_log_and_keys_that_do_not_belong_together_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let sealer = Sealer::open(root).unwrap();
    let copy = root.join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(root.join("log/checkpoint"), copy.join("checkpoint")).unwrap();
    seal(&sealer, 0).unwrap();
    rotate(root, Use::Attestation);
    drop(sealer);
    // An old copy of the log was put back.
    fs::rename(root.join("log"), root.join("away")).unwrap();
    fs::rename(&copy, root.join("log")).unwrap();
    let refused = Sealer::open(root).unwrap_err();
    assert!(matches!(refused, Error::Behind { size: 0, index: 1 }), "{refused}");
    fs::remove_dir_all(root.join("log")).unwrap();
    fs::rename(root.join("away"), root.join("log")).unwrap();
    // Another key than the one that the log tells of.
    let path = root.join("keys/trust.json");
    let trust = Trust::read(&path).unwrap();
    let other = SigningKey::create(&root.join("keys/other.pem")).unwrap();
    fs::rename(root.join("keys/other.pem"), root.join("keys/attestation-2.pem")).unwrap();
    let forged = trust.at(1).with_attestation(other.public(), 1);
    fs::write(&path, forged.to_json()).unwrap();
    let refused = Sealer::open(root).unwrap_err();
    assert!(matches!(refused, Error::Succession { index: 1 }), "{refused}");
    fs::write(&path, trust.to_json()).unwrap();
    assert!(matches!(Sealer::open(root), Err(Error::OtherKey { .. })));
}
