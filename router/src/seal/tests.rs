//! Sealing: what a seal is worth, who shares an append, what happens when something is not there.

mod rotations;
mod trusts;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::keys::Keys;
use super::*;
use crate::attest::{Link, Statement, Subject};
use crate::digest::Digest;
use crate::key;

/// Something to be sealed, one of many.
fn thing(n: u64) -> (Leaf, Statement) {
    let manifest_sha256 = Digest::of(&n.to_le_bytes());
    let leaf = Leaf { kind: Kind::Execution, manifest_sha256, spec_sha256: Some(Digest::of(b"s")) };
    let link = Link { name: format!("envoy/file_write {n}"), ..Link::default() };
    (leaf, link.about(vec![Subject::new("manifest.sha256.json", manifest_sha256)]))
}

fn seal(sealer: &Sealer, n: u64) -> Result<Seal, Error> {
    let (leaf, statement) = thing(n);
    sealer.seal(leaf, &statement)
}

/// Verifies the seal of a thing.
fn check(trust: &Trust, n: u64, seal: &Seal) -> Result<Verified, Broken> {
    let (leaf, statement) = thing(n);
    let verified = verify(trust, leaf, seal.attestation.as_bytes(), &seal.proof)?;
    assert_eq!((verified.statement.clone(), verified.index), (statement, seal.index));
    assert_eq!(verified.checkpoint, *seal.checkpoint);
    Ok(verified)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_made_once_and_only_their_owner_reads_them() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("a/sealed");
    let first = Sealer::open(&root).unwrap();
    let keys = root.join("keys");
    assert_eq!(mode(&keys), 0o700);
    for name in ["attestation.pem", "log.pem"] {
        assert_eq!(mode(&keys.join(name)), 0o600, "{name}");
    }
    let trust = Trust::read(&keys.join("trust.json")).unwrap();
    assert_eq!(*first.trust(), trust);
    let log = trust.log_keys()[0].verifier.clone();
    let named = format!("nexus-router/{}", &log.key().fingerprint().to_string()[..16]);
    assert_eq!((trust.origin(), log.name()), (named.as_str(), named.as_str()));
    // Another process, as it were, at the same time and later.
    let second = Sealer::open(&root).unwrap();
    assert_eq!(second.trust(), first.trust());
    let seals = [&first, &second, &first].map(|sealer| seal(sealer, 1).unwrap());
    assert_eq!(seals.map(|seal| check(&trust, 1, &seal).unwrap().index), [0, 1, 2]);
    drop((first, second));
    assert_eq!(seal(&Sealer::open(&root).unwrap(), 1).unwrap().index, 3);
}

#[test]
fn the_name_of_a_log_is_fixed_when_it_is_begun() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open_as(root.path(), Some("example.com/log")).unwrap();
    assert_eq!(sealer.trust().origin(), "example.com/log");
    assert!(seal(&sealer, 1).unwrap().proof.contains("\nexample.com/log\n1\n"));
    let other = Sealer::open_as(root.path(), Some("example.com/other"));
    assert!(matches!(other, Err(Error::Origin { .. })), "{other:?}");
    assert!(Sealer::open(root.path()).is_ok());
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(matches!(Sealer::open_as(elsewhere.path(), Some("a b")), Err(Error::Log(_))));
}

#[test]
fn every_change_of_a_seal_is_found() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    let trust = sealer.trust();
    let seals = sealer.seal_all(&[thing(0), thing(1), thing(2), thing(3), thing(4)]).unwrap();
    for (n, seal) in (0..).zip(&seals) {
        check(&trust, n, seal).unwrap();
    }
    let (leaf, _) = thing(3);
    let Seal { attestation, proof, .. } = &seals[3];
    let believed = |attestation: &[u8], proof: &[u8]| {
        let proof = str::from_utf8(proof);
        proof.is_ok_and(|proof| verify(&trust, leaf, attestation, proof).is_ok())
    };
    assert!(believed(attestation.as_bytes(), proof.as_bytes()));
    let changes = |text: &str| {
        let text = text.as_bytes();
        let mut changes = Vec::new();
        for at in 0..text.len() {
            for bit in 0..8 {
                changes.push(text.to_vec());
                changes.last_mut().unwrap()[at] ^= 1 << bit;
            }
            changes.push([&text[..at], &text[at + 1..]].concat());
            changes.push(text[..at].to_vec());
            changes.push([&text[..at], b"\n", &text[at..]].concat());
        }
        changes.push([text, b"\n"].concat());
        changes
    };
    for change in changes(attestation) {
        assert!(!believed(&change, proof.as_bytes()), "{}", String::from_utf8_lossy(&change));
    }
    for change in changes(proof) {
        assert!(!believed(attestation.as_bytes(), &change), "{}", String::from_utf8_lossy(&change));
    }
    // The seal of another thing, and halves of two seals.
    assert!(!believed(seals[2].attestation.as_bytes(), seals[2].proof.as_bytes()));
    assert!(!believed(attestation.as_bytes(), seals[2].proof.as_bytes()));
    for other in [
        Leaf { kind: Kind::Run, ..leaf },
        Leaf { manifest_sha256: Digest::ZERO, ..leaf },
        Leaf { spec_sha256: None, ..leaf },
    ] {
        assert!(verify(&trust, other, attestation.as_bytes(), proof).is_err(), "{other:?}");
    }
    let stranger = tempfile::tempdir().unwrap();
    let stranger = Sealer::open(stranger.path()).unwrap().trust();
    let error = verify(&stranger, leaf, attestation.as_bytes(), proof).unwrap_err();
    assert!(matches!(error, Broken::Attestation(crate::attest::Error::UnknownKey { .. })));
}

#[test]
fn what_nothing_vouches_for_is_found_in_a_proof() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    let Seal { attestation, proof, .. } = seal(&sealer, 0).unwrap();
    let extra = proof.replacen("@v1\n", "@v1\nextra AAAA\n", 1);
    let line = "\u{2014} witness AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
        AAAAAAAAAAAAAAAAAAAAAAAA\n";
    let signed = format!("{proof}{line}");
    assert_ne!(extra, proof);
    for changed in [extra, signed] {
        let refused = verify(&sealer.trust(), thing(0).0, attestation.as_bytes(), &changed);
        assert!(matches!(refused, Err(Broken::Added(_))), "{changed}: {refused:?}");
    }
}

#[test]
fn what_is_asked_for_meanwhile_shares_an_append() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    // As long as somebody else has the keys, requests gather.
    let lock = Keys::of(root.path()).lock().unwrap();
    let seals: Vec<(u64, Seal)> = std::thread::scope(|scope| {
        let (told, begun) = std::sync::mpsc::channel();
        let threads: Vec<_> = (0..16_u64)
            .map(|thread| {
                let (sealer, told) = (&sealer, told.clone());
                scope.spawn(move || {
                    let ours = thread * 20..(thread + 1) * 20;
                    let pending: Vec<_> =
                        ours.clone().map(|n| sealer.begin(&[thing(n)]).unwrap()).collect();
                    told.send(()).unwrap();
                    let seals = pending.into_iter().map(|it| it.wait().unwrap().pop().unwrap());
                    ours.zip(seals).collect::<Vec<_>>()
                })
            })
            .collect();
        assert_eq!(begun.iter().take(16).count(), 16);
        drop(lock);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(seals.len(), 320);
    let indexes: BTreeSet<u64> = seals.iter().map(|(_, seal)| seal.index).collect();
    assert_eq!(indexes, (0..320).collect());
    for (n, seal) in &seals {
        check(&sealer.trust(), *n, seal).unwrap();
    }
    // The thread took some before it had to wait for the keys, and all others after.
    assert!(sealer.appends() <= 2, "{} appends", sealer.appends());
}

#[test]
fn what_was_asked_for_is_done_before_the_sealer_goes() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    let trust = sealer.trust();
    let pending: Vec<_> = (0..50).map(|n| sealer.begin(&[thing(n), thing(n)]).unwrap()).collect();
    let nothing = sealer.begin(&[]).unwrap();
    drop(sealer);
    for (n, pending) in (0..).zip(pending) {
        let seals = pending.wait().unwrap();
        assert_eq!(seals.len(), 2);
        check(&trust, n, &seals[1]).unwrap();
    }
    assert!(nothing.wait().unwrap().is_empty());
}

#[test]
fn an_error_reaches_everybody_and_is_gone_with_its_cause() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    assert_eq!(seal(&sealer, 0).unwrap().index, 0);
    let (log, away) = (root.path().join("log"), root.path().join("away"));
    let trust = root.path().join("keys/trust.json");
    let key = root.path().join("keys/attestation.pem");
    let fail = |sealer: &Sealer| -> Vec<Error> {
        let pending: Vec<_> = (0..5).map(|n| sealer.begin(&[thing(n)]).unwrap()).collect();
        pending.into_iter().map(|pending| pending.wait().unwrap_err()).collect()
    };
    // The log is gone: nothing is begun in its place.
    fs::rename(&log, &away).unwrap();
    fail(&sealer);
    assert!(fail(&sealer).iter().all(|error| matches!(error, Error::LogIsGone { .. })));
    assert!(matches!(Sealer::open(root.path()), Err(Error::LogIsGone { .. })));
    drop(fs::remove_dir_all(&log));
    // Something else is where the log was.
    fs::write(&log, "").unwrap();
    assert_eq!(fail(&sealer).len(), 5);
    fs::remove_file(&log).unwrap();
    fs::rename(&away, &log).unwrap();
    assert_eq!(seal(&sealer, 1).unwrap().index, 1);
    // The checkpoint is damaged.
    let checkpoint = fs::read(log.join("checkpoint")).unwrap();
    fs::write(log.join("checkpoint"), "nothing").unwrap();
    assert!(fail(&sealer).iter().all(|error| matches!(error, Error::Log(_))));
    fs::write(log.join("checkpoint"), checkpoint).unwrap();
    assert_eq!(seal(&sealer, 2).unwrap().index, 2);
    // What is trusted cannot be read, then the key may be read by others.
    let text = fs::read(&trust).unwrap();
    fs::write(&trust, "{}").unwrap();
    assert!(fail(&sealer).iter().all(|error| matches!(error, Error::Trust { .. })));
    fs::write(&trust, text).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    for error in fail(&sealer) {
        let Error::Key(error) = error else { panic!("{error}") };
        assert!(matches!(*error, key::Error::Exposed { mode: 0o644, .. }), "{error}");
    }
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let last = seal(&sealer, 3).unwrap();
    assert_eq!(check(&sealer.trust(), 3, &last).unwrap().index, 3);
}

#[test]
fn a_statement_that_is_none_costs_nobody_else_anything() {
    let root = tempfile::tempdir().unwrap();
    let sealer = Sealer::open(root.path()).unwrap();
    let (leaf, mut statement) = thing(0);
    statement.subjects.clear();
    assert!(matches!(sealer.seal(leaf, &statement), Err(Error::Statement(_))));
    assert!(sealer.seal_all(&[thing(1), (leaf, statement)]).is_err());
    assert_eq!(seal(&sealer, 2).unwrap().index, 0);
}

#[test]
fn directories_that_cannot_be_trusted_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let keys = root.path().join("keys");
    let sealer = Sealer::open(root.path()).unwrap();
    seal(&sealer, 0).unwrap();
    drop(sealer);
    let refused = || Sealer::open(root.path()).unwrap_err();
    fs::set_permissions(&keys, Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(refused(), Error::Exposed { mode: 0o770, .. }));
    fs::set_permissions(&keys, Permissions::from_mode(0o700)).unwrap();
    // What is trusted is gone, and there is a log: nobody may make it up.
    fs::rename(keys.join("trust.json"), keys.join("away")).unwrap();
    assert!(matches!(refused(), Error::TrustIsGone { .. }));
    assert!(rotate_log(root.path()).is_err());
    fs::rename(keys.join("away"), keys.join("trust.json")).unwrap();
    // Another key is where the trusted one was.
    fs::rename(keys.join("log.pem"), keys.join("away")).unwrap();
    assert!(matches!(refused(), Error::Key(_)));
    fs::copy(keys.join("attestation.pem"), keys.join("log.pem")).unwrap();
    let error = refused();
    assert!(matches!(error, Error::OtherKey { .. }), "{error}");
    assert!(!error.hint().is_empty());
    fs::rename(keys.join("away"), keys.join("log.pem")).unwrap();
    assert!(Sealer::open(root.path()).is_ok());
}

#[test]
fn who_was_interrupted_at_first_use_is_continued() {
    let root = tempfile::tempdir().unwrap();
    drop(Sealer::open(root.path()).unwrap());
    let keys = root.path().join("keys");
    let trust = fs::read_to_string(keys.join("trust.json")).unwrap();
    // Ended before trust.json was there; then before the log was; then before the second key was.
    for remove in [&[][..], &["log"][..], &["log", "keys/log.pem"][..]] {
        fs::remove_file(keys.join("trust.json")).unwrap();
        for name in remove {
            let path = root.path().join(name);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        let sealer = Sealer::open(root.path()).unwrap();
        let again = fs::read_to_string(keys.join("trust.json")).unwrap();
        assert_eq!(again == trust, remove.len() < 2, "{remove:?}");
        assert_eq!(again, sealer.trust().to_json());
    }
    assert_eq!(seal(&Sealer::open(root.path()).unwrap(), 0).unwrap().index, 0);
}
