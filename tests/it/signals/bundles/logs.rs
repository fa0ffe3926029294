//! The log of seals: kept through crashes, refused when it is damaged, and shown to grow.

use std::fs;
use std::path::Path;

use nexus_router::signal::bundle::{self, Log, LogError, Options};

use super::{bundles, draft, make_key, set, verify, write, write_public};
use crate::support::World;

/// Makes a log of so many bundles in a directory.
fn fill(directory: &Path, key: &nexus_router::key::SigningKey, count: usize) {
    for number in 0..count {
        let mut log = Log::open(directory).unwrap();
        assert_eq!(log.size(), number as u64);
        let made = bundle::build(draft(&format!("run_{number}"), 1), &mut log, key).unwrap();
        assert!(verify(&made.into(), Some(&key.public())).verified);
    }
}

#[test]
fn a_log_on_disk_is_that_in_memory() {
    let world = World::new();
    let key = make_key();
    fill(&world.path("log"), &key, 5);
    let log = Log::open(&world.path("log")).unwrap();
    let last = bundles(&key, &[1; 5]).pop().unwrap();
    assert_eq!(log.head(), last.get("signed_tree_head"));
    assert_eq!(fs::metadata(world.path("log/leaves")).unwrap().len(), 5 * 32);
}

#[test]
fn a_log_is_of_one_key() {
    let world = World::new();
    fill(&world.path("log"), &make_key(), 2);
    let mut log = Log::open(&world.path("log")).unwrap();
    let refused = bundle::build(draft("run", 1), &mut log, &make_key());
    assert!(matches!(refused, Err(LogError::Key { .. })), "{refused:?}");
    assert_eq!(log.size(), 2);
}

#[test]
fn what_a_crash_leaves_is_cut_off_and_what_is_lost_is_refused() {
    let world = World::new();
    let (key, directory) = (make_key(), world.path("log"));
    fill(&directory, &key, 3);
    let whole = fs::read(directory.join("leaves")).unwrap();
    let head = fs::read(directory.join("head.json")).unwrap();
    // The last append came to any byte of its leaf, and its head was not written.
    fill_one_more(&directory, &key);
    let longer = fs::read(directory.join("leaves")).unwrap();
    for end in 0..=longer.len() {
        fs::write(directory.join("leaves"), &longer[..end]).unwrap();
        fs::write(directory.join("head.json"), &head).unwrap();
        match Log::open(&directory) {
            Ok(log) => {
                assert!(end >= whole.len(), "{end}");
                assert_eq!(log.size(), 3);
                drop(log);
                assert_eq!(fs::read(directory.join("leaves")).unwrap(), whole);
            }
            Err(error) => {
                assert!(end < whole.len(), "{end}: {error}");
                assert!(matches!(error, LogError::Damaged { .. }), "{end}: {error}");
            }
        }
    }
    // A head that is cut short, or gone.
    fs::write(directory.join("leaves"), &whole).unwrap();
    for end in 0..head.len() - 2 {
        fs::write(directory.join("head.json"), &head[..end]).unwrap();
        assert!(matches!(Log::open(&directory), Err(LogError::Damaged { .. })), "{end}");
    }
    fs::remove_file(directory.join("head.json")).unwrap();
    assert!(matches!(Log::open(&directory), Err(LogError::Damaged { .. })));
    assert_eq!(fs::read(directory.join("leaves")).unwrap(), whole);
    // Leaves that are not those of the head.
    fs::write(directory.join("head.json"), &head).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(directory.join("leaves"), &changed).unwrap();
        assert!(matches!(Log::open(&directory), Err(LogError::Damaged { .. })), "{at}");
    }
    fs::write(directory.join("leaves"), &whole).unwrap();
    fill_one_more(&directory, &key);
}

fn fill_one_more(directory: &Path, key: &nexus_router::key::SigningKey) {
    let mut log = Log::open(directory).unwrap();
    bundle::build(draft("one more", 1), &mut log, key).unwrap();
}

#[test]
fn what_cannot_be_bound_is_not_made() {
    let key = make_key();
    let mut log = Log::in_memory();
    let mut without_id = draft("run", 1);
    without_id.events[0].id.clear();
    let mut second_seal = draft("run", 1);
    second_seal.events[0].kind = bundle::SEALED.to_owned();
    let mut odd_time = draft("run", 1);
    odd_time.sealed_at = "2026|".to_owned();
    let mut odd_proof = draft("run", 1);
    odd_proof.proofs[0] = 5.into();
    for draft in [without_id, second_seal, odd_time, odd_proof, draft("", 0)] {
        let refused = bundle::build(draft, &mut log, &key);
        assert!(matches!(refused, Err(LogError::Draft { .. })), "{refused:?}");
        assert_eq!(log.size(), 0);
    }
}

#[test]
fn a_log_is_shown_to_grow() {
    let key = make_key();
    let public = key.public();
    let made = bundles(&key, &[1, 1, 1, 1, 1, 1]);
    let holds = |now: usize, then: usize| {
        let options =
            Options { key: Some(&public), earlier: Some(&made[then]), ..Options::default() };
        bundle::verify(&made[now], &options).verified
    };
    for now in 1..made.len() {
        assert!(holds(now, now - 1) && holds(now, now), "{now}");
        assert!(!holds(now - 1, now), "a log does not shrink: {now}");
    }
    assert!(!holds(5, 2), "no proof begins there");
    // Another log of the same key that has another past.
    let other = bundles(&key, &[0, 1, 1]);
    let options = Options { key: Some(&public), earlier: Some(&other[1]), ..Options::default() };
    assert!(!bundle::verify(&made[2], &options).verified);
}

#[test]
fn the_command_line_shows_that_a_log_grows() {
    let world = World::new();
    let key = make_key();
    let made = bundles(&key, &[1, 2, 1]);
    for (number, bundle) in made.iter().enumerate() {
        write(&world.path(&format!("b{number}.json")), bundle);
    }
    let mut forked = made[0].clone();
    set(&mut forked, "/signed_tree_head/root_hash", "0".repeat(64));
    write(&world.path("forked.json"), &forked);
    write_public(&world.path("k.json"), &key.public());
    fs::write(world.path("k.txt"), format!("{}\n", key.public())).unwrap();
    let run = |bundle: &str, earlier: &str| {
        let words = ["contract", "bundle", "verify", bundle, "--strict", "--json"];
        world.run(&[&words[..], &["--public-key", "k.txt", "--earlier", earlier]].concat())
    };
    assert_eq!(run("b1.json", "b0.json").code(), 0);
    assert_eq!(run("b2.json", "b1.json").code(), 0);
    for earlier in ["b0.json", "forked.json"] {
        let refused = run("b2.json", earlier);
        assert_eq!(refused.code(), 1);
        assert_eq!(refused.json()["steps"]["earlier"]["passed"], false);
    }
    assert_eq!(run("b2.json", "none.json").code(), 2);
    let words = ["contract", "bundle", "verify", "b1.json", "--earlier", "b0.json"];
    assert_eq!(world.run(&words).code(), 2, "without a key nothing is shown");
    let text = world.run(&["contract", "bundle", "verify", "b2.json", "--public-key", "k.json"]);
    assert_eq!(text.code(), 0);
    assert!(text.stdout().contains("binding:          PASS"), "{}", text.stdout());
    let fetched = world.run(&["contract", "bundle", "verify", "b2.json", "--fetch-key"]);
    assert_eq!(fetched.code(), 2);
    assert!(fetched.stderr().contains("network"), "{}", fetched.stderr());
}

#[test]
fn bundles_that_were_made_before_verify() {
    let world = World::new();
    let golden = crate::support::workspace().join("tests/golden/signal_bundles");
    let file = |name: &str| golden.join(name).to_str().unwrap().to_owned();
    let [earlier, later, key] = ["earlier.json", "later.json", "key.json"].map(file);
    let words = ["contract", "bundle", "verify", &later, "--strict", "--json"];
    let run = world.run(&[&words[..], &["--public-key", &key, "--earlier", &earlier]].concat());
    assert_eq!(run.code(), 0, "{}", run.stdout());
    let report = run.json();
    assert_eq!(report["verification_level"], "full");
    assert_eq!(report["steps"]["binding"]["passed"], true);
}
